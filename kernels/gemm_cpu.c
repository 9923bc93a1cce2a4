/* GEMM on the CPU: the blocked loops of GotoBLAS and BLIS around the micro-kernels of cpu_kernel.c.
 *
 *     for each range of columns of C, for each range of k:  pack op(B)   all threads together
 *         for each range of rows of C:                      pack op(A)   all threads together
 *             for each task, a rectangle of C:              multiply     one thread per task
 *
 * A BLAS would not do, since none guarantees the bits of gemm.h.  Here the running sums are stored
 * unrounded in C from one range of k to the next, so that the result does not depend on ranges,
 * tasks and threads.  Where beta * C is added at the end, they are kept in a scratch block
 * instead. */
#include "gemm.h"

#include <math.h>
#include <string.h>

#include "cpu_kernel.h"
#include "kernel.h"
#include "quantity.h"

const struct kernel kernel_cpu = {
    .name = "cpu",
    .on_cpu = true,
    .same_bits = true,
    .running_sum = true,
    .shapes = 1,
    .of_best = 1,
};

enum {
    STEPS_BYTES = 2048,        /* a row of one range of k: a panel of op(B) fits L1 */
    A_BYTES = 384 * 1024,      /* packed op(A) per thread: fits L2 */
    B_BYTES = 2 * 1024 * 1024, /* packed op(B): fits the shared last-level cache */
    SUMS_COLS = 256,           /* columns of the scratch block */
    SUMS_SIDE_BYTES = 4096,    /* bytes of one of its columns */
    TASKS = 4,                 /* tasks per thread, for load balance */
    THREAD_WORK = 256 * 1024,  /* fma steps that pay for one more thread */
};

/* op(A), or the transpose of op(B): rows of k elements. */
struct cpu_operand {
    const char *data;
    int64_t across, along; /* strides in elements: between rows, and between k steps */
};

struct cpu_product {
    const struct cpu_kernel *kernel;
    int64_t size; /* bytes of an element */
    int64_t m, n, k, ldc;
    struct cpu_operand a, b;
    char *c;
    bool from_c; /* the sums start from C */
    bool mirrored;
    double alpha;
    int threads;
    char *packed_a, *packed_b;
    int64_t m_step, n_step, k_step; /* extents of the packed operands (MC, NC, KC) */
};

size_t gemm_cpu_workspace(int threads)
{
    return SUMS_SIDE_BYTES * SUMS_COLS + B_BYTES + (size_t)threads * A_BYTES;
}

/* With k = 0 nothing is packed: the operands may be null. */
static int64_t panels_of(struct range rows, int64_t width, struct range k)
{
    return k.count == 0 ? 0 : ceil_div(rows.count, width);
}

/* Part `index` of `parts` nearly equal ones; all but the last are multiples of `unit`. */
static struct range range_of(int64_t count, int64_t unit, int64_t parts, int64_t index)
{
    int64_t units = ceil_div(count, unit), each = units / parts, more = units % parts;
    int64_t begin = (each * index + min_i64(index, more)) * unit;
    return (struct range){begin, min_i64((each + (index < more)) * unit, count - begin)};
}

static struct cpu_panel panel_of(const struct cpu_product *g, const struct cpu_operand *from,
                                 struct range rows, struct range k)
{
    int64_t first = rows.begin * from->across + k.begin * from->along;
    return (struct cpu_panel){from->data + first * g->size, rows.count, k.count, from->across,
                              from->along};
}

/* No barrier at the end: the one after packing op(A) covers both. */
static void pack_b(const struct cpu_product *g, struct range cols, struct range k)
{
    int64_t width = g->kernel->tile_cols, panels = panels_of(cols, width, k);
#pragma omp for nowait
    for (int64_t i = 0; i < panels; i++) {
        struct range part = {cols.begin + i * width, min_i64(width, cols.count - i * width)};
        struct cpu_panel panel = panel_of(g, &g->b, part, k);
        g->kernel->pack_b(&panel, g->packed_b + i * width * k.count * g->size);
    }
}

static void pack_a(const struct cpu_product *g, struct range rows, struct range k)
{
    int64_t width = g->kernel->tile_rows, panels = panels_of(rows, width, k);
#pragma omp for
    for (int64_t i = 0; i < panels; i++) {
        struct range part = {rows.begin + i * width, min_i64(width, rows.count - i * width)};
        struct cpu_panel panel = panel_of(g, &g->a, part, k);
        g->kernel->pack_a(&panel, g->packed_a + i * width * k.count * g->size);
    }
}

/* Rows of a task: about those of a square task, but no more than fit L2. */
static int64_t task_rows(const struct cpu_product *g, int64_t rows, int64_t cols)
{
    double side = sqrt((double)rows * (double)cols / (TASKS * g->threads));
    int64_t tiles = (int64_t)side / g->kernel->tile_rows + 1;
    return min_i64(tiles * g->kernel->tile_rows, g->m_step / g->threads);
}

static void multiply(const struct cpu_product *g, struct range rows, struct range cols,
                     struct range k)
{
    int64_t tile_rows = g->kernel->tile_rows, tile_cols = g->kernel->tile_cols;
    int64_t down = ceil_div(rows.count, task_rows(g, rows.count, cols.count));
    int64_t right = min_i64(ceil_div(TASKS * g->threads, down), ceil_div(cols.count, tile_cols));
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < down * right; task++) {
        struct range i = range_of(rows.count, tile_rows, down, task % down);
        struct range j = range_of(cols.count, tile_cols, right, task / down);
        const int64_t row = rows.begin + i.begin, col = cols.begin + j.begin;
        struct cpu_block block = {
            .rows = i.count,
            .cols = j.count,
            .k = k.count,
            .ldc = g->ldc,
            .a = g->packed_a + i.begin * k.count * g->size,
            .b = g->packed_b + j.begin * k.count * g->size,
            .c = g->c + (row + col * g->ldc) * g->size,
            .from_c = g->from_c || k.begin > 0,
            .scale = k.begin + k.count == g->k ? g->alpha : 1,
            .reach = g->mirrored ? g->m - g->n + col - row : g->m,
        };
        g->kernel->multiply(&block);
    }
}

