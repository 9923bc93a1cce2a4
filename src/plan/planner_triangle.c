/* The plan's search where C is symmetric: tiles are parts of a triangle (triangle.h), so only slabs
 * and the way in which the panel is read are to choose. */
#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"

/* Whether short runs of the file can be read by themselves, fast enough to be worth it. */
static bool reads_short_runs(const struct query *q)
{
    const struct problem *p = q->p;
    return q->machine->files_in_memory && p->matrix[OPERAND_B].chunk_rows == 0 &&
           !problem_through_hdf5(p, OPERAND_B);
}

/* Cut the triangle for the ranks, as its panel comes. */
static void cut_triangle(const struct query *q, struct plan *plan)
{
    plan->slabs = problem_reads_ab(q->p) ? plan_slabs_of(plan, q->p->k) : 0;
    plan->head_start = plan_head_start(q, plan);
    plan->tile_cols = 0;
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        struct block tile = schedule_triangle(q->p, plan, rank);
        plan->tile_cols = max_i64(plan->tile_cols, tile.cols);
    }
    plan_set_counts(q, plan);
}

static void keep_triangle(const struct query *q, struct plan *plan, struct plan *best)
{
    if (plan->grid_rows == 1 || plan->grid_cols == 1)
        plan->buffers[OPERAND_A] = 0;
    if (plan_fits(q, plan))
        plan_keep_better(q, plan, best);
}

/* Whether a short slab may come first.  The sums of floats are compared several times in a slab: so
 * many products keep the device's queue full, and panels wait. */
static bool may_be_short(const struct query *q, const struct plan *plan)
{
    const struct problem *p = q->p;
    return q->machine->gpu && reads_short_runs(q) && plan_comes_by_rows(p, plan) &&
           p->type == SCALAR_DOUBLE && !p->exact && algorithm_is_running_sum(q->request->algorithm);
}

/* With one slab tiles leave the device strip by strip from the start, but ranks wait for the rows
 * of a panel of all k.  With a short slab before it they wait less. */
static void try_short_slab(const struct query *q, const struct plan *whole, struct plan *best)
{
    const int64_t first = may_be_short(q, whole) ? plan_first_slab(q, whole) : q->p->k;
    struct plan plan = *whole;
    if (first >= q->p->k)
        return;
    plan.slab -= first;
    plan.slab_short = plan.slab - first;
    cut_triangle(q, &plan);
    plan_set_held(&plan, OPERAND_COUNT);
    keep_triangle(q, &plan, best);
}

void plan_try_triangle(const struct query *q, struct plan *plan, struct plan *best)
{
    const bool has_stripes = !q->p->trans[OPERAND_B] && reads_short_runs(q);
    const int64_t stripe = has_stripes ? schedule_file_lines(q->p, plan->strip_rows) : 0;
    for (int striped = 0; striped <= (stripe > 0); striped++) {
        plan->stripe = striped * stripe;
        cut_triangle(q, plan);
        plan_set_held(plan, OPERAND_COUNT);
        if (plan->slabs == 1)
            plan->buffers[OPERAND_A] = plan->buffers[OPERAND_B] = 1;
        keep_triangle(q, plan, best);
        if (plan->slabs == 1)
            try_short_slab(q, plan, best);
    }
    plan->stripe = 0;
}
