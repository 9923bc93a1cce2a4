/* Names of matrices on the command line: FILE.h5 or FILE.h5:/path, and slices of these, as in
 * slice.h. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "source.h"

struct error;

/* Split `text` into the names of a file and a dataset.  If the whole text names an existing file,
 * it is that file; otherwise the last ":/" separates the two, or the last ":" after the name of an
 * existing file.  Without a separator the dataset is `default_dataset`, with the slice behind the
 * name of an existing file.  Complains (EXIT_USAGE) about names that are empty or too long, about
 * URLs, and about a ~ that no shell has replaced. */
int matname_split(const char *text, const char *default_dataset, char file[PATH_MAX],
                  char dataset[DATASET_NAME_MAX], struct error *err);

/* Whether a file's name ends in one of these, as in ".npy .npz", in letters of either case. */
bool matname_ends(const char *file, const char *endings);

/* Whether a file's name says by its end that it holds another format than HDF5, as .npy does. */
bool matname_is_foreign(const char *file);

/* Complain (EXIT_USAGE) where the name of a file that is to be made, with this dataset, says that,
 * or that it is a folder. */
int matname_check_new(const char *file, const char *dataset, struct error *err);
