/* The roofline by which candidates are ranked: every super-block takes as long as the link that it
 * needs most, the first one has to fill the pipeline, and the last one to drain.  It is cheap and
 * need not be exact: simulate.h predicts the time of the plan that is chosen. */
#include <math.h>

#include "embedding.h"
#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"

/* What all nodes together get of a file system's rate, each through its own link. */
static double through_links(const struct machine *machine, const struct plan *plan, double rate)
{
    double links = plan_nodes(plan) * machine->node_disk_bytes_per_s;
    return links > 0 ? fmin(rate, links) : rate;
}

/* What a super-block needs of A, B and C0: seconds of what brings it, and the part of each operand
 * that comes from the files. */
struct pace {
    double read, network, again, in;
    double part[OPERAND_COUNT];
};

/* Bytes of C0, or of the panel that all ranks share, that the busiest rank copies. */
static double triangle_in(const struct problem *p, const struct plan *plan, enum operand operand)
{
    double most = 0;
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        struct block tile = schedule_triangle(p, plan, rank);
        most = fmax(most, (double)schedule_lines(p, plan, operand, &tile));
    }
    double elements = operand == OPERAND_C ? plan_tile_written(p, plan)
                                           : most * embedding_stored(p, operand) * (double)p->k;
    return elements * (double)problem_element(p, operand);
}

/* A row of super-blocks: so many rows of C, and the height of the busiest rank's tile, in parts of
 * a whole one; in the last row it may be lower. */
struct super_row {
    bool first;
    double lines, height;
};

static struct super_row set_row(const struct problem *p, const struct plan *plan, bool first,
                                bool last)
{
    const int64_t lines = plan->tile_rows * plan->grid_rows;
    const int64_t left = p->m - (plan->supers_down - 1) * lines;
    if (plan->supers_down == 1)
        return (struct super_row){first, (double)p->m, 1};
    if (!last)
        return (struct super_row){first, (double)lines, 1};
    return (struct super_row){first, (double)left, fmin(1, (double)left / (double)plan->tile_rows)};
}

/* Bytes of an operand a second: from the files, by the network to the node that receives most
 * (infinite where none does), and again from what the hosts keep. */
struct feed_rates {
    double read[OPERAND_COUNT], network[OPERAND_COUNT], again[OPERAND_COUNT];
};

static struct feed_rates set_feed_rates(const struct query *q, const struct plan *plan)
{
    const struct problem *p = q->p;
    const double ranks = (double)plan->grid_rows * plan->grid_cols;
    struct feed_rates feed = {.network = {0}};
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++) {
        if (!problem_reads(p, operand))
            continue;
        feed.read[operand] =
            through_links(q->machine, plan, plan_read_rate(p, q->machine, plan, operand));
        if (operand == OPERAND_C)
            continue;
        feed.again[operand] = plan_cache_rate(plan) * ranks / plan_nodes_of_line(plan, operand);
        feed.network[operand] = q->machine->network_bytes_per_s * plan_turn_rate(p, plan, operand) /
                                plan_part_received(plan, operand);
    }
    return feed;
}

/* A's panels are new in the first super-block of a row, B's in the first row.  Those that the
 * device holds are there already, A's in the rest of the row, B's where a new row begins; those
 * that the host keeps come again from there. */
