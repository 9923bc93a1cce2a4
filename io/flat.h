/* Elements that lie in a file one behind the other, behind something else: what the formats of such
 * files have in common. */
#pragma once

#include "format.h"

/* Set the type by NumPy's name, "<f8": the order of bytes, which is this computer's if it is not
 * said, the kind, and the bytes of an element.  False: it is none that is read. */
bool flat_set_type(struct source *source, const char *type);

/* NumPy's name of a type that flat_set_type knows, without the order. */
const char *flat_type(enum scalar elements, bool complex);

/* The elements begin at `offset`: rows and columns are set, and then the type.  `fortran`: in
 * Fortran's order.  Complains (EXIT_INPUT) if the open file ends before they do. */
int flat_place(struct source *source, int descriptor, uint64_t offset, bool fortran,
               struct error *err);

/* Describe the slice that the dataset's name says, or all of it, once that is placed: of an array
 * of these extents, whose last ones were columns, and all others rows.  In Fortran's order it has
 * two. */
int flat_slice(struct source *source, int rank, const uint64_t *extents, struct error *err);
