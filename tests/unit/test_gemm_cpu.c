/* The CPU GEMM against the contract of gemm.h.
 *
 * Goal: for every type, transposition and ragged size the result is the running sum of the
 * contract, bit for bit, however the product is cut and on any number of threads.  Method: each
 * product is compared with that sum, computed by one fma after the other, and with a product in
 * long double. */
#include <stdio.h>

#include "cpu_fixture.h"
#include "cpu_kernel.h"
#include "gemm.h"

enum { THREADS = 3, WORKSPACE_ALIGNMENT = 64 };

static void *workspace;
static bool fused; /* the CPU has fma; otherwise the kernel multiplies and adds */

/* One step of a running sum, in the arithmetic of the type. */
static double step(enum scalar type, double a, double b, double s)
{
    if (type == SCALAR_FLOAT)
        return fused ? fmaf((float)a, (float)b, (float)s) : (float)a * (float)b + (float)s;
    return fused ? fma(a, b, s) : a * b + s;
}

static double in_type(enum scalar type, double x)
{
    return type == SCALAR_FLOAT ? (double)(float)x : x;
}

/* The value that the contract promises for one element, if C holds `c`. */
static double promised(const struct product *p, int64_t i, int64_t j, double c)
{
    const struct gemm *g = &p->gemm;
    double alpha = in_type(g->type, g->alpha), beta = in_type(g->type, g->beta);
    bool resume = alpha == 1 && beta == 1;
    double s = resume ? c : 0;
    for (int64_t l = 0; l < g->k && alpha != 0; l++)
        s = step(g->type, a_of(p, i, l), b_of(p, l, j), s);
    if (resume)
        return s;
    if (beta == 0)
        return in_type(g->type, alpha * s);
    double scaled = in_type(g->type, beta * c);
    return g->type == SCALAR_FLOAT ? fmaf((float)alpha, (float)s, (float)scaled)
                                   : fma(alpha, s, scaled);
}

/* The same in long double; *bound is the error bound of a sum in the type. */
static long double exact(const struct product *p, int64_t i, int64_t j, double c,
                         long double *bound)
{
    const struct gemm *g = &p->gemm;
    long double alpha = in_type(g->type, g->alpha), beta = in_type(g->type, g->beta);
    long double sum = 0, magnitude = 0, eps = g->type == SCALAR_FLOAT ? FLT_EPSILON : DBL_EPSILON;
    for (int64_t l = 0; l < g->k; l++) {
        long double product = (long double)a_of(p, i, l) * b_of(p, l, j);
        sum += product;
        magnitude += fabsl(product);
    }
    long double start = beta == 0 ? 0 : beta * c;
    *bound = ((long double)g->k + 3) * eps * (fabsl(alpha) * magnitude + fabsl(start));
    return alpha * sum + start;
}

static void check_element(const struct product *p, int64_t i, int64_t j, double c)
{
    const struct gemm *g = &p->gemm;
    double found = get(&p->c, i, j), expected = promised(p, i, j, c);
    long double bound = 0, nearby = exact(p, i, j, c, &bound);
    if (found != expected || !(fabsl(found - nearby) <= bound))
        fail_msg(
            "%s %d%d %dx%dx%d alpha %g beta %g: C[%d,%d] is %.17g, promised %.17g, exact %.17Lg",
            scalar_name(g->type), g->trans_a, g->trans_b, (int)g->m, (int)g->n, (int)g->k, g->alpha,
            g->beta, (int)i, (int)j, found, expected, nearby);
}

/* Runs p and compares all of C, which it overwrites, and the gaps. */
static void check(struct product *p, int threads)
{
    struct array before = matrix_copy(&p->c);
    gemm_cpu(&p->gemm, threads, workspace);
    for (int64_t j = 0; j < p->gemm.n; j++)
        for (int64_t i = 0; i < p->gemm.m; i++)
            check_element(p, i, j, get(&before, i, j));
    assert_gaps_are(&p->c, guard);
    free(before.data);
}

static void check_size(enum scalar type, int trans, int64_t m, int64_t n, int64_t k)
{
    struct product p = product_make(type, trans, m, n, k);
    p.gemm.beta = 1;
    check(&p, THREADS);
    product_free(&p);
}

