/* What the device's memory is used for beyond what a plan needs: more panels, a second tile. */
#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"

enum { BUFFERS_MAX = 4 }; /* panels of what is not held, where there is memory for more than two */

int plan_choose_tiles(const struct query *q, const struct plan *plan)
{
    struct plan two = *plan;
    if (!machine_has_own_memory(q->machine) || problem_reads_c(q->p) || plan->triangle ||
        plan->layers > 1 || plan->slabs < 2 || schedule_supers(plan) < 2)
        return 1;
    two.tiles = 2;
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        two.buffers[i] = max_i64(plan->buffers[i], min_i64(BUFFERS_MAX, plan->slabs));
    return plan_device_bytes(q, &two) <= q->machine->device_memory ? 2 : 1;
}

/* Whether a plan with more panels on the device fits, with its bytes. */
static bool fits_deeper(const struct query *q, const struct plan *plan, struct plan *deeper)
{
    deeper->device_bytes = plan_device_bytes(q, deeper);
    deeper->host_bytes += q->machine->gpu ? 0 : deeper->device_bytes - plan->device_bytes;
    return deeper->device_bytes <= q->machine->device_memory &&
           deeper->host_bytes <= q->machine->host_memory;
}

void plan_deepen(const struct query *q, struct plan *plan)
{
    for (int64_t depth = PANEL_BUFFERS + 1; depth <= min_i64(BUFFERS_MAX, plan->slabs); depth++) {
        struct plan deeper = *plan;
        for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
            if (!plan_holds(plan, i) && plan->buffers[i] > 0)
                deeper.buffers[i] = depth;
        if (!fits_deeper(q, plan, &deeper))
            break;
        *plan = deeper;
    }
    struct plan rows = *plan;
    rows.buffers[OPERAND_A] = 2 * plan->slabs;
    if (plan_comes_ahead(plan, schedule_supers(plan) - 1) && plan_holds_rows(&rows) &&
        fits_deeper(q, plan, &rows))
        *plan = rows;
}