static void multiply_rows(const struct cpu_product *g, struct range cols, struct range k)
{
    int64_t parts = ceil_div(g->m, g->m_step);
    for (int64_t i = 0; i < parts; i++) {
        struct range rows = range_of(g->m, g->kernel->tile_rows, parts, i);
        pack_a(g, rows, k);
        multiply(g, rows, cols, k);
    }
}

/* C := alpha (op(A) op(B) [+ C]).  With k = 0 one empty range of k still stores the sums. */
static void product_run(const struct cpu_product *g)
{
    int64_t n_parts = ceil_div(g->n, g->n_step);
    int64_t k_parts = g->k == 0 ? 1 : ceil_div(g->k, g->k_step);
#pragma omp parallel num_threads(g->threads) if (g->threads > 1)
    for (int64_t j = 0; j < n_parts; j++) {
        struct range cols = range_of(g->n, g->kernel->tile_cols, n_parts, j);
        for (int64_t p = 0; p < k_parts; p++) {
            struct range k = range_of(g->k, 1, k_parts, p);
            pack_b(g, cols, k);
            multiply_rows(g, cols, k);
        }
    }
}

/* In the square of the last n rows an element above the diagonal is a sum of its mirror's products
 * in the same order. */
static void mirror_square(const struct cpu_product *g)
{
    char *square = g->c + (g->m - g->n) * g->size;
#pragma omp parallel for num_threads(g->threads) if (g->threads > 1)
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = j + 1; i < g->n; i++)
            memcpy(square + (i + j * g->ldc) * g->size, square + (j + i * g->ldc) * g->size,
                   (size_t)g->size);
}

/* C := alpha sums + beta C for one block of C. */
static void sums_finish(const struct cpu_product *g, const void *sums, double beta, char *c,
                        int64_t ldc)
{
    int64_t column_bytes = ldc * g->size, sums_bytes = g->ldc * g->size;
#pragma omp parallel for num_threads(g->threads) if (g->threads > 1)
    for (int64_t j = 0; j < g->n; j++) {
        char *column = c + j * column_bytes;
        g->kernel->combine(g->m, g->alpha, (const char *)sums + j * sums_bytes, beta, column,
                           column);
    }
}

/* C := alpha op(A) op(B) + beta C, block by block through the scratch block. */
static void product_add(const struct cpu_product *g, double beta, char *sums)
{
    struct cpu_product part = *g;
    part.c = sums;
    part.ldc = SUMS_SIDE_BYTES / g->size;
    for (int64_t j = 0; j < g->n; j += SUMS_COLS)
        for (int64_t i = 0; i < g->m; i += part.ldc) {
            part.m = min_i64(part.ldc, g->m - i);
            part.n = min_i64(SUMS_COLS, g->n - j);
            part.a.data = g->a.data + i * g->a.across * g->size;
            part.b.data = g->b.data + j * g->b.across * g->size;
            part.alpha = 1;
            product_run(&part);
            part.alpha = g->alpha;
            sums_finish(&part, sums, beta, g->c + (i + j * g->ldc) * g->size, g->ldc);
        }
}

static int threads_for(const struct gemm *g, int threads)
{
    double repaid = 1 + (double)g->m * (double)g->n * (double)g->k / THREAD_WORK;
    return repaid < threads ? (int)repaid : threads;
}

void gemm_cpu(const struct gemm *g, int threads, void *workspace)
{
    double alpha = scalar_rounded(g->type, g->alpha), beta = scalar_rounded(g->type, g->beta);
    int64_t size = (int64_t)scalar_size(g->type);
    struct cpu_product product = {
        .kernel = &cpu_kernels(0)[g->type],
        .size = size,
        .m = g->m,
        .n = g->n,
        .k = alpha == 0 ? 0 : g->k,
        .ldc = g->ldc,
        .a = {g->a, g->trans_a ? g->lda : 1, g->trans_a ? 1 : g->lda},
        .b = {g->b, g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1},
        .c = g->c,
        .from_c = alpha == 1 && beta == 1,
        .alpha = alpha,
        .threads = threads_for(g, threads),
        .packed_b = workspace,
        .packed_a = (char *)workspace + B_BYTES,
        .k_step = STEPS_BYTES / size,
    };
    const struct cpu_kernel *kernel = product.kernel;
    product.m_step =
        A_BYTES / STEPS_BYTES / kernel->tile_rows * kernel->tile_rows * product.threads;
    product.n_step = B_BYTES / STEPS_BYTES / kernel->tile_cols * kernel->tile_cols;
    if (!product.from_c && beta != 0) {
        product_add(&product, beta, product.packed_a + (size_t)threads * A_BYTES);
        return;
    }
    product.mirrored = g->mirrored;
    product_run(&product);
    if (g->mirrored)
        mirror_square(&product);
}

int gemm_cpu_flops_per_cycle(enum scalar type)
{
    int lanes = cpu_kernels(0)[type].vector_bytes / (int)scalar_size(type);
    return 2 * 2 * lanes;
}
