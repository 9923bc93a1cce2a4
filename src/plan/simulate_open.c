/* Who shares what with whom, before and between the steps. */
#include <math.h>
#include <stdlib.h>

#include "embedding.h"
#include "planner_impl.h"
#include "quantity.h"
#include "schedule_impl.h"
#include "simulate_impl.h"

enum {
    RANK_STEPS_LEAST = 1 << 16, /* of all ranks: about 7 ms */
    RANK_STEPS_MOST = 1 << 23,  /* about a second */
    ROWS_LEAST = 2,             /* of super-blocks: in the second one B's panels come again */
};
static const double rank_step_seconds = 1e-7, affordable = 0.005; /* of the time of the run */

/* Make the node's ranks know their panels, those that are alike the same ones. */
static void set_needs(struct sim *s, struct node_state *node)
{
    for (int i = 0; i < node->ranks; i++) {
        struct rank_state *rank = &s->ranks[node->first + i];
        const int at[] = {schedule_row(s->plan, node->first + i),
                          s->plan->grid_rows + schedule_line(s->plan, OPERAND_B, node->first + i)};
        for (enum operand operand = OPERAND_A; operand <= OPERAND_B; operand++) {
            int found = 0;
            while (found < node->needs && node->need[found].panel != at[operand])
                found++;
            if (found == node->needs)
                node->need[node->needs++] = (struct need){.operand = operand, .panel = at[operand]};
            rank->need[operand] = found;
        }
    }
}

/* Steps are made of several slabs, and super-blocks left out, where there are too many. */
static void limit_steps(struct sim *s)
{
    double steps = affordable * s->plan->roofline.seconds / rank_step_seconds;
    steps = fmin(RANK_STEPS_MOST, fmax(RANK_STEPS_LEAST, steps)) / s->rank_count;
    int64_t rows = min_i64(ROWS_LEAST * s->plan->supers_across, RANK_STEPS_MOST / s->rank_count);
    s->supers = min_i64(schedule_supers(s->plan), max_i64(rows, (int64_t)steps));
    s->supers = max_i64(s->supers, 1);
    s->slabs_a_step =
        max_i64(1, ceil_div(s->plan->slabs, max_i64(1, (int64_t)(steps / (double)s->supers))));
}

bool simulate_open(struct sim *s)
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
        return false;
    for (int i = 0; i < s->node_count; i++) {
        s->nodes[i].first = i * local;
        s->nodes[i].ranks = (int)min_i64(local, s->rank_count - i * local);
        s->nodes[i].need = s->needs + 2 * (size_t)i * (size_t)local;
        set_needs(s, &s->nodes[i]);
    }
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        s->element[i] = (double)problem_element(s->p, i) * embedding_stored(s->p, i);
    s->ring_bytes = (double)plan->slots_in * (double)plan->slot_bytes;
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(s->p, operand))
            s->read_rate[operand] = plan_read_rate(s->p, s->machine, plan, operand);
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        s->send_rate[i] = s->machine->network_bytes_per_s * plan_turn_rate(s->p, plan, i);
    limit_steps(s);
    return true;
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
    for (enum operand operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct need *need = &node->need[rank->need[operand]];
        rank->copies[operand] = problem_reads_ab(s->p) && !block_empty(&rank->tile) &&
                                problem_has_panels(s->p, operand) &&
                                !schedule_held(s->plan, operand, &rank->before, &rank->tile);
        if (!rank->copies[operand])
            continue;
        need->extent = operand == OPERAND_A ? rank->tile.rows : rank->tile.cols;
        if (problem_is_triangle(s->p)) /* the line's panel, of which the rank copies a part */
            need->extent = s->p->n;
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
