#include "planner.h"

#include <inttypes.h>
#include <math.h>

#include "embedding.h"
#include "error.h"
#include "first_read.h"
#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"
#include "triangle.h"

enum {
    TILES_MAX = 1 << 28,   /* of all ranks: more take too long even to count */
    HELD_MAX = 1024,       /* slabs whose panels of A or B the device keeps */
    LINES_MAX = 8,         /* short side of a grid that leaves a few ranks out */
    FEW = 8,               /* ranks any number of which may be left out */
    STEP_LEAST = 32 << 20, /* bytes of A and of B that all ranks need in a step, on a GPU */
};
static const double clearly = 0.95;                /* of the cost without */
static const double idle_part = 0.9, idle_s = 0.1; /* for ranks that are left idle */

/* The widest tile that fits beside `tile_rows` rows; 0 when none does. */
static int64_t widest_tile(const struct query *q, struct plan *plan)
{
    int64_t low = 0, high = ceil_div(q->p->n, plan->grid_cols);
    plan_set_held(plan, OPERAND_COUNT);
    while (low < high) {
        plan->tile_cols = low + (high - low + 1) / 2;
        plan_set_counts(q, plan);
        if (plan_fits(q, plan))
            low = plan->tile_cols;
        else
            high = plan->tile_cols - 1;
    }
    return low - low % problem_width(q->p);
}

/* Cut `extent` into at most `pieces` pieces of equal size, a multiple of the granule where it can
 * be. */
static int64_t piece(int64_t extent, int64_t pieces)
{
    const int64_t size = ceil_div(extent, pieces);
    return min_i64(extent, size > GRANULE ? round_up(size, GRANULE) : size);
}

/* Steps should take little of the time, and have enough to read at a time. */
static double steps_cost(const struct query *q, const struct plan *plan)
{
    static const double part = 0.01, weight = 2, of_small = 0.05;
    const double seconds = plan->roofline.seconds;
    bool small = q->machine->gpu && plan->slabs > 1 && plan_step_bytes(q->p, plan) < STEP_LEAST;
    return weight * fmax(0, plan->roofline.steps_s - part * seconds) + small * of_small * seconds;
}

/* What is to be least: the roofline; steps that are too many or too small; a pass before that need
 * not be; among plans that are as good, a little of the reading. */
static double judge(const struct query *q, struct plan *plan)
{
    plan_roofline(q, plan);
    return plan->roofline.seconds + steps_cost(q, plan) +
           first_read_needless(q->p, plan, q->machine) +
           (q->machine->files_in_memory ? 0.01 : 0.1) * plan->roofline.link_s[STAGE_READ];
}

/* The candidate, once it is complete, becomes the best plan if its cost is less.  Its cost. */
static double keep_better(const struct query *q, const struct plan *candidate, struct plan *best)
{
    struct plan plan = *candidate;
    plan_keep_panels(q, &plan);
    plan.roofline.cost = judge(q, &plan);
    bool first = best->roofline.seconds == 0;
    if (first || plan.roofline.cost < best->roofline.cost * (1 - 1e-9) ||
        (plan.roofline.cost <= best->roofline.cost && plan.device_bytes < best->device_bytes))
        *best = plan;
    return plan.roofline.cost;
}

/* The candidate with two panels of A and of B on the device and, where they fit, with all that the
 * next tile can use again: of A in a row of super-blocks, of B in a column of them.  The smallest
 * cost, or infinity when none fits. */
static double compare(const struct query *q, struct plan *plan, struct plan *best)
{
    double least = INFINITY;
    bool several = plan->slabs > 1 && plan->slabs <= HELD_MAX && schedule_supers(plan) > 1;
    enum operand useful = plan->supers_across > 1 ? OPERAND_A : OPERAND_B;
    const enum operand held[] = {OPERAND_COUNT, useful};
    for (int i = 0; i <= several; i++) {
        plan_set_held(plan, held[i]);
        if (plan_fits(q, plan))
            least = fmin(least, keep_better(q, plan, best));
    }
    return least;
}

/* All widths for one grid, slab and height: as few tiles across as the memory allows, then more, as
 * long as that is better: small tiles are read for more often, but leave more smoothly. */
