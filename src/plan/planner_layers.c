/* Where C is small and k is long, ranks form layers, each of which multiplies its own blocks of k
 * (sums.h) for all of C. */
#include <math.h>

#include "embedding.h"
#include "error.h"
#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"
#include "sums.h"

struct problem plan_layer_problem(const struct problem *p, const struct plan *plan, int layer)
{
    struct problem part = *p;
    if (plan->layers == 1)
        return part;
    part.blocks.origin = layer * plan->layer_k;
    part.k_first = part.blocks.origin + p->k_first;
    part.k = min_i64(plan->layer_k, p->k_whole - part.blocks.origin) - p->k_first;
    if (layer > 0) {
        part.alpha = 1;
        part.alpha_i = part.beta = part.beta_i = 0;
    }
    return part;
}

struct plan plan_layer(const struct plan *plan, const struct problem *part)
{
    struct plan own = *plan;
    own.slabs = plan->slabs > 0 ? schedule_slabs(part, plan) : 0;
    return own;
}

struct machine plan_layer_machine(const struct machine *machine, int layers)
{
    struct machine own = *machine;
    own.ranks = machine->ranks / layers;
    own.ranks_per_node = (int)min_i64(machine->ranks_per_node, own.ranks);
    double on_a_node =
        (double)min_i64(machine->ranks_per_node, machine->ranks) / own.ranks_per_node;
    own.disk_read_bytes_per_s /= layers;
    own.node_disk_bytes_per_s /= on_a_node;
    own.network_bytes_per_s /= on_a_node;
    return own;
}

/* Steps of k of each of so many layers. */
static int64_t layer_steps(const struct problem *p, int layers)
{
    return layers > 1 ? sums_layer_blocks(p, layers) * p->blocks.steps : p->k_whole;
}

/* Layers of equally many ranks, each with blocks of k, none of which cuts a node in unequal parts
 * where there are several; other ranks are left out.  When the last layer has multiplied its part,
 * the others can no longer stop, so it has at least three quarters of theirs. */
static bool can_form(const struct query *q, int layers)
{
    const struct machine *machine = q->machine;
    const int ranks = machine->ranks / layers, node = machine->ranks_per_node;
    const int64_t steps = layer_steps(q->p, layers), last = q->p->k_whole - (layers - 1) * steps;
    return q->p->blocks.steps > 0 && ranks > 0 && steps > 0 && last >= steps - steps / 4 &&
           last > q->p->k_first &&
           (machine->ranks <= node || ranks % node == 0 || node % ranks == 0);
}

/* Every level of the tree sends a tile from device to device. */
static double adding_seconds(const struct query *q, const struct plan *plan)
{
    double tile = (double)(plan->tile_rows * plan->tile_cols) * (double)scalar_size(q->p->type);
    double senders = (double)plan->ranks_per_node;
    return ceil(log2(plan->layers)) *
           (tile / q->machine->out_bytes_per_s + senders * tile / q->machine->network_bytes_per_s +
            tile / q->machine->in_bytes_per_s);
}

/* The best plan that has all of C on the devices at once.  False when there is none, with the
 * search's complaint. */
static bool search_whole(const struct query *q, struct plan *plan, struct error *err)
{
    return plan_search(q, plan, err) == 0 && schedule_supers(plan) == 1;
}

/* The best plan with so many layers, which have all of C on their devices at once.  False when
 * there is none, with the search's complaint. */
static bool with_layers(const struct query *q, int layers, struct plan *plan, struct error *err)
{
    struct plan_request all_of_c = *q->request;
    all_of_c.whole = true;
    *plan = (struct plan){.layers = layers, .layer_k = layer_steps(q->p, layers)};
    struct problem part = plan_layer_problem(q->p, plan, 0);
    struct machine own = plan_layer_machine(q->machine, layers);
    const struct query of_layer = {&part, &own, &all_of_c};
    if (!search_whole(&of_layer, plan, err))
        return false;
    plan->roofline.add_s = adding_seconds(&of_layer, plan);
    plan->roofline.seconds += plan->roofline.add_s;
    plan->roofline.cost += plan->roofline.add_s;
    return true;
}

