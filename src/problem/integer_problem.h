/* Products of integers, whose sums are exact. */
#pragma once

#include "problem.h"

/* Make the product one of integers if its operands are, and the options let it be: set its types,
 * or complain: about options that such a product cannot have, alpha and beta, or what they would
 * add to.  False, and no complaint, if it is one of doubles or floats.  `end`: of the operands that
 * are described; the shapes must be set. */
bool integers_choose(const struct options *options, struct problem *p, enum operand end,
                     struct error *err);

/* Where the problem `measures`: complain unless all elements of C fit into int64 when those of A
 * and B have at most such magnitudes. */
int integers_check(const struct problem *p, const uint64_t largest[2], struct error *err);

/* "exact integers: int8 x uint8 -> int64"; empty where sums are rounded (text.h). */
const char *problem_exact_text(const struct problem *p);
