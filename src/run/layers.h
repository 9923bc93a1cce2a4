/* Layers of ranks, each of which has multiplied its own blocks of k for all of C (sums.h).  Their
 * sums are nodes of the tree of blocks, and go on along it: 0 += 1, 2 += 3, then 0 += 2 and so on.
 * Ranks in the same place of their layers' grids send each other their tiles, and with them what
 * the online check expects of them and has found.
 *
 * The tree takes log2(layers) steps of one tile each; it begins when all layers are done. */
#pragma once

#include "run_state.h"

/* Collective, after exchange_finish: the main thread alone uses MPI, and the device is idle.  Add
 * the accumulators of all layers, and the sums of the check, to those of the first layer, and
 * compare them there.  A rank that fails goes on sending and receiving, so that none waits for
 * it. */
int layers_add(struct run *run, struct error *err);
