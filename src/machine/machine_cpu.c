/* A short probe of the CPU: products like those of the run, by the kernel that will multiply them.
 * Cores differ in clock, width and neighbours, and narrow products take longer than square ones.
 * Each thread multiplies alone: together they would wait for one that another process delays. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "machine.h"
#include "meter.h"
#include "problem.h"
#include "quantity.h"

static const double worth_seconds = 0.1; /* shorter products are soon made anyway */
static const double usual = 1.5; /* all elements: with some others products would be slower */

enum { SIDE = 256, STEPS = 256, SAMPLES = 5, LINE = 64, ALIGNMENT = 4096 };

/* A corner of the product, which fits caches. */
static struct gemm sample_of(const struct problem *p)
{
    const int64_t m = min_i64(p->n, SIDE), n = min_i64(p->m, SIDE), k = min_i64(p->k, STEPS);
    const bool trans_a = p->trans[OPERAND_B], trans_b = p->trans[OPERAND_A]; /* as in run.c */
    return (struct gemm){.type = p->type,
                         .trans_a = trans_a,
                         .trans_b = trans_b,
                         .m = m,
                         .n = n,
                         .k = k,
                         .alpha = 1,
                         .beta = 1,
                         .lda = trans_a ? k : m,
                         .ldb = trans_b ? n : k,
                         .ldc = m};
}

static size_t sample_bytes(const struct gemm *g)
{
    const int64_t elements = g->m * g->k + g->k * g->n + g->m * g->n;
    const size_t bytes = (size_t)elements * scalar_size(g->type) + LINE + gemm_cpu_workspace(1);
    return (size_t)round_up((int64_t)bytes, ALIGNMENT);
}

/* Put its operands into memory, the workspace behind them. */
static void *sample_begin(struct gemm *g, char *memory)
{
    const int64_t a = g->m * g->k, ab = a + g->k * g->n, all = ab + g->m * g->n;
    const int64_t size = (int64_t)scalar_size(g->type);
    for (int64_t i = 0; i < all; i++)
        if (g->type == SCALAR_FLOAT)
            ((float *)(void *)memory)[i] = (float)usual;
        else
            ((double *)(void *)memory)[i] = usual;
    g->a = memory;
    g->b = memory + a * size;
    g->c = memory + ab * size;
    return memory + round_up(all * size, LINE);
}

/* Of one thread.  What else goes on makes a product slower, so the best counts. */
static double thread_rate(struct gemm g, char *memory)
{
    void *workspace = sample_begin(&g, memory);
    const double flops = 2 * (double)g.m * (double)g.n * (double)g.k;
    double rate = 0;
    for (int i = 0; i < SAMPLES; i++) {
        const double start = clock_now();
        gemm_cpu(&g, 1, workspace);
        rate = fmax(rate, flops / (clock_now() - start));
    }
    return rate;
}

double machine_probe_products(const struct problem *p, int local_ranks, const struct machine *m)
{
    const struct gemm g = sample_of(p);
    const size_t bytes = sample_bytes(&g);
    const int threads = m->threads;
    const double online = (double)sysconf(_SC_NPROCESSORS_ONLN);
    const double turns = fmin(1, online / ((double)threads * local_ranks));
    const double flops = 2 * problem_products(p) * (double)p->k / m->ranks;
    void *memory = NULL;
    if (m->gpu || flops < worth_seconds * m->gemm_flops_per_s[p->type] ||
        bytes * (size_t)threads > m->host_memory / 4 ||
        posix_memalign(&memory, ALIGNMENT, bytes * (size_t)threads) != 0)
        return 0;
    double rate = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : rate)
    for (int thread = 0; thread < threads; thread++)
        rate += thread_rate(g, (char *)memory + (size_t)thread * bytes);
    free(memory);
    return turns * rate;
}

/* In coarse steps, so that the plan is mostly the same the next time. */
void machine_see_products(double rate, enum scalar type, struct machine *m)
{
    if (rate <= 0)
        return;
    m->gemm_flops_per_s[type] = exp2(round(8 * log2(rate)) / 8);
    machine_measured(m, &m->gemm_flops_per_s[type]);
}
