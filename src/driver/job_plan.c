/* Plans for what is left of the product. */
#include <math.h>

#include "error.h"
#include "first_read.h"
#include "job.h"
#include "phase.h"
#include "quantity.h"
#include "same_files.h"
#include "verify.h"

static const double piece_seconds = 0.3; /* from a piece to the first product of the next one */
static const double clearly = 0.95;      /* of the time that the other way takes */

/* What is planned, for what. */
struct planning {
    const struct options *options;
    const struct machine *machine;
    struct job *job;
    bool predicts; /* on rank 0 */
};

/* Host memory of the trace, and of what the page shows. */
static size_t record_bytes(const struct options *o)
{
    return (o->files.trace[0] ? TRACE_BYTES : 0) +
           (o->files.html[0] ? sizeof(struct timeline) + sizeof(struct tile_map) : 0);
}

static void plan_piece(const struct planning *now, const struct piece *piece,
                       struct attempt *attempt, struct error *err)
{
    const struct options *o = now->options;
    const struct machine *m = now->machine;
    const struct problem *whole = &now->job->problem;
    struct problem *p = &attempt->problem;
    struct plan_request *request = &attempt->request;
    *p = work_problem(whole, piece);
    const int64_t tile_cols = o->plan.tile_cols * problem_width(p);
    *request = (struct plan_request){
        .grid_rows = o->plan.grid_rows,
        .grid_cols = o->plan.grid_cols,
        .whole = piece->k > 0,
        .layers = piece->layers,
        .tile_rows = o->plan.tile_rows,
        .tile_cols = tile_cols,
        .slab = o->plan.slab * problem_width(p),
        .verify = o->check.verify != VERIFY_OFF,
        .record_bytes = record_bytes(o),
        .algorithm = o->algorithm == ALGORITHM_AUTO
                         ? algorithm_auto(m->gpu ? m->compute_capability : 0, p->type)
                         : (enum algorithm)o->algorithm};
    if (o->plan.tile_rows <= whole->m && tile_cols <= whole->n) { /* as large as it has */
        request->tile_rows = min_i64(o->plan.tile_rows, p->m);
        request->tile_cols = min_i64(tile_cols, p->n);
    }
    plan_make(p, m, request, &attempt->plan, err);
}

/* Of a pass over the operands before the attempt. */
static double pass_seconds(const struct planning *now, const struct attempt *attempt)
{
    return first_read_is_product(&attempt->problem, &attempt->plan)
               ? 0
               : first_read_seconds(&now->job->problem, now->machine);
}

/* Whether a triangle is better halved: where the devices cannot hold it at once or, unless sums of
 * it have been saved, where its halves and the rectangle between them take clearly less time, since
 * it leaves room for short slabs only. */
static bool is_better_halved(const struct planning *now, const struct attempt *whole,
                             const struct error *why)
{
    struct work halves = {0};
    double most = clearly * (whole->plan.roofline.seconds + pass_seconds(now, whole));
    double seconds = 2 * piece_seconds + first_read_seconds(&now->job->problem, now->machine);
    if (!problem_is_triangle(&whole->problem) || why->code)
        return problem_is_triangle(&whole->problem) && why->code == EXIT_RESOURCES;
    if (seconds > most || whole->problem.continues)
        return false;
    work_begin(&halves, &whole->problem);
    for (work_halve(&halves); halves.count > 0 && seconds < most; work_drop(&halves)) {
        struct attempt part;
        struct error ignored = {0};
        plan_piece(now, &halves.pieces[0], &part, &ignored);
        seconds += ignored.code ? most : part.plan.roofline.seconds;
    }
    return seconds < most;
}

/* Plan the first piece, a triangle as a whole or halved. */
static int plan_only(const struct planning *now, struct work *left, struct attempt *attempt,
                     struct error *err)
{
    struct piece *first = &left->pieces[0];
    struct error why = {0};
    plan_piece(now, first, attempt, &why);
    while (is_better_halved(now, attempt, &why) && work_halve(left)) {
        why = (struct error){0};
        plan_piece(now, first, attempt, &why);
    }
    error_append(err, &why);
    return err->code;
}