static void search_widths(const struct query *q, struct plan *plan, struct plan *best)
{
    int64_t widest = widest_tile(q, plan), most = ceil_div(q->p->n, plan->grid_cols);
    double before = INFINITY;
    int64_t last = q->request->whole ? 1 : most;
    for (int64_t across = widest ? ceil_div(most, widest) : most + 1; across <= last; across++) {
        plan->tile_cols = min_i64(
            round_up(piece(q->p->n, plan->grid_cols * across), problem_width(q->p)), widest);
        plan_set_counts(q, plan);
        double now = compare(q, plan, best);
        if (now >= before)
            return;
        before = now;
    }
}

/* All heights of tile for one grid and slab: 1, 2, 3 ... super-blocks down, then in steps of a
 * twelfth, to tiles of one row. */
static void search_tiles(const struct query *q, struct plan *plan, struct plan *best)
{
    int64_t most = ceil_div(q->p->m, plan->grid_rows), down = 0;
    do {
        down = min_i64(most, down + 1 + down / 12);
        plan->tile_rows = piece(q->p->m, plan->grid_rows * down);
        search_widths(q, plan, best);
    } while (down < most && !q->request->whole &&
             !(plan->tile_rows <= GRANULE && best->roofline.seconds > 0));
}

/* Steps of the longest slab. */
static int64_t longest(const struct problem *p)
{
    return p->blocks.steps > 0 ? min_i64(p->k, p->blocks.steps) : p->k;
}

/* As a slab of at least one step, which ends where the kernels' steps do. */
static int64_t whole_slab(const struct problem *p, int64_t steps)
{
    int64_t k = max_i64(longest(p), 1), slab = min_i64(max_i64(steps, 1), k);
    return min_i64(round_up(slab, problem_quantum(p)), round_up(k, GEMM_QUANTUM));
}

/* Slabs that are longer than a chunk end with one, so that none is decoded twice but where a block
 * of sums ends within it. */
static int64_t slab_unit(const struct problem *p, int64_t slab)
{
    const struct matrix *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    struct block of_a = {0, 0, a->chunk_rows, a->chunk_cols},
                 of_b = {0, 0, b->chunk_rows, b->chunk_cols};
    of_a = embedding_of_file(p, OPERAND_A, &of_a);
    of_b = embedding_of_file(p, OPERAND_B, &of_b);
    if (p->normal) /* B is X, which does not come in slabs */
        of_b = (struct block){0};
    int64_t chunk =
        max_i64(p->trans[0] ? of_a.rows : of_a.cols, p->trans[1] ? of_b.cols : of_b.rows);
    bool fits = chunk > 0 && chunk % problem_quantum(p) == 0 && slab >= chunk;
    return fits ? chunk : problem_quantum(p);
}

/* Slabs of so many steps, of which the first one has what is left of k: products begin early. */
static void set_slabs(const struct problem *p, int64_t steps, struct plan *plan)
{
    const int64_t unit = slab_unit(p, whole_slab(p, steps));
    plan->slab = whole_slab(p, round_up(steps, unit));
    plan->slab_short =
        p->blocks.steps > 0 ? 0 : max_i64(0, round_up(p->k, plan->slab) - round_up(p->k, unit));
}

/* A triangle is one super-block of a tile a rank, so only the slabs are to choose. */
static void try_triangle(const struct query *q, struct plan *plan, struct plan *best)
{
    plan_set_counts(q, plan);
    plan_set_held(plan, OPERAND_COUNT);
    if (plan->slabs == 1)
        plan->buffers[OPERAND_A] = plan->buffers[OPERAND_B] = 1;
    if (plan->grid_rows == 1 || plan->grid_cols == 1)
        plan->buffers[OPERAND_A] = 0;
    if (plan_fits(q, plan))
        keep_better(q, plan, best);
}

/* All slabs for one grid: the whole of k, or of a block of sums, its half, its third ... and one
 * quantum.  A triangle that waits for all of a panel may have 4/5, 4/6 ... of k, too.  Products in
 * residues on a GPU have one quantum alone: so long the workspace can hold what was converted. */
