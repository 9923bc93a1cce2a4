/* Symmetric products: op(B) is the transpose of op(A), as in A A^T and A^T A.
 *
 * (i, j) and (j, i) are sums of the same products in the same order, so they have the same bits,
 * and each is computed once.  What is left of C (work.h) is one triangle at first, a square on the
 * diagonal.  A triangle that the devices cannot hold at once, or with short slabs only, is halved,
 * into two triangles and the rectangle between them.  A rectangle is a general product below the
 * diagonal, whose tiles are written twice: as they are, and transposed.
 *
 * A triangle is one super-block.  Its rows are cut into bands of equal areas, one for each rank: of
 * side s, rank i of N has the rows from about s sqrt(i / N) on, and all columns up to its last row.
 * All ranks need the same panel of op(B), of which their panels of op(A) are parts: it is read
 * once, for rows and columns, and each device gets as much of it as its band is wide.  A band is
 * multiplied strip by strip, each strip up to its last row's element on the diagonal.  What a strip
 * has left of the square of its own rows is written twice.
 *
 * Pure. */
#pragma once

#include "plan.h"

/* The first row of a rank's band in a triangle of that side; the side where rank is ranks. */
int64_t triangle_edge(int64_t side, int ranks, int rank);

/* A rank's band: its tile (schedule.h). */
struct block triangle_band(const struct problem *p, const struct plan *plan, int rank);

/* The highest band of a triangle. */
int64_t triangle_height(int64_t side, int ranks);

/* Where a triangle is halved: rows of the first half, at least as many as the rest. */
int64_t triangle_half(int64_t side);

/* Columns of the tile that are multiplied for the row `last` of C and those above it. */
int64_t triangle_columns(const struct block *tile, int64_t last);

/* Elements of those rows on and below the diagonal. */
double triangle_area(const struct problem *p, const struct block *rows);
