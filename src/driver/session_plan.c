/* Plans for what is left of the product, and what follows from them. */
#include <stdio.h>

#include "quantity.h"
#include "session.h"
#include "verify.h"

/* Host memory of the trace, and of what the page shows. */
static size_t record_bytes(const struct options *o)
{
    return (o->trace[0] ? TRACE_BYTES : 0) +
           (o->html[0] ? sizeof(struct timeline) + sizeof(struct tiles) : 0);
}

static void plan_piece(struct session *s, const struct piece *piece, struct attempt *attempt)
{
    const struct options *o = &s->options;
    const struct machine *m = &s->hardware.machine;
    struct problem *p = &attempt->problem;
    struct plan_request *request = &attempt->request;
    *p = work_problem(&s->problem, piece);
    *request = (struct plan_request){
        .grid_rows = o->grid_rows,
        .grid_cols = o->grid_cols,
        .layers = s->progress.layers ? s->progress.layers : o->layers,
        .whole = piece->k > 0,
        .tile_rows = o->tile_rows,
        .tile_cols = o->tile_cols,
        .slab = o->slab,
        .verify = o->verify != VERIFY_OFF,
        .record_bytes = record_bytes(o),
        .algorithm = o->algorithm == ALGORITHM_AUTO
                         ? algorithm_auto(m->gpu ? m->compute_capability : 0, p->type)
                         : (enum algorithm)o->algorithm};
    if (o->tile_rows <= s->problem.m && o->tile_cols <= s->problem.n) { /* as large as it has */
        request->tile_rows = min_i64(o->tile_rows, p->m);
        request->tile_cols = min_i64(o->tile_cols, p->n);
    }
    plan_make(p, m, request, &attempt->plan, &s->err);
    if (s->comm.rank == 0 && !s->err.code)
        simulate(p, m, request, &attempt->plan, &attempt->predicted);
}

void session_plan(struct session *s)
{
    plan_piece(s, &s->progress.left.pieces[0], &s->attempt);
    if (s->options.verify == VERIFY_FULL)
        verify_fits(&s->problem, &s->hardware.machine, &s->err);
}

void session_plan_all(struct session *s)
{
    session_plan(s);
    s->record.predicted = s->attempt.predicted;
    for (int i = 1; i < s->progress.left.count && !s->err.code; i++) {
        struct attempt other;
        plan_piece(s, &s->progress.left.pieces[i], &other);
        if (s->comm.rank == 0 && !s->err.code)
            simulation_add(&s->record.predicted, &other.predicted);
    }
}

double attempt_save_seconds(const struct attempt *attempt, const struct machine *machine)
{
    const struct plan *plan = &attempt->plan;
    double tiles = (double)plan->grid_rows * plan->grid_cols * plan->layers;
    return tiles * (double)(plan->tile_rows * plan->tile_cols) *
           (double)scalar_size(attempt->problem.type) / machine->disk_write_bytes_per_s;
}

void session_warn_of_memory(const struct plan *plan, int local_ranks)
{
    double wanted = (double)plan->host_bytes * local_ranks;
    double available = (double)machine_host_memory();
    if (plan->grid_rows > 0 && wanted > available)
        fprintf(stderr,
                "dgemm_ooc: the plan takes %s of host memory on this computer, where %s are "
                "available now: the run may be killed; lower --host-memory, which is per rank\n",
                quantity_bytes(wanted), quantity_bytes(available));
}
