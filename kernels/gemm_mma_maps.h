/* The data layouts of the tensor-core kernels, and the order in which they compute tiles of C.
 *
 * Shared memory.  A piece of an operand is x by p: x along m or n, p along k, 16 steps.  It is
 * stored in rows of 16 doubles (128 bytes, all 32 banks), along the dimension that is contiguous in
 * global memory, so that copies move whole rows and never transpose.
 *     k-major (p contiguous):  row x of the piece holds its 16 p
 *     x-major (x contiguous):  16 rows form a block; its row p holds 16 x; then the next 16 x
 * The 16-byte chunks of a row are swizzled: chunk c is stored at c XOR (row mod 8), which is TMA's
 * 128-byte swizzle.
 *
 * Registers.  In the fragments of the instruction, lane 4 g + t holds A's rows g and g + 8 at p = t
 * and t + 4, and B's column g at p = t and t + 4.  The assignment of matrix rows to rows of the
 * instruction is free.  That of p is not: only in ascending order of p does the instruction give
 * the bits of a loop of fma.  Rows and columns are assigned so that  - a lane's two rows of A are
 * adjacent: one 16-byte load fetches both from an x-major piece.  B is
 *     loaded by 8 bytes, since the instruction needs its two p in consecutive registers;
 *   - there are no bank conflicts for either kind of piece, among the 8 lanes that shared memory
 *     serves at once for 16-byte loads and the 16 lanes for 8-byte loads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "index_map.h"

enum {
    MMA_STEP = 16,        /* doubles along k in one piece */
    MMA_ROW = 128,        /* bytes in a row of shared memory */
    MMA_BLOCK = 16 * 128, /* bytes of 16 x by 16 p, of either kind */
};

/* The byte offset of (x, p) in a piece. */
INDEX_MAP int mma_place(bool k_major, int x, int p)
{
    int row = k_major ? x : x / 16 * 16 + p, column = k_major ? p : x % 16;
    return row * MMA_ROW + (column / 2 ^ row % 8) * 16 + column % 2 * 8;
}

/* A lane's elements of a block of A: row mma_row(lane, h), h = 0, 1, at mma_p(lane, s, i), where
 * s = 0, 1 selects 8 of the 16 steps and i = 0, 1 one of the lane's two in these. */
INDEX_MAP int mma_row(int lane, int h)
{
    const int g = lane / 4;
    return 2 * (g ^ g % 2 * 4) + h;
}

/* A lane's columns of a block of B, h = 0, 1, at the same p.  The two belong to different
 * instructions. */
INDEX_MAP int mma_column(int lane, int h)
{
    const int g0 = lane / 4 % 2, g1 = lane / 8 % 2, g2 = lane / 16;
    return (g0 ^ h) + 2 * g0 + 4 * g1 + 8 * (g1 ^ g2);
}

INDEX_MAP int mma_p(int lane, int s, int i)
{
    return 8 * s + 4 * i + lane % 4;
}

/* The address of such an element has three parts, of which only the first depends on the lane: for
 * x = mma_row and for x = mma_column,
 *     mma_place(k_major, x(lane, h), mma_p(lane, s, i)) = (base ^ mma_flip(k_major, h, s, i))
 *         + mma_skip(k_major, s, i), where base = mma_place(k_major, x(lane, 0), lane % 4)
 * A flip changes address bits below 256 only, so blocks may begin at any multiple of 256 bytes. */
INDEX_MAP int mma_flip(bool k_major, int h, int s, int i)
{
    return k_major ? (4 * s + 2 * i) * 16 ^ h * (MMA_ROW + 16) : 4 * i * 16 ^ h * 8;
}

INDEX_MAP int mma_skip(bool k_major, int s, int i)
{
    return k_major ? 0 : (8 * s + 4 * i) * MMA_ROW;
}

/* The column of element e = 0..3 of a lane's accumulators, in the product of a block of A with half
 * h of a block of B; its row is mma_row(lane, e / 2). */
INDEX_MAP int mma_sum_column(int lane, int h, int e)
{
    return mma_column(4 * (lane % 4 * 2 + e % 2), h);
}

/* The position of a warp tile in a tile with warps_m warp tiles along m.  Warp w runs on
 * sub-partition w % 4 of the SM.  At the edges of C only some warps have work, so the warps of one
 * row of warp tiles are on different sub-partitions, and so are those of the columns 0 and 1, or 2
 * and 3. */
struct mma_part {
    int i, j;
};

INDEX_MAP struct mma_part mma_warp(int warp, int warps_m)
{
    const struct mma_part part = {(warp + warp / 4) % warps_m, warp / warps_m};
    return part;
}

/* The numbers of tiles of C along m and n: all, and whole ones.  A thin tile has at most half of
 * its rows or columns in C and takes at most half the time; all others count as whole. */
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

/* The order in which tiles are computed (rasterisation).  First the whole ones, in bands of eight
 * rows of tiles and down the columns of a band, so that concurrent tiles form a compact patch and
 * share A and B in L2; then the thin ones, at the right and the lower edge. */
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

/* The schedule of persistent blocks: work items (turns) are dealt to the blocks round-robin, in
 * rounds (waves).  A round without whole tiles takes half the time.  So the whole tiles of the last
 * round that has any are split in halves, if that adds no round: the four warps with work then have
 * the SM's tensor cores to themselves. */
struct mma_schedule {
    struct mma_tiles tiles;
    unsigned whole, halves, turns; /* turns: for tiles that stay whole, then for halves; all */
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

/* A turn: `halves` halves of the columns of a tile, from half `half` on. */
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
