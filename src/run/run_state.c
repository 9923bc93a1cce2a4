#include "run_state.h"

static void note(struct tally *tally, enum stage stage, struct meter meter)
{
    tally->amount[stage] = meter.amount;
    tally->busy_s[stage] = meter.busy_s + (meter.active > 0 ? clock_now() - meter.since : 0);
}

void run_tally(const struct run *run, struct tally *tally)
{
    *tally = (struct tally){.ranks = 1, .tiles = (double)run->tiles};
    note(tally, STAGE_READ, mover_meter(&run->in.mover, &run->in.mover.file));
    note(tally, STAGE_CACHE, mover_meter(&run->in.mover, &run->in.mover.cache));
    note(tally, STAGE_NETWORK, exchange_meter(&run->exchange));
    note(tally, STAGE_IN, mover_meter(&run->in.mover, &run->in.mover.link));
    note(tally, STAGE_GEMM, run->steps.products);
    note(tally, STAGE_CHECK, run->steps.checks);
    note(tally, STAGE_OUT, mover_meter(&run->out.mover, &run->out.mover.link));
    note(tally, STAGE_WRITE, mover_meter(&run->out.mover, &run->out.mover.file));
}

void run_stop(struct run *run)
{
    intake_stop(&run->in);
    cache_abort(&run->cache);
}
