/* Options that the environment gives: DGEMM_OOC_GPU_MEMORY=6G is --gpu-memory=6G. */
#pragma once

#include <stdbool.h>

#include "option_words.h"

enum { ENVIRONMENT_NAME = 64 };

/* Write the name of the variable that gives an option.  Returns `variable`. */
const char *environment_variable(const char *option, char variable[ENVIRONMENT_NAME]);

/* Give `take` the options that the environment gives and the command line does not.  `given` states
 * for each entry of the table whether the command line gives it.
 *
 * An empty variable gives no option.  Options that only print something, of group -1, are not
 * taken: site modules set DGEMM_OOC_VERSION and the like for themselves.  Complains (EXIT_USAGE)
 * about a switch that is neither on nor off, and about other variables with the prefix, except
 * those of tests (DGEMM_OOC_TEST_...) and of modules. */
void environment_options(const struct argp_option *table, const bool *given, option_take *take,
                         void *context, struct error *err);
