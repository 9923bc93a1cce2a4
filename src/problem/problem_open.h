/* From the options and the files to the problem. */
#pragma once

#include "problem.h"

/* Describe the operands and check that they fit together.  Complains about everything that is wrong
 * at once.  Reads files; not collective.  The problem refers to `sources`, which stay the
 * caller's. */
int problem_open(const struct options *options, struct source sources[OPERAND_COUNT],
                 struct problem *problem, struct error *err);
