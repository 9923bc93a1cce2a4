/* The plan's search where C is symmetric: tiles are parts of a triangle (triangle.h), so only slabs
 * and the way in which the panel is read are to choose. */
#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"

/* Whether columns of the file can be read by themselves, at a rate that is worth a comparison. */
static bool has_stripes(const struct query *q)
{
    const struct problem *p = q->p;
    return q->machine->files_in_memory && !p->trans[OPERAND_B] &&
           p->matrix[OPERAND_B].chunk_rows == 0 && !problem_through_hdf5(p, OPERAND_B);
}

void plan_try_triangle(const struct query *q, struct plan *plan, struct plan *best)
{
    const int64_t stripe = has_stripes(q) ? schedule_file_lines(q->p, plan->strip_rows) : 0;
    for (int striped = 0; striped <= (stripe > 0); striped++) {
        plan->stripe = striped * stripe;
        plan_set_counts(q, plan);
        plan_set_held(plan, OPERAND_COUNT);
        if (plan->slabs == 1)
            plan->buffers[OPERAND_A] = plan->buffers[OPERAND_B] = 1;
        if (plan->grid_rows == 1 || plan->grid_cols == 1)
            plan->buffers[OPERAND_A] = 0;
        if (plan_fits(q, plan))
            plan_keep_better(q, plan, best);
    }
    plan->stripe = 0;
}
