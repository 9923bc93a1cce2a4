/* Centred and scaled symmetric products: their matrix is changed, element by element, before it is
 * multiplied: x := (x - mean) / deviation, with the mean and the standard deviation (divisor n - 1)
 * of the element's row or column.  A covariance is such a product, and so is a correlation. */
#pragma once

#include <stdint.h>

#include "vector.h"

struct error;
struct options;
struct problem;

/* Of the matrix as its file has it: its first extent counts rows. */
enum axis { AXIS_NONE, AXIS_ROWS, AXIS_COLS };
extern const char *const axis_names[];    /* "none", "rows", "cols" */
extern const char *const missing_names[]; /* "error", "mean", "zero" */

/* Names that stand for the options of a product; PLAIN: it has none. */
enum named_product { PRODUCT_PLAIN, PRODUCT_COV, PRODUCT_COR, PRODUCT_GRAM };

/* Plain data. */
struct standard {
    enum axis axis; /* whose lines have a mean each; NONE: elements stay as they are */
    bool centers, scales;
    enum missing missing; /* what NaN stands for */
};

/* As the options have them. */
static inline enum axis standard_center(const struct standard *s)
{
    return s->centers ? s->axis : AXIS_NONE;
}

static inline enum axis standard_scale(const struct standard *s)
{
    return s->scales ? s->axis : AXIS_NONE;
}

/* Set the problem's standard, and its alpha where the name of the product says it.  Complains where
 * the product is none of a matrix and its transpose.  Operands, shapes and alpha are set before. */
void standard_choose(const struct options *options, struct problem *problem, struct error *err);

/* The lines of that axis: how many there are; whether they are the rows of op(A), whose products C
 * holds, and how many elements each of them has. */
int64_t standard_lines(const struct problem *p);
bool standard_lines_are_variables(const struct problem *p);
int64_t standard_elements(const struct problem *p);
