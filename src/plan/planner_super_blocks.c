/* What super-blocks need of every link, as the roofline ranks candidates by it.  They are of up to
 * four kinds: of the first row and of later ones, the first of its row and each of those that
 * follow. */
#include <math.h>

#include "embedding.h"
#include "planner_impl.h"
#include "schedule.h"

/* What all nodes together get of a file system's rate, each through its own link. */
static double through_links(const struct machine *machine, const struct plan *plan, double rate)
{
    double links = plan_nodes(plan) * machine->node_disk_bytes_per_s;
    return links > 0 ? fmin(rate, links) : rate;
}

double plan_write_seconds(const struct query *q, const struct plan *plan, double bytes)
{
    return bytes / through_links(q->machine, plan, plan_write_rate(q->p, q->machine, plan));
}

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

/* What brings A, B and C0.  A's panels are new in the first super-block of a row, B's in the first
 * row.  Those that the device holds are there already, A's in the rest of the row, B's where a new
 * row begins; those that the host keeps come again from there. */
static void add_feed(const struct query *q, const struct plan *plan, const struct feed_rates *feed,
                     bool first_col, bool first_row, struct super_needs *s)
{
    const struct problem *p = q->p;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    const double down = 1 / (double)plan->supers_down, across = 1 / (double)plan->supers_across;
    const double parts[] = {down, across, down * across};
    const double elements[] = {m * k * down, k * n * across, problem_elements(p) * down * across};
    const double panels[] = {(double)plan->slabs, (double)(plan->slabs * plan->supers_across)};
    const bool new[] = {first_col, first_row, true};
    const bool held[] = {plan_holds(plan, OPERAND_A), plan_holds(plan, OPERAND_B) && first_col};
    /* So many ranks share what comes. */
    const double lines[] = {plan->grid_rows, plan->grid_cols,
                            (double)plan->grid_rows * plan->grid_cols};
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++) {
        double bytes =
            elements[operand] * embedding_stored(p, operand) * (double)problem_element(p, operand);
        bool comes = operand == OPERAND_C || problem_has_panels(p, operand);
        if (!problem_reads(p, operand) || (!new[operand] && held[operand]) || !comes)
            continue;
        double kept = new[operand] ? 0 : (double)plan->kept[operand] / panels[operand];
        s->part[operand] = (1 - kept) * parts[operand];
        s->in += (plan->triangle ? triangle_in(p, plan, operand) : bytes / lines[operand]) /
                 q->machine->in_bytes_per_s;
        s->read += (1 - kept) * bytes / feed->read[operand];
        if (operand == OPERAND_C)
            continue;
        s->again += kept * bytes / feed->again[operand];
        s->network += (1 - kept) * bytes / feed->network[operand];
    }
}

/* What a super-block does with what has come. */
static struct work_needs set_work(const struct query *q, const struct plan *plan)
{
    const struct problem *p = q->p;
    const struct machine *machine = q->machine;
    const struct tile_product product = plan_tile_product(p, machine, plan);
    double tile = plan_tile_written(p, plan) * (double)problem_element(p, OPERAND_C);
    double bytes =
        problem_elements(p) * (double)problem_written_element(p) / (double)schedule_supers(plan);
    struct work_needs work = {.out = tile / machine->out_bytes_per_s,
                              .write = plan_write_seconds(q, plan, bytes)};
    if (plan->slabs > 0) {
        work.gemm = plan_product_seconds(p, machine, q->request, plan, &product);
        work.slab = work.gemm * (1 - (double)schedule_k(p, plan, plan->slabs - 1) / (double)p->k);
    }
    work.lost = machine->files_in_memory ? 0 : bytes / machine->disk_read_bytes_per_s;
    return work;
}

int plan_needs(const struct query *q, const struct plan *plan, struct super_needs kinds[NEEDS_MOST])
{
    const struct work_needs work = set_work(q, plan);
    const struct feed_rates feed = set_feed_rates(q, plan);
    const int64_t rows[] = {1, plan->supers_down - 1}; /* the first, all others */
    const int64_t cols[] = {1, plan->supers_across - 1};
    int count = 0;
    for (int row = 0; row < 2; row++)
        for (int col = 0; col < 2; col++) {
            if (rows[row] * cols[col] == 0)
                continue;
            struct super_needs *kind = &kinds[count++];
            *kind = (struct super_needs){.count = (double)(rows[row] * cols[col]),
                                         .first = row == 0 && col == 0,
                                         .work = work};
            add_feed(q, plan, &feed, col == 0, row == 0, kind);
        }
    return count;
}
