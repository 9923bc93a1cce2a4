/* Layers of ranks, each of which has multiplied its own part of k for the whole of C (a K split):
 * their products are added along a binary tree, 0 += 1, 2 += 3, then 0 += 2 and so on, so that the
 * bits depend on the number of layers and on nothing else.  Ranks in the same place of their
 * layers' grids send each other their tiles, and the online check's sums with them, which hold for
 * the whole product then.
 *
 * The tree takes log2(layers) steps of one tile each; it begins when all layers are done. */
#pragma once

#include "run_state.h"

/* Collective, after exchange_finish: the main thread alone uses MPI, and the device is idle.  Add
 * the accumulators of all layers, and the sums of the check, to those of the first layer, and
 * drain them there.  A rank that fails goes on sending and receiving, so that none waits for it. */
int layers_add(struct run *run, struct error *err);
