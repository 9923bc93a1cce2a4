/* Start reading at simulate and step_pass, then node_read, rank_copy, rank_multiply and
 * tile_leave, which panels and tiles go through in that order; `serve` is all there is to time. */
#include "simulate_impl.h"

#include <math.h>

#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"

static double seconds_of(double amount, double rate)
{
    return rate > 0 ? amount / rate : 0;
}

/* What comes during `feed` is served from when the server is free, as it comes. */
static struct interval serve(struct server *server, struct interval feed, double amount,
                             double seconds)
{
    struct interval done = {.start = fmax(server->free, feed.start)};
    server->free = done.start + seconds;
    server->busy += seconds;
    server->amount += amount;
    done.end = fmax(server->free, feed.end);
    return done;
}

/* Both of them. */
static struct interval span_join(struct interval x, struct interval y)
{
    return (struct interval){fmin(x.start, y.start), fmax(x.end, y.end)};
}

static struct interval span_after(struct interval x, double time)
{
    return (struct interval){fmax(x.start, time), fmax(x.end, time)};
}

/* The last part of a span that is made of `count`. */
static struct interval span_last(struct interval x, double count)
{
    return (struct interval){x.end - (x.end - x.start) / count, x.end};
}

/* Bytes of a panel in this step, and of them those that the host has. */
static double panel_bytes(const struct sim *s, const struct need *need, const struct sim_step *step)
{
    return (double)need->extent * (double)step->k * s->element[need->operand];
}

static double kept_bytes(const struct sim *s, const struct need *need, const struct sim_step *step)
{
    int64_t k = need->again ? step->k_kept[need->operand] : 0;
    return (double)need->extent * (double)k * s->element[need->operand];
}

/* Of the panel that this and other nodes need, what this one reads; it sends that to each of the
 * others, and gets theirs. */
static double own_bytes(const struct sim *s, const struct need *need, const struct sim_step *step,
                        double *others)
{
    const struct panel_state *panel = &s->panels[need->panel];
    double kept =
        (double)need->extent * (double)step->k_kept[need->operand] * s->element[need->operand];
    double all = (panel_bytes(s, need, step) - kept) / panel->readers;
    double fetched = need->again ? 0 : kept / panel->fetchers;
    *others = all * (panel->readers - 1) + fetched * (panel->fetchers - 1);
    return all + fetched;
}

/* Make room for the step's panels: wait until enough of those before have been copied. */
static void ring_enter(const struct sim *s, struct node_state *node, const struct sim_step *step)
{
    node->step_bytes = 0;
    for (int i = 0; i < node->needs; i++)
        node->step_bytes += panel_bytes(s, &node->need[i], step);
    while (node->oldest < node->newest &&
           (node->held + node->step_bytes > s->ring_bytes * node->ranks ||
            node->newest - node->oldest == RING_STEPS)) {
        const struct ringed *leaves = &node->ring[node->oldest++ % RING_STEPS];
        node->held -= leaves->bytes;
        node->ready = fmax(node->ready, leaves->copied);
    }
}

static void ring_leave(struct node_state *node, double copied)
{
    node->ring[node->newest++ % RING_STEPS] = (struct ringed){node->step_bytes, copied};
    node->held += node->step_bytes;
}

/* When a device of the node first has room for this step's panels. */
static double node_gate(const struct sim *s, const struct node_state *node)
{
    double gate = INFINITY;
    for (int i = 0; i < node->ranks; i++)
        if (!block_empty(&s->ranks[node->first + i].tile))
            gate = fmin(gate, s->ranks[node->first + i].gate);
    return gate;
}

/* Seconds of reading that begins at `start` and would take so many alone: memory is read at a
 * slower pace while something is written to it. */
static double beside_writing(const struct sim *s, double start, double seconds)
{
    const struct interval writing = s->writing;
    const double pace = plan_pace_beside_writing(s->machine, s->plan);
    double before = fmin(seconds, fmax(0, writing.start - start));
    double slow =
        fmin((seconds - before) / pace, fmax(0, writing.end - fmax(start, writing.start)));
    return seconds + slow * (1 - pace);
}

