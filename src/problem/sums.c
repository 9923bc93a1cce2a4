#include "sums.h"

#include "quantity.h"

enum {
    C_MOST = 1 << 29,        /* numbers of C */
    STEPS_LEAST = 1 << 16,   /* of a block */
    NUMBERS_LEAST = 1 << 23, /* of A and B in a block */
    NORMAL_STEPS = 1 << 10,  /* of a block of a normal product, which no other order could share; */
    NORMAL_NUMBERS = 1 << 22, /* and numbers of A in it */
    BLOCKS_LEAST = 16,
    BLOCKS_MOST = FOLD_BLOCKS,
};

int64_t sums_block(const struct problem *p)
{
    const double c = (double)p->m * (double)p->n;
    int64_t blocks = 1;
    if (!problem_reads_ab(p) || c == 0 || c > C_MOST)
        return 0;
    const int64_t least = p->normal ? max_i64(NORMAL_STEPS, NORMAL_NUMBERS / p->m)
                                    : max_i64(STEPS_LEAST, NUMBERS_LEAST / (p->m + p->n));
    while (blocks < BLOCKS_MOST && p->k / (2 * blocks) >= least)
        blocks *= 2;
    return blocks < BLOCKS_LEAST ? 0 : round_up(ceil_div(p->k, blocks), problem_quantum(p));
}

int64_t sums_blocks(const struct problem *p)
{
    return p->blocks.steps > 0 ? ceil_div(p->k_first + p->k - p->blocks.origin, p->blocks.steps)
                               : 1;
}

static int levels_of(int64_t blocks)
{
    int levels = 0;
    while (blocks > (int64_t)1 << levels)
        levels++;
    return levels;
}

int sums_levels(const struct problem *p)
{
    return levels_of(sums_blocks(p));
}

int64_t sums_layer_blocks(const struct problem *whole, int layers)
{
    const int64_t blocks =
        whole->blocks.steps > 0 ? ceil_div(whole->k_whole, whole->blocks.steps) : 1;
    return ((int64_t)1 << levels_of(blocks)) / layers;
}

int sums_waiting(const struct problem *whole, int layers)
{
    return levels_of(sums_layer_blocks(whole, layers));
}

int sums_saved(const struct problem *whole, int layers)
{
    return sums_place(whole, layers, layers, -1);
}

int sums_place(const struct problem *whole, int layers, int layer, int level)
{
    return layer * (sums_waiting(whole, layers) + 1) + level + 1;
}

struct sums_there sums_there(const struct problem *p, int64_t done)
{
    struct sums_there there = {0};
    const int64_t blocks = p->blocks.steps > 0 ? done / p->blocks.steps : 0;
    for (int level = 0; blocks >> level > 0; level++)
        if (blocks >> level & 1)
            there.levels[there.count++] = level;
    if (done > blocks * p->blocks.steps)
        there.levels[there.count++] = -1;
    return there;
}

struct carrying sums_carry(int64_t number, int64_t blocks)
{
    const bool last = number + 1 == blocks;
    struct carrying c = {.to = -1};
    int level = 0;
    for (; last ? number >> level > 0 : number >> level & 1; level++)
        if (number >> level & 1)
            c.levels[c.count++] = level;
    c.to = last ? -1 : level;
    return c;
}
