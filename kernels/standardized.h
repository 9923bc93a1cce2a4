/* One element of standardize and of recentre (vector.h), for the GPU and for the CPU, with the same
 * bits. */
#pragma once

#include <math.h>

#include "vector.h"

#ifdef __CUDACC__
#define STANDARDIZED __device__ __forceinline__
#else
#define STANDARDIZED static inline
#endif

/* `line`: its row or column. */
STANDARDIZED double standardized(const struct standardize *s, double x, int64_t line)
{
    const bool is_mean = x != x && s->missing == MISSING_MEAN;
    if (x != x && s->missing != MISSING_ERROR)
        x = 0;
    if (s->mean && !is_mean)
        x -= s->mean[line];
    if (s->rest && !is_mean)
        x -= s->rest[line];
    if (s->deviation)
        x /= s->deviation[line] == 0 ? s->constant : s->deviation[line];
    return x;
}

STANDARDIZED double recentred(const struct recentre *r, double sum, int64_t row, int64_t col)
{
    const double x = fma(-r->count, r->row_offset[row] * r->col_offset[col], sum);
    if (!r->row_deviation)
        return x;
    const double deviations = r->row_deviation[row] * r->col_deviation[col];
    return deviations == 0 ? NAN : x / deviations;
}
