/* The CPU GEMM against OpenBLAS: rates, their ratio, and whether the products agree.
 *
 *     bench_gemm_cpu [REPEAT [SIZE [THREADS]]]      SIZE 0: all; THREADS 0: one, and all CPUs
 *
 * The two run alternately, and their medians are compared.  Every OpenMP thread is pinned to its
 * own CPU, and each run starts after a pause in which the other library's threads stop spinning;
 * otherwise the scheduler would dominate the result.  OPENBLAS_CORETYPE selects the kernels of
 * OpenBLAS (Haswell, SkylakeX, ...). */
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gemm.h"
#include "meter.h"

void openblas_set_num_threads(int threads);
char *openblas_get_corename(void);

enum { REPEAT_MAX = 99, SIZE_MAX_BENCH = 4096, REST_MS = 60, ALIGNMENT = 4096 };

struct shape {
    int64_t mn, k;
};

static const struct shape shapes[] = {
    {512, 512}, {1024, 1024}, {2048, 2048}, {4096, 4096}, {2000, 256}};

/* One product, and memory for both results. */
struct contest {
    struct gemm gemm;
    void *ours, *theirs, *workspace;
    int threads;
};

static void rest(int threads)
{
    struct timespec t = {0, REST_MS * 1000000L};
    if (threads > 1)
        nanosleep(&t, NULL);
}

/* Pin the OpenMP threads to the CPUs that this process may use; OpenBLAS' own threads are not
 * pinned. */
static int threads_tie(void)
{
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    int count = CPU_COUNT(&allowed);
#pragma omp parallel num_threads(count)
    {
        cpu_set_t mine;
        size_t cpu = 0;
        for (int before = omp_get_thread_num(); before > 0 || !CPU_ISSET(cpu, &allowed); cpu++)
            before -= CPU_ISSET(cpu, &allowed) != 0;
        CPU_ZERO(&mine);
        CPU_SET(cpu, &mine);
        sched_setaffinity(0, sizeof mine, &mine);
    }
    return count;
}

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!memory) {
        perror("bench_gemm_cpu");
        exit(1);
    }
    return memory;
}

static double get(const struct gemm *g, const void *matrix, int64_t at)
{
    return g->type == SCALAR_FLOAT ? (double)((const float *)matrix)[at]
                                   : ((const double *)matrix)[at];
}

static void *operand_make(enum scalar type, int64_t count)
{
    void *matrix = allocate((size_t)count * scalar_size(type));
    for (int64_t at = 0; at < count; at++) {
        double x = (double)rand() / RAND_MAX - 0.5;
        if (type == SCALAR_FLOAT)
            ((float *)matrix)[at] = (float)x;
        else
            ((double *)matrix)[at] = x;
    }
    return matrix;
}

static double run_ours(const struct contest *c)
{
    struct gemm g = c->gemm;
    g.c = c->ours;
    rest(c->threads);
    double start = clock_now();
    gemm_cpu(&g, c->threads, c->workspace);
    return clock_now() - start;
}

static double run_theirs(const struct contest *c)
{
    const struct gemm *g = &c->gemm;
    const CBLAS_TRANSPOSE ta = g->trans_a ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE tb = g->trans_b ? CblasTrans : CblasNoTrans;
    const int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    const int lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    rest(c->threads);
    double start = clock_now();
    if (g->type == SCALAR_FLOAT)
        cblas_sgemm(CblasColMajor, ta, tb, m, n, k, 1, g->a, lda, g->b, ldb, 0, c->theirs, ldc);
    else
        cblas_dgemm(CblasColMajor, ta, tb, m, n, k, 1, g->a, lda, g->b, ldb, 0, c->theirs, ldc);
    return clock_now() - start;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    return seconds[count / 2];
}

/* Whether no difference exceeds twice the error bound of a sum of k products of halves. */
static bool agree(const struct contest *c)
{
    const struct gemm *g = &c->gemm;
    double k = (double)g->k, eps = g->type == SCALAR_FLOAT ? FLT_EPSILON : DBL_EPSILON;
    for (int64_t at = 0; at < g->m * g->n; at++)
        if (!(fabs(get(g, c->ours, at) - get(g, c->theirs, at)) <= 2 * k * eps * k / 4))
            return false;
    return true;
}

static bool contest_run(const struct contest *c, int repeat)
{
    const struct gemm *g = &c->gemm;
    double ours[REPEAT_MAX], theirs[REPEAT_MAX];
    run_ours(c);
    run_theirs(c);
    for (int i = 0; i < repeat; i++) {
        ours[i] = run_ours(c);
        theirs[i] = run_theirs(c);
    }
    bool good = agree(c);
    double gflop = 2e-9 * (double)g->m * (double)g->n * (double)g->k;
    double our_rate = gflop / median(ours, repeat), their_rate = gflop / median(theirs, repeat);
    printf("%-6s %c%c %7lld %6lld %7d %9.1f %9.1f %7.2f%s\n", scalar_name(g->type),
           g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', (long long)g->m, (long long)g->k,
           c->threads, our_rate, their_rate, our_rate / their_rate, good ? "" : "  WRONG");
    fflush(stdout);
    return good;
}

static bool shape_run(struct contest *c, struct shape shape, int repeat)
{
    struct gemm *g = &c->gemm;
    bool good = true;
    g->m = g->n = g->ldc = shape.mn;
    g->k = shape.k;
    for (int trans = 0; trans < 4; trans++) {
        g->trans_a = trans & 1;
        g->trans_b = trans & 2;
        g->lda = g->trans_a ? g->k : g->m;
        g->ldb = g->trans_b ? g->n : g->k;
        good = contest_run(c, repeat) && good;
    }
    return good;
}

static bool type_run(enum scalar type, int threads, int size, int repeat)
{
    const int64_t count = (int64_t)SIZE_MAX_BENCH * SIZE_MAX_BENCH;
    void *a = operand_make(type, count), *b = operand_make(type, count);
    struct contest c = {
        .gemm = {.type = type, .alpha = 1, .a = a, .b = b},
        .ours = operand_make(type, count),
        .theirs = operand_make(type, count),
        .workspace = allocate(gemm_cpu_workspace(threads)),
        .threads = threads,
    };
    bool good = true;
    openblas_set_num_threads(threads);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        if (size == 0 || size == shapes[s].mn)
            good = shape_run(&c, shapes[s], repeat) && good;
    free(a);
    free(b);
    free(c.ours);
    free(c.theirs);
    free(c.workspace);
    return good;
}

static int argument(int argc, char **argv, int index, int otherwise)
{
    return index < argc ? atoi(argv[index]) : otherwise;
}

int main(int argc, char **argv)
{
    int repeat = argument(argc, argv, 1, 5), size = argument(argc, argv, 2, 0);
    int cpus = threads_tie(), wanted = argument(argc, argv, 3, 0);
    int counts[2] = {wanted ? wanted : 1, cpus}, count = wanted || cpus == 1 ? 1 : 2;
    bool good = true;
    if (repeat < 1 || repeat > REPEAT_MAX || wanted < 0 || wanted > cpus) {
        fprintf(stderr, "usage: bench_gemm_cpu [REPEAT [SIZE [THREADS]]]\n");
        return 2;
    }
    printf("GFLOP/s, medians of %d; OpenBLAS runs its kernels for %s\n", repeat,
           openblas_get_corename());
    printf("type   op   m = n      k threads      ours  OpenBLAS   ratio\n");
    for (int i = 0; i < count; i++)
        for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
            good = type_run((enum scalar)type, counts[i], size, repeat) && good;
    return good ? 0 : 1;
}
