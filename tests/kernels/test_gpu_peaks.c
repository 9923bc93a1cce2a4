/* The bounds on their sums that kernels report (exit 77 without a GPU).
 *
 * Goal: the contract of struct peaks (gemm.h).  Method: products of all shapes, transpositions and
 * magnitudes, also with NaN and Inf; the host recomputes the sums step by step in the same order,
 * and their norms in double. */
#include "gpu_fixture.h"

enum { M, N, K, EXTENTS };
enum numbers { USUAL, ODD, TINY, HUGE_NUMBERS, CANCELLING, NUMBERS };

/* A product that reports its peaks. */
struct reporting {
    struct gemm gemm;
    struct array a, b, c;
    float *norms; /* on the host */
    float *device_norms;
    int64_t blocks;
};

/* Numbers of one magnitude, or with a few that are not finite. */
static struct array random_matrix(int64_t rows, int64_t cols, enum numbers numbers)
{
    struct array m = matrix_make(SCALAR_FLOAT, rows, cols, NAN);
    double scale = numbers == TINY ? 1e-24 : numbers == HUGE_NUMBERS ? 1e22 : 1;
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) {
            double value = scale * next_value(RANDOM, SCALAR_FLOAT);
            if (numbers == ODD && rand() % 499 == 0)
                value = rand() % 2 ? NAN : INFINITY;
            raw_set(&m, index_of(&m, i, j), value);
        }
    upload(&m);
    return m;
}

static void copy_norms(const struct reporting *t, bool in)
{
    size_t bytes = (size_t)(t->blocks * t->gemm.peaks.ld) * sizeof(float);
    void *to = in ? t->device_norms : t->norms, *from = in ? t->norms : t->device_norms;
    copy_rows(&(struct copy){to, from, bytes, bytes, bytes, 1}, in ? STREAM_IN : STREAM_OUT);
}

static struct reporting reporting_make(const int64_t extents[EXTENTS], int trans,
                                       enum numbers numbers, bool grow)
{
    int64_t m = extents[M], n = extents[N], k = extents[K];
    struct reporting t = {.blocks = (m + PEAK_ROWS - 1) / PEAK_ROWS};
    t.a = random_matrix(trans & 1 ? k : m, trans & 1 ? m : k, numbers);
    t.b = random_matrix(trans & 2 ? n : k, trans & 2 ? k : n, USUAL);
    t.c = random_matrix(m, n, numbers == ODD ? USUAL : numbers);
    t.gemm = gemm_of(&t.a, &t.b, &t.c, k);
    t.gemm.trans_a = trans & 1;
    t.gemm.trans_b = trans & 2;
    t.gemm.beta = grow;
    t.gemm.peaks = (struct peaks){.ld = n + 1, .grow = grow};
    size_t count = (size_t)(t.blocks * t.gemm.peaks.ld);
    t.norms = malloc(count * sizeof(float));
    assert_non_null(t.norms);
    ok(devices[0]->alloc(devices[0], count * sizeof(float), (void **)&t.device_norms, &err));
    for (size_t i = 0; i < count; i++)
        t.norms[i] = (float)guard;
    copy_norms(&t, true);
    t.gemm.peaks.norms = t.device_norms;
    return t;
}

static void reporting_free(struct reporting *t)
{
    matrix_free(&t->a);
    matrix_free(&t->b);
    matrix_free(&t->c);
    free(t->norms);
    devices[0]->release(devices[0], t->device_norms);
}

static size_t place(const struct array *m, bool trans, int64_t i, int64_t j)
{
    return trans ? index_of(m, j, i) : index_of(m, i, j);
}

static float element_of(const struct array *m, bool trans, int64_t i, int64_t j)
{
    return (float)raw_get(m, place(m, trans, i, j));
}

