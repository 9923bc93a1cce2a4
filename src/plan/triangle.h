/* Symmetric products: op(B) is the transpose of op(A), as in A A^T and A^T A, or the conjugate
 * transpose of a complex one: A A^H, A^H A.
 *
 * (i, j) and (j, i) are sums of the same products in the same order, so they have the same bits,
 * and each is computed once.  (Of complex ones that holds for real parts.  In the sum of an
 * imaginary part each two products have changed places, so that the general product may have other
 * last bits above the diagonal.  There C has the mirrors, however it is cut: struct reflect.)
 *
 * What is left of C (work.h) is one triangle at first, a square on the diagonal.  A triangle that
 * the devices cannot hold at once, or with short slabs only, is halved, into two triangles and the
 * rectangle between them.  A rectangle is a general product below the diagonal, whose tiles are
 * written twice: as they are, and transposed.
 *
 * A triangle is one super-block.  Its rows are cut into as many bands of equal areas as the grid
 * has rows: of side s, band i of P has the rows from about s sqrt(i / P) on, and all columns up to
 * its last row.  Its columns are cut into as many parts of equal areas as the grid has columns.
 * All ranks need parts of the same panel, op(B)'s of the slab, for their columns and, as op(A)'s,
 * for their rows: it is read once, and each device gets what it needs of it.  A tile is multiplied
 * strip by strip, each strip up to its last row's element on the diagonal.  What a strip has beside
 * the square of its own rows is written twice.  Where C is to be the lower half alone
 * (problem.lower), nothing is: of the squares what is above the diagonal is written as 0, and the
 * rest of the upper half not at all.
 *
 * Columns of blocks count parts of complex elements, as in problem.h; sides, edges and heights are
 * rows.  Pure. */
#pragma once

#include "plan.h"

/* The block, in C's upper half, that mirrors one in its lower half, or the other way round; an
 * element has so many columns (problem_width). */
struct block triangle_mirror(const struct block *block, int64_t width);

/* The tile of the rank in that row and column of the grid: its part of a band. */
struct block triangle_tile(const struct problem *p, const struct plan *plan, int row, int col);

/* The highest band of a triangle of that side; of the plan only the grid and `strips` count. */
int64_t triangle_height(int64_t side, const struct plan *plan);

/* Where a triangle is halved: rows of the first half, at least as many as the rest. */
int64_t triangle_half(int64_t side);

/* Columns of the tile that are multiplied for the row `last` of C and those of its strip. */
int64_t triangle_columns(const struct problem *p, const struct block *tile, int64_t last);

/* Elements of a block of C on and below the diagonal; of complex ones each part counts. */
double triangle_area(const struct block *block, int64_t width);