static void sizes_around_a_tile(void **state)
{
    (void)state;
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++) {
        const struct cpu_kernel *kernel = &cpu_kernels(0)[type];
        const int64_t h = kernel->tile_rows, w = kernel->tile_cols;
        const int64_t ms[] = {1, h - 1, h, h + 1, 2 * h + 5},
                      ns[] = {1, w - 1, w, w + 1, 3 * w + 2};
        const int64_t ks[] = {1, 7, 8, 19};
        for (int trial = 0; trial < 4 * 5 * 5 * 4; trial++)
            check_size((enum scalar)type, trial % 4, ms[trial / 4 % 5], ns[trial / 20 % 5],
                       ks[trial / 100]);
    }
}

/* Block sizes of the implementation are at or near powers of two. */
static void sizes_around_a_block(void **state)
{
    (void)state;
    const int64_t edges[] = {192, 256, 384, 512, 576, 1024, 1152, 2048};
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
            for (int64_t size = edges[e] - 1; size <= edges[e] + 1; size++) {
                check_size((enum scalar)type, 0, size, 3, 5);
                check_size((enum scalar)type, 1, 3, size, 5);
                check_size((enum scalar)type, 2, 5, 3, size);
                check_size((enum scalar)type, 3, 60, 17, size);
            }
}

static void any_alpha_and_beta(void **state)
{
    (void)state;
    const double factors[][2] = {{1, 0},   {-0.3, 0}, {1, 0.7}, {0.1, 1},
                                 {-2, -3}, {0, 0.3},  {0, 0},   {0, 1}};
    const int64_t sizes[][3] = {{5, 7, 9}, {70, 30, 530}, {1030, 3, 20}, {3, 260, 20}, {4, 3, 0}};
    for (int trial = 0; trial < 8 * 5 * 8; trial++) {
        const int64_t *size = sizes[trial / 8 % 5];
        struct product p =
            product_make((enum scalar)(trial / 40 % 2), trial / 80, size[0], size[1], size[2]);
        p.gemm.alpha = factors[trial % 8][0];
        p.gemm.beta = factors[trial % 8][1];
        check(&p, THREADS);
        product_free(&p);
    }
}

static void integers_are_exact(void **state)
{
    (void)state;
    for (int trial = 0; trial < 8; trial++) {
        struct product p = product_make((enum scalar)(trial % 2), trial / 2, 61, 45, 700);
        matrix_fill(&p.a, random_integer);
        matrix_fill(&p.b, random_integer);
        gemm_cpu(&p.gemm, THREADS, workspace);
        for (int64_t at = 0; at < 61 * 45; at++) {
            long double bound, expected = exact(&p, at % 61, at / 61, 0, &bound);
            assert_true(get(&p.c, at % 61, at / 61) == (double)expected);
        }
        product_free(&p);
    }
}

static void threads_leave_no_trace(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{500, 300, 300}, {20, 1500, 300}, {1500, 20, 300}, {100, 90, 1200}};
    for (int trial = 0; trial < 8; trial++) {
        const int64_t *size = sizes[trial / 2];
        struct product p =
            product_make((enum scalar)(trial % 2), trial % 4, size[0], size[1], size[2]);
        gemm_cpu(&p.gemm, 1, workspace);
        struct array one = matrix_copy(&p.c);
        for (int threads = 2; threads <= THREADS; threads++) {
            gemm_cpu(&p.gemm, threads, workspace);
            assert_same_bits(&one, &p.c);
        }
        free(one.data);
        product_free(&p);
    }
}

/* Adds elements [begin, end) along k to C. */
static void run_slab(const struct product *p, int64_t begin, int64_t end)
{
    struct gemm g = p->gemm;
    size_t size = scalar_size(g.type);
    g.a = (const char *)g.a + (size_t)(g.trans_a ? begin : begin * g.lda) * size;
    g.b = (const char *)g.b + (size_t)(g.trans_b ? begin * g.ldb : begin) * size;
    g.k = end - begin;
    g.beta = begin == 0 ? g.beta : 1;
    gemm_cpu(&g, THREADS, workspace);
}

