#include "outlook.h"

#include <math.h>

#include "schedule.h"

double attempt_save_seconds(const struct attempt *attempt, const struct machine *machine)
{
    const struct plan *plan = &attempt->plan;
    double tiles = (double)plan->grid_rows * plan->grid_cols * plan->layers;
    return tiles * (double)(plan->tile_rows * plan->tile_cols) *
           (double)scalar_size(attempt->problem.sums) / machine->disk_write_bytes_per_s;
}

double attempt_stop_seconds(const struct attempt *attempt, const struct machine *machine)
{
    const struct plan *plan = &attempt->plan;
    double steps = fmax(1, (double)schedule_supers(plan) * (double)plan->slabs);
    return attempt_save_seconds(attempt, machine) +
           (double)plan_enqueued(plan) * attempt->predicted.wall_s / steps;
}