/* Beside a disk's writing reading goes on at half its pace, or slower where the writing would not
 * end with the super-block. */
static struct interval read_files(struct sim *s, struct interval feed, double bytes,
                                  enum operand operand)
{
    double seconds = seconds_of(bytes, s->read_rate[operand]);
    if (s->machine->files_in_memory) {
        double start = fmax(s->disk_read.free, feed.start);
        return serve(&s->disk_read, feed, bytes, beside_writing(s, start, seconds));
    }
    double lost = fmin(s->lost, fmax(s->due, seconds));
    s->lost -= lost;
    s->due = fmax(0, s->due - lost);
    return serve(&s->disk_read, feed, bytes, seconds + lost);
}

/* The node's parts of the panels of A or B that it needs, from the files and to the other nodes. */
static void node_read(struct sim *s, struct node_state *node, const struct sim_step *step,
                      enum operand operand)
{
    if (node->step_bytes == 0)
        return;
    double beyond = 1 - s->ring_bytes * node->ranks / node->step_bytes;
    double gate = beyond > 0 ? node_gate(s, node) : 0;
    for (int i = 0; i < node->needs; i++) {
        struct need *need = &node->need[i];
        struct panel_state *panel = &s->panels[need->panel];
        if (need->operand != operand || need->extent == 0)
            continue;
        double others, part = own_bytes(s, need, step, &others);
        if (part == 0)
            continue;
        struct interval come = {node->ready, node->ready};
        come = read_files(s, come, part, operand);
        come.start = fmax(s->round, node->ready); /* the nodes take turns, slot by slot */
        come =
            serve(&node->link_in, come, part, seconds_of(part, s->machine->node_disk_bytes_per_s));
        if (beyond > 0) /* what the ring does not hold comes once the rest leaves it */
            come.end = fmax(come.end, gate + beyond * seconds_of(part, s->read_rate[operand]));
        if (others > 0)
            come = serve(&node->send, come, others, seconds_of(others, s->send_rate[operand]));
        panel->sent = panel->sent.end > 0 ? span_join(panel->sent, come) : come;
    }
}

/* What the node has not read itself.  Panels for several lines of the grid come in turns, slot by
 * slot, so all of them together. */
static void node_receive(struct sim *s, struct node_state *node, const struct sim_step *step,
                         enum operand operand)
{
    struct interval turns = {0};
    for (int i = 0; i < node->needs; i++) {
        struct need *need = &node->need[i];
        if (need->operand != operand || need->extent == 0)
            continue;
        double others, kept = kept_bytes(s, need, step);
        double read = own_bytes(s, need, step, &others);
        struct interval come = s->panels[need->panel].sent;
        if (others > 0)
            come = serve(&node->receive, come, others, seconds_of(others, s->send_rate[operand]));
        if (others > 0 && node->newest == 0)
            come.end +=
                plan_hops_seconds(s->p, s->machine, s->plan, operand, come.end - come.start);
        if (kept > 0) {
            struct interval ready = {node->ready, node->ready};
            double seconds = kept / (plan_cache_rate(s->plan) * node->ranks);
            struct interval again = serve(&node->cache, ready, kept, seconds);
            come = read > 0 ? span_join(come, again) : again;
        }
        turns = turns.end > 0 ? span_join(turns, come) : come;
    }
    for (int i = 0; i < node->needs; i++)
        if (node->need[i].operand == operand)
            node->need[i].arrived = turns;
}

/* On the CPU the cores that multiply move every byte twice: between file and slot, and on. */
static double moving_seconds(const struct sim *s, double copied)
{
    return s->machine->gpu ? 0 : 2 * copied / s->machine->threads;
}

/* The step's panels to the rank's device, beside the product before. */
static struct interval rank_copy(struct sim *s, const struct node_state *node,
                                 struct rank_state *rank, const struct sim_step *step,
                                 double *seconds)
{
    struct interval come = {rank->gate, rank->gate};
    bool first = true;
    for (int operand = OPERAND_B; operand >= OPERAND_A; operand--) {
        const struct need *need = &node->need[rank->need[operand]];
        if (!rank->copies[operand])
            continue;
        int64_t lines = schedule_lines(s->p, s->plan, (enum operand)operand, &rank->tile);
        double bytes = (double)step->k * (double)lines * s->element[operand];
        double takes = bytes / s->machine->in_bytes_per_s;
        if (first)
            takes += (double)step->slabs * plan_step_seconds(s->plan);
        struct interval copy =
            serve(&rank->in, span_after(need->arrived, rank->gate), bytes, takes);
        come = first ? copy : span_join(come, copy);
        first = false;
        *seconds += takes;
    }
    return come;
}

