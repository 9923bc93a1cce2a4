/* Products in residues on the CPU (ozaki.h): the integers are multiplied as they are, and the
 * residues taken of the sum. */
#include "ozaki.h"

#include "cpu_kernel.h"
#include "ozaki_scheme.h"

enum { TILE = 64 }; /* rows of op(A), and columns of op(B), that are integers at a time */

/* Rows of op(A), or columns of op(B), in one block of k. */
struct whole_rows {
    int64_t rows[TILE][OZAKI_BLOCK];
    int shifts[TILE];
    bool finite[TILE];
};

struct workspace {
    struct whole_rows a, b;
};

/* op(A) or op(B), seen as rows of k elements each. */
struct rows {
    enum scalar type;
    const void *memory;
    int64_t across, along; /* elements from one row to the next, and from one k step to the next */
};

static double element(const struct rows *from, int64_t row, int64_t step)
{
    const int64_t at = row * from->across + step * from->along;
    return scalar_get(from->type, from->memory, at);
}

int ozaki_row_shift(const struct residues *residues, const double *elements, int64_t count,
                    bool *finite)
{
    int exponent = OZAKI_ZERO;
    uint64_t squares = 0;
    for (int64_t h = 0; h < count; h++) {
        int each = ozaki_exponent(elements[h]);
        exponent = exponent > each ? exponent : each;
    }
    *finite = exponent != OZAKI_NOT_FINITE;
    for (int64_t h = 0; h < count && *finite; h++) {
        uint64_t coarse = ozaki_coarse(elements[h], exponent);
        squares += coarse * coarse;
    }
    return ozaki_shift(residues, exponent, squares);
}

static void row_convert(const struct rows *from, int64_t row, struct range k,
                        const struct residues *residues, struct whole_rows *to, int64_t index)
{
    double elements[OZAKI_BLOCK] = {0};
    for (int64_t h = 0; h < k.count; h++)
        elements[h] = element(from, row, k.begin + h);
    to->shifts[index] = ozaki_row_shift(residues, elements, k.count, &to->finite[index]);
    for (int64_t h = 0; h < k.count && to->finite[index]; h++)
        to->rows[index][h] = ozaki_integer(elements[h], to->shifts[index]);
}

/* A sum of products of integers of 63 bits, high 2^128 + low. */
struct wide {
    unsigned __int128 low;
    int64_t high;
};

static void wide_add(struct wide *sum, __int128 product)
{
    sum->low += (unsigned __int128)product;
    sum->high += (product < 0 ? -1 : 0) + (sum->low < (unsigned __int128)product);
}

static int8_t residue_of(const struct modulus *m, const struct wide *x)
{
    const int64_t base = (int64_t)((-(unsigned __int128)m->p) % (unsigned)m->p); /* 2^128 mod p */
    int64_t rest = (int64_t)(x->low % (unsigned)m->p) + x->high % m->p * base;
    rest = (rest % m->p + m->p) % m->p;
    return (int8_t)(rest > (m->p - 1) / 2 ? rest - m->p : rest);
}

static double product_value(const struct residues *residues, const int64_t *a, const int64_t *b,
                            int64_t count)
{
    struct wide product = {0, 0};
    double sums[RESIDUES_PARTS] = {0};
    for (int64_t h = 0; h < count; h++)
        wide_add(&product, (__int128)a[h] * b[h]);
    for (int q = 0; q < residues->count; q++)
        ozaki_accumulate(residues, residues->parts, q, residue_of(&residues->moduli[q], &product),
                         sums);
    return ozaki_value(residues, residues->parts, sums);
}

static double running_sum(const struct rows *a, int64_t i, const struct rows *b, int64_t j,
                          struct range k, double sum)
{
    for (int64_t h = k.begin; h < k.begin + k.count; h++)
        sum = a->type == SCALAR_FLOAT
                  ? (double)fmaf((float)element(a, i, h), (float)element(b, j, h), (float)sum)
                  : fma(element(a, i, h), element(b, j, h), sum);
    return sum;
}

static double get(const struct gemm *g, int64_t i, int64_t j)
{
    const int64_t at = i + j * g->ldc;
    return scalar_get(g->type, g->c, at);
}

static void put(const struct gemm *g, int64_t i, int64_t j, double value)
{
    const int64_t at = i + j * g->ldc;
    scalar_put(g->type, value, g->c, at);
}

struct tile {
    const struct gemm *g;
    const struct residues *residues;
    struct rows a, b;
    struct range rows, cols, k; /* in the product, of the tile and the block */
};

static void element_multiply(const struct tile *t, const struct workspace *w, int64_t i, int64_t j)
{
    const int64_t row = t->rows.begin + i, col = t->cols.begin + j;
    const double c = t->k.begin == 0 && t->g->beta == 0 ? 0 : get(t->g, row, col);
    if (!w->a.finite[i] || !w->b.finite[j]) {
        put(t->g, row, col, running_sum(&t->a, row, &t->b, col, t->k, c));
        return;
    }
    const double value = product_value(t->residues, w->a.rows[i], w->b.rows[j], t->k.count);
    put(t->g, row, col, ozaki_added(c, value, w->a.shifts[i], w->b.shifts[j]));
}

/* All threads together. */
static void tile_multiply(const struct tile *t, struct workspace *w)
{
#pragma omp for nowait
    for (int64_t i = 0; i < t->rows.count; i++)
        row_convert(&t->a, t->rows.begin + i, t->k, t->residues, &w->a, i);
#pragma omp for
    for (int64_t j = 0; j < t->cols.count; j++)
        row_convert(&t->b, t->cols.begin + j, t->k, t->residues, &w->b, j);
#pragma omp for collapse(2)
    for (int64_t j = 0; j < t->cols.count; j++)
        for (int64_t i = 0; i < t->rows.count; i++)
            element_multiply(t, w, i, j);
}

size_t ozaki_cpu_workspace(void)
{
    return sizeof(struct workspace);
}

static struct range part(int64_t begin, int64_t length, int64_t end)
{
    return (struct range){begin, begin + length < end ? length : end - begin};
}

void ozaki_cpu(const struct gemm *g, const struct ozaki *o, int threads)
{
    const struct rows a = {g->type, g->a, g->trans_a ? g->lda : 1, g->trans_a ? 1 : g->lda};
    const struct rows b = {g->type, g->b, g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1};
    if (g->k == 0 && g->beta == 0)
        for (int64_t j = 0; j < g->n; j++)
            for (int64_t i = 0; i < g->m; i++)
                put(g, i, j, 0);
#pragma omp parallel num_threads(threads) if (threads > 1)
    for (int64_t p = 0; p < g->k; p += OZAKI_BLOCK)
        for (int64_t j = 0; j < g->n; j += TILE)
            for (int64_t i = 0; i < g->m; i += TILE) {
                const struct tile tile = {g,
                                          o->residues,
                                          a,
                                          b,
                                          part(i, TILE, g->m),
                                          part(j, TILE, g->n),
                                          part(p, OZAKI_BLOCK, g->k)};
                tile_multiply(&tile, o->workspace);
            }
}
