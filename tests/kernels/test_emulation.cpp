/* The emulation of a block, on which the other tests rely.
 *
 * Goal: it computes what the hardware is documented to compute, and it detects each kind of kernel
 * error that it is meant to find.  Method: a matrix product by fragments is compared with loops;
 * broken kernels must give NaN, or end a child process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

#include "launch.cuh"
#include "ptx.cuh"

enum { THREADS = 64 };

static double value(int i, int j)
{
    return (i * 7 + j * 5) % 11 - 5;
}

/* Lane (g, t) of each warp fills its fragments as ptx.cuh defines. */
static void multiply_kernel(double *wide, double *narrow)
{
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    double d[4] = {0, 0, 0, 0}, e[2] = {0, 0};
    const double a[4] = {value(g, t), value(g + 8, t), value(g, t + 4), value(g + 8, t + 4)};
    const double b[2] = {value(t, g + 3), value(t + 4, g + 3)};
    mma_m16n8k8(d, a, b);
    mma_m8n8k4(e, a[0], b[0]);
    for (int i = 0; i < 4; i++)
        wide[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
    for (int i = 0; i < 2; i++)
        narrow[g * 8 + 2 * t + i] = e[i];
}

static void test_multiply(void **)
{
    double wide[16 * 8], narrow[8 * 8];
    assert_int_equal(start_kernel(multiply_kernel, 1, THREADS, 0, nullptr, wide, narrow), 0);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double sums[2] = {0, 0};
            for (int p = 0; p < 8; p++)
                sums[p / 4] += value(i, p) * value(p, j + 3);
            assert_true(wide[i * 8 + j] == sums[0] + sums[1]);
            assert_true(i >= 8 || narrow[i * 8 + j] == sums[0]);
        }
}

enum fault { NONE, NO_WAIT, NO_BARRIER, WAIT_TOO_SHORT };

/* Each thread stores one element and reads one of another thread. */
static void copy_kernel(double *out, const double *in, enum fault fault)
{
    const int x = threadIdx.x;
    double *shared = reinterpret_cast<double *>(dynamic_shared());
    cp_async<8>(shared + x, in + x, x % 2 ? 8 : 0);
    cp_async_commit();
    cp_async<16>(shared + THREADS + 2 * x, in);
    cp_async_commit();
    if (fault == WAIT_TOO_SHORT)
        cp_async_wait<2>();
    else if (fault != NO_WAIT)
        cp_async_wait<1>();
    if (fault != NO_BARRIER)
        __syncthreads();
    out[x] = shared[(x + THREADS / 2 + 1) % THREADS];
}

static int run_copies(enum fault fault)
{
    alignas(16) double in[THREADS];
    double out[THREADS];
    int wrong = 0;
    for (int x = 0; x < THREADS; x++)
        in[x] = x + 1;
    assert_int_equal(start_kernel(copy_kernel, 1, THREADS, 3 * THREADS * sizeof(double), nullptr,
                                  out, in, fault),
                     0);
    for (int x = 0; x < THREADS; x++) {
        int from = (x + THREADS / 2 + 1) % THREADS;
        wrong += !(out[x] == (from % 2 ? from + 1 : 0));
    }
    return wrong;
}

static void test_copies(void **)
{
    assert_int_equal(run_copies(NONE), 0);
    assert_int_equal(run_copies(NO_WAIT), THREADS);
    assert_int_equal(run_copies(WAIT_TOO_SHORT), THREADS);
    assert_true(run_copies(NO_BARRIER) > 0);
}

/* A variable in shared memory does not keep its value from the previous block. */
static void stale_kernel(double *out)
{
    __shared__ double kept;
    if (threadIdx.x == 0)
        out[blockIdx.x] = kept;
    __syncthreads();
    kept = 1;
}

static void test_stale(void **)
{
    double out[50];
    assert_int_equal(start_kernel(stale_kernel, 50, THREADS, 0, nullptr, out), 0);
    for (double x : out)
        assert_true(x != x);
}

static void divergent_kernel()
{
    if (threadIdx.x > 0)
        __syncthreads();
}

static void misaligned_kernel()
{
    alignas(16) double in[3] = {};
    cp_async<16>(dynamic_shared(), in + 1);
}

static void test_complaints(void **)
{
    void (*const kernels[])() = {divergent_kernel, misaligned_kernel};
    for (auto kernel : kernels) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            freopen("/dev/null", "w", stderr);
            start_kernel(kernel, 1, THREADS, 1024, nullptr);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multiply),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_complaints),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr) != 0;
}
