/* combine, mirror, reflect, standardize, recentre, embed and fold on the CPU. */
#include "vector.h"

#include <math.h>
#include <string.h>

#include "cpu_kernel.h"
#include "int64_combine.h"
#include "standardized.h"

static bool is_zero(enum scalar type, double x)
{
    return scalar_rounded(type, x) == 0;
}

static void combine_whole(const struct combine *c, int64_t i)
{
    int64_t *acc = (int64_t *)c->acc + i * c->ld_acc;
    const int64_t *c0 = c->beta != 0 ? (const int64_t *)c->c0 + i * c->ld_c0 : NULL;
    for (int64_t j = 0; j < c->cols; j++)
        acc[j] = c->whole ? int64_combined(c->alpha, acc[j], c->beta, c0 ? c0 + j : NULL)
                          : int64_wrapped(c->alpha, acc[j], c->beta, c0 ? c0 + j : NULL);
}

/* A row of integers to doubles, in place. */
static void round_whole(void *row, int64_t count)
{
    double *to = row;
    for (int64_t j = 0; j < count; j++) {
        int64_t sum;
        memcpy(&sum, &to[j], sizeof sum);
        to[j] = (double)sum;
    }
}

void combine_cpu(const struct combine *c, int threads)
{
    const struct cpu_kernel *kernel = &cpu_kernels(0)[c->type];
    int64_t acc_bytes = c->ld_acc * (int64_t)scalar_size(c->type);
    int64_t c0_bytes = c->ld_c0 * (int64_t)scalar_size(c->type);
    const double alpha[] = {c->alpha, c->alpha_i}, beta[] = {c->beta, c->beta_i};
    bool with_acc = !is_zero(c->type, c->alpha) || !is_zero(c->type, c->alpha_i);
    bool with_c0 = !is_zero(c->type, c->beta) || !is_zero(c->type, c->beta_i);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < c->rows; i++) {
        if (c->type == SCALAR_INT64) {
            combine_whole(c, i);
            continue;
        }
        char *acc = (char *)c->acc + i * acc_bytes;
        const char *c0 = with_c0 ? (const char *)c->c0 + i * c0_bytes : NULL;
        if (c->whole && with_acc)
            round_whole(acc, c->cols);
        if (combine_is_complex(c))
            kernel->combine_pairs(c->cols / 2, alpha, with_acc ? acc : NULL, beta, c0, acc);
        else
            kernel->combine(c->cols, c->alpha, with_acc ? acc : NULL, c->beta, c0, acc);
    }
}

/* A row of sums, and what is added to it. */
#define FOLD_ROW(name, type)                                                                       \
    static void fold_##name(const struct fold *f, int64_t i)                                       \
    {                                                                                              \
        const type *acc = (const type *)f->acc + i * f->ld;                                        \
        type *to = (type *)f->to + i * f->ld;                                                      \
        for (int k = 0; k < f->count; k++, acc = to) {                                             \
            const type *addend = (const type *)f->addends[k] + i * f->ld;                          \
            for (int64_t j = 0; j < f->cols; j++)                                                  \
                to[j] = acc[j] + addend[j];                                                        \
        }                                                                                          \
        if (to != acc)                                                                             \
            memcpy(to, acc, (size_t)f->cols * sizeof *to);                                         \
    }
FOLD_ROW(float, float)
FOLD_ROW(double, double)
FOLD_ROW(int64, uint64_t)

void fold_cpu(const struct fold *f, int threads)
{
    void (*const row)(const struct fold *, int64_t) = f->type == SCALAR_FLOAT    ? fold_float
                                                      : f->type == SCALAR_DOUBLE ? fold_double
                                                                                 : fold_int64;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < f->rows; i++)
        row(f, i);
}

void lane_sums_cpu(enum scalar type, struct lane_sums *sums)
{
    cpu_kernels(0)[type].lane_sums(sums);
}

enum { SIDE = 32 }; /* of the blocks that are transposed one by one: two of them fit the L1 cache */

static void transpose_float(int64_t rows, int64_t cols, const float *from, int64_t ld_from,
                            float *to, int64_t ld_to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[j * ld_to + i] = from[i * ld_from + j];
}

static void transpose_double(int64_t rows, int64_t cols, const double *from, int64_t ld_from,
                             double *to, int64_t ld_to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[j * ld_to + i] = from[i * ld_from + j];
}

/* A pair becomes another one or, with `conjugate`, its conjugate; they are counted in numbers. */
static void mirror_pair(enum scalar type, const void *from, int64_t from_at, void *to,
                        int64_t to_at, bool conjugate)
{
    const double imaginary = scalar_get(type, from, from_at + 1);
    scalar_put(type, scalar_get(type, from, from_at), to, to_at);
    scalar_put(type, conjugate ? 0 - imaginary : imaginary, to, to_at + 1);
}