static struct pace feed_seconds(const struct query *q, const struct plan *plan,
                                const struct feed_rates *feed, bool first_col,
                                const struct super_row *row)
{
    const struct problem *p = q->p;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    const double down = row->lines / m, across = 1 / (double)plan->supers_across;
    const double parts[] = {down, across, down * across};
    const double elements[] = {m * k * down, k * n * across, problem_elements(p) * down * across};
    const double panels[] = {(double)plan->slabs, (double)(plan->slabs * plan->supers_across)};
    const bool new[] = {first_col, row->first, true};
    const bool held[] = {plan_holds(plan, OPERAND_A), plan_holds(plan, OPERAND_B) && first_col};
    /* So many ranks share what comes. */
    const double lines[] = {plan->grid_rows, plan->grid_cols,
                            (double)plan->grid_rows * plan->grid_cols};
    struct pace s = {0};
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++) {
        double bytes =
            elements[operand] * embedding_stored(p, operand) * (double)problem_element(p, operand);
        bool comes = operand == OPERAND_C || problem_has_panels(p, operand);
        if (!problem_reads(p, operand) || (!new[operand] && held[operand]) || !comes)
            continue;
        double kept = new[operand] ? 0 : (double)plan->kept[operand] / panels[operand];
        s.part[operand] = (1 - kept) * parts[operand];
        s.in += (plan->triangle ? triangle_in(p, plan, operand) : bytes / lines[operand]) /
                q->machine->in_bytes_per_s;
        s.read += (1 - kept) * bytes / feed->read[operand];
        if (operand == OPERAND_C)
            continue;
        s.again += kept * bytes / feed->again[operand];
        s.network += (1 - kept) * bytes / feed->network[operand];
    }
    return s;
}

/* What the four kinds of super-blocks have in common: seconds. */
struct common {
    struct feed_rates feed;
    double gemm, slab; /* the products of a tile, of one of its slabs */
    double out, write; /* a tile from the device; a super-block into the file */
    double lost;       /* of a disk, which does not read while it writes that */
};

static struct common set_common(const struct query *q, struct plan *plan)
{
    const struct problem *p = q->p;
    const struct machine *machine = q->machine;
    const struct tile_product product = plan_tile_product(p, plan);
    double element = (double)problem_element(p, OPERAND_C);
    double tile = plan_tile_written(p, plan) * element;
    double of_c = problem_elements(p) * element;
    double bytes = fmin(of_c, tile * plan->grid_rows * plan->grid_cols);
    double rate = through_links(machine, plan, plan_write_rate(p, machine, plan));
    struct common each = {.feed = set_feed_rates(q, plan),
                          .out = tile / machine->out_bytes_per_s,
                          .write = bytes / rate};
    if (plan->slabs > 0) {
        each.gemm = plan_product_seconds(p, machine, q->request, plan, &product);
        each.slab = each.gemm / (double)plan->slabs;
    }
    each.lost = machine->files_in_memory ? 0 : bytes / machine->disk_read_bytes_per_s;
    plan->link_s[STAGE_WRITE] = of_c / rate;
    return each;
}

/* The same of a row of super-blocks. */
static struct common of_row(const struct common *whole, const struct plan *plan,
                            const struct super_row *row)
{
    const double lines = row->lines / (double)(plan->tile_rows * plan->grid_rows);
    const double part = plan->supers_down == 1 ? 1 : lines;
    return (struct common){.feed = whole->feed,
                           .gemm = whole->gemm * row->height,
                           .slab = whole->slab * row->height,
                           .out = whole->out * row->height,
                           .write = whole->write * part,
                           .lost = whole->lost * part};
}

/* Seconds of the device for a super-block.  The tile before leaves it beside all of this one or,
 * where they share accumulators, beside its own last slab and this one's first one: into slots
 * where there are enough, at the pace of the disk otherwise.  On the CPU the cores that multiply
 * move every byte twice. */
static double device_seconds(const struct query *q, const struct plan *plan,
                             const struct common *each, const struct common *before, double in)
{
    const struct machine *machine = q->machine;
    double tile = plan_tile_written(q->p, plan);
    double slots = (double)plan->slots_out * (double)plan->slot_elements;
    double leave = fmax(before->out, before->write * fmax(0, 1 - slots / tile));
    double moving = machine->gpu ? 0 : 2 * (in + each->out) / machine->threads;
    double beside = plan->tiles > 1 ? each->gemm : before->slab + each->slab;
    return each->gemm + fmax(0, leave - beside) + moving;
}

/* Of a triangle's tiles the lowest one waits longest for its first rows, or the first one for all
 * that come after its own. */
