/* The names of what a run has beside its output, and what output.c and output_check.c share. */
#ifndef DGEMM_OOC_OUTPUT_NAMES_H
#define DGEMM_OOC_OUTPUT_NAMES_H

#include "options.h"

struct error;

/* What a run has beside its output (journal.h, save.h, lock.h). */
enum output_file { PART, JOURNAL, SUMS0, SUMS1, LOCK, BESIDE };

/* False where the name is too long; it is cut then. */
bool output_name(const struct options *options, enum output_file which, char name[PATH_MAX]);

/* As output_name; too long: EXIT_INPUT. */
int output_part_name(const struct options *options, char part[PATH_MAX], struct error *err);

/* Those of them that take room; they go before a new part file comes. */
enum { ROOMY = 3 };
extern const enum output_file output_roomy[ROOMY];

/* The output exists, and nothing allows to replace it: EXIT_INPUT. */
int output_complain_exists(const char *file, struct error *err);

/* What --force removes is a product alone, or nothing: otherwise EXIT_INPUT. */
int output_check_replaced(const struct options *options, struct error *err);

#endif
