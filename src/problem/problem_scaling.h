/* How a problem's matrices are centred and scaled (scaling.h). */
#pragma once

#include "problem.h"

/* As options and attributes have them. */
extern const char *const axis_names[];    /* "none", "rows", "cols" */
extern const char *const missing_names[]; /* "error", "mean", "zero" */
extern const char *const product_names[]; /* "", "cov", ... */

struct scaling_options;

/* Whether it is of two matrices, each with means of its own; and whether it centres them. */
bool scaling_is_crossed(enum named_product product);
bool scaling_is_statistic(enum named_product product);

/* Whether A and B may be any two matrices that fit.  Otherwise the product is of one, and its
 * transpose is missing, or B is another matrix. */
bool scaling_is_of_any(const struct scaling_options *options, const struct problem *problem);

/* Set the problem's scaling, and its alpha where the name of the product says it.  Complains where
 * the product has to be of a matrix and its transpose, and is not.  Operands, shapes and alpha are
 * set before.  `names_b`: the user has named B. */
void scaling_choose(const struct scaling_options *options, bool names_b, struct problem *problem,
                    struct error *err);

/* The lines that have means, those of B, where it has its own, behind those of A: how many there
 * are; where those of an operand begin and end; whose a line is; and the block of its matrix that
 * so many lines of it are. */
int64_t scaling_lines(const struct problem *p);
int64_t scaling_first(const struct problem *p, enum operand operand);
int64_t scaling_end(const struct problem *p, enum operand operand);
enum operand scaling_operand(const struct problem *p, int64_t line);
struct block scaling_block(const struct problem *p, int64_t first, int64_t lines);

/* Whether they are the rows of op(A) and the columns of op(B), whose products C holds; and how many
 * elements each of them has. */
bool scaling_lines_are_variables(const struct problem *p);
int64_t scaling_elements(const struct problem *p);

/* Whether elements of both factors minus a shift are multiplied, instead of minus the mean: an
 * element of their line that is about as large as most.  Means, and the deviations that products
 * are divided by, need to be known only when these are complete (struct recentre): they can be
 * found while A and B are read for the product. */
bool scaling_shifts(const struct problem *p);

/* Numbers that are kept of each line. */
int scaling_vectors(const struct problem *p);
