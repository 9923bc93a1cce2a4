/* One element of standardize (vector.h), for the GPU and for the CPU, with the same bits. */
#pragma once

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
        x = (x - s->mean[line]) - s->rest[line];
    if (s->deviation)
        x /= s->deviation[line] == 0 ? s->constant : s->deviation[line];
    return x;
}