/* Twice as many layers, and again, where that is faster. */
static void choose_layers(const struct query *q, struct plan *plan)
{
    for (int layers = 2; layers <= q->machine->ranks; layers *= 2) {
        struct plan candidate;
        struct error ignored = {0};
        if (can_form(q, layers) && with_layers(q, layers, &candidate, &ignored) &&
            plan_prefers_layers(&candidate, plan))
            *plan = candidate;
    }
}

/* What one layer moves, exactly as its schedule will, onto the plan's totals. */
static void add_layer(const struct problem *p, int layer, struct plan *plan)
{
    struct problem part = plan_layer_problem(p, plan, layer);
    struct plan own = plan_layer(plan, &part);
    double read, sent;
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        struct traffic t = schedule_traffic(&part, &own, rank);
        plan->moves.idle_ranks -= t.write_bytes > 0;
        plan->moves.total.in_bytes += t.in_bytes;
        *(layer == 0 ? &plan->moves.total.out_bytes : &plan->moves.sent_bytes) += t.out_bytes;
        plan->moves.total.write_bytes += layer == 0 ? t.write_bytes : 0;
        plan->moves.total.flops += t.flops;
        if (t.flops > plan->moves.worst.flops || t.in_bytes > plan->moves.worst.in_bytes)
            plan->moves.worst = t;
    }
    schedule_shared(&part, &own, &read, &sent);
    plan->moves.read_bytes += read;
    plan->moves.sent_bytes += sent;
}

/* Totals of the chosen plan, of all layers. */
static void account(const struct query *q, struct plan *plan)
{
    const struct problem *p = q->p;
    const struct machine *machine = q->machine;
    plan->moves.idle_ranks = machine->ranks;
    for (int layer = 0; layer < plan->layers; layer++)
        add_layer(p, layer, plan);
    const double beside = p->normal ? (double)p->k_whole * (double)p->n : 0; /* op(B) */
    plan->moves.total.out_bytes += beside * (double)scalar_size(p->type);
    plan->moves.total.write_bytes += beside * (double)scalar_size(p->type);
    double m = (double)p->m, n = (double)p->n, c_bytes = (double)problem_element(p, OPERAND_C);
    double a_bytes = (double)problem_element(p, OPERAND_A);
    double b_bytes = (double)problem_element(p, OPERAND_B);
    const int64_t left = plan->layers > 1 ? p->k_whole - plan->layers * p->k_first : p->k;
    double k = problem_reads_ab(p) ? (double)left : 0;
    double nodes = (double)ceil_div(machine->ranks, machine->ranks_per_node);
    double fast =
        ((double)machine->device_memory * machine->ranks + (double)plan->cache_bytes * nodes) /
        c_bytes;
    double written = (double)problem_written_element(p);
    double c_in = problem_reads_c(p) ? problem_elements(p) : 0;
    double a = a_bytes * embedding_stored(p, OPERAND_A);
    double b = b_bytes * embedding_stored(p, OPERAND_B);
    double c = written * problem_elements(p) + c_bytes * c_in, ab = a * m * k + b * k * n;
    double bound = 2 * sqrt(a * b) * m * n * k / sqrt(fast) + c;
    if (problem_is_triangle(p)) {
        bound = sqrt(a * b) * m * n * k / sqrt(2 * fast) + c;
        ab = a * m * k;
    }
    double once = ab + c; /* each matrix once: the bound when all of it fits */
    plan->moves.bound_bytes = fmax(bound, once);
}

/* The plan of a piece whose sums have been saved, by as many layers.  False where there is none. */
static bool go_on(const struct query *q, struct plan *plan)
{
    const int layers = q->request->layers;
    struct error ignored = {0};
    return layers > 1 ? can_form(q, layers) && with_layers(q, layers, plan, &ignored)
                      : search_whole(q, plan, &ignored);
}

int plan_make(const struct problem *p, const struct machine *machine,
              const struct plan_request *request, struct plan *plan, struct error *err)
{
    const struct plan none = {.layers = 1, .layer_k = p->k_whole};
    struct plan_request any = *request;
    any.whole = p->normal;
    const struct query asked = {p, machine, request}, q = {p, machine, &any};
    *plan = none;
    if (!request->whole || !go_on(&asked, plan)) {
        *plan = none;
        if (plan_search(&q, plan, err))
            return err->code;
        if (!request->whole)
            choose_layers(&q, plan);
    }
    account(&q, plan);
    return 0;
}
