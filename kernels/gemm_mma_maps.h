/* Where the tensor-core kernels keep things, and in which order they compute C.
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
#include <stdint.h>

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

/* The tiles of C along m and n: all, and the whole ones.  Thin are those with at most half of their
 * rows or columns in C, which take half the time at most; all others count as whole. */
struct mma_tiles {
    unsigned m, n, whole_m, whole_n;
};

INDEX_MAP struct mma_tiles mma_tiles_of(int64_t m, int64_t n, int tile_m, int tile_n)
{
    const struct mma_tiles tiles = {
        (unsigned)((m + tile_m - 1) / tile_m),
        (unsigned)((n + tile_n - 1) / tile_n),
        (unsigned)((m + tile_m / 2 - 1) / tile_m),
        (unsigned)((n + tile_n / 2 - 1) / tile_n),
    };
    return tiles;
}

/* The order in which they are computed.  First the whole ones, down the columns of bands of eight
 * rows of tiles, so that those computed at one time make a compact patch and share A and B in the
 * L2; then the thin ones, at the right and at the lower edge. */
INDEX_MAP struct tile_index mma_order(unsigned tile, struct mma_tiles tiles)
{
    const unsigned whole = tiles.whole_m * tiles.whole_n;
    const unsigned lower = whole + tiles.whole_m * (tiles.n - tiles.whole_n);
    struct tile_index at = {tiles.whole_m, tile - lower};
    if (tile < whole) {
        const unsigned above = tile / (8 * tiles.whole_n) * 8, left = tiles.whole_m - above;
        const unsigned height = left < 8 ? left : 8, within = tile - above * tiles.whole_n;
        at.i = above + within % height;
        at.j = within / height;
    } else if (tile < lower) {
        at.i = tile - whole;
        at.j = tiles.whole_n;
    }
    return at;
}

/* Blocks that stay on their multiprocessors take turns at the tiles, in rounds.  In a round without
 * whole tiles a turn takes half the time.  So those of the last round that has any are halved, if
 * that makes no further round: four warps have a multiprocessor's tensor cores to themselves. */
struct mma_schedule {
    struct mma_tiles tiles;
    unsigned whole, halves, turns; /* at whole tiles; then at halves of them; and all */
};

INDEX_MAP struct mma_schedule mma_schedule_of(struct mma_tiles tiles, unsigned blocks)
{
    const unsigned all = tiles.m * tiles.n, whole = tiles.whole_m * tiles.whole_n;
    const unsigned rest = whole % blocks, last = rest + all - whole;
    const bool halve = (last + rest + blocks - 1) / blocks == (last + blocks - 1) / blocks;
    const unsigned halved = halve ? rest : 0;
    const struct mma_schedule work = {tiles, whole - halved, 2 * halved, all + halved};
    return work;
}

/* A turn: the columns of a tile from half `half` on, `halves` of them. */
struct mma_turn {
    struct tile_index tile;
    int half, halves;
};

INDEX_MAP struct mma_turn mma_turn_of(unsigned turn, struct mma_schedule work)
{
    struct mma_turn at = {{0, 0}, 0, 2};
    unsigned tile = turn;
    if (turn >= work.whole + work.halves) {
        tile -= work.halves / 2;
    } else if (turn >= work.whole) {
        tile -= (turn - work.whole + 1) / 2;
        at.half = (int)(turn - work.whole) % 2;
        at.halves = 1;
    }
    at.tile = mma_order(tile, work.tiles);
    return at;
}

#endif
