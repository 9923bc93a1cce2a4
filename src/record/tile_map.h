/* The map of C: which rank multiplied which tile, and how close that tile came to the check's
 * limit.  Where there are very many tiles, several of them share a cell, so that the map takes the
 * same memory for any C. */
#pragma once

#include "plan.h"

enum { CELLS_MAX = 4096 };

struct cell {
    struct block block; /* of C */
    int rank;           /* of its first tile; where k is split, the one that adds the products */
    double ratio;       /* the largest difference, as a share of its limit; negative: not checked */
    double not_finite;  /* elements that are NaN or Inf */
};

/* All that this process multiplies, one piece (work.h) after the other.  A tile that failed its
 * check and is multiplied again has a second entry, which is drawn over the first. */
struct tile_map {
    struct cell cells[CELLS_MAX];
    int count;
    int64_t merged; /* tiles along each side of a cell, at most */

    /* The piece at work: */
    struct block block;
    int64_t cell_rows, cell_cols; /* elements of C in a cell; 0: the map has no room for them */
    bool by_rank;                 /* instead, each rank's tile is a cell */
    struct cell *first;
};

/* A piece begins, the first of `left` that remain. */
void tile_map_begin(struct tile_map *map, const struct problem *problem, const struct plan *plan,
                    int left);

/* A tile of this rank was checked. */
void tile_map_judge(struct tile_map *map, const struct block *tile, double ratio,
                    double not_finite);
