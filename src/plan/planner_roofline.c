/* The roofline by which candidates are ranked: every super-block takes as long as the link that it
 * needs most, the first one has to fill the pipeline, and the last one to drain.  It is cheap and
 * need not be exact: simulate.h predicts the time of the plan that is chosen. */
#include <math.h>

#include "planner_impl.h"
#include "schedule.h"

/* Seconds of the device for a super-block.  A tile leaves it beside all of the next one or, where
 * they share accumulators, beside its last slab and the next one's first one: into slots where
 * there are enough, at the pace of the disk otherwise.  On the CPU the cores that multiply move
 * every byte twice. */
static double device_seconds(const struct query *q, const struct plan *plan,
                             const struct super_needs *n)
{
    const struct work_needs *work = &n->work;
    const double slots =
        (double)plan->slots_out * (double)plan_slot_elements(q->p, plan, OPERAND_C);
    const double beyond = fmax(0, 1 - slots / plan_tile_written(q->p, plan));
    const double leave = fmax(work->out, work->write * beyond);
    const double beside = plan->tiles > 1 ? work->gemm : 2 * work->slab;
    const double moving = q->machine->gpu ? 0 : 2 * (n->in + work->out) / q->machine->threads;
    return work->gemm + fmax(0, leave - beside) + moving;
}

/* The first super-block: all waits for its first slab, the rest for the second, or the last slab
 * for all that comes. */
static double first_seconds(const struct query *q, const struct plan *plan, double feed,
                            double device)
{
    const bool several = plan->slabs > 1;
    const double part = several ? (double)plan->slab / (double)q->p->k : 1,
                 first = several ? (double)schedule_k(q->p, plan, 1) / (double)q->p->k : 0;
    double last, wait = plan_longest_wait(q->p, plan, feed * part, device * part, &last);
    wait = fmax(wait * first / part, first * (feed - device) + wait);
    double hops = fmax(plan_hops_seconds(q->p, q->machine, plan, OPERAND_A, feed),
                       plan_hops_seconds(q->p, q->machine, plan, OPERAND_B, feed));
    return fmax(feed + last, device + wait + hops);
}

/* Another one, while the one before is written.  What memory then feeds at a slower pace the device
 * cannot make up for. */
static double next_seconds(const struct query *q, const struct plan *plan,
                           const struct super_needs *n, double feed, double device)
{
    const double read = n->read + n->work.lost, write = n->work.write;
    double pace = fmax(feed, device);
    if (q->machine->files_in_memory && read > 0)
        pace += write * fmax(0, 1 - plan_pace_beside_writing(q->machine, plan) * pace / read);
    return fmax(pace, write);
}

void plan_roofline(const struct query *q, struct plan *plan)
{
    static const enum stage stages[] = {STAGE_READ, STAGE_NETWORK, STAGE_IN, STAGE_GEMM, STAGE_OUT};
    struct super_needs kinds[NEEDS_MOST];
    const struct super_needs *end = kinds + plan_needs(q, plan, kinds);
    const double steps_s = plan_step_seconds(plan) * (double)plan->slabs;
    plan->roofline.seconds = 0;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        plan->roofline.link_s[stages[i]] = 0;
    for (int i = 0; i < OPERAND_COUNT; i++)
        plan->roofline.passes[i] = 0;
    for (const struct super_needs *n = kinds; n < end; n++) {
        const double seconds[] = {n->read + n->again, n->network, n->in, n->work.gemm, n->work.out};
        for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
            plan->roofline.link_s[stages[i]] += n->count * seconds[i];
        for (int i = 0; i < OPERAND_COUNT; i++)
            plan->roofline.passes[i] += n->count * n->part[i];
        double read = n->read + (n->first ? 0 : n->work.lost);
        double feed = fmax(fmax(read, n->network), fmax(n->again, n->in + steps_s));
        double device = device_seconds(q, plan, n);
        plan->roofline.seconds += n->count * (n->first ? first_seconds(q, plan, feed, device)
                                                       : next_seconds(q, plan, n, feed, device));
    }
    const struct work_needs *last = &end[-1].work;
    double strip = fmin(1, (double)plan->strip_rows / (double)plan->tile_rows);
    plan->roofline.link_s[STAGE_WRITE] =
        plan_write_seconds(q, plan, problem_elements(q->p) * (double)problem_written_element(q->p));
    plan->roofline.seconds += fmax(last->write * strip, last->write - last->slab * (1 - strip));
    plan->roofline.steps_s = steps_s * (double)schedule_supers(plan);
}
