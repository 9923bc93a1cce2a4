/* The host panel cache: panels that later super-blocks need again stay in host memory, in the
 * window of the node's ranks.
 *
 * Which ones is the plan's choice and the schedule says it with every transfer (schedule.h), so
 * nothing is looked up and nothing is evicted: the panels of A that are kept serve one row of
 * super-blocks and give way to those of the next, those of B serve the whole run.  Readers that
 * come too early wait for those before them. */
#ifndef DGEMM_OOC_CACHE_H
#define DGEMM_OOC_CACHE_H

#include "schedule.h"

struct cache_state; /* in the window */

struct cache {
    const struct plan *plan;
    size_t element_bytes;
    struct cache_state *state; /* null: nothing is kept */
    char *memory;
};

/* Bytes of the window for what the plan keeps; 0 when it keeps nothing. */
size_t cache_bytes(const struct plan *plan);

/* For the first rank of a node, before any opens. */
void cache_init(void *window, const struct plan *plan);

void cache_open(struct cache *cache, void *window, const struct problem *p,
                const struct plan *plan);

/* Whether the place of what a transfer has read is free for it: cache_put then does not wait. */
bool cache_has_room(struct cache *cache, const struct transfer *transfer);

/* Keep what a transfer has read, when the panel's last user in that place is through.  Parts come
 * in any order, those of a place's next panel possibly before those of this one. */
void cache_put(struct cache *cache, const struct transfer *transfer, const void *from);

/* Copy what an earlier transfer has read; once it is there. */
void cache_get(struct cache *cache, const struct transfer *transfer, void *to);

/* Let nobody on this node wait any longer: what they would wait for may never come.  What they then
 * copy is not to be used. */
void cache_abort(struct cache *cache);

#endif
