/* What the online check (check.h) takes, and how often it compares.  Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel.h"
#include "problem.h"

/* Classes for so many columns of a tile: one where sums are exact. */
int check_classes(const struct problem *p, int64_t cols);

/* Whether the check of tiles of so many columns goes by the peaks of their sums (gemm.h). */
bool check_has_peaks(enum algorithm algorithm, enum scalar type, int64_t cols);

/* Steps of k after which the sums of the product, which `p` may be a part of, are compared in tiles
 * of so many columns. */
int64_t check_group_steps(const struct problem *p, int64_t cols, bool has_peaks);

/* How often an element is rounded in so many steps of k.  Kernels that do not keep one `running`
 * sum add to C once more for each slab. */
double check_roundings(const struct problem *p, bool running, int64_t steps, int64_t slabs);

/* Groups of steps that a slab can have, at most. */
size_t check_parts(int64_t slab);

/* Passes over the columns of a slab, each of which goes on from the one before. */
int check_passes(const struct problem *p);

/* Bytes of device memory, and of pinned host memory, that tiles and slabs of this size need. */
size_t check_device_bytes(const struct problem *p, int64_t tile_rows, int64_t tile_cols,
                          int64_t slab, bool has_peaks);
size_t check_host_bytes(int64_t tile_rows, int64_t tile_cols);

/* The room of their peaks, in doubles. */
size_t check_peak_numbers(int64_t rows, int64_t cols);

/* Numbers that a judged tile of so many rows comes to: of residues that are wrong, then verdicts
 * and two counts. */
size_t check_verdicts(int64_t rows);
