/* Products of planes of bytes, whose sums go to an output: to residues (ozaki_product.cuh), or to
 * C.  Kernels are templates of the output, whose member put() gets four sums of neighbours in a
 * column of C; that of wgmma has a function for each output instead. */
#pragma once

#include <type_traits>

#include "cuda_launch.h"
#include "integers.h"

/* Planes of op(A), of m lines, and of op(B), of n lines, with the bytes of k steps one behind the
 * other.  Lines begin at multiples of 16 bytes.  What is beyond m, n and k counts as 0; dp4a, and
 * all kernels of residues, want them to be multiples of OZAKI_TILE. */
struct byte_planes {
    int64_t m, n, k;
    const int8_t *a, *b;
    int64_t pitch_a, pitch_b; /* bytes from one line to the next */
    int count;                /* of planes that are multiplied, one behind the other */
    bool signed_a, signed_b;

    __host__ __device__ __forceinline__ const int8_t *line_a(int64_t plane, int64_t line) const
    {
        return a + (plane * m + line) * pitch_a;
    }

    __host__ __device__ __forceinline__ const int8_t *line_b(int64_t plane, int64_t line) const
    {
        return b + (plane * n + line) * pitch_b;
    }
};

/* Sums times 2^shift to C, m x n, modulo 2^64. */
struct sums_out {
    uint64_t *c;
    int64_t ldc, m, n;
    int shift;
    bool add; /* to what is there */

    __device__ __forceinline__ uint64_t shifted(int sum) const
    {
        return (uint64_t)(int64_t)sum << shift;
    }

    __device__ __forceinline__ void put_one(int64_t column, int64_t row, int sum) const
    {
        uint64_t *at = c + column * ldc + row;
        if (row < m && column < n)
            *at = shifted(sum) + (add ? *at : 0);
    }

    __device__ __forceinline__ void put(int, int64_t column, int64_t row, const int sums[4]) const
    {
#pragma unroll
        for (int e = 0; e < 4; e++)
            put_one(column, row + e, sums[e]);
    }
};

/* Call `start` with whether bytes of op(A), and of op(B), are signed, as constants. */
template <class START>
static cudaError_t with_signs(const byte_planes &planes, const START &start)
{
    const std::true_type yes;
    const std::false_type no;
    if (planes.signed_a)
        return planes.signed_b ? start(yes, yes) : start(yes, no);
    return planes.signed_b ? start(no, yes) : start(no, no);
}
