#include "cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "error.h"
#include "quantity.h"

struct cached {
    struct block holds; /* empty: nothing yet */
    int64_t filled;     /* parts of it that are there */
    int64_t users;      /* parts that are still to be copied before another may take its place */
};

int cache_open(struct cache *c, const struct problem *p, const struct plan *plan, struct error *err)
{
    *c = (struct cache){.plan = plan, .element_bytes = scalar_size(p->type)};
    if (plan->cache_bytes == 0)
        return 0;
    size_t panels = (size_t)(plan->kept[OPERAND_A] + plan->kept[OPERAND_B]);
    c->panels = calloc(panels, sizeof *c->panels);
    void *memory = mmap(NULL, plan->cache_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    c->memory = memory == MAP_FAILED ? NULL : memory;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->open = true;
    if (!c->panels || !c->memory)
        return error_add(err, EXIT_RESOURCES, "cannot allocate %zu bytes to keep panels in",
                         plan->cache_bytes);
    madvise(c->memory, plan->cache_bytes, MADV_HUGEPAGE);
    return 0;
}

void cache_close(struct cache *c)
{
    if (!c->open)
        return;
    if (c->memory)
        munmap(c->memory, c->plan->cache_bytes);
    free(c->panels);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    *c = (struct cache){0};
}

/* Kept panels of A come first; the parts of a panel follow each other. */
static char *place_of(const struct cache *c, const struct transfer *t)
{
    int64_t of_a = min_i64(t->kept, c->plan->kept[OPERAND_A]);
    size_t panels = (size_t)of_a * c->plan->kept_bytes[OPERAND_A] +
                    (size_t)(t->kept - of_a) * c->plan->kept_bytes[OPERAND_B];
    return c->memory + panels + (size_t)t->skip * c->element_bytes;
}

static size_t bytes_of(const struct cache *c, const struct transfer *t)
{
    return (size_t)(t->block.rows * t->block.cols) * c->element_bytes;
}

void cache_put(struct cache *c, const struct transfer *t, const void *from)
{
    struct cached *panel = &c->panels[t->kept];
    pthread_mutex_lock(&c->lock);
    while (!block_equal(&panel->holds, &t->whole) && panel->users > 0 && !c->aborted)
        pthread_cond_wait(&c->changed, &c->lock);
    if (!block_equal(&panel->holds, &t->whole))
        *panel = (struct cached){.holds = t->whole, .users = t->uses * t->parts};
    pthread_mutex_unlock(&c->lock);
    memcpy(place_of(c, t), from, bytes_of(c, t)); /* nobody else may touch it now */
    pthread_mutex_lock(&c->lock);
    if (++panel->filled == t->parts)
        pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void cache_get(struct cache *c, const struct transfer *t, void *to)
{
    struct cached *panel = &c->panels[t->kept];
    pthread_mutex_lock(&c->lock);
    while (!(block_equal(&panel->holds, &t->whole) && panel->filled == t->parts) && !c->aborted)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    memcpy(to, place_of(c, t), bytes_of(c, t));
    pthread_mutex_lock(&c->lock);
    if (--panel->users == 0)
        pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void cache_abort(struct cache *c)
{
    if (!c->open)
        return;
    pthread_mutex_lock(&c->lock);
    c->aborted = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}
