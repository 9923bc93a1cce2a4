/* The host panel cache: panels that later super-blocks need again stay in host memory.
 *
 * Which ones is the plan's choice and the schedule says it with every transfer (schedule.h), so
 * nothing is looked up and nothing is evicted: the panels of A that are kept serve one row of
 * super-blocks and give way to those of the next, those of B serve the whole run.  Readers that
 * come too early wait for those before them. */
#ifndef DGEMM_OOC_CACHE_H
#define DGEMM_OOC_CACHE_H

#include <pthread.h>

#include "schedule.h"

struct cached; /* the state of a kept panel */

struct cache {
    const struct plan *plan;
    size_t element_bytes;
    char *memory;
    struct cached *panels;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open, aborted;
};

/* Allocate what the plan keeps.  After a failure cache_close is still due. */
int cache_open(struct cache *cache, const struct problem *p, const struct plan *plan,
               struct error *err);
void cache_close(struct cache *cache);

/* Keep what a transfer has read, when the panel's last user in that place is through. */
void cache_put(struct cache *cache, const struct transfer *transfer, const void *from);

/* Copy what an earlier transfer has read; once it is there. */
void cache_get(struct cache *cache, const struct transfer *transfer, void *to);

/* Let nobody wait any longer: what they would wait for may never come.  What they then copy is
 * not to be used. */
void cache_abort(struct cache *cache);

#endif
