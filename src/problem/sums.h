/* The order of summation: a pure function of the problem.  It does not depend on ranks, memory,
 * tiles, rates or the device, so neither do the bits of C.
 *
 * Where C is small and k is long, k is cut into blocks of equal length.  Each block is a running
 * sum from zero.  The sums of blocks are added along a binary tree: of blocks 0 and 1, of 2 and 3,
 * then of these two sums, and so on.  Where the right one of two is not there, the left one goes up
 * as it is.  All other products are one running sum.
 *
 * - Layers of ranks take parts of k that are nodes of the tree, so they share k without other bits.
 * - Rounding errors grow with the length of a block and the height of the tree, and not with k.
 * - A rank that goes along k keeps one waiting sum for each bit of the number of its complete
 *   blocks: bit i stands for 2^i blocks. */
#pragma once

#include "problem.h"

/* The steps of a block of the whole product; 0: k is one block.  C has at most 2^29 numbers then,
 * so that a waiting sum takes at most 4 GiB.  There are 16 to 256 blocks, or a few
 * less where they are rounded up to what kernels need.  Each has at least 65536
 * steps, so that what is done at its end costs nothing beside it, and 2^23 numbers of A and B, so
 * that it is worth a step of its own. */
int64_t sums_block(const struct problem *whole);

/* Of the problem, which may be a layer's: its blocks, from the first that it has begun with, saved
 * ones included; 1 if there are none.  And how many waiting sums it may have at the same time. */
int64_t sums_blocks(const struct problem *p);
int sums_levels(const struct problem *p);

/* What is done when block `number`, from 0, is complete: its sum, to which the waiting ones of so
 * many levels, in that order, are added, begins to wait at level `to`; or, with the last one of so
 * many blocks, is the sum of all (-1). */
struct carrying {
    int count, levels[FOLD_MOST];
    int to;
};
struct carrying sums_carry(int64_t number, int64_t blocks);

/* The sums that there are when so many steps from the problem's origin on are done: the waiting
 * ones, and the running one (-1) within a block. */
struct sums_there {
    int count, levels[FOLD_MOST + 1];
};
struct sums_there sums_there(const struct problem *p, int64_t done);

/* Blocks of each of so many layers of the whole product, but for the last ones, which may have
 * fewer; a power of two. */
int64_t sums_layer_blocks(const struct problem *whole, int layers);

/* Sums that may wait in each of so many layers of the whole product, or of a part of it. */
int sums_waiting(const struct problem *whole, int layers);

/* In a file of saved sums matrices as large as C lie one below the other: so many of them, and the
 * place of one of a layer's. */
int sums_saved(const struct problem *whole, int layers);
int sums_place(const struct problem *whole, int layers, int layer, int level);
