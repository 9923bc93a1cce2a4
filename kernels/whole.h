/* What an element of a C of integers is made of (vector.h), on the CPU and on GPUs. */
#pragma once

#include "index_map.h"
#include "vector.h"

/* alpha acc + beta c0, of which neither is read where its factor is 0.  It is computed modulo 2^64,
 * and in doubles to see whether it fits. */
INDEX_MAP int64_t whole_combined(double alpha, double acc, double beta, const int64_t *c0)
{
    const double limit = 0x1.ffffffffffff0p62; /* sums of doubles are a little off */
    const int64_t other = beta != 0 ? *c0 : 0;
    const double about = (alpha != 0 ? alpha * acc : 0) + beta * (double)other;
    uint64_t sum = (uint64_t)(int64_t)beta * (uint64_t)other;
    if (alpha != 0)
        sum += (uint64_t)(int64_t)alpha * (uint64_t)(int64_t)acc;
    return about > limit || about < -limit ? WHOLE_OVERFLOW : (int64_t)sum;
}