static void slabs_leave_no_trace(void **state)
{
    (void)state;
    const int64_t k = 1000, slabs[] = {GEMM_QUANTUM, 5 * GEMM_QUANTUM, 27 * GEMM_QUANTUM};
    for (int trial = 0; trial < 8; trial++) {
        struct product p = product_make((enum scalar)(trial % 2), trial / 2, 77, 39, k);
        p.gemm.beta = trial % 4 == 0;
        struct array before = matrix_copy(&p.c);
        gemm_cpu(&p.gemm, THREADS, workspace);
        struct array whole = matrix_copy(&p.c);
        for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++) {
            memcpy(p.c.data, before.data, matrix_bytes(&before));
            for (int64_t at = 0; at < k; at += slabs[s])
                run_slab(&p, at, at + slabs[s] < k ? at + slabs[s] : k);
            assert_same_bits(&whole, &p.c);
        }
        free(before.data);
        free(whole.data);
        product_free(&p);
    }
}

/* A product whose last n rows are symmetric, like what C begins with. */
static void check_mirrored(enum scalar type, int trans, const int64_t size[3], double alpha,
                           double beta)
{
    const int64_t m = size[0], n = size[1], k = size[2], above = m - n;
    struct product p = product_make(type, trans, m, n, k);
    for (int64_t l = 0; l < k; l++)
        for (int64_t j = 0; j < n; j++)
            set(&p.b, p.gemm.trans_b ? j : l, p.gemm.trans_b ? l : j, a_of(&p, above + j, l));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < j; i++)
            set(&p.c, above + i, j, get(&p.c, above + j, i));
    p.gemm.alpha = alpha;
    p.gemm.beta = beta;
    p.gemm.mirrored = true;
    check(&p, THREADS);
    product_free(&p);
}

static void half_of_a_square_is_enough(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{1, 1, 3},      {3, 3, 20},     {12, 12, 40},   {50, 50, 300},
                                {61, 24, 300},  {257, 64, 100}, {500, 130, 30}, {700, 700, 9},
                                {1300, 300, 5}, {4, 4, 0},      {90, 1, 30},    {64, 63, 600},
                                {1100, 1100, 5}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int trial = 0; trial < 16; trial++)
            check_mirrored((enum scalar)(trial % 2), trial / 4, sizes[s], 1, trial / 2 % 2);
    check_mirrored(SCALAR_DOUBLE, 0, sizes[4], 0.7, 0);
    check_mirrored(SCALAR_DOUBLE, 0, sizes[4], 0.7, 1);
}

/* Computes the rectangle of C at (i, j) alone. */
static void run_tile(const struct product *p, int64_t i, int64_t j, int64_t rows, int64_t cols)
{
    struct gemm g = p->gemm;
    size_t size = scalar_size(g.type);
    g.a = (const char *)g.a + (size_t)(g.trans_a ? i * g.lda : i) * size;
    g.b = (const char *)g.b + (size_t)(g.trans_b ? j : j * g.ldb) * size;
    g.c = (char *)g.c + (size_t)(i + j * g.ldc) * size;
    g.m = i + rows < g.m ? rows : g.m - i;
    g.n = j + cols < g.n ? cols : g.n - j;
    gemm_cpu(&g, THREADS, workspace);
}

static void tiles_leave_no_trace(void **state)
{
    (void)state;
    for (int trial = 0; trial < 8; trial++) {
        struct product p = product_make((enum scalar)(trial % 2), trial / 2, 131, 71, 300);
        p.gemm.alpha = trial % 4 == 0 ? 1 : 0.7;
        gemm_cpu(&p.gemm, THREADS, workspace);
        struct array whole = matrix_copy(&p.c);
        for (int64_t j = 0; j < p.gemm.n; j += 13)
            for (int64_t i = 0; i < p.gemm.m; i += 29)
                run_tile(&p, i, j, 29, 13);
        assert_same_bits(&whole, &p.c);
        free(whole.data);
        product_free(&p);
    }
}