static double longest_wait(const struct problem *p, const struct plan *plan, double feed,
                           double device, double *last)
{
    struct block tile = {0}, lowest = {0};
    double of_lowest;
    if (plan->triangle) {
        tile = schedule_triangle(p, plan, 0);
        lowest = schedule_triangle(p, plan, plan->grid_rows * plan->grid_cols - 1);
    }
    double wait = plan_first_wait(p, plan, &tile, feed, device, last);
    wait = fmax(wait, plan_first_wait(p, plan, &lowest, feed, device, &of_lowest));
    *last = fmax(*last, of_lowest);
    return wait;
}

/* The first super-block: all waits for its first slab, or its last slab for all that comes. */
static double first_seconds(const struct query *q, const struct plan *plan, double feed,
                            double device)
{
    double slabs = (double)max_i64(plan->slabs, 1), last = 0;
    double wait = longest_wait(q->p, plan, feed / slabs, device / slabs, &last);
    double hops = fmax(plan_hops_seconds(q->p, q->machine, plan, OPERAND_A, feed),
                       plan_hops_seconds(q->p, q->machine, plan, OPERAND_B, feed));
    return fmax(feed + last, device + wait + hops);
}

/* Another one, while the one before is written.  What memory then feeds at a slower pace the device
 * cannot make up for. */
static double next_seconds(const struct machine *machine, const struct plan *plan, double feed,
                           double device, double read, double write)
{
    double pace = fmax(feed, device);
    if (machine->files_in_memory && read > 0)
        pace += write * fmax(0, 1 - plan_pace_beside_writing(machine, plan) * pace / read);
    return fmax(pace, write);
}

/* The super-blocks of a row: the first one, which follows one of the row before, and those that
 * follow. */
static void add_row(const struct query *q, const struct super_row *row, const struct common *each,
                    const struct common *above, double rows, struct plan *plan)
{
    for (int next = 0; next < 2; next++) {
        double count = next ? rows * (double)(plan->supers_across - 1) : rows;
        bool first = row->first && !next;
        const struct common *before = next ? each : above;
        if (count == 0)
            continue;
        struct pace s = feed_seconds(q, plan, &each->feed, !next, row);
        plan->link_s[STAGE_READ] += count * (s.read + s.again);
        plan->link_s[STAGE_NETWORK] += count * s.network;
        plan->link_s[STAGE_IN] += count * s.in;
        plan->link_s[STAGE_GEMM] += count * each->gemm;
        plan->link_s[STAGE_OUT] += count * each->out;
        for (int i = 0; i < OPERAND_COUNT; i++)
            plan->passes[i] += count * s.part[i];
        double device = device_seconds(q, plan, each, before, s.in);
        double read = s.read + (first ? 0 : before->lost);
        double feed = fmax(fmax(read, s.network), fmax(s.again, s.in));
        plan->roofline_s +=
            count * (first ? first_seconds(q, plan, feed, device)
                           : next_seconds(q->machine, plan, feed, device, read, before->write));
    }
}

void plan_roofline(const struct query *q, struct plan *plan)
{
    static const enum stage of_rows[] = {STAGE_READ, STAGE_NETWORK, STAGE_IN, STAGE_GEMM,
                                         STAGE_OUT};
    const struct common whole = set_common(q, plan);
    struct common each = whole;
    struct super_row row;
    plan->roofline_s = 0;
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
        plan->link_s[of_rows[i]] = 0;
    for (int i = 0; i < OPERAND_COUNT; i++)
        plan->passes[i] = 0;
    const int64_t rows[] = {1, plan->supers_down - 2, 1}; /* the first, those between, the last */
    for (int64_t i = 0; i < (plan->supers_down > 1 ? 3 : 1); i++) {
        row = set_row(q->p, plan, i == 0, i == 2);
        each = of_row(&whole, plan, &row);
        add_row(q, &row, &each, &whole, (double)rows[i], plan);
    }
    double strip = fmin(1, (double)plan->strip_rows / ((double)plan->tile_rows * row.height));
    plan->roofline_s += fmax(each.write * strip, each.write - each.slab * (1 - strip));
}
