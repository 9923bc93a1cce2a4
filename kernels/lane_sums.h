/* Sums of the elements of some lines, and of their squares, without any rounding.
 *
 * A line's elements are cut into pieces of PIECE_BITS bits on a grid that follows from the largest
 * of them, by additions that round; products of two pieces and the sums of as many as LANE_ELEMENTS
 * of these are exact in doubles.  What the last piece leaves over says where that does not hold: of
 * lines whose elements spread over more than SUM_PIECES pieces. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scalar.h"

enum {
    SUM_LANES = 8,       /* lines at a time */
    LANE_ELEMENTS = 512, /* of a line at a time */
    SUM_PIECES = 4,
    PIECE_BITS = 22,
    SQUARE_PARTS = 2 * SUM_PIECES - 1,
};

/* Lines of `count` elements, at most LANE_ELEMENTS: `lanes` columns of a matrix, at most SUM_LANES,
 * or, with lanes = 0, one row. */
struct lane_sums {
    const void *from;
    int64_t count;
    int64_t ld; /* elements between rows of a matrix of columns */
    int lanes;
    /* Of each line, or of the row in [0]: whether the rest holds of it; the parts whose sums are
     * the sum of its elements, and of their squares, but for those that are NaN; the largest size
     * of them; how many are NaN. */
    bool exact[SUM_LANES];
    double sum[SUM_LANES][SUM_PIECES], squares[SUM_LANES][SQUARE_PARTS];
    double largest[SUM_LANES];
    int64_t missing[SUM_LANES];
};

/* Fill in what is said of the lines.  Floats or doubles. */
void lane_sums_cpu(enum scalar type, struct lane_sums *sums);
