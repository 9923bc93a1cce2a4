/* Panels of A and B on their way from slots to the device: into rings of buffers, which hold either
 * a few of them or those of all slabs, for the next tile in the same row or column of C. */
#ifndef DGEMM_OOC_PANELS_H
#define DGEMM_OOC_PANELS_H

#include "run.h"

/* Make the panels of B and A for one slab of a tile the current ones, with `a_rows` of A's for now;
 * `before`: the tile before.  Waits for slots and for buffers. */
int panels_load(struct run *run, const struct block *before, const struct block *tile, int64_t slab,
                int64_t a_rows, struct error *err);

/* Copy the current panel of A to the device, as far as it is not there: at least the part for the
 * first `rows` of the tile. */
int panels_fill_a(struct run *run, int64_t rows, struct error *err);

/* Before the last slab of the tile `before` is multiplied, and where there are buffers enough: load
 * the first one of the next tile, which panels_load then finds there. */
int panels_prefetch(struct run *run, const struct block *before, const struct block *tile,
                    struct error *err);

/* From now until it is loaded, panels_ahead may begin with that slab of the tile. */
void panels_expect(struct run *run, const struct block *tile, int64_t slab);

/* While nothing can leave: copy one more part of the slab that is expected to the device, if it has
 * been read and there is room for it.  False when there is none, or something failed. */
bool panels_ahead(struct run *run, struct error *err);

/* Copy the next filled slot to the device, where `matrix` holds `block` of the file. */
int panels_copy_in(struct run *run, void *matrix, int64_t ld, const struct block *block,
                   struct error *err);

#endif
