/* How a problem's matrix is centred and scaled (standard.h). */
#pragma once

#include "problem.h"

/* Set the problem's standard, and its alpha where the name of the product says it.  Complains where
 * the product is none of a matrix and its transpose.  Operands, shapes and alpha are set before. */
void standard_choose(const struct options *options, struct problem *problem, struct error *err);

/* The lines of that axis: how many there are; whether they are the rows of op(A), whose products C
 * holds, and how many elements each of them has. */
int64_t standard_lines(const struct problem *p);
bool standard_lines_are_variables(const struct problem *p);
int64_t standard_elements(const struct problem *p);
