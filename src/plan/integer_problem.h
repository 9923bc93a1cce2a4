/* Products of integers, whose sums are exact. */
#pragma once

#include "problem.h"

/* Make the product one of integers if its operands are, and the options let it be: set its types,
 * or complain about what would not fit and about alpha and beta.  False, with nothing changed, if
 * it is none. `end`: of the operands that are described; the shapes must be set. */
bool integers_choose(const struct options *options, struct problem *p, enum operand end,
                     struct error *err);