static void plan_first(const struct planning *now, struct work *left, struct attempt *attempt,
                       struct error *err)
{
    if (plan_only(now, left, attempt, err) == 0 && now->predicts)
        simulate(&attempt->problem, now->machine, &attempt->request, &attempt->plan,
                 &attempt->predicted);
}

static struct planning begin(const struct caller *caller, const struct machine *machine,
                             struct job *job)
{
    return (struct planning){caller->options, machine, job, caller->comm->rank == 0};
}

int job_plan_first(const struct caller *caller, const struct machine *machine, struct job *job,
                   struct outlook *outlook, struct error *err)
{
    const struct planning now = begin(caller, machine, job);
    plan_first(&now, &job->progress.left, &outlook->first, err);
    if (caller->options->check.verify == VERIFY_FULL)
        verify_fits(&job->problem, machine, err);
    return err->code;
}

/* Seconds that all of what is left may take; infinity where it does not fit, or would be in very
 * many pieces. */
static double seconds_of_all(const struct planning *now)
{
    struct error cannot = {0};
    struct attempt part;
    double seconds = 0;
    int pieces = 0;
    for (struct work left = now->job->progress.left;
         left.count > 0 && !cannot.code && pieces < PIECES_MAX; work_drop(&left), pieces++) {
        plan_only(now, &left, &part, &cannot);
        seconds += pieces == 0 && !cannot.code ? pass_seconds(now, &part) : 0;
        seconds += part.plan.roofline.seconds + (left.count > 1 ? piece_seconds : 0);
    }
    return !cannot.code && pieces < PIECES_MAX ? seconds : INFINITY;
}

/* A new symmetric product is made as a general one where that is clearly faster, as where little
 * but the writing of C takes time: of the general one it goes on beside the products of later
 * tiles.  Likewise where it would be in very many pieces.  (Not of complex matrices: neither rates
 * nor memory may change the bits of what is above the diagonal.) */
static void choose_symmetry(const struct planning *now)
{
    struct problem *p = &now->job->problem;
    const struct piece all = {.block = {0, 0, p->m, p->n}};
    struct attempt general;
    struct error cannot = {0};
    const double seconds = seconds_of_all(now);
    p->symmetric = false;
    plan_piece(now, &all, &general, &cannot);
    p->symmetric = isfinite(seconds) &&
                   (cannot.code || general.plan.roofline.seconds + pass_seconds(now, &general) >
                                       clearly * seconds);
    work_begin(&now->job->progress.left, p);
}

int job_foresee(const struct caller *caller, const struct machine *machine, struct job *job,
                struct outlook *outlook, struct error *err)
{
    const struct planning now = begin(caller, machine, job);
    const struct problem *p = &job->problem;
    const bool saved = job->progress.saved;
    const bool known = p->measures && saved; /* what the pass would find */
    if (p->symmetric && !p->complex && caller->options->symmetric == SYMMETRIC_AUTO && !saved)
        choose_symmetry(&now);
    job_plan_first(caller, machine, job, outlook, err);
    outlook->all = outlook->first.predicted;
    struct work others = job->progress.left;
    for (work_drop(&others); others.count > 0 && !err->code; work_drop(&others)) {
        struct attempt other;
        plan_first(&now, &others, &other, err);
        if (now.predicts && !err->code)
            simulation_add(&outlook->all, &other.predicted);
    }
    if (now.predicts && !err->code && !known &&
        !first_read_is_product(&outlook->first.problem, &outlook->first.plan))
        simulation_begin_after(&outlook->all, first_read_seconds(p, machine));
    return err->code;
}

int job_plan(const struct caller *caller, const struct machine *machine, struct job *job,
             struct outlook *outlook, struct error *err)
{
    phase_begin("planning", 0);
    if (job->described && !job->complete) {
        same_files_check(&job->problem, &job->operands, caller->comm, err);
        if (job->progress.left.count > 0)
            job_foresee(caller, machine, job, outlook, err);
    }
    comm_agree(caller->comm, err);
    phase_end();
    return err->code;
}
