/* Plans for what is left of the product, and what follows from them. */
#include <math.h>
#include <stdio.h>

#include "first_read.h"
#include "quantity.h"
#include "schedule.h"
#include "session.h"
#include "verify.h"

static const double piece_seconds = 0.3; /* from a piece to the first product of the next one */
static const double clearly = 0.95;      /* of the time that the other way takes */

/* Host memory of the trace, and of what the page shows. */
static size_t record_bytes(const struct options *o)
{
    return (o->trace[0] ? TRACE_BYTES : 0) +
           (o->html[0] ? sizeof(struct timeline) + sizeof(struct tile_map) : 0);
}

static void plan_piece(struct session *s, const struct piece *piece, struct attempt *attempt,
                       struct error *err)
{
    const struct options *o = &s->options;
    const struct machine *m = &s->hardware.machine;
    struct problem *p = &attempt->problem;
    struct plan_request *request = &attempt->request;
    *p = work_problem(&s->problem, piece);
    const int64_t tile_cols = o->tile_cols * problem_width(p);
    *request = (struct plan_request){
        .grid_rows = o->grid_rows,
        .grid_cols = o->grid_cols,
        .layers = s->progress.layers ? s->progress.layers : o->layers,
        .whole = piece->k > 0,
        .tile_rows = o->tile_rows,
        .tile_cols = tile_cols,
        .slab = o->slab * problem_width(p),
        .verify = o->verify != VERIFY_OFF,
        .record_bytes = record_bytes(o),
        .algorithm = o->algorithm == ALGORITHM_AUTO
                         ? algorithm_auto(m->gpu ? m->compute_capability : 0, p->type)
                         : (enum algorithm)o->algorithm};
    if (o->tile_rows <= s->problem.m && tile_cols <= s->problem.n) { /* as large as it has */
        request->tile_rows = min_i64(o->tile_rows, p->m);
        request->tile_cols = min_i64(tile_cols, p->n);
    }
    plan_make(p, m, request, &attempt->plan, err);
}

/* Whether a triangle is better halved: where the devices cannot hold it at once or, unless sums of
 * it have been saved, where its halves and the rectangle between them take clearly less time, since
 * it leaves room for short slabs only. */
static bool is_better_halved(struct session *s, const struct attempt *whole,
                             const struct error *why)
{
    struct work halves = {0};
    double seconds = 2 * piece_seconds, most = clearly * whole->plan.roofline.seconds;
    if (!problem_is_triangle(&whole->problem) || why->code)
        return problem_is_triangle(&whole->problem) && why->code == EXIT_RESOURCES;
    if (seconds > most || whole->problem.continues)
        return false;
    work_begin(&halves, &whole->problem);
    for (work_halve(&halves); halves.count > 0 && seconds < most; work_drop(&halves)) {
        struct attempt part;
        struct error ignored = {0};
        plan_piece(s, &halves.pieces[0], &part, &ignored);
        seconds += ignored.code ? most : part.plan.roofline.seconds;
    }
    return seconds < most;
}

/* Plan the first piece, a triangle as a whole or halved. */
static void plan_only(struct session *s, struct work *left, struct attempt *attempt)
{
    struct piece *first = &left->pieces[0];
    struct error why = {0};
    plan_piece(s, first, attempt, &why);
    while (is_better_halved(s, attempt, &why) && work_halve(left)) {
        why = (struct error){0};
        plan_piece(s, first, attempt, &why);
    }
    error_append(&s->err, &why);
}

static void plan_first(struct session *s, struct work *left, struct attempt *attempt)
{
    plan_only(s, left, attempt);
    if (s->comm.rank == 0 && !s->err.code)
        simulate(&attempt->problem, &s->hardware.machine, &attempt->request, &attempt->plan,
                 &attempt->predicted);
}

void session_plan(struct session *s)
{
    plan_first(s, &s->progress.left, &s->attempt);
    if (s->options.verify == VERIFY_FULL)
        verify_fits(&s->problem, &s->hardware.machine, &s->err);
}

/* Seconds that all of what is left may take; infinity where it does not fit, or would be in very
 * many pieces. */
static double seconds_of_all(struct session *s)
{
    const struct error before = s->err; /* what rank 0 has found to be wrong stays */
    struct attempt part;
    double seconds = 0;
    int pieces = 0;
    s->err = (struct error){0};
    for (struct work left = s->progress.left; left.count > 0 && !s->err.code && pieces < PIECES_MAX;
         work_drop(&left), pieces++) {
        plan_only(s, &left, &part);
        seconds += part.plan.roofline.seconds + (left.count > 1 ? piece_seconds : 0);
    }
    const bool fits = !s->err.code && pieces < PIECES_MAX;
    s->err = before;
    return fits ? seconds : INFINITY;
}

