/* The words of a command line, looked at before argp reads them, which stops at the first that is
 * no option. */
#ifndef DGEMM_OOC_OPTION_WORDS_H
#define DGEMM_OOC_OPTION_WORDS_H

#include <argp.h>
#include <stdbool.h>

struct error;

/* Complain (EXIT_USAGE) of what is no option, and of options without their value or with one that
 * they do not take; leave these out of `words`, which ends with a null pointer.  Sets `given` of
 * each entry of the table that is among the others.  Returns the number of words that stay. */
int option_words_check(const struct argp_option *table, char **words, bool *given,
                       struct error *err);

/* Insertions, deletions and replacements of a character that make one text of the other, of up to
 * 63 characters.  Texts are alike up to OPTION_WORDS_ALIKE of them, and up to half of either's
 * characters; of others the distance is OPTION_WORDS_ALIKE + 1. */
enum { OPTION_WORDS_ALIKE = 3 };
int option_words_distance(const char *a, const char *b);

#endif
