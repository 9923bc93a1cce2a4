/* The K split: where C is too small to occupy all ranks, they form layers, each of which multiplies
 * its own part of k. */
#include <inttypes.h>
#include <math.h>

#include "embedding.h"
#include "error.h"
#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"

/* A split changes the bits, so it must take less than this part of the time without. */
static const double clearly = 0.75;

struct problem plan_layer_problem(const struct problem *p, const struct plan *plan, int layer)
{
    struct problem part = *p;
    part.k_first += layer * plan->layer_k;
    part.k = min_i64(plan->layer_k, p->k - layer * plan->layer_k);
    if (layer > 0) {
        part.alpha = 1;
        part.alpha_i = part.beta = part.beta_i = 0;
    }
    return part;
}

struct plan plan_layer(const struct plan *plan, const struct problem *part)
{
    struct plan own = *plan;
    own.slabs = plan->slabs > 0 ? ceil_div(part->k, plan->slab) : 0;
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

/* Layers of equally many ranks, with k for each, none of which cuts a node in unequal parts. */
static bool can_form(const struct query *q, int layers)
{
    const struct machine *machine = q->machine;
    int64_t most = ceil_div(q->p->k, round_up(ceil_div(q->p->k, layers), problem_quantum(q->p)));
    int ranks = machine->ranks / layers,
        node = (int)min_i64(machine->ranks_per_node, machine->ranks);
    return machine->ranks % layers == 0 && layers <= most &&
           (ranks % node == 0 || node % ranks == 0);
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
    *plan = (struct plan){.layers = layers,
                          .layer_k = round_up(ceil_div(q->p->k, layers), problem_quantum(q->p))};
    struct problem part = plan_layer_problem(q->p, plan, 0);
    struct machine own = plan_layer_machine(q->machine, layers);
    const struct query of_layer = {&part, &own, &all_of_c};
    if (!search_whole(&of_layer, plan, err))
        return false;
    plan->roofline.add_s = adding_seconds(&of_layer, plan);
    plan->roofline.seconds += plan->roofline.add_s;
    return true;
}

static int forced(const struct query *q, struct plan *plan, struct error *err)
{
    const struct plan_request *request = q->request;
    if (!can_form(q, request->layers))
        return error_add(
            err, EXIT_USAGE,
            "--split-k %d: %d rank%s (%d on a node) and a k of %" PRId64
            " cannot be divided into %d layers of equal ranks and whole multiples of %" PRId64
            " steps; give another number, or leave it out",
            request->layers, q->machine->ranks, q->machine->ranks == 1 ? "" : "s",
            q->machine->ranks_per_node, q->p->k / problem_width(q->p), request->layers,
            problem_quantum(q->p) / problem_width(q->p));
    if (!with_layers(q, request->layers, plan, err) && !err->code)
        return error_add(err, EXIT_RESOURCES,
                         "--split-k %d: the devices of a layer, %d of the %d ranks, cannot hold "
                         "all of C at once; give more --gpu-memory, more ranks or fewer layers",
                         request->layers, q->machine->ranks / request->layers, q->machine->ranks);
    return err->code;
}

static void choose(const struct query *q, struct plan *plan)
{
    double flops = 2.0 * (double)q->p->m * (double)q->p->n * (double)q->p->k;
    double least = flops / (plan->gemm_flops_per_s * q->machine->ranks),
           most = clearly * plan->roofline.seconds;
    for (int layers = 2; layers <= q->machine->ranks && least < most; layers++) {
        struct plan candidate;
        struct error ignored = {0};
        if (can_form(q, layers) && with_layers(q, layers, &candidate, &ignored) &&
            candidate.roofline.seconds < most) {
            *plan = candidate;
            most = candidate.roofline.seconds;
        }
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
        *(layer == 0 ? &plan->moves.total.write_bytes : &plan->moves.sent_bytes) += t.write_bytes;
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
    plan->moves.total.out_bytes = plan->moves.total.write_bytes;
    double m = (double)p->m, n = (double)p->n, c_bytes = (double)problem_element(p, OPERAND_C);
    double a_bytes = (double)problem_element(p, OPERAND_A);
    double b_bytes = (double)problem_element(p, OPERAND_B);
    double k = problem_reads_ab(p) ? (double)p->k : 0;
    double nodes = (double)ceil_div(machine->ranks, machine->ranks_per_node);
    double fast =
        ((double)machine->device_memory * machine->ranks + (double)plan->cache_bytes * nodes) /
        c_bytes;
    double c_in = problem_reads_c(p) ? problem_elements(p) : 0;
    double a = a_bytes * embedding_stored(p, OPERAND_A);
    double b = b_bytes * embedding_stored(p, OPERAND_B);
    double c = c_bytes * (problem_elements(p) + c_in), ab = a * m * k + b * k * n;
    double bound = 2 * sqrt(a * b) * m * n * k / sqrt(fast) + c;
    if (problem_is_triangle(p)) {
        bound = sqrt(a * b) * m * n * k / sqrt(2 * fast) + c;
        ab = a * m * k;
    }
    double once = ab + c; /* each matrix once: the bound when all of it fits */
    plan->moves.bound_bytes = fmax(bound, once);
}

int plan_make(const struct problem *p, const struct machine *machine,
              const struct plan_request *request, struct plan *plan, struct error *err)
{
    const struct plan none = {.layers = 1, .layer_k = p->k};
    struct plan_request any = *request;
    any.whole = false;
    const struct query asked = {p, machine, request}, q = {p, machine, &any};
    struct error ignored = {0};
    *plan = none;
    if (!request->whole || !search_whole(&asked, plan, &ignored)) {
        *plan = none;
        if (request->layers > 1 && problem_reads_ab(p))
            forced(&q, plan, err);
        else if (plan_search(&q, plan, err) == 0 && request->layers == 0 && problem_reads_ab(p))
            choose(&q, plan);
        if (err->code)
            return err->code;
    }
    account(&q, plan);
    return 0;
}