/* A new symmetric product is made as a general one where that is clearly faster, as where little
 * but the writing of C takes time: of the general one it goes on beside the products of later
 * tiles.  Likewise where it would be in very many pieces.  (Not of complex matrices: neither rates
 * nor memory may change the bits of what is above the diagonal.) */
static void choose_symmetry(struct session *s)
{
    const struct piece all = {.block = {0, 0, s->problem.m, s->problem.n}};
    struct attempt general;
    struct error cannot = {0};
    const double seconds = seconds_of_all(s);
    s->problem.symmetric = false;
    plan_piece(s, &all, &general, &cannot);
    s->problem.symmetric =
        isfinite(seconds) && (cannot.code || general.plan.roofline.seconds > clearly * seconds);
    work_begin(&s->progress.left, &s->problem);
}

/* So many times as much memory as the smallest plan needs, where the limits are less; but no more
 * than there would be without them. */
static struct machine with_memory(const struct machine *m, const struct plan *least, double times)
{
    struct machine more = *m;
    const size_t host = m->host_unlimited ? m->host_unlimited : m->host_memory;
    const size_t device = m->device_unlimited ? m->device_unlimited : m->device_memory;
    if (least->host_bytes > m->host_memory)
        more.host_memory = (size_t)fmin(times * (double)least->host_bytes, (double)host);
    if (least->device_bytes > m->device_memory)
        more.device_memory = (size_t)fmin(times * (double)least->device_bytes, (double)device);
    return more;
}

static double seconds_with_memory(struct session *s, const struct machine *machine)
{
    struct machine *m = &s->hardware.machine;
    const struct machine given = *m;
    *m = *machine;
    const double seconds = seconds_of_all(s);
    *m = given;
    return seconds;
}

/* The limits are too small, and with the least that can do the product may take days: say then with
 * how little it takes not much longer than with any.  Rank 0. */
static void advise_memory(struct session *s)
{
    static const double times[] = {1, 1.25, 1.5, 2, 3, 4, 6, 8, 16}, any = INFINITY;
    static const double much = 1.5, seconds_more = 2; /* than with any */
    const size_t steps = sizeof times / sizeof *times;
    const struct machine *m = &s->hardware.machine;
    const struct plan least = s->attempt.plan;
    struct machine more = with_memory(m, &least, any);
    const double most = much * seconds_with_memory(s, &more) + seconds_more;
    double seconds = INFINITY;
    size_t tried = 0;
    while (tried < steps && (isinf(seconds) || seconds > most)) {
        more = with_memory(m, &least, times[tried++]);
        seconds = seconds_with_memory(s, &more);
    }
    if (tried == 1 || isinf(seconds) || seconds > most)
        return;
    const bool host = more.host_memory > m->host_memory;
    const bool device = more.device_memory > m->device_memory;
    char limits[2][64] = {"", ""};
    if (host)
        snprintf(limits[0], sizeof limits[0], " --host-memory %zuM", (more.host_memory >> 20) + 1);
    if (device)
        snprintf(limits[1], sizeof limits[1], " --gpu-memory %zuM", (more.device_memory >> 20) + 1);
    error_add(&s->err, EXIT_RESOURCES, "with%s%s%s it may take %s; with less, longer", limits[0],
              host && device ? " and" : "", limits[1], quantity_time(seconds));
}

void session_plan_all(struct session *s)
{
    if (s->problem.symmetric && !s->problem.complex && s->options.symmetric == SYMMETRIC_AUTO &&
        !s->progress.saved)
        choose_symmetry(s);
    const bool fine = !s->err.code;
    session_plan(s);
    if (fine && s->err.code == EXIT_RESOURCES && s->comm.rank == 0)
        advise_memory(s);
    s->record.predicted = s->attempt.predicted;
    struct work others = s->progress.left;
    for (work_drop(&others); others.count > 0 && !s->err.code; work_drop(&others)) {
        struct attempt other;
        plan_first(s, &others, &other);
        if (s->comm.rank == 0 && !s->err.code)
            simulation_add(&s->record.predicted, &other.predicted);
    }
    const bool known = s->problem.measures && s->progress.saved; /* what the pass would find */
    if (s->comm.rank == 0 && !s->err.code && !known)
        simulation_begin_after(&s->record.predicted,
                               first_read_seconds(&s->problem, &s->hardware.machine));
}

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
