/* The words of a command line, as the options of a table of argp's.  argp itself would stop at the
 * first error, and does not propose the option that was meant; it only prints help here. */
#pragma once

#include <argp.h>

struct error;

/* An option that is given, and its value, or null where it takes none; or, with a null option, an
 * argument. */
typedef void option_take(const struct argp_option *option, char *value, void *context);

/* Give `take` all options and arguments among `words`, which ends with a null pointer, in their
 * order.  Complains (EXIT_USAGE) about what is not an option, and about options without their value
 * or with one that they do not take. */
void option_words(const struct argp_option *table, char **words, option_take *take, void *context,
                  struct error *err);

/* The option whose name a misspelt one is most like; null where none is like it. */
const struct argp_option *option_words_nearest(const struct argp_option *table, const char *name);
