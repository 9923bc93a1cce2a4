/* Options that the environment gives: DGEMM_OOC_GPU_MEMORY=6G is --gpu-memory=6G. */
#ifndef DGEMM_OOC_ENVIRONMENT_H
#define DGEMM_OOC_ENVIRONMENT_H

#include <argp.h>
#include <stdbool.h>

struct error;

enum { ENVIRONMENT_NAME = 64 };

/* The variable of the option of that name. */
const char *environment_variable(const char *option, char variable[ENVIRONMENT_NAME]);

/* The options of the table that the environment gives and the command line does not (`given`, of
 * each entry), each as one word for argp; the caller owns them and has room for as many as the
 * table has.  Returns their number.
 *
 * An empty variable gives none.  Options that only print something, of group -1, are not taken:
 * site modules set DGEMM_OOC_VERSION and the like for themselves.  Complains (EXIT_USAGE) of a
 * switch that is neither on nor off, and of other variables with the prefix, but for those of tests
 * (DGEMM_OOC_TEST_...) and of modules. */
int environment_words(const struct argp_option *table, const bool *given, char **words,
                      struct error *err);

#endif
