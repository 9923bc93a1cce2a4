/* What an element of C is made of where sums are integers (vector.h), on the CPU and on GPUs. */
#pragma once

#include "index_map.h"
#include "vector.h"

/* alpha acc + beta c0, where c0 is not read if beta is 0; or INT64_OVERFLOW. */
INDEX_MAP int64_t int64_combined(double alpha, int64_t acc, double beta, const int64_t *c0)
{
    const __int128 sum =
        (__int128)(int64_t)alpha * acc + (beta != 0 ? (__int128)(int64_t)beta * *c0 : 0);
    return sum > INT64_MAX || sum < -INT64_MAX ? INT64_OVERFLOW : (int64_t)sum;
}

/* Likewise, modulo 2^64. */
INDEX_MAP int64_t int64_wrapped(double alpha, int64_t acc, double beta, const int64_t *c0)
{
    const uint64_t other = beta != 0 ? (uint64_t)(int64_t)beta * (uint64_t)*c0 : 0;
    return (int64_t)((uint64_t)(int64_t)alpha * (uint64_t)acc + other);
}