/* Multiply the first slab of the step once it has come, the last one after it has.  The first step
 * of a tile follows the tile before strip by strip out of the accumulators. */
static void rank_multiply(struct sim *s, struct rank_state *rank, const struct sim_step *step,
                          struct interval come, double moving)
{
    double slabs = (double)max_i64(step->slabs, 1), seconds = moving;
    int64_t cols =
        (int64_t)(plan_computed(s->p, s->machine, s->plan, &rank->tile) / (double)rank->tile.rows);
    struct tile_product product = {rank->tile.rows, cols, step->k, step->slabs};
    if (step->slabs > 0)
        seconds += plan_product_seconds(s->p, s->machine, s->request, s->plan, &product);
    double last = 0, slab = (come.end - come.start) / slabs;
    double wait = plan_first_wait(s->p, s->plan, &rank->tile, slab, seconds / slabs, &last);
    struct interval feed = {come.start + wait, come.end + last};
    feed.start = fmax(feed.start, rank->product.end);
    if (s->plan->tiles > 1 && step->first == 0)
        feed.start = fmax(feed.start, rank->left);
    if (s->plan->tiles == 1 && step->first == 0)
        feed = (struct interval){fmax(feed.start, rank->draining.start),
                                 fmax(feed.end, rank->draining.end)};
    double flops = 2 * schedule_products(s->p, &rank->tile) * (double)step->k;
    rank->product = serve(&rank->gemm, feed, flops, seconds);
    /* The buffers of all but the newest slabs are free again. */
    double ahead = fmin(1, (double)(plan_depth(s->plan) - 1) / slabs);
    rank->gate = rank->product.end - (rank->product.end - rank->product.start) * ahead;
}

/* C0's strips, to the device. */
static struct interval c0_come(struct sim *s, struct node_state *node, struct rank_state *rank,
                               double bytes)
{
    struct interval come = {node->ready, node->ready};
    come = read_files(s, come, bytes, OPERAND_C);
    come = serve(&node->link_in, come, bytes, seconds_of(bytes, s->machine->node_disk_bytes_per_s));
    return serve(&rank->in, span_after(come, rank->product.start), bytes,
                 bytes / s->machine->in_bytes_per_s);
}

/* The finished tile, strip by strip to the host and on to the file, once its last panels have come,
 * at `all`. */
static void tile_leave(struct sim *s, struct node_state *node, struct rank_state *rank,
                       const struct sim_step *step, double all)
{
    const double elements = schedule_written(s->p, s->plan, &rank->tile);
    const double bytes = elements * s->element[OPERAND_C];
    const double written = elements * (double)problem_written_element(s->p);
    struct interval feed = span_last(rank->product, (double)max_i64(step->slabs, 1));
    feed.start += (feed.end - feed.start) / (double)schedule_strips(s->plan, &rank->tile);
    feed.start = fmax(feed.start, all);
    if (problem_reads_c(s->p)) {
        struct interval c0 = c0_come(s, node, rank, bytes);
        feed = (struct interval){fmax(feed.start, c0.start), fmax(feed.end, c0.end)};
    }
    struct interval out = serve(&rank->out, feed, bytes, bytes / s->machine->out_bytes_per_s);
    struct interval link = serve(&node->link_out, out, written,
                                 seconds_of(written, s->machine->node_disk_bytes_per_s));
    struct interval file =
        serve(&s->disk_write, link, written, written / plan_write_rate(s->p, s->machine, s->plan));
    s->lost += written / s->machine->disk_read_bytes_per_s;
    if (file.start > s->writing.end)
        s->writing.start = file.start;
    s->writing.end = file.end;

    /* Slots take the tile once they are rid of the one before; what they do not hold waits for
     * the disk. */
    double slots = (double)s->plan->slots_out * (double)s->plan->slot_bytes;
    double beyond = fmax(0, 1 - slots / bytes);
    rank->left = rank->draining.end;
    out.end = fmax(out.end, rank->written);
    out.end = fmax(out.end, out.start + beyond * (file.end - out.start));
    rank->draining = out;
    rank->written = fmax(out.end, file.end);
}