static void search_slabs(const struct query *q, struct plan *plan, struct plan *best)
{
    int64_t quantum = problem_quantum(q->p), quarters = 0;
    int64_t most = 4 * (problem_reads_ab(q->p) ? ceil_div(longest(q->p), quantum) : 1);
    bool shortest = q->p->moduli > 0 && q->machine->gpu;
    bool fine =
        problem_is_triangle(q->p) && !plan_comes_by_rows(q->p, plan) && q->p->blocks.steps == 0;
    do {
        quarters += fine && quarters >= 4 && quarters < 12 ? 1 : 4 + quarters / 16 * 4;
        quarters = shortest ? most : min_i64(most, quarters);
        set_slabs(q->p, quantum * ceil_div(most, quarters), plan);
        if (problem_is_triangle(q->p))
            try_triangle(q, plan, best);
        else
            search_tiles(q, plan, best);
    } while (quarters < most);
}

/* The ranks of a node form a block of the grid, where they fill one: the one with the shortest
 * sides, since so much of A and of B comes to the node. */
static void set_nodes(const struct query *q, struct plan *plan)
{
    int per_node = (int)min_i64(q->machine->ranks_per_node, q->machine->ranks);
    int rows = plan->grid_rows, cols = plan->grid_cols;
    double least = INFINITY;
    plan->ranks_per_node = per_node;
    plan->block_rows = plan->block_cols = 1;
    plan->node_lines[0] = min_i64(rows, ceil_div(per_node - 1, cols) + 1);
    plan->node_lines[1] = min_i64(cols, per_node);
    for (int down = 1; down <= per_node; down++) {
        int across = per_node / down;
        double sides = (double)q->p->m / rows * down + (double)q->p->n / cols * across;
        if (per_node % down || rows % down || cols % across || sides >= least)
            continue;
        least = sides;
        plan->node_lines[0] = plan->block_rows = down;
        plan->node_lines[1] = plan->block_cols = across;
    }
}

static void search_grid(const struct query *q, struct plan *plan, struct plan *best)
{
    const struct plan_request *request = q->request;
    set_nodes(q, plan);
    if (!request->tile_rows) {
        search_slabs(q, plan, best);
        return;
    }
    plan->tile_rows = request->tile_rows;
    plan->tile_cols = request->tile_cols;
    plan->slab = whole_slab(q->p, request->slab);
    plan_set_counts(q, plan);
    compare(q, plan, best);
}

/* A triangle is one super-block, of a tile a rank. */
static void set_triangle(const struct query *q, int rows, int cols, struct plan *plan)
{
    plan->triangle = true;
    plan->grid_rows = rows;
    plan->grid_cols = cols;
    set_nodes(q, plan);
    plan->node_lines[0] = plan->node_lines[1] = 1;
    plan->tile_rows = triangle_height(q->p->m, plan);
    plan->strip_rows = plan_triangle_strip_rows(q, plan);
    plan->tile_cols = 0;
    for (int rank = 0; rank < rows * cols; rank++) {
        struct block tile = schedule_triangle(q->p, plan, rank);
        plan->tile_cols = max_i64(plan->tile_cols, tile.cols);
    }
}

/* One grid.  Of a product that is no triangle each rank of it has a part of C. */
static void search_lines(const struct query *q, int rows, int cols, struct plan *plan,
                         struct plan *best)
{
    if (problem_is_triangle(q->p)) {
        set_triangle(q, rows, cols, plan);
        search_slabs(q, plan, best);
    } else if (rows <= (q->p->normal ? 1 : q->p->m) && cols <= q->p->n / problem_width(q->p)) {
        plan->grid_rows = rows;
        plan->grid_cols = cols;
        search_grid(q, plan, best);
    }
}

/* All grids of so many ranks. */
static void search_ranks(const struct query *q, int ranks, struct plan *plan, struct plan *best)
{
    for (int rows = 1; rows <= ranks; rows++)
        if (ranks % rows == 0)
            search_lines(q, rows, ranks / rows, plan, best);
}

