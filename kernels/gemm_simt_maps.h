/* The shapes of the kernels without tensor cores, and the maps from threads to elements: those of C
 * that a thread computes, and those of A and B that it copies to shared memory.
 *
 * Divisions are unsigned where that takes fewer instructions. */
#pragma once

#include <stdbool.h>

#include "index_map.h"

/* A block computes a tile of tile_m x tile_n elements of C, each thread each_m x each_n of them, in
 * steps of `step` along k. */
struct simt_shape {
    int tile_m, tile_n, each_m, each_n, step;
};

/* Indexed by enum algorithm; unused entries are zero.  For naive to vector, struct gemm selects the
 * shape, by default the first.  async has one shape per enum scalar; tensor, for floats, has large,
 * medium and small tiles. */
enum { SIMT_ALGORITHMS = 6, SIMT_SHAPES = 4 };

INDEX_TABLE struct simt_shape simt_shapes[SIMT_ALGORITHMS][SIMT_SHAPES] = {
    {{32, 8, 1, 1, 1}, {16, 16, 1, 1, 1}, {32, 32, 1, 1, 1}},
    {{32, 32, 1, 1, 16}, {16, 16, 1, 1, 16}, {64, 16, 1, 1, 16}},
    {{64, 64, 4, 4, 16}, {32, 32, 2, 2, 16}, {128, 64, 8, 4, 16}, {128, 128, 8, 8, 16}},
    {{128, 128, 8, 8, 8}, {64, 64, 8, 8, 8}, {128, 64, 8, 8, 8}},
    {{128, 128, 8, 16, 16}, {128, 128, 8, 8, 8}},
    {{128, 256, 8, 16, 8}, {128, 128, 8, 16, 8}, {64, 64, 8, 8, 8}},
};

INDEX_MAP int simt_shape_count(int algorithm)
{
    int count = 0;
    while (algorithm < SIMT_ALGORITHMS && count < SIMT_SHAPES &&
           simt_shapes[algorithm][count].tile_m > 0)
        count++;
    return count;
}

INDEX_MAP int simt_threads(struct simt_shape s)
{
    return s.tile_m / s.each_m * (s.tile_n / s.each_n);
}

/* The tile of a block.  The grid is one-dimensional, down the columns of tiles, since only its
 * first dimension is large enough for every matrix. */
INDEX_MAP struct tile_index simt_tile(unsigned block, unsigned tiles_m)
{
    const struct tile_index at = {block % tiles_m, block / tiles_m};
    return at;
}

/* A thread's elements of C form runs of `run` adjacent ones; the runs of `across` threads
 * interleave.  So a warp reads a row of a piece without bank conflicts, and accesses whole lines of
 * C.  Returns the offset of the thread's element e from its first one, in one dimension. */
INDEX_MAP int simt_offset(int e, int run, int across)
{
    return e / run * run * across + e % run;
}

/* A position in a tile. */
struct simt_place {
    int x, y;
};

/* The corner of part `number` of a tile, where parts of width x height are numbered along m first,
 * `across` in a row: the first runs of threads, or the tiles of warps. */
INDEX_MAP struct simt_place simt_corner(int number, int across, int width, int height)
{
    const unsigned n = (unsigned)number, a = (unsigned)across;
    const struct simt_place at = {(int)(n % a) * width, (int)(n / a) * height};
    return at;
}

/* The lanes of a warp tile, 8 by 4.  Lane ^ 1 is the neighbour along n and reads the same elements
 * of A, lane ^ 2 the neighbour along m and reads the same of B, so that shared memory can broadcast
 * to half a warp at once. */
enum { SIMT_LANES_M = 8, SIMT_LANES_N = 4 };

INDEX_MAP struct simt_place simt_lane(int lane, int run)
{
    const struct simt_place at = {lane / 2 % 8 * run, (lane % 2 + lane / 16 * 2) * run};
    return at;
}

/* A position in a piece of A or B: x along the tile's side, p along k. */
struct piece_place {
    int x, p;
};

/* The first element of run `at` of a side x step piece.  Runs follow the dimension that is
 * contiguous in memory, p if `k_major`, so that global loads are coalesced in all four
 * transpositions. */
INDEX_MAP struct piece_place simt_piece(bool k_major, int side, int step, int run, int at)
{
    const unsigned n = (unsigned)at, line = (unsigned)(k_major ? step : side) / (unsigned)run;
    const int along = (int)(n % line) * run, across = (int)(n / line);
    const struct piece_place place = {k_major ? across : along, k_major ? along : across};
    return place;
}

/* In shared memory a row of a piece holds one p.  Padding at its end spreads a column over all
 * banks: a warp (half a warp for doubles) that stores along k has no bank conflicts.  The wide
 * padding aligns every row to 16 bytes. */
enum { SIMT_PADDING = 8, SIMT_PADDING_WIDE = 16 }; /* bytes */
