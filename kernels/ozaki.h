/* Products in residues: the Ozaki scheme II (Ozaki, Uchino and Imamura, arXiv 2504.08009), on
 * blocks of k of a fixed length.
 *
 * In each block every row of op(A) and column of op(B) is scaled by a power of two and rounded to
 * integers, such that every element of their product is below P / 2 in magnitude (ozaki_scheme.h).
 * That product is exact: N products of matrices of bytes give its residues, and the Chinese
 * remainder theorem the value, which is rounded once, scaled back, and added to C. The scales
 * follow from the data of one row and one block of k alone, and from integers that can be added in
 * any order. So an element's bits depend on its row of op(A), its column of op(B), its C and N, and
 * on nothing else: not on tiles, ranks, threads, the device or the kernel.
 *
 * In a block where a row of op(A) or a column of op(B) is not finite, its elements of C are the
 * running sums of gemm.h instead.
 *
 * Of a complex product (gemm.h), which struct residues tells, op(A) here is the matrix that has
 * each number twice: with l = 0, 1, ... along k its rows 2j and 2j + 1 begin with re, -im and
 * im, re for each l, columns of op(B) with re, im, and rows 2j and 2j + 1 of C are the real and the
 * imaginary part.  What is computed is the product of these real matrices, whatever the device.  A
 * GPU takes two products of bytes for each modulus, of m / 2 x n x k / 2, where real numbers take
 * one of m x n x k. m and k are even. */
#pragma once

#include <stddef.h>

#include "gemm.h"
#include "residues.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Steps of k of a block.  Blocks begin at multiples of it, counted from the product's first step:
 * so must calls.  A sum of OZAKI_BLOCK products of two residues is at most 2^27. */
enum { OZAKI_BLOCK = 8192 };

/* How to multiply, and where. */
struct ozaki {
    const struct residues *residues;
    /* Of the products of bytes, on a GPU (kernel.h); null: the fastest one there.  All give the
     * same bits. */
    const struct kernel *kernel;
    void *workspace; /* memory of the device, at a multiple of 256 */
    size_t bytes;    /* on a GPU at least ozaki_workspace for one tile; else ozaki_cpu_workspace */
    int64_t cols;    /* the most columns of C in any call that shares the workspace */
    /* op(A) is that of the call before, unchanged and in the same memory: what the workspace holds
     * of it is used again. */
    bool same_a;
    bool leaves_room; /* as in struct gemm */
    /* On a GPU: where to count, on the device, columns of residues whose sum with random signs from
     * `seed` is not that of the operands' residues.  Null: nowhere. */
    unsigned long long *wrong;
    uint64_t seed;
};

/* The number of moduli with which errors are no larger than those of running sums of the type,
 * where elements are alike in size.  Those of complex products are smaller. */
static inline int ozaki_moduli(enum scalar type, bool complex)
{
    return (type == SCALAR_FLOAT ? 7 : 14) + complex;
}

/* What a GPU multiplies at a time is a part of C, of whole tiles. */
enum { OZAKI_TILE = 128 };

/* Bytes for parts of rows x cols elements of C, in blocks of `steps` steps, rounded up to
 * OZAKI_TILE each: scales of rows of op(A) and columns of op(B), and for each modulus a byte for
 * each element of op(A), op(B) and C, and what checks them.  Of complex products rows and steps are
 * rounded up to two tiles, and each number is two bytes. */
size_t ozaki_workspace(int moduli, bool complex, int64_t rows, int64_t cols, int64_t steps);

/* Rows and columns, multiples of OZAKI_TILE, of parts of an m x n C for which a workspace of so
 * many bytes suffices: such that op(A) and op(B) are converted as few times as possible.  Rows of
 * complex products are multiples of two tiles. */
struct ozaki_part {
    int64_t rows, cols;
};
struct ozaki_part ozaki_part(int moduli, bool complex, size_t bytes, int64_t m, int64_t n,
                             int64_t k);

/* The bound on the error of a row of a product, by the 2-norms of its row of op(A) and of op(B),
 * but for the rounding of sums of blocks.  Pure. */
double ozaki_error(const struct residues *residues);

/* The bound on the whole error over k steps, in units of roundoff of the type: each sum of blocks
 * is rounded to it once, and is at most |a| |B| (freivalds_judge.h).  Pure. */
double ozaki_proven(const struct residues *residues, enum scalar type, int64_t k);

/* The shift (ozaki_scheme.h) of a row of op(A) or a column of op(B) with these elements in a block
 * of k; *finite: whether they are.  Pure. */
int ozaki_row_shift(const struct residues *residues, const double *elements, int64_t count,
                    bool *finite);

/* Bytes that ozaki_cpu works in. */
size_t ozaki_cpu_workspace(void);

/* C := op(A) op(B) + beta C on up to `threads` threads, where alpha is 1 and beta 0 or 1.  It
 * multiplies the integers as they are, of up to 63 bits: for checking, not for speed.  Blocking. */
void ozaki_cpu(const struct gemm *g, const struct ozaki *o, int threads);

#ifdef __cplusplus
}
#endif
