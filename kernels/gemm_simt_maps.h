/* The shapes of the kernels without tensor cores, and who does what in a block of such a shape: the
 * elements of C that a thread computes, and those of A and B that it brings to shared memory.
 *
 * What is divided is unsigned where that takes fewer instructions. */
#ifndef DGEMM_OOC_GEMM_SIMT_MAPS_H
#define DGEMM_OOC_GEMM_SIMT_MAPS_H

#include <stdbool.h>

#include "index_map.h"

/* A block computes tile_m x tile_n elements of C, a thread each_m x each_n of these, and pieces of
 * A and B are `step` along k. */
struct simt_shape {
    int tile_m, tile_n, each_m, each_n, step;
};

/* By enum algorithm, unused ones zero.  Naive to vector run in any of theirs (struct gemm), in the
 * first unless asked; async goes by enum scalar, and tensor, for floats, from large to small. */
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

/* The tile of a block.  The grid is one row of blocks, down the columns of tiles, since only its
 * first dimension is large enough for every matrix. */
INDEX_MAP struct tile_index simt_tile(unsigned block, unsigned tiles_m)
{
    const struct tile_index at = {block % tiles_m, block / tiles_m};
    return at;
}

/* A thread's elements of C come in runs of `run` neighbours; `across` threads put their runs side
 * by side, then comes their next run.  So a warp reads a row of a piece without bank conflicts, and
 * touches whole lines of C.  This is element e, counted from the thread's first, in one
 * dimension. */
INDEX_MAP int simt_offset(int e, int run, int across)
{
    return e / run * run * across + e % run;
}

/* A place in a tile. */
struct simt_place {
    int x, y;
};

/* The corner of part number `number`, where parts of width x height lie in rows of `across` along
 * m: the first runs of threads, or what warps compute. */
INDEX_MAP struct simt_place simt_corner(int number, int across, int width, int height)
{
    const unsigned n = (unsigned)number, a = (unsigned)across;
    const struct simt_place at = {(int)(n % a) * width, (int)(n / a) * height};
    return at;
}

/* Where warps compute compact parts: the lanes are 8 by 4.  Lane ^ 1 is a lane's neighbour along n
 * and reads the same of A, lane ^ 2 its neighbour along m and reads the same of B: so shared memory
 * serves half a warp at once. */
enum { SIMT_LANES_M = 8, SIMT_LANES_N = 4 };

INDEX_MAP struct simt_place simt_lane(int lane, int run)
{
    const struct simt_place at = {lane / 2 % 8 * run, (lane % 2 + lane / 16 * 2) * run};
    return at;
}

/* A place in a piece of A or B: x along the tile's side, p along k. */
struct piece_place {
    int x, p;
};

/* Run number `at` of a piece that is side x step: runs follow whichever index is contiguous in
 * memory, p if `deep`, so that consecutive threads read consecutive memory in all four
 * transpositions. */
INDEX_MAP struct piece_place simt_piece(bool deep, int side, int step, int run, int at)
{
    const unsigned n = (unsigned)at, line = (unsigned)(deep ? step : side) / (unsigned)run;
    const int along = (int)(n % line) * run, across = (int)(n / line);
    const struct piece_place place = {deep ? across : along, deep ? along : across};
    return place;
}

/* A piece lies in shared memory k major.  Its rows end in padding, which spreads a column over all
 * banks: a warp (half a warp for doubles) that walks along k meets no bank twice.  With the wide
 * one every row starts on a multiple of 16 bytes. */
enum { SIMT_PADDING = 8, SIMT_PADDING_WIDE = 16 }; /* bytes */

#endif