/* Grids that leave a few ranks out, for numbers of ranks without a good divisor. */
static void search_good_divisors(const struct query *q, struct plan *plan, struct plan *best)
{
    int all = q->machine->ranks;
    for (int lines = 2; lines <= LINES_MAX && lines * lines <= all; lines++) {
        if (all % lines == 0)
            continue;
        search_lines(q, lines, all / lines, plan, best);
        search_lines(q, all / lines, lines, plan, best);
    }
}

/* What no plan of so many ranks is faster than: their products, and each operand read once. */
static double least_seconds(const struct query *q, const struct plan *plan, int ranks)
{
    const struct problem *p = q->p;
    const double lines[] = {(double)p->m, (double)p->n};
    double step = 0; /* bytes of a step of k */
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        if (problem_has_panels(p, i))
            step += lines[i] * embedding_stored(p, i) * (double)problem_element(p, i);
    return fmax(2 * problem_products(p) / plan->gemm_flops_per_s / ranks,
                step / q->machine->disk_read_bytes_per_s) *
           (double)(problem_reads_ab(p) ? p->k : 0);
}

/* Half of the ranks, on whole nodes; of a few ranks all but one. */
static int fewer_ranks(const struct machine *machine, int ranks)
{
    if (ranks <= FEW)
        return ranks - 1;
    return ranks / 2 -
           (ranks / 2 > machine->ranks_per_node ? ranks / 2 % machine->ranks_per_node : 0);
}

/* The plan for fewer ranks becomes the best one where it takes less than this part of the cost of
 * that, and saves so many seconds. */
static void prefer_fewer(const struct plan *fewer, double part, double saved_s, struct plan *best)
{
    bool none = best->roofline.seconds == 0, found = fewer->roofline.seconds > 0;
    if (found && (none || (fewer->roofline.cost < part * best->roofline.cost &&
                           fewer->roofline.seconds < best->roofline.seconds - saved_s)))
        *best = *fewer;
}

/* More ranks are not always faster: they need parts of the same panels, and wait for each other.
 * So a part of them may be clearly better than all.  Not those of a triangle: they need little of
 * each other. */
static void search_fewer_ranks(const struct query *q, struct plan *plan, struct plan *best)
{
    struct plan fewer = {0};
    search_good_divisors(q, plan, &fewer);
    prefer_fewer(&fewer, clearly, 0, best);
    for (int ranks = fewer_ranks(q->machine, q->machine->ranks); ranks > 0;
         ranks = fewer_ranks(q->machine, ranks))
        if (best->roofline.seconds == 0 ||
            least_seconds(q, plan, ranks) < idle_part * best->roofline.seconds) {
            fewer = (struct plan){0};
            search_ranks(q, ranks, plan, &fewer);
            prefer_fewer(&fewer, idle_part, idle_s, best);
        }
}

bool plan_prefers_layers(const struct plan *layers, const struct plan *plan)
{
    return layers->roofline.cost < clearly * plan->roofline.cost;
}

static void search_grids(const struct query *q, struct plan *plan, struct plan *best)
{
    const struct plan_request *request = q->request;
    if (request->grid_rows && !problem_is_triangle(q->p)) {
        plan->grid_rows = request->grid_rows;
        plan->grid_cols = request->grid_cols;
        search_grid(q, plan, best);
        return;
    }
    search_ranks(q, q->machine->ranks, plan, best);
    if (!problem_is_triangle(q->p))
        search_fewer_ranks(q, plan, best);
}