static void node_work(struct sim *s, struct node_state *node, const struct sim_step *step)
{
    double copied = node->ready;
    for (int i = 0; i < node->ranks; i++) {
        struct rank_state *rank = &s->ranks[node->first + i];
        double seconds = 0;
        if (block_empty(&rank->tile))
            continue;
        struct interval come = rank_copy(s, node, rank, step, &seconds);
        if (seconds > 0)
            copied = fmax(copied, come.end);
        if (step->last)
            seconds += schedule_written(s->p, s->plan, &rank->tile) * s->element[OPERAND_C] /
                       s->machine->out_bytes_per_s;
        rank_multiply(s, rank, step, come, moving_seconds(s, seconds));
        if (step->last)
            tile_leave(s, node, rank, step, come.end);
    }
    ring_leave(node, copied);
}

static struct sim_step make_step(const struct sim *s, int64_t super, int64_t first)
{
    const struct plan *plan = s->plan;
    int64_t end = min_i64(first + s->slabs_a_step, plan->slabs);
    int64_t before = schedule_across(plan, super) * plan->slabs;
    int64_t kept[] = {plan->kept[OPERAND_A], plan->kept[OPERAND_B] - before};
    struct sim_step step = {
        super,       first,
        end - first, schedule_k(s->p, plan, end) - schedule_k(s->p, plan, first),
        {0},         end == plan->slabs};
    for (int i = OPERAND_A; i <= OPERAND_B; i++)
        step.k_kept[i] = max_i64(0, schedule_k(s->p, plan, min_i64(kept[i], end)) -
                                        schedule_k(s->p, plan, first));
    return step;
}

static void step_pass(struct sim *s, const struct sim_step *step)
{
    for (int i = 0; i < s->plan->grid_rows + s->plan->grid_cols; i++)
        s->panels[i].sent = (struct interval){0};
    s->round = s->disk_read.free;
    s->due = s->lost / (double)ceil_div(max_i64(s->plan->slabs - step->first, 1), s->slabs_a_step);
    for (int i = 0; i < s->node_count; i++)
        ring_enter(s, &s->nodes[i], step);
    for (int operand = OPERAND_B; operand >= OPERAND_A; operand--)
        for (int i = 0; i < s->node_count; i++)
            node_read(s, &s->nodes[i], step, (enum operand)operand);
    for (int i = 0; i < s->node_count; i++) {
        node_receive(s, &s->nodes[i], step, OPERAND_B);
        node_receive(s, &s->nodes[i], step, OPERAND_A);
        node_work(s, &s->nodes[i], step);
    }
}

static void count(struct simulation *result, enum resource resource, const struct server *server)
{
    struct usage *usage = &result->usage[resource];
    usage->count++;
    usage->amount += server->amount;
    usage->busy_s = fmax(usage->busy_s, server->busy);
    result->wall_s = fmax(result->wall_s, server->free);
}

static void sum_up(const struct sim *s, struct simulation *result)
{
    count(result, RESOURCE_READ, &s->disk_read);
    count(result, RESOURCE_WRITE, &s->disk_write);
    for (int i = 0; i < s->node_count; i++) {
        count(result, RESOURCE_LINK_IN, &s->nodes[i].link_in);
        count(result, RESOURCE_SEND, &s->nodes[i].send);
        count(result, RESOURCE_RECEIVE, &s->nodes[i].receive);
        count(result, RESOURCE_CACHE, &s->nodes[i].cache);
        count(result, RESOURCE_LINK_OUT, &s->nodes[i].link_out);
    }
    for (int i = 0; i < s->rank_count; i++) {
        count(result, RESOURCE_IN, &s->ranks[i].in);
        count(result, RESOURCE_GEMM, &s->ranks[i].gemm);
        count(result, RESOURCE_OUT, &s->ranks[i].out);
        result->wall_s = fmax(result->wall_s, s->ranks[i].written);
    }
}