/* Makes the second half of k cancel the first half. */
static void cancel(struct reporting *t)
{
    const struct gemm *g = &t->gemm;
    for (int64_t k = 0, half = g->k / 2; k < half; k++) {
        for (int64_t i = 0; i < g->m; i++)
            raw_set(&t->a, place(&t->a, g->trans_a, i, half + k),
                    element_of(&t->a, g->trans_a, i, k));
        for (int64_t j = 0; j < g->n; j++)
            raw_set(&t->b, place(&t->b, g->trans_b, half + k, j),
                    -element_of(&t->b, g->trans_b, k, j));
    }
    upload(&t->a);
    upload(&t->b);
}

/* The largest norm of `rows` elements of column j, from row i on, after every PEAK_STEPS steps. */
static double peak_on_host(const struct reporting *t, int64_t i, int64_t rows, int64_t j)
{
    const struct gemm *g = &t->gemm;
    float sums[PEAK_ROWS];
    double peak = 0;
    for (int64_t r = 0; r < rows; r++)
        sums[r] = g->beta != 0 ? element_of(&t->c, false, i + r, j) : 0;
    for (int64_t k = 0; k <= g->k; k++) {
        double square = 0;
        for (int64_t r = 0; r < rows && (k % PEAK_STEPS == 0 || k == g->k); r++)
            if (isfinite(sums[r]))
                square += (double)sums[r] * sums[r];
        peak = fmax(peak, sqrt(square));
        for (int64_t r = 0; r < rows && k < g->k; r++)
            sums[r] = fmaf(element_of(&t->a, g->trans_a, i + r, k),
                           element_of(&t->b, g->trans_b, k, j), sums[r]);
    }
    return peak;
}

/* `sharp`: also check that the bound is tight. */
static void check_peaks(const struct reporting *t, bool sharp)
{
    const struct gemm *g = &t->gemm;
    for (int64_t block = 0; block < t->blocks; block++) {
        int64_t i = block * PEAK_ROWS, rows = g->m - i < PEAK_ROWS ? g->m - i : PEAK_ROWS;
        const float *reported = t->norms + block * g->peaks.ld;
        assert_true(reported[g->n] == (float)guard);
        for (int64_t j = 0; j < g->n; j++) {
            double peak = peak_on_host(t, i, rows, j);
            double most = sharp && rows == PEAK_ROWS ? 1.0001 * peak : 8.001 * peak;
            if (!(reported[j] >= peak * 0.999999 && reported[j] <= most))
                fail_msg(
                    "%lld x %lld x %lld, rows from %lld, column %lld: %g is reported, it is %g",
                    (long long)g->m, (long long)g->n, (long long)g->k, (long long)i, (long long)j,
                    (double)reported[j], peak);
        }
    }
}

static void try_peaks(int algorithm, const int64_t extents[EXTENTS], int variant)
{
    enum numbers numbers = (enum numbers)(variant / 4 % NUMBERS);
    bool grow = variant >= 4 * NUMBERS;
    struct reporting t = reporting_make(extents, variant % 4, numbers, grow);
    if (numbers == CANCELLING)
        cancel(&t);
    ok(devices[algorithm]->gemm(devices[algorithm], &t.gemm, &err));
    finish(devices[algorithm], STREAM_COMPUTE);
    copy_norms(&t, false);
    check_peaks(&t, numbers == USUAL);
    reporting_free(&t);
}

/* Large products take long in the emulation. */
static bool few(const int64_t extents[EXTENTS])
{
    return emulated && extents[M] * extents[N] * extents[K] > 4 << 20;
}

static void test_peaks(void **state)
{
    static const int64_t sizes[][EXTENTS] = {{1, 1, 1},      {64, 64, 256},   {65, 33, 700},
                                             {130, 300, 13}, {192, 40, 1000}, {256, 512, 520}};
    (void)state;
    for (int i = 0; i < algorithms; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes && devices[i]; s++)
            for (int variant = 0; variant < 8 * NUMBERS; variant += few(sizes[s]) ? 3 : 1)
                if (kernel_at(i)->reports_peaks[SCALAR_FLOAT]) {
                    aligned = (variant + variant / 3) % 3;
                    try_peaks(i, sizes[s], variant);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_peaks)};
    if (!fixture_open())
        return EXIT_SKIPPED;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close();
    return failed;
}
