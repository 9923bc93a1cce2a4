/* Slices: a part of a dataset as a matrix, by NumPy's basic indexing behind the dataset's name, as
 * in A[0:100, ::2].  Bounds and steps are not negative; None is a dimension of one element. */
#pragma once

#include "source.h"

struct error;

/* The length of a dataset's name before a slice that it ends with; of all of it if there is none.
 * Pure. */
size_t slice_base(const char *name);

/* Find out which elements of a dataset of these extents the source's name stands for, up to
 * SLICE_RANK of them.  Complains (EXIT_INPUT) where that is no matrix.  Pure. */
int slice_parse(struct source *source, int rank, const uint64_t *extents, struct error *err);

/* The same for a packed triangle (matrix.h), which has so many elements, in one dimension.
 * Complains (EXIT_INPUT) where no triangle has. */
int slice_of_packed(struct source *source, uint64_t elements, struct error *err);

/* Let a source that describes all of the dataset describe the matrix: its last dimension was
 * columns, and all others were rows; its chunks have the extents that they have along the two axes.
 * Returns why it cannot be read without the format's library where the dataset can be; else null.
 * Pure. */
const char *slice_place(struct source *source);
