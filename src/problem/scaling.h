/* Centred and scaled products: A is changed, element by element, before it is multiplied:
 * x := (x - mean) / deviation, with the mean and the standard deviation (divisor n - 1) of the
 * element's row or column.  Where op(B) is op(A)'s transpose it is changed with it: a covariance is
 * such a product, and so is a correlation.  In those of two matrices B's lines have means and
 * deviations of their own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vector.h"

/* Of the matrix as its file has it: its first extent counts rows. */
enum axis { AXIS_NONE, AXIS_ROWS, AXIS_COLS };

/* Names that stand for the options of a product; PLAIN: it has none. */
enum named_product {
    PRODUCT_PLAIN,
    PRODUCT_COV,
    PRODUCT_COR,
    PRODUCT_GRAM,
    PRODUCT_CROSS_COV,
    PRODUCT_CROSS_COR,
    PRODUCT_NORMAL
};

/* Plain data. */
struct scaling {
    enum axis
        axis[2];  /* of A and B: whose lines have a mean each; NONE: elements stay as they are */
    bool crossed; /* B's lines are not those of A */
    bool centers, scales;
    enum missing missing; /* what NaN stands for */
};

/* Of its transpose, if it is `turned`. */
static inline enum axis axis_seen(enum axis axis, bool turned)
{
    return axis == AXIS_NONE || !turned ? axis : axis == AXIS_ROWS ? AXIS_COLS : AXIS_ROWS;
}

/* As the options have them. */
static inline enum axis scaling_center(const struct scaling *s)
{
    return s->centers ? s->axis[0] : AXIS_NONE;
}

static inline enum axis scaling_scale(const struct scaling *s)
{
    return s->scales ? s->axis[0] : AXIS_NONE;
}
