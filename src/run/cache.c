#include "cache.h"

#include <string.h>

#include "planner.h"
#include "quantity.h"
#include "window.h"

/* The place of a panel. */
struct cached {
    int64_t round;  /* panels that have been in this place before */
    int64_t filled; /* parts of the panel that are stored */
    int64_t users;  /* reads of parts that are due before the next panel may take the place */
};

struct cache_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool aborted;
    struct cached panels[];
};

static size_t panels_of(const struct plan *plan, enum operand operand)
{
    return (size_t)(plan->node_lines[operand] * plan->kept[operand]);
}

static size_t state_bytes(const struct plan *plan)
{
    size_t panels = panels_of(plan, OPERAND_A) + panels_of(plan, OPERAND_B);
    return window_pages(sizeof(struct cache_state) + panels * sizeof(struct cached));
}

size_t cache_bytes(const struct plan *plan)
{
    return plan->cache_bytes ? state_bytes(plan) + plan->cache_bytes : 0;
}

void cache_init(void *window, const struct plan *plan)
{
    struct cache_state *state = window;
    if (plan->cache_bytes == 0)
        return;
    window_lock_init(&state->lock);
    window_signal_init(&state->changed);
}

void cache_open(struct cache *c, void *window, const struct problem *p, const struct plan *plan)
{
    *c = (struct cache){
        .plan = plan,
        .element_bytes = {problem_element(p, OPERAND_A), problem_element(p, OPERAND_B)},
        .kept_bytes = {plan_kept_bytes(p, plan, OPERAND_A), plan_kept_bytes(p, plan, OPERAND_B)}};
    if (plan->cache_bytes == 0)
        return;
    c->state = window;
    c->memory = (char *)window + state_bytes(plan);
}

/* Cached panels of A come first; the parts of a panel are adjacent. */
static char *place_of(const struct cache *c, const struct transfer *t)
{
    int64_t of_a = min_i64(t->kept, (int64_t)panels_of(c->plan, OPERAND_A));
    size_t panels = (size_t)of_a * c->kept_bytes[OPERAND_A] +
                    (size_t)(t->kept - of_a) * c->kept_bytes[OPERAND_B];
    return c->memory + panels + (size_t)t->skip * c->element_bytes[t->operand];
}

static size_t bytes_of(const struct cache *c, const struct transfer *t)
{
    return (size_t)(t->block.rows * t->block.cols) * c->element_bytes[t->operand];
}

/* A's places are used anew for each row of super-blocks; B's panels stay. */
static int64_t round_of(const struct cache *c, const struct transfer *t)
{
    return t->operand == OPERAND_A ? t->super / c->plan->supers_across : 0;
}

static void leave(struct cached *panel)
{
    *panel = (struct cached){.round = panel->round + 1};
}

bool cache_has_room(struct cache *c, const struct transfer *t)
{
    struct cache_state *s = c->state;
    window_lock(&s->lock);
    bool has = s->panels[t->kept].round == round_of(c, t) || s->aborted;
    pthread_mutex_unlock(&s->lock);
    return has;
}

void cache_put(struct cache *c, const struct transfer *t, const void *from)
{
    struct cache_state *s = c->state;
    struct cached *panel = &s->panels[t->kept];
    window_lock(&s->lock);
    while (panel->round != round_of(c, t) && !s->aborted)
        window_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    memcpy(place_of(c, t), from, bytes_of(c, t)); /* which no other thread reads or writes now */
    window_lock(&s->lock);
    if (++panel->filled == t->parts) {
        panel->users = t->uses * t->parts;
        if (t->operand == OPERAND_A && panel->users == 0)
            leave(panel);
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

void cache_get(struct cache *c, const struct transfer *t, void *to)
{
    struct cache_state *s = c->state;
    struct cached *panel = &s->panels[t->kept];
    window_lock(&s->lock);
    while (!(panel->round == round_of(c, t) && panel->filled == t->parts) && !s->aborted)
        window_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    memcpy(to, place_of(c, t), bytes_of(c, t));
    window_lock(&s->lock);
    if (--panel->users == 0) {
        leave(panel);
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

void cache_abort(struct cache *c)
{
    if (!c->state)
        return;
    window_lock(&c->state->lock);
    c->state->aborted = true;
    pthread_cond_broadcast(&c->state->changed);
    pthread_mutex_unlock(&c->state->lock);
}
