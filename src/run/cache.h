/* The host panel cache: panels that later super-blocks need again stay in host memory, in the
 * window that the node's ranks share.
 *
 * The plan chooses these panels, and the schedule marks every transfer of them (schedule.h), so
 * nothing is looked up and nothing is evicted.  The cached panels of A serve one row of
 * super-blocks and are then overwritten by those of the next row; those of B serve the whole run.
 * A reader that is ahead of the others waits for them. */
#pragma once

#include "schedule.h"

struct cache_state; /* in the window */

struct cache {
    const struct plan *plan;
    size_t element_bytes[2];   /* of A, of B */
    size_t kept_bytes[2];      /* of a panel */
    struct cache_state *state; /* null: nothing is kept */
    char *memory;
};

/* Bytes of the window that the plan's cached panels take, or 0.  Pure. */
size_t cache_bytes(const struct plan *plan);

/* Initialise the cache in the window: the first rank of a node, before any rank opens it. */
void cache_init(void *window, const struct plan *plan);

/* Use the cache in the window, of which nothing is this rank's: there is nothing to close.  Where
 * the plan keeps nothing, it may not be used. */
void cache_open(struct cache *cache, void *window, const struct problem *p,
                const struct plan *plan);

/* Whether the place of a transfer is free, so that cache_put would not block. */
bool cache_has_room(struct cache *cache, const struct transfer *transfer);

/* Store what a transfer has read.  Blocks until the last user of the panel that was in its place is
 * done.  Parts come in any order, those of a place's next panel possibly before those of this
 * one.  Any thread. */
void cache_put(struct cache *cache, const struct transfer *transfer, const void *from);

/* Copy what an earlier transfer has read.  Blocks until it is there.  Any thread. */
void cache_get(struct cache *cache, const struct transfer *transfer, void *to);

/* End all waiting for the cache on this node, since what is awaited may never come.  What cache_get
 * copies after that must not be used. */
void cache_abort(struct cache *cache);
