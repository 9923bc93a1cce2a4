/* The words of a command line, checked before argp reads them: argp stops at the first error, and
 * does not propose the option that was meant. */
#ifndef DGEMM_OOC_OPTION_WORDS_H
#define DGEMM_OOC_OPTION_WORDS_H

#include <argp.h>
#include <stdbool.h>

struct error;

/* Complain (EXIT_USAGE) about what is not an option, and about options without their value or with
 * one that they do not take, and remove these from `words`, which ends with a null pointer.  Sets
 * `given` for each entry of the table that is among the others.  Returns the number of words that
 * stay. */
int option_words_check(const struct argp_option *table, char **words, bool *given,
                       struct error *err);

/* The option whose name a misspelt one is most like; null where none is like it. */
const struct argp_option *option_words_nearest(const struct argp_option *table, const char *name);

#endif
