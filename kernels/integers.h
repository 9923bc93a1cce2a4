/* Exact products of integers of 8, 16 and 32 bits.
 *
 * A number is its bytes times powers of 256, of which only the highest one may be negative: each is
 * a plane.  Planes are multiplied as bytes, in blocks of k whose sums fit into 32 bits, and the
 * sums of all blocks and pairs of planes, times their powers of 256, are added to C in 64 bits,
 * modulo 2^64.  So C is the product modulo 2^64, which is the product where that fits into an
 * int64; it depends on no order: not on tiles, ranks, threads, the device or the kernel. */
#pragma once

#include "gemm.h"
#include "ozaki.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Steps of k of a block: sums of so many products of two bytes are below 2^31. */
enum { INTEGERS_BLOCK = 32768 };

/* How to multiply, and where.  Elements of C are int64, whatever struct gemm has as its type. */
struct integers {
    enum scalar a, b;            /* the elements of op(A), of op(B) */
    const struct kernel *kernel; /* as in struct ozaki */
    void *workspace;             /* memory of the device, at a multiple of 256 */
    size_t
        bytes; /* on a GPU at least integers_workspace for one tile; else integers_cpu_workspace */
    int64_t cols; /* the most columns of C in any call that shares the workspace */
    /* So many lines of op(A), its rows, are the first ones of the call before, unchanged and in the
     * same memory: what the workspace holds of them is used again. */
    int64_t held;
    bool leaves_room; /* as in struct gemm */
};

static inline int integers_planes(enum scalar type)
{
    return (int)scalar_size(type);
}

/* Whether a plane's bytes are signed: the highest one's of a signed type. */
static inline bool integers_signed(enum scalar type, int plane)
{
    return scalar_is_signed(type) && plane == integers_planes(type) - 1;
}

/* Bytes for the planes of rows x `steps` elements of op(A) and cols x steps of op(B), each rounded
 * up to OZAKI_TILE. */
size_t integers_workspace(enum scalar a, enum scalar b, int64_t rows, int64_t cols, int64_t steps);

/* Rows and columns of parts of an m x n C, multiples of OZAKI_TILE, and steps of k of their planes
 * for which a workspace of so many bytes and a grid of blocks suffice: all of k if it can be, or
 * else whole blocks. */
struct integers_part {
    int64_t rows, cols, steps;
};
struct integers_part integers_part(enum scalar a, enum scalar b, size_t bytes, int64_t m, int64_t n,
                                   int64_t k);

/* Bytes that integers_cpu works in: no more than `most`, if that is 64 KiB or more for each byte of
 * the wider one's elements. */
size_t integers_cpu_workspace(enum scalar a, enum scalar b, size_t most);

/* C := op(A) op(B) + beta C on up to `threads` threads, where alpha is 1 and beta 0 or 1.
 * Blocking. */
void integers_cpu(const struct gemm *g, const struct integers *how, int threads);

#ifdef __cplusplus
}
#endif