/* The smallest plan does not fit: say what it needs. */
static int complain_memory(const struct query *q, struct plan *plan, struct error *err)
{
    const struct machine *machine = q->machine;
    const struct plan_request *request = q->request;
    struct plan none = {0};
    plan->grid_rows = request->grid_rows ? request->grid_rows : 1;
    plan->grid_cols = request->grid_rows ? request->grid_cols : machine->ranks;
    plan->tile_rows = request->tile_rows ? request->tile_rows : q->p->normal ? q->p->m : 1;
    plan->tile_cols = request->tile_rows ? request->tile_cols : problem_width(q->p);
    if (q->p->normal)
        plan->tile_cols = ceil_div(q->p->n, plan->grid_cols);
    set_nodes(q, plan);
    plan->slab = whole_slab(q->p, request->tile_rows ? request->slab : 1);
    plan_set_counts(q, plan);
    plan_set_held(plan, OPERAND_COUNT);
    if (problem_is_triangle(q->p)) {
        set_triangle(q, machine->ranks, 1, plan);
        try_triangle(q, plan, &none);
    }
    plan_fits(q, plan);
    if (plan->device_bytes > machine->device_memory)
        error_add(
            err, EXIT_RESOURCES,
            "the smallest plan needs %s of device memory on each rank, the limit is %s; give at "
            "least --gpu-memory %zuK",
            quantity_bytes((double)plan->device_bytes),
            quantity_bytes((double)machine->device_memory), (plan->device_bytes + 1023) / 1024);
    if (plan->host_bytes > machine->host_memory)
        error_add(
            err, EXIT_RESOURCES,
            "the smallest plan needs %s of host memory on each rank, the limit is %s; give at "
            "least --host-memory %zuK",
            quantity_bytes((double)plan->host_bytes), quantity_bytes((double)machine->host_memory),
            (plan->host_bytes + 1023) / 1024);
    return err->code;
}

static int check_request(const struct query *q, struct error *err)
{
    const struct problem *p = q->p;
    const struct plan_request *r = q->request;
    if (r->grid_rows && (int64_t)r->grid_rows * r->grid_cols > q->machine->ranks)
        error_add(err, EXIT_USAGE,
                  "--grid %dx%d needs %" PRId64 " ranks, %s %d; start so many, or leave --grid out",
                  r->grid_rows, r->grid_cols, (int64_t)r->grid_rows * r->grid_cols,
                  q->machine->ranks == 1 ? "there is" : "there are", q->machine->ranks);
    if (r->tile_rows > p->m || r->tile_cols > p->n)
        error_add(err, EXIT_USAGE,
                  "--tile %" PRId64 "x%" PRId64 ": C is only %" PRId64 "x%" PRId64
                  "; give no more than that, or leave --tile out",
                  r->tile_rows, r->tile_cols / problem_width(p), p->m, p->n / problem_width(p));
    return err->code;
}

/* How much faster than doubles a CPU multiplies bytes, more or less. */
static const double integers_speedup = 1.7;

static void set_product_rate(const struct query *q, struct plan *plan)
{
    const struct machine *m = q->machine;
    double part = m->gpu ? 1 : (double)plan->compute_threads / m->threads;
    plan->gemm_flops_per_s =
        part * m->gemm_flops_per_s[q->p->type] * kernels[q->request->algorithm]->of_best;
    if (problem_of_bytes(q->p))
        plan->gemm_flops_per_s =
            (m->gpu ? m->int8_ops_per_s : integers_speedup * plan->gemm_flops_per_s) /
            plan_plane_products(q->p);
    else if (m->gpu && q->p->moduli > 0)
        plan->gemm_flops_per_s = m->int8_ops_per_s / q->p->moduli * (q->p->complex ? 2 : 1);
}

int plan_search(const struct query *q, struct plan *plan, struct error *err)
{
    struct plan best = {0};
    if (check_request(q, err))
        return err->code;
    plan_choose_slots(q, plan);
    set_product_rate(q, plan);
    search_grids(q, plan, &best);
    while (best.roofline.seconds == 0 && (plan->slot_bytes > SLOT_MIN || plan->spare_bytes > 0)) {
        plan->spare_bytes = 0;
        plan->slot_bytes = plan->slot_bytes > SLOT_MIN ? plan->slot_bytes / 2 : SLOT_MIN;
        search_grids(q, plan, &best);
    }
    if (best.roofline.seconds == 0) {
        plan_set_threads(q, plan, 1, 1);
        set_product_rate(q, plan);
        search_grids(q, plan, &best);
    }
    if (best.roofline.seconds == 0)
        return complain_memory(q, plan, err);
    *plan = best;
    plan_deepen(q, plan);
    if (schedule_supers(plan) > TILES_MAX / (plan->grid_rows * plan->grid_cols))
        return error_add(err, EXIT_RESOURCES,
                         "C would be cut into %.2g tiles; give more --gpu-memory or --host-memory",
                         (double)schedule_supers(plan) * plan->grid_rows * plan->grid_cols);
    return 0;
}
