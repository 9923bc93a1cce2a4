/* The fixture of the tests of the CPU kernels: matrices with guarded gaps, and their comparison.
 *
 * There are gaps after columns (after rows, if row-major): reads of a gap in an input get NaN, and
 * writes to a gap in an output are detected. */
#pragma once

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gemm.h"

enum { GAP = 3 };
static const double guard = -12345;

/* `lines` contiguous lines of `length` elements each. */
struct array {
    enum scalar type;
    int64_t length, lines, ld;
    void *data;
};

static inline double get(const struct array *m, int64_t i, int64_t j)
{
    int64_t at = i + j * m->ld;
    return m->type == SCALAR_FLOAT ? (double)((const float *)m->data)[at]
                                   : ((const double *)m->data)[at];
}

static inline void set(struct array *m, int64_t i, int64_t j, double value)
{
    int64_t at = i + j * m->ld;
    if (m->type == SCALAR_FLOAT)
        ((float *)m->data)[at] = (float)value;
    else
        ((double *)m->data)[at] = value;
}

static inline size_t matrix_bytes(const struct array *m)
{
    return (size_t)(m->ld * m->lines) * scalar_size(m->type);
}

/* Sets every element to `value`, including the gaps. */
static inline struct array matrix_make(enum scalar type, int64_t length, int64_t lines,
                                       double value)
{
    struct array m = {type, length, lines, length + GAP, NULL};
    m.data = malloc(matrix_bytes(&m) + 1);
    assert_non_null(m.data);
    for (int64_t at = 0; at < m.ld * lines; at++)
        set(&m, at, 0, value);
    return m;
}

static inline struct array matrix_copy(const struct array *from)
{
    struct array m = *from;
    m.data = malloc(matrix_bytes(&m) + 1);
    assert_non_null(m.data);
    memcpy(m.data, from->data, matrix_bytes(&m));
    return m;
}

/* A number in [-1, 1), from the same sequence in every run. */
static inline double random_real(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(int64_t)state / 9223372036854775808.0;
}

static inline double random_integer(void)
{
    return floor(8 * random_real());
}

static inline void matrix_fill(struct array *m, double (*next)(void))
{
    for (int64_t j = 0; j < m->lines; j++)
        for (int64_t i = 0; i < m->length; i++)
            set(m, i, j, next());
}

static inline void assert_gaps_are(const struct array *m, double value)
{
    for (int64_t j = 0; j < m->lines; j++)
        for (int64_t i = m->length; i < m->ld; i++)
            if (get(m, i, j) != value)
                fail_msg("gap %d behind line %d was written", (int)i, (int)j);
}

static inline void assert_same_bits(const struct array *a, const struct array *b)
{
    assert_memory_equal(a->data, b->data, matrix_bytes(a));
}

/* A product of random numbers, with random numbers in C. */
struct product {
    struct gemm gemm;
    struct array a, b, c;
};

static inline struct array operand_make(enum scalar type, bool trans, int64_t rows, int64_t cols)
{
    return matrix_make(type, trans ? cols : rows, trans ? rows : cols, NAN);
}

/* Bit 0 of `trans` is trans_a, bit 1 is trans_b. */
static inline struct product product_make(enum scalar type, int trans, int64_t m, int64_t n,
                                          int64_t k)
{
    struct product p = {.gemm = {.type = type, .trans_a = trans & 1, .trans_b = trans & 2}};
    struct gemm *g = &p.gemm;
    p.a = operand_make(type, g->trans_a, m, k);
    p.b = operand_make(type, g->trans_b, k, n);
    p.c = matrix_make(type, m, n, guard);
    matrix_fill(&p.a, random_real);
    matrix_fill(&p.b, random_real);
    matrix_fill(&p.c, random_real);
    g->m = m;
    g->n = n;
    g->k = k;
    g->alpha = 1;
    g->a = p.a.data;
    g->b = p.b.data;
    g->c = p.c.data;
    g->lda = p.a.ld;
    g->ldb = p.b.ld;
    g->ldc = p.c.ld;
    return p;
}

static inline void product_free(struct product *p)
{
    free(p->a.data);
    free(p->b.data);
    free(p->c.data);
}

static inline double a_of(const struct product *p, int64_t i, int64_t l)
{
    return p->gemm.trans_a ? get(&p->a, l, i) : get(&p->a, i, l);
}

static inline double b_of(const struct product *p, int64_t l, int64_t j)
{
    return p->gemm.trans_b ? get(&p->b, j, l) : get(&p->b, l, j);
}
