/* What the program writes behind the elements of a .npy file that it makes: the attributes, by
 * which a run resumes and C is checked.  NumPy reads the elements alone. */
#pragma once

#include "format.h"

/* Create the file, as format.h's `create`; the elements are those of no array yet. */
int npy_create(struct source *source, bool new_file, const struct format_layout *layout,
               const struct format_attribute *attributes, struct error *err);

/* What an open file, whose elements are described, says of itself: that it is unfinished, that its
 * one dimension is a packed triangle (matrix.h). */
bool npy_is_unfinished(int descriptor, const struct source *source);
bool npy_is_packed(int descriptor, const struct source *source);

/* As in format.h. */
int npy_get_attributes(const struct source *source, struct format_value *values, struct error *err);
int npy_replace_text(const struct source *source, const char *name, const char *text,
                     struct error *err);
