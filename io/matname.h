/* Names of matrices on the command line: FILE.h5 or FILE.h5:/path. */
#pragma once

#include <limits.h>

#include "matfile.h"

struct error;

/* Split `text` into the names of a file and a dataset.  If the whole text names an existing file,
 * it is that file; otherwise the last ":/" separates the two, or the last ":" after the name of an
 * existing file.  Without a separator the dataset is `default_dataset`.  Complains (EXIT_USAGE)
 * about names that are empty or too long, and about URLs. */
int matname_split(const char *text, const char *default_dataset, char file[PATH_MAX],
                  char dataset[MATFILE_NAME_MAX], struct error *err);
