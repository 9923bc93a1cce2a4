/* Layers of ranks, each of which has multiplied its own part of k for the whole of C (a K split):
 * their products are added along a binary tree, 0 += 1, 2 += 3, then 0 += 2 and so on, so that the
 * bits depend on the number of layers and on nothing else.  Ranks in the same place of their
 * layers' grids send each other their tiles, and the online check's sums with them, which hold for
 * the whole product then.
 *
 * The tree takes log2(layers) steps of one tile each; it begins when all layers are done. */
#ifndef DGEMM_OOC_LAYERS_H
#define DGEMM_OOC_LAYERS_H

#include "run.h"

/* On all ranks; only the main thread uses MPI, and the device is idle.  Add the accumulators of all
 * layers, and the sums of the check, to those of the first, by way of two pinned slots.  A rank
 * that fails goes on sending and receiving, so that none waits for it. */
void layers_add(struct run *run, const struct block *tile, struct slot *const slots[2],
                struct error *err);

#endif
