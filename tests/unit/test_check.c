/* The online check against flipped bits in the accumulators. */
#include "cpu_fixture.h"
#include "plan_fixture.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "device.h"

enum { M = 48, N = 56, K = 96, FLIPS = 1000 };

/* A tile that is all of C, multiplied in one slab, and its check. */
struct bench {
    struct device *device;
    struct problem problem;
    struct plan plan;
    struct check check;
    double *a, *b, *acc, *memory;
};

static void multiply(struct bench *x)
{
    struct error err = {0};
    const struct block tile = {0, 0, M, N};
    struct gemm gemm = {.type = SCALAR_DOUBLE,
                        .m = N,
                        .n = M,
                        .k = K,
                        .alpha = 1,
                        .a = x->b,
                        .lda = N,
                        .b = x->a,
                        .ldb = K,
                        .beta = 0,
                        .c = x->acc,
                        .ldc = N};
    assert_int_equal(check_begin(&x->check, &tile, &err), 0);
    assert_int_equal(x->device->gemm(x->device, &gemm, &err), 0);
    assert_int_equal(check_slab(&x->check, 0, x->a, x->b, &err), 0);
}

static void open_bench(struct bench *x)
{
    struct error err = {0};
    *x = (struct bench){
        .problem = {.type = SCALAR_DOUBLE, .m = M, .n = N, .k = K, .k_whole = K, .alpha = 1},
        .plan = {.layers = 1,
                 .grid_rows = 1,
                 .grid_cols = 1,
                 .ranks_per_node = 1,
                 .block_rows = 1,
                 .block_cols = 1,
                 .tile_rows = M,
                 .tile_cols = N,
                 .slab = K,
                 .slabs = 1,
                 .supers_down = 1,
                 .supers_across = 1,
                 .ld = {K, N, N},
                 .strip_rows = M}};
    assert_int_equal(device_cpu_open(1, &x->device, &err), 0);
    x->a = malloc(sizeof(double) * M * K);
    x->b = malloc(sizeof(double) * K * N);
    x->acc = malloc(sizeof(double) * M * N);
    x->memory = malloc(plan_check_bytes(&x->plan));
    for (int i = 0; i < M * K; i++)
        x->a[i] = random_real();
    for (int i = 0; i < K * N; i++)
        x->b[i] = random_real();
    assert_int_equal(check_open(&x->check, &x->problem, &x->plan, x->device, x->memory, &err), 0);
    x->check.patient = true;
}

static void close_bench(struct bench *x)
{
    check_close(&x->check);
    x->device->close(x->device);
    free(x->a);
    free(x->b);
    free(x->acc);
    free(x->memory);
}

static bool fails(struct bench *x)
{
    struct error err = {0};
    x->check.failures = 0;
    assert_int_equal(check_now(&x->check, x->acc, &err), 0);
    return x->check.failures > 0;
}

/* What the limit lets pass in a row: so much may an element be wrong. */
static double allowed(const struct bench *x, int row)
{
    double sum = 0;
    for (int j = 0; j < N; j++)
        for (int k = 0; k < K; k++)
            sum += fabs(x->a[row * K + k] * x->b[k * N + j]);
    return x->check.limit * 0x1p-53 * sum;
}

/* Every flip is seen that changes an element by more than the rounding that the limit allows for:
 * twice that, since the sums themselves may be off by as much. */
static void test_flips(void **state)
{
    (void)state;
    struct bench x;
    int large = 0, seen = 0;
    open_bench(&x);
    multiply(&x);
    assert_false(fails(&x));
    for (int flip = 0; flip < FLIPS; flip++) {
        int at = (int)random_below(M * N);
        uint64_t bits;
        double before = x.acc[at];
        memcpy(&bits, &before, sizeof bits);
        bits ^= (uint64_t)1 << random_below(64);
        memcpy(&x.acc[at], &bits, sizeof bits);
        bool must = !(fabs(x.acc[at] - before) <= 2 * allowed(&x, at / N)), failed = fails(&x);
        assert_true(failed || !must);
        large += must;
        seen += failed;
        x.acc[at] = before;
    }
    assert_false(fails(&x));
    assert_true(large > FLIPS / 2);
    print_message("%d of %d flips change more than rounding, %d are seen\n", large, FLIPS, seen);
    close_bench(&x);
}

/* Impatient, or too often: an error. */
static void test_fails_again(void **state)
{
    (void)state;
    struct bench x;
    struct error err = {0};
    open_bench(&x);
    multiply(&x);
    assert_false(fails(&x)); /* and the device is through */
    x.acc[5] += 1;
    assert_true(fails(&x));
    x.check.patient = false;
    assert_int_equal(check_now(&x.check, x.acc, &err), EXIT_VERIFY);
    assert_non_null(strstr(err.text, "failed its check again"));
    close_bench(&x);
}

/* What is not finite is no failure of the product, and counted when the tile ends. */
static void test_not_finite(void **state)
{
    (void)state;
    const struct block tile = {0, 0, M, N};
    struct error err = {0};
    struct bench x;
    open_bench(&x);
    x.a[3 * K + 7] = NAN;
    x.a[9 * K] = INFINITY;
    multiply(&x);
    assert_false(fails(&x)); /* and the device is through */
    assert_int_equal(x.check.not_finite, 0);
    assert_int_equal(check_leave(&x.check, &tile, &tile, &err), 0);
    assert_int_equal(check_judge(&x.check, &err), 0);
    assert_int_equal(x.check.failures, 0);
    assert_int_equal(x.check.not_finite, 2);
    close_bench(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flips),
        cmocka_unit_test(test_fails_again),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
