/* Who shares what with whom, before and between the steps. */
#include <stdlib.h>

#include "error.h"
#include "planner_impl.h"
#include "quantity.h"
#include "schedule_impl.h"
#include "simulate_impl.h"

enum {
    /* Steps of all ranks, a second or two; where there are more, a step is made of several slabs.
     * A step is never more than a tile, so more tiles than these take longer. */
    RANK_STEPS = 1 << 23,
};

/* Make the node's ranks know their panels, those that are alike the same ones. */
static void set_needs(struct sim *s, struct node_state *node)
{
    for (int i = 0; i < node->ranks; i++) {
        struct rank_state *rank = &s->ranks[node->first + i];
        const int at[] = {schedule_row(s->plan, node->first + i),
                          s->plan->grid_rows + schedule_col(s->plan, node->first + i)};
        for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
            int found = 0;
            while (found < node->needs && node->need[found].panel != at[operand])
                found++;
            if (found == node->needs)
                node->need[node->needs++] =
                    (struct need){.operand = (enum operand)operand, .panel = at[operand]};
            rank->need[operand] = found;
        }
    }
}

int simulate_open(struct sim *s, struct error *err)
{
    const struct plan *plan = s->plan;
    int local = plan->ranks_per_node;
    s->rank_count = plan->grid_rows * plan->grid_cols;
    s->node_count = (int)ceil_div(s->rank_count, local);
    s->panels = calloc((size_t)(plan->grid_rows + plan->grid_cols), sizeof *s->panels);
    s->needs = calloc(2 * (size_t)s->rank_count, sizeof *s->needs);
    s->nodes = calloc((size_t)s->node_count, sizeof *s->nodes);
    s->ranks = calloc((size_t)s->rank_count, sizeof *s->ranks);
    if (!s->panels || !s->needs || !s->nodes || !s->ranks)
        return error_add(err, EXIT_RESOURCES, "no memory to simulate %d ranks", s->rank_count);
    for (int i = 0; i < s->node_count; i++) {
        s->nodes[i].first = i * local;
        s->nodes[i].ranks = (int)min_i64(local, s->rank_count - i * local);
        s->nodes[i].need = s->needs + 2 * (size_t)i * (size_t)local;
        set_needs(s, &s->nodes[i]);
    }
    s->element = (double)scalar_size(s->p->type);
    s->ring_bytes = (double)plan->slots_in * (double)plan->slot_bytes;
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(s->p, (enum operand)operand))
            s->read_rate[operand] = plan_read_rate(s->p, s->machine, plan, (enum operand)operand);
    for (int i = OPERAND_A; i <= OPERAND_B; i++)
        s->send_rate[i] =
            s->machine->network_bytes_per_s * plan_turn_rate(s->p, plan, (enum operand)i);
    int64_t steps = max_i64(1, RANK_STEPS / s->rank_count / schedule_supers(plan));
    s->slabs_a_step = max_i64(1, ceil_div(plan->slabs, steps));
    return 0;
}

void simulate_close(struct sim *s)
{
    free(s->panels);
    free(s->needs);
    free(s->nodes);
    free(s->ranks);
}

/* The rank's tile in the next super-block, and which of its panels it copies. */
static void rank_enter(struct sim *s, struct node_state *node, int index, int64_t super)
{
    struct rank_state *rank = &s->ranks[index];
    if (!block_empty(&rank->tile))
        rank->before = rank->tile;
    rank->tile = schedule_tile(s->p, s->plan, index, super);
    for (int i = OPERAND_A; i <= OPERAND_B; i++) {
        enum operand operand = (enum operand)i;
        struct need *need = &node->need[rank->need[operand]];
        rank->copies[operand] = problem_reads_ab(s->p) && !block_empty(&rank->tile) &&
                                !schedule_held(s->plan, operand, &rank->before, &rank->tile);
        if (!rank->copies[operand])
            continue;
        need->extent = operand == OPERAND_A ? rank->tile.rows : rank->tile.cols;
        need->again = schedule_had(s->p, s->plan, operand, (int)(node - s->nodes),
                                   schedule_line(s->plan, operand, index), super);
    }
}

void simulate_enter(struct sim *s, int64_t super)
{
    for (int i = 0; i < s->plan->grid_rows + s->plan->grid_cols; i++)
        s->panels[i] = (struct panel_state){0};
    for (int i = 0; i < s->node_count; i++) {
        struct node_state *node = &s->nodes[i];
        for (int j = 0; j < node->needs; j++)
            node->need[j].extent = 0;
        for (int j = 0; j < node->ranks; j++)
            rank_enter(s, node, node->first + j, super);
        for (int j = 0; j < node->needs; j++) {
            struct need *need = &node->need[j];
            s->panels[need->panel].readers += need->extent > 0;
            s->panels[need->panel].fetchers += need->extent > 0 && !need->again;
        }
    }
}
