/* The map of C: which rank multiplied which tile, and how well it passed its check.  Of very many
 * tiles several make one cell, so that the memory is the same for any C. */
#ifndef DGEMM_OOC_TILES_H
#define DGEMM_OOC_TILES_H

#include "plan.h"

enum { CELLS_MAX = 4096 };

struct cell {
    struct block block; /* of C */
    int rank;           /* of its first tile; where k is split, the one that adds the products */
    double ratio;       /* the largest difference, as a share of its limit; negative: not checked */
    double not_finite;  /* elements that are NaN or Inf */
};

/* All that this process multiplies, one piece (work.h) after the other; a tile that failed its
 * check comes again, over the first one. */
struct tiles {
    struct cell cells[CELLS_MAX];
    int count;
    int64_t merged; /* tiles along each side of a cell, at most */

    /* The piece at work: */
    struct block block;
    int64_t cell_rows, cell_cols; /* of C in a cell; 0: there was no room for its cells */
    struct cell *first;
};

/* A piece begins, one of so many that are left. */
void tiles_begin(struct tiles *tiles, const struct problem *problem, const struct plan *plan,
                 int left);

/* A tile of this rank was checked. */
void tiles_judge(struct tiles *tiles, const struct block *tile, double ratio, double not_finite);

#endif
