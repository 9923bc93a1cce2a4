/* Where the tensor-core kernels keep things.
 *
 * In shared memory.  A piece of an operand is x by p: x along m or n, p along k, 16 deep.  It is
 * stored in rows of 16 doubles (128 bytes, once around the banks), along whichever of the two is
 * contiguous in global memory: so copies move whole rows, and never transpose.
 *     deep (p contiguous):  row x of the piece holds its 16 p
 *     wide (x contiguous):  16 rows make a block, the row of p holds 16 x; then the next 16 x
 * The 16-byte chunks of a row are swizzled: chunk c lies at c XOR (row mod 8).  This is also what
 * TMA calls the 128-byte swizzle.
 *
 * In registers.  For the instruction, lane 4 g + t of a warp holds of A the rows g and g + 8 at
 * p = t and t + 4, and of B column g at p = t and t + 4.  Which row of the matrix stands behind a
 * row of the instruction is our choice, and p is not: in ascending order of p the instruction adds
 * the same products as a loop of fma would, bit for bit.  Rows and columns are chosen so that
 *   - a lane's two rows of A are neighbours: one 16-byte load brings both from a wide piece.  B is
 *     loaded by 8 bytes, since the instruction wants its two p side by side in registers;
 *   - the lanes that shared memory serves at once, 8 for a 16-byte and 16 for an 8-byte load, meet
 *     every bank once, for pieces of both kinds. */
#ifndef DGEMM_OOC_GEMM_MMA_MAPS_H
#define DGEMM_OOC_GEMM_MMA_MAPS_H

#include <stdbool.h>

#include "index_map.h"

enum {
    MMA_STEP = 16,        /* doubles along k in one piece */
    MMA_ROW = 128,        /* bytes in a row of shared memory */
    MMA_BLOCK = 16 * 128, /* bytes of 16 x by 16 p, of either kind */
};

/* The byte at which a piece holds (x, p). */
INDEX_MAP int mma_place(bool deep, int x, int p)
{
    int row = deep ? x : x / 16 * 16 + p, column = deep ? p : x % 16;
    return row * MMA_ROW + (column / 2 ^ row % 8) * 16 + column % 2 * 8;
}

/* What a lane holds of a block of A: the rows of half h = 0, 1, at p of eighth s = 0, 1 and index
 * i = 0, 1. */
INDEX_MAP int mma_row(int lane, int h)
{
    const int g = lane / 4;
    return 2 * (g ^ g % 2 * 4) + h;
}

/* And of a block of B: the columns of half h.  The halves belong to two instructions. */
INDEX_MAP int mma_column(int lane, int h)
{
    const int g0 = lane / 4 % 2, g1 = lane / 8 % 2, g2 = lane / 16;
    return (g0 ^ h) + 2 * g0 + 4 * g1 + 8 * (g1 ^ g2);
}

INDEX_MAP int mma_p(int lane, int s, int i)
{
    return 8 * s + 4 * i + lane % 4;
}

/* Their addresses in three parts, of which only the first depends on the lane: for x = mma_row
 * and for x = mma_column,
 *     mma_place(deep, x(lane, h), mma_p(lane, s, i)) = (base ^ mma_flip(deep, h, s, i))
 *         + mma_skip(deep, s, i), where base = mma_place(deep, x(lane, 0), lane % 4)
 * A flip stays within two rows, so blocks may begin at any multiple of 256 bytes. */
INDEX_MAP int mma_flip(bool deep, int h, int s, int i)
{
    return deep ? (4 * s + 2 * i) * 16 ^ h * (MMA_ROW + 16) : 4 * i * 16 ^ h * 8;
}

INDEX_MAP int mma_skip(bool deep, int s, int i)
{
    return deep ? 0 : (8 * s + 4 * i) * MMA_ROW;
}

/* Element e = 0..3 of a lane's sums, in the product of A's block with half h of B's, stands in row
 * mma_row(lane, e / 2) and in this column. */
INDEX_MAP int mma_sum_column(int lane, int h, int e)
{
    return mma_column(4 * (lane % 4 * 2 + e % 2), h);
}

/* The part of a tile that a warp computes, where warps_m parts make a column.  Warp w runs on
 * quarter w % 4 of a multiprocessor.  At the edges of C only some have work, so the warps of one
 * row of parts are on different quarters, and so are those of the columns 0 and 1, or 2 and 3. */
struct mma_part {
    int i, j;
};

INDEX_MAP struct mma_part mma_warp(int warp, int warps_m)
{
    const struct mma_part part = {(warp + warp / 4) % warps_m, warp / warps_m};
    return part;
}

/* The tiles of C in the order in which they are computed: down the columns of bands of eight rows
 * of tiles, so that those computed at one time make a compact patch and share A and B in the L2. */
INDEX_MAP struct tile_index mma_order(unsigned tile, unsigned tiles_m, unsigned tiles_n)
{
    const unsigned band = tile / (8 * tiles_n), above = 8 * band;
    const unsigned height = tiles_m - above < 8 ? tiles_m - above : 8;
    const unsigned within = tile - above * tiles_n;
    const struct tile_index at = {above + within % height, within / height};
    return at;
}

#endif
