/* norm and fill on the CPU.  The shares of norm are those of the GPU, so that the sum does not
 * depend on the number of threads. */
#include <math.h>

#include "vector.h"

static double larger(double x, double y)
{
    return x <= y || isnan(y) ? y : x;
}

static void norm_share(const struct norm *p, int64_t share)
{
    const int64_t across = (p->cols + NORM_PIECE - 1) / NORM_PIECE, pieces = p->rows * across;
    double squares = 0, max = 0;
    for (int64_t piece = share; piece < pieces; piece += NORM_SHARES) {
        const int64_t first = piece % across * NORM_PIECE, at = piece / across * p->ld + first;
        const int64_t count = p->cols - first < NORM_PIECE ? p->cols - first : NORM_PIECE;
        for (int64_t j = 0; j < count; j++) {
            double x = p->type == SCALAR_FLOAT ? (double)((const float *)p->matrix)[at + j]
                                               : ((const double *)p->matrix)[at + j];
            squares += x * x;
            max = larger(fabs(x), max);
        }
    }
    p->shares[share] = squares;
    p->shares[NORM_SHARES + share] = max;
}

void norm_cpu(const struct norm *p, int threads)
{
    double squares = 0, max = 0;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t share = 0; share < NORM_SHARES; share++)
        norm_share(p, share);
    for (int64_t share = 0; share < NORM_SHARES; share++) {
        squares += p->shares[share];
        max = larger(p->shares[NORM_SHARES + share], max);
    }
    *p->sum_squares = squares;
    *p->max_abs = max;
}

void fill_cpu(const struct fill *p, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->cols; j++)
            if (p->type == SCALAR_FLOAT)
                ((float *)p->matrix)[i * p->ld + j] = (float)p->value;
            else
                ((double *)p->matrix)[i * p->ld + j] = p->value;
}
