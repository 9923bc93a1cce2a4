/* Names of matrices on the command line: FILE.h5 or FILE.h5:/path. */
#ifndef DGEMM_OOC_MATNAME_H
#define DGEMM_OOC_MATNAME_H

#include <limits.h>

#include "matfile.h"

struct error;

/* Split `text`.  A file that exists under the whole text is meant by it, colons and all; otherwise
 * the last ":/" splits, or a last ":" behind the name of an existing file.  Without a dataset it is
 * `default_dataset`.  Complains (EXIT_USAGE) about names that are empty or too long. */
int matname_split(const char *text, const char *default_dataset, char file[PATH_MAX],
                  char dataset[MATFILE_NAME_MAX], struct error *err);

#endif
