/* What the tests of the CPU kernels share: matrices with guarded gaps, and how they are
 * compared.
 *
 * Columns (rows, where matrices are row-major) have gaps behind them: what reads a gap of an
 * input meets NaN, what writes into a gap of an output is caught. */
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

#include "scalar.h"

enum { GAP = 3 };
static const double guard = -12345;

/* `lines` contiguous lines of `length` elements each. */
struct matrix {
    enum scalar type;
    int64_t length, lines, ld;
    void *data;
};

static inline double get(const struct matrix *m, int64_t i, int64_t j)
{
    int64_t at = i + j * m->ld;
    return m->type == SCALAR_FLOAT ? (double)((const float *)m->data)[at]
                                   : ((const double *)m->data)[at];
}

static inline void set(struct matrix *m, int64_t i, int64_t j, double value)
{
    int64_t at = i + j * m->ld;
    if (m->type == SCALAR_FLOAT)
        ((float *)m->data)[at] = (float)value;
    else
        ((double *)m->data)[at] = value;
}

static inline size_t matrix_bytes(const struct matrix *m)
{
    return (size_t)(m->ld * m->lines) * scalar_size(m->type);
}

/* Every element, gaps and all, is `value`. */
static inline struct matrix matrix_make(enum scalar type, int64_t length, int64_t lines,
                                        double value)
{
    struct matrix m = {type, length, lines, length + GAP, NULL};
    m.data = malloc(matrix_bytes(&m) + 1);
    assert_non_null(m.data);
    for (int64_t at = 0; at < m.ld * lines; at++)
        set(&m, at, 0, value);
    return m;
}

static inline struct matrix matrix_copy(const struct matrix *from)
{
    struct matrix m = *from;
    m.data = malloc(matrix_bytes(&m) + 1);
    assert_non_null(m.data);
    memcpy(m.data, from->data, matrix_bytes(&m));
    return m;
}

/* In [-1, 1), the same sequence in every run. */
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

static inline void matrix_fill(struct matrix *m, double (*next)(void))
{
    for (int64_t j = 0; j < m->lines; j++)
        for (int64_t i = 0; i < m->length; i++)
            set(m, i, j, next());
}

static inline void assert_gaps_are(const struct matrix *m, double value)
{
    for (int64_t j = 0; j < m->lines; j++)
        for (int64_t i = m->length; i < m->ld; i++)
            if (get(m, i, j) != value)
                fail_msg("gap %d behind line %d was written", (int)i, (int)j);
}

static inline void assert_same_bits(const struct matrix *a, const struct matrix *b)
{
    assert_memory_equal(a->data, b->data, matrix_bytes(a));
}