static void beta_zero_reads_no_c(void **state)
{
    (void)state;
    for (int trial = 0; trial < 8; trial++) {
        struct product p = product_make((enum scalar)(trial % 2), trial / 2, 50, 21, 600);
        for (int64_t at = 0; at < 50 * 21; at++)
            set(&p.c, at % 50, at / 50, NAN);
        check(&p, THREADS);
        product_free(&p);
    }
}

/* If nothing is multiplied, the operands may be missing. */
static void nothing_to_multiply_reads_no_operand(void **state)
{
    (void)state;
    for (int trial = 0; trial < 12; trial++) {
        struct product p =
            product_make((enum scalar)(trial % 2), 0, 30, 20, trial / 2 % 2 ? 10 : 0);
        p.gemm.alpha = p.gemm.k == 0 ? 0.7 : 0;
        p.gemm.beta = trial / 4 * 0.5;
        p.gemm.a = p.gemm.b = NULL;
        check(&p, THREADS);
        product_free(&p);
    }
}

static void empty_c(void **state)
{
    (void)state;
    for (int trial = 0; trial < 8; trial++) {
        struct product p =
            product_make((enum scalar)(trial % 2), 0, trial & 2 ? 9 : 0, trial & 2 ? 0 : 9, 5);
        p.gemm.beta = trial & 4 ? 0.5 : 1;
        check(&p, THREADS);
        product_free(&p);
    }
}

/* Whether all of C holds the sums of one kind of step. */
static bool holds(const struct product *p, bool steps_fused)
{
    bool was_fused = fused, same = true;
    fused = steps_fused;
    for (int64_t j = 0; j < p->gemm.n; j++)
        for (int64_t i = 0; i < p->gemm.m; i++)
            same = same && get(&p->c, i, j) == promised(p, i, j, 0);
    fused = was_fused;
    return same;
}

/* Multiplies a block by the functions of one table.  A set without fma may multiply and add. */
static void check_table(const struct cpu_kernel *kernel, enum scalar type, int trans)
{
    const int64_t rows = kernel->tile_rows - 1, cols = kernel->tile_cols - 1, k = 21;
    struct product p = product_make(type, trans, rows, cols, k);
    const struct gemm *g = &p.gemm;
    char *packed_a = workspace;
    char *packed_b = packed_a + (size_t)(kernel->tile_rows * k) * scalar_size(type);
    struct cpu_panel a = {g->a, rows, k, g->trans_a ? g->lda : 1, g->trans_a ? 1 : g->lda};
    struct cpu_panel b = {g->b, cols, k, g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1};
    struct cpu_block block = {rows, cols, k, g->ldc, packed_a, packed_b, g->c, false, 1, rows};
    kernel->pack_a(&a, packed_a);
    kernel->pack_b(&b, packed_b);
    kernel->multiply(&block);
    assert_true(holds(&p, true) || holds(&p, false));
    assert_gaps_are(&p.c, guard);
    product_free(&p);
}

static void every_instruction_set(void **state)
{
    (void)state;
    for (int rank = 0; cpu_kernels(rank); rank++)
        for (int trial = 0; trial < 8; trial++)
            check_table(&cpu_kernels(rank)[trial % 2], (enum scalar)(trial % 2), trial / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_around_a_tile),
        cmocka_unit_test(sizes_around_a_block),
        cmocka_unit_test(any_alpha_and_beta),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(threads_leave_no_trace),
        cmocka_unit_test(slabs_leave_no_trace),
        cmocka_unit_test(tiles_leave_no_trace),
        cmocka_unit_test(half_of_a_square_is_enough),
        cmocka_unit_test(beta_zero_reads_no_c),
        cmocka_unit_test(nothing_to_multiply_reads_no_operand),
        cmocka_unit_test(empty_c),
        cmocka_unit_test(every_instruction_set),
    };
    fused = true;
#ifdef __x86_64__
    fused = __builtin_cpu_supports("fma");
#endif
    workspace = aligned_alloc(WORKSPACE_ALIGNMENT, gemm_cpu_workspace(THREADS));
    if (!workspace)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(workspace);
    return failed;
}