static void transpose_pairs(const struct mirror *m, int64_t i, int64_t rows, int64_t first,
                            int64_t cols)
{
    for (int64_t row = i; row < i + rows; row++)
        for (int64_t col = first; col < first + cols; col++)
            mirror_pair(m->type, m->acc, row * m->ld_acc + 2 * col, m->to, col * m->ld_to + 2 * row,
                        m->conjugate);
}

/* Columns [first, first + cols) of acc, which become as many rows. */
static void transpose_columns(const struct mirror *m, int64_t first, int64_t cols)
{
    for (int64_t i = 0; i < m->rows; i += SIDE) {
        int64_t rows = m->rows - i < SIDE ? m->rows - i : SIDE;
        int64_t from = i * m->ld_acc + first, to = first * m->ld_to + i;
        if (m->pairs)
            transpose_pairs(m, i, rows, first, cols);
        else if (m->type == SCALAR_FLOAT)
            transpose_float(rows, cols, (const float *)m->acc + from, m->ld_acc,
                            (float *)m->to + to, m->ld_to);
        else
            transpose_double(rows, cols, (const double *)m->acc + from, m->ld_acc,
                             (double *)m->to + to, m->ld_to);
    }
}

void mirror_cpu(const struct mirror *m, int threads)
{
    const struct combine combine = {.type = m->type,
                                    .rows = m->cols,
                                    .cols = m->pairs ? 2 * m->rows : m->rows,
                                    .alpha = m->alpha,
                                    .beta = m->beta,
                                    .alpha_i = m->alpha_i,
                                    .beta_i = m->beta_i,
                                    .acc = m->to,
                                    .c0 = m->c0,
                                    .ld_acc = m->ld_to,
                                    .ld_c0 = m->ld_c0,
                                    .whole = m->whole};
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t j = 0; j < m->cols; j += SIDE)
        transpose_columns(m, j, m->cols - j < SIDE ? m->cols - j : SIDE);
    if (m->alpha != 1 || m->beta != 0 || combine_is_complex(&combine) ||
        (m->whole && m->type != SCALAR_INT64))
        combine_cpu(&combine, threads);
}

static void clear_imaginary(const struct reflect *r, int64_t at)
{
    if (isfinite(scalar_get(r->type, r->matrix, at + 1)))
        scalar_put(r->type, r->zero, r->matrix, at + 1);
}

void reflect_cpu(const struct reflect *r, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < r->side; i++) {
        for (int64_t j = i + 1; j < r->side; j++)
            mirror_pair(r->type, r->matrix, j * r->ld + 2 * i, r->matrix, i * r->ld + 2 * j,
                        r->conjugate);
        if (r->conjugate)
            clear_imaginary(r, i * r->ld + 2 * i);
    }
}

void standardize_cpu(const struct standardize *s, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < s->rows; i++) {
        float *floats = (float *)s->matrix + i * s->ld;
        double *doubles = (double *)s->matrix + i * s->ld;
        if (s->type == SCALAR_FLOAT)
            for (int64_t j = 0; j < s->cols; j++)
                floats[j] = (float)standardized(s, floats[j], s->by_rows ? i : j);
        else
            for (int64_t j = 0; j < s->cols; j++)
                doubles[j] = standardized(s, doubles[j], s->by_rows ? i : j);
    }
}

void recentre_cpu(const struct recentre *r, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < r->rows; i++)
        for (int64_t j = 0; j < r->cols; j++) {
            const int64_t at = i * r->ld + j;
            scalar_put(r->type, recentred(r, scalar_get(r->type, r->acc, at), i, j), r->acc, at);
        }
}

static inline double number(const struct embed *e, int64_t at)
{
    return scalar_get(e->stored, e->from, at);
}

static inline void set_number(const struct embed *e, int64_t at, double value)
{
    scalar_put(e->type, value, e->to, at);
}

static void widen_rows(const struct embed *e, int threads)
{
    const size_t pitch = (size_t)e->ld_from * scalar_size(e->stored);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < e->rows; i++)
        scalar_widen(e->stored, (const char *)e->from + (size_t)i * pitch, e->cols,
                     (float *)e->to + i * e->ld_to);
}

void embed_cpu(const struct embed *e, int threads)
{
    const int64_t width = e->complex ? 2 : 1, wide = e->wide ? 2 : 1, high = e->high ? 2 : 1;
    if (!e->complex && !e->wide && !e->high && e->stored != e->type) {
        widen_rows(e, threads);
        return;
    }
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < e->rows; i++)
        for (int64_t j = 0; j < e->cols; j++) {
            const int64_t from = i * e->ld_from + j * width, to = i * high * e->ld_to + j * wide;
            const double r = number(e, from), s = e->complex ? number(e, from + 1) : 0;
            const double si = e->conjugate ? -s : s;
            set_number(e, to, r);
            if (e->wide)
                set_number(e, to + 1, si);
            if (e->high)
                set_number(e, to + e->ld_to, e->wide ? -si : si);
            if (e->high && e->wide)
                set_number(e, to + e->ld_to + 1, r);
        }
}
