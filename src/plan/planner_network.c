/* What a plan expects of the network: how the nodes that need a panel share it (exchange.h). */
#include <math.h>

#include "planner_impl.h"
#include "quantity.h"

enum {
    TURN_LONG = 8, /* parts: what the end of such a turn costs does not matter much */
    TURNS_AHEAD = 4,
    SLOTS_READ = 2,
};

static const double slots_each = 1.25;

double plan_nodes(const struct plan *plan)
{
    return ceil((double)plan->grid_rows * plan->grid_cols / plan->ranks_per_node);
}

double plan_nodes_of_line(const struct plan *plan, enum operand operand)
{
    double rows = plan->grid_rows, cols = plan->grid_cols, node = plan->ranks_per_node;
    if (plan->triangle)
        return plan_nodes(plan);
    if (plan->block_rows * plan->block_cols == plan->ranks_per_node)
        return operand == OPERAND_A ? cols / plan->block_cols : rows / plan->block_rows;
    /* Ranks go row by row; a line's first and last are so far apart, and it begins anywhere on a
     * node. */
    double ranks = operand == OPERAND_A ? cols : rows;
    double apart = operand == OPERAND_A ? cols - 1 : (rows - 1) * cols;
    return fmin(fmin(ranks, plan_nodes(plan)), 1 + apart / node);
}

double plan_part_received(const struct plan *plan, enum operand operand)
{
    double lines = operand == OPERAND_A ? plan->grid_rows : plan->grid_cols;
    if (plan->triangle)
        lines = 1;
    return (double)plan->node_lines[operand] / lines * (1 - 1 / plan_nodes_of_line(plan, operand));
}

/* Slots that a panel takes. */
static double parts_of(const struct problem *p, const struct plan *plan, enum operand operand)
{
    int64_t rows, cols;
    plan_panel_extents(p, plan, operand, &rows, &cols);
    if (plan->triangle)
        return operand == OPERAND_B
                   ? (double)ceil_div(p->n * plan->slab, plan_slot_elements(p, plan, operand))
                   : 0;
    return (double)ceil_div(rows * cols, plan_slot_elements(p, plan, operand));
}

/* Slots of a node that parts for one line of the grid have at a time: of a panel that fills them
 * all, or of several panels of both operands. */
static double slots_of_line(const struct problem *p, const struct plan *plan, enum operand operand)
{
    double slots = (double)plan->slots_in * plan->ranks_per_node;
    const double parts[] = {parts_of(p, plan, OPERAND_A), parts_of(p, plan, OPERAND_B)};
    double lines = (double)plan->node_lines[operand];
    double slab = parts[OPERAND_A] * (double)plan->node_lines[OPERAND_A] +
                  parts[OPERAND_B] * (double)plan->node_lines[OPERAND_B];
    return fmax(fmin(slots / lines, parts[operand]), slots * parts[operand] / slab);
}

/* Whether all readers of a panel can have a part on its way at once in so many slots of a line, and
 * there are some slots more, since not all go at the same pace, and a few are being read. */
static bool all_send_in(double slots, const struct plan *plan, enum operand operand)
{
    return slots >= SLOTS_READ + slots_each * plan_nodes_of_line(plan, operand);
}

static bool all_send(const struct problem *p, const struct plan *plan, enum operand operand)
{
    return all_send_in(slots_of_line(p, plan, operand), plan, operand);
}

void plan_set_turns(const struct problem *p, struct plan *plan)
{
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++) {
        double slots = slots_of_line(p, plan, i);
        double turn = fmax(slots / TURNS_AHEAD, fmin(slots / 2, TURN_LONG));
        plan->turn[i] = all_send_in(slots, plan, i) ? 1 : max_i64(1, (int64_t)turn);
    }
}

double plan_turn_rate(const struct problem *p, const struct plan *plan, enum operand operand)
{
    double turn = (double)plan->turn[operand];
    return all_send(p, plan, operand) ? 1 : turn / (turn + 1);
}

double plan_hops_seconds(const struct problem *p, const struct machine *machine,
                         const struct plan *plan, enum operand operand, double seconds)
{
    int64_t rows, cols;
    double hops = plan_nodes_of_line(plan, operand) - 1;
    if (!(machine->network_bytes_per_s > 0) || !problem_reads(p, operand) || hops == 0)
        return 0;
    plan_panel_extents(p, plan, operand, &rows, &cols);
    double part = (double)min_i64(rows * cols, plan_slot_elements(p, plan, operand)) *
                  (double)problem_element(p, operand);
    hops *= part / machine->network_bytes_per_s;
    return all_send(p, plan, operand) ? fmax(0, hops - seconds) : hops;
}
