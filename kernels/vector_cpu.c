/* combine on the CPU. */
#include "vector.h"

#include <math.h>

#include "cpu_kernel.h"

static bool is_zero(enum scalar type, double x)
{
    return type == SCALAR_FLOAT ? (float)x == 0 : x == 0;
}

void combine_cpu(const struct combine *c, int threads)
{
    const struct cpu_kernel *kernel = &cpu_kernels(0)[c->type];
    int64_t acc_bytes = c->ld_acc * (int64_t)scalar_size(c->type);
    int64_t c0_bytes = c->ld_c0 * (int64_t)scalar_size(c->type);
    bool with_acc = !is_zero(c->type, c->alpha), with_c0 = !is_zero(c->type, c->beta);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < c->rows; i++) {
        char *acc = (char *)c->acc + i * acc_bytes;
        const char *c0 = with_c0 ? (const char *)c->c0 + i * c0_bytes : NULL;
        kernel->combine(c->cols, c->alpha, with_acc ? acc : NULL, c->beta, c0, acc);
    }
}
