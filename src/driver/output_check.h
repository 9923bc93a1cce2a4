/* What would keep an output from being written, found before anything is touched.  Rank 0 alone
 * calls this. */
#pragma once

#include "file_names.h"
#include "options.h"
#include "problem.h"

/* What follows the name of C in that of its deviations. */
#define OUTPUT_DEVIATION "_deviation"
#define OUTPUT_DEVIATION_B OUTPUT_DEVIATION "_b"
#define OUTPUT_INNER "_ab"

/* What an earlier run has left to resume from: a part file, which has its space, under its own name
 * or under that of the output. */
enum left_part { LEFT_NOTHING, LEFT_PART, LEFT_MISPLACED };

/* Complain about everything that would keep the output and what is written beside it from being
 * written: it exists, it is an input, its directory is missing or not writable, there is too little
 * space.  `p`: null where the operands could not be described. */
int output_check(const struct file_names *names, const struct options *options,
                 const struct problem *p, enum left_part left, struct error *err);

/* Complain (EXIT_RESOURCES) where the directory of C has too little space for it. */
void output_check_room(const struct file_names *names, const struct problem *p, struct error *err);

/* Complain unless C's name has room for those of means and deviations, where there are some. */
int output_check_dataset(const struct options *options, const struct problem *p, struct error *err);

/* Complain about the names of report, trace and page: where they would replace an input, the
 * output, a file of the run or each other, and where they cannot be written. */
int output_check_beside(const struct file_names *names, const struct options *options,
                        const struct problem *p, struct error *err);

/* Complain (EXIT_INPUT) that the output exists and that no option allows to replace it.
 * `compared`: it is known to be another product. */
int output_complain_exists(const char *file, bool compared, struct error *err);

/* Complain (EXIT_INPUT) where --force would remove more than a product.  A link is only a name. */
int output_check_replaced(const struct options *options, struct error *err);
