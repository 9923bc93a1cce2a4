/* What the file has of an operand, and what is multiplied instead of it: of complex numbers the
 * real matrix that stands for them (problem.h), of small types a larger one (scalar.h).  Pure.
 *
 * Blocks of op(A) and op(B) are transposed here as their files are.  Those of the file count real
 * numbers, as struct matrix does. */
#pragma once

#include "problem.h"

/* Whether what the file has of an operand is not what is multiplied, and has to become that. */
bool embedding_needed(const struct problem *p, enum operand operand);

/* Numbers that the file has for each of op(A), op(B); 1 of an operand that stays as it is. */
double embedding_stored(const struct problem *p, enum operand operand);

/* What the file has for a block of op(A) or op(B), and which block what a file has is for.  Where
 * nothing is embedded they are the same. */
struct block embedding_in_file(const struct problem *p, enum operand operand,
                               const struct block *block);
struct block embedding_of_file(const struct problem *p, enum operand operand,
                               const struct block *stored);

/* How `stored`, a block of the file, becomes the other; the caller sets the matrices and their
 * leading dimensions. */
struct embed embedding_make(const struct problem *p, enum operand operand,
                            const struct block *stored);
