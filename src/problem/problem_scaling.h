/* How a problem's matrix is centred and scaled (scaling.h). */
#pragma once

#include "problem.h"

/* As options and attributes have them. */
extern const char *const axis_names[];    /* "none", "rows", "cols" */
extern const char *const missing_names[]; /* "error", "mean", "zero" */

struct scaling_options;

/* Set the problem's scaling, and its alpha where the name of the product says it.  Complains where
 * the product is none of a matrix and its transpose.  Operands, shapes and alpha are set before.
 * `names_b`: the user has named B. */
void scaling_choose(const struct scaling_options *options, bool names_b, struct problem *problem,
                    struct error *err);

/* The lines of that axis: how many there are; whether they are the rows of op(A), whose products C
 * holds, and how many elements each of them has. */
int64_t scaling_lines(const struct problem *p);
bool scaling_lines_are_variables(const struct problem *p);
int64_t scaling_elements(const struct problem *p);

/* Whether its elements minus a shift are multiplied, instead of minus the mean: an element of their
 * line that is about as large as most.  Means, and the deviations that its products are divided by,
 * need to be known only when these are complete (struct recentre): they can be found while A is
 * read for the product. */
bool scaling_shifts(const struct problem *p);

/* Numbers that are kept of each line. */
int scaling_vectors(const struct problem *p);
