#include "ticker.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "meter.h"
#include "phase.h"
#include "plan_print.h"
#include "quantity.h"

static const double memory_s = 15; /* after so long a rate counts 1/e of a new one */

static void tell(const struct ticker *t, double done)
{
    phase_tell(&(struct phase){.what = "product",
                               .amount = t->flops,
                               .done = done,
                               .tail_s = t->tail_s,
                               .details = t->details});
}

void ticker_begin(struct ticker *t, double done, uint64_t tiles)
{
    t->done = done * t->flops;
    t->tiles = tiles;
    t->before = (struct run_totals){0};
    t->told = clock_now();
    tell(t, t->done);
}

/* What has happened since it was told last counts in full, what came before the less the older it
 * is. */
static void remember(struct ticker *t, const struct run_totals *now, double elapsed)
{
    double fade = exp(-elapsed / memory_s);
    t->seconds = t->seconds * fade + elapsed;
    for (int i = 0; i < STAGE_COUNT; i++) {
        double amount = now->amount[i] - t->before.amount[i];
        double busy_s = now->busy_s[i] - t->before.busy_s[i];
        t->amount[i] = t->amount[i] * fade + amount;
        t->busy_s[i] = t->busy_s[i] * fade + busy_s / now->ranks;
    }
    t->before = *now;
}

static void compose(struct ticker *t)
{
    enum stage limit = STAGE_READ;
    for (int i = 0; i < STAGE_COUNT; i++)
        if (t->busy_s[i] > t->busy_s[limit])
            limit = (enum stage)i;
    snprintf(t->details, sizeof t->details, "  %s %.0f%%  read %s  write %s  tile %.0f/%" PRIu64,
             stage_title(limit, t->gpu), fmin(100, 100 * t->busy_s[limit] / t->seconds),
             quantity_rate(t->amount[STAGE_READ] / t->seconds),
             quantity_rate(t->amount[STAGE_WRITE] / t->seconds), t->before.tiles, t->tiles);
}

void ticker_tell(struct ticker *t, const struct run_totals *now)
{
    const double time = clock_now();
    if (time <= t->told)
        return;
    remember(t, now, time - t->told);
    t->told = time;
    compose(t);
    tell(t, t->done + now->amount[STAGE_GEMM]);
}

void ticker_end(struct ticker *t)
{
    t->details[0] = '\0';
    tell(t, t->flops);
}
