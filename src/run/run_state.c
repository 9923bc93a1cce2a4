#include "run_state.h"

static void note(struct run_totals *done, enum stage stage, struct meter meter)
{
    done->amount[stage] = meter.amount;
    done->busy_s[stage] = meter.busy_s + (meter.active > 0 ? clock_now() - meter.since : 0);
}

void run_totals(const struct run *run, struct run_totals *done)
{
    *done = (struct run_totals){.ranks = 1, .tiles = (double)run->tiles};
    note(done, STAGE_READ, mover_meter(&run->in.mover, &run->in.mover.file));
    note(done, STAGE_CACHE, mover_meter(&run->in.mover, &run->in.mover.cache));
    note(done, STAGE_NETWORK, exchange_meter(&run->exchange));
    note(done, STAGE_IN, mover_meter(&run->in.mover, &run->in.mover.link));
    note(done, STAGE_GEMM, run->products.multiplying);
    note(done, STAGE_CHECK, run->products.checking);
    note(done, STAGE_OUT, mover_meter(&run->out.mover, &run->out.mover.link));
    note(done, STAGE_WRITE, mover_meter(&run->out.mover, &run->out.mover.file));
}

void run_stop(struct run *run)
{
    intake_stop(&run->in);
    cache_abort(&run->cache);
}