static void super_pass(struct sim *s, int64_t super)
{
    int64_t slab = 0;
    simulate_enter(s, super);
    do {
        struct sim_step step = make_step(s, super, slab);
        step_pass(s, &step);
        slab += s->slabs_a_step;
    } while (slab < s->plan->slabs);
}

/* Let `times` as much follow as came after `before`. */
static void extrapolate(struct simulation *result, const struct simulation *before, double times)
{
    result->wall_s += times * (result->wall_s - before->wall_s);
    for (int i = 0; i < RESOURCE_COUNT; i++) {
        struct usage *usage = &result->usage[i];
        usage->amount += times * (usage->amount - before->usage[i].amount);
        usage->busy_s += times * (usage->busy_s - before->usage[i].busy_s);
    }
}

/* Super-blocks that are left out are like the newest ones, a row of them. */
static void all_supers(struct sim *s, struct simulation *result)
{
    struct simulation before = {0};
    int64_t others = schedule_supers(s->plan) - s->supers;
    int64_t newest = min_i64(s->plan->supers_across, (s->supers + 1) / 2);
    for (int64_t super = 0; super < s->supers; super++) {
        if (super == s->supers - newest)
            sum_up(s, &before);
        super_pass(s, super);
    }
    sum_up(s, result);
    extrapolate(result, &before, (double)others / (double)newest);
}

/* Memory is read and written by the same threads, whose work has to be done whatever waits for
 * what.  For a disk they mostly wait, and on the CPU they multiply, too. */
static double threads_seconds(const struct sim *s, const struct simulation *result)
{
    const struct machine *m = s->machine;
    return m->gpu && m->files_in_memory
               ? s->plan->roofline.link_s[STAGE_READ] +
                     result->usage[RESOURCE_WRITE].amount / machine_write_by_threads(m)
               : 0;
}

static void find_limit(struct simulation *result)
{
    for (int i = 0; i < RESOURCE_COUNT; i++)
        if (result->usage[i].busy_s > result->usage[result->limit].busy_s)
            result->limit = (enum resource)i;
}

/* All layers do the same, each with its part of the machine. */
void simulate(const struct problem *p, const struct machine *machine,
              const struct plan_request *request, const struct plan *plan,
              struct simulation *result)
{
    struct problem part = plan_layer_problem(p, plan, 0);
    struct machine own = plan_layer_machine(machine, plan->layers);
    struct sim s = {.p = &part, .machine = &own, .request = request, .plan = plan};
    *result =
        (struct simulation){.disk_bytes = plan->moves.read_bytes + plan->moves.total.write_bytes,
                            .bound_bytes = plan->moves.bound_bytes,
                            .pieces = 1};
    if (simulate_open(&s)) {
        all_supers(&s, result);
        result->wall_s = fmax(result->wall_s, threads_seconds(&s, result)) + plan->roofline.add_s;
    } else {
        result->wall_s = plan->roofline.seconds;
    }
    result->nodes = s.node_count;
    simulate_close(&s);
    for (int i = 0; i < RESOURCE_COUNT; i++) {
        bool all = i == RESOURCE_READ || i == RESOURCE_WRITE;
        result->usage[i].count *= all ? 1 : plan->layers;
        result->usage[i].amount *= i == RESOURCE_WRITE ? 1 : plan->layers;
    }
    find_limit(result);
}

void simulation_begin_after(struct simulation *simulation, double seconds)
{
    simulation->before_s += seconds;
    simulation->wall_s += seconds;
}

void simulation_add(struct simulation *sum, const struct simulation *more)
{
    sum->wall_s += more->wall_s;
    sum->disk_bytes += more->disk_bytes;
    sum->bound_bytes += more->bound_bytes;
    sum->pieces += more->pieces;
    for (int i = 0; i < RESOURCE_COUNT; i++) {
        sum->usage[i].amount += more->usage[i].amount;
        sum->usage[i].busy_s += more->usage[i].busy_s;
    }
    find_limit(sum);
}
