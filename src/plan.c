#include "plan.h"

#include <inttypes.h>
#include <math.h>

#include "error.h"
#include "plan_impl.h"
#include "quantity.h"
#include "schedule.h"
#include "trace.h"

enum {
    GRANULE = 16,       /* tile edges, in elements, where the tile is larger */
    SLOT_MIN = 4 << 10, /* bytes */
    SLOT_MAX = 16 << 20,
    SLOT_CACHED = 4 << 20, /* faster on an H200's host than 16, 2 or 1 MiB */
    SLOTS_OUT_PER_WRITER = 2,
    OUT_MAX = 1 << 30, /* bytes of all slots out */
    STRIP_SLOTS = 2,   /* a strip fills at least so many: enough rows for a fast product */
    READERS_MAX = 16,
    TILES_MAX = 1 << 28, /* of all ranks: more take too long even to count */
    DECODERS_MAX = 32,
    HELD_MAX = 1024,      /* slabs whose panels of A the device keeps */
    HOST_FIXED = 3 << 20, /* thread stacks, queues and other small change */
    KEPT_STATE = 128,     /* at most, for each kept panel */
};

size_t plan_buffer_bytes(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Rows on the device start 16 elements apart, and never a multiple of 4 KiB: that would send all
 * rows of a panel to the same few memory channels and cache sets. */
static int64_t pad_ld(int64_t cols, size_t element)
{
    int64_t ld = round_up(max_i64(cols, 1), GRANULE);
    return (size_t)ld * element % 4096 == 0 ? ld + GRANULE : ld;
}

void plan_panel_extents(const struct problem *p, const struct plan *plan, enum operand operand,
                        int64_t *rows, int64_t *cols)
{
    int64_t r = operand == OPERAND_B ? plan->slab : plan->tile_rows;
    int64_t c = operand == OPERAND_A ? plan->slab : plan->tile_cols;
    bool trans = operand != OPERAND_C && p->trans[operand];
    *rows = trans ? c : r;
    *cols = trans ? r : c;
}

static void set_lds(const struct problem *p, struct plan *plan)
{
    for (int operand = 0; operand < OPERAND_COUNT; operand++) {
        int64_t rows, cols;
        plan_panel_extents(p, plan, (enum operand)operand, &rows, &cols);
        plan->ld[operand] = pad_ld(cols, scalar_size(p->type));
    }
}

size_t plan_panel_bytes(const struct problem *p, const struct plan *plan, enum operand operand)
{
    int64_t rows, cols;
    plan_panel_extents(p, plan, operand, &rows, &cols);
    return plan_buffer_bytes((size_t)rows * (size_t)plan->ld[operand] * scalar_size(p->type));
}

size_t plan_check_bytes(const struct plan *plan)
{
    return plan_buffer_bytes((size_t)(plan->tile_cols + 2 * plan->slab + 3 * plan->tile_rows) * 8);
}

static size_t check_host_bytes(const struct plan *plan)
{
    return (size_t)(plan->tile_cols + 3 * plan->tile_rows) * 8 + 4096;
}

/* Everything on the device; run_open.c carves it up. */
static size_t device_bytes(const struct problem *p, const struct plan *plan,
                           const struct plan_request *request)
{
    size_t bytes = algorithm_workspace(request->algorithm) + plan_panel_bytes(p, plan, OPERAND_C);
    if (plan->slabs > 0) {
        for (int operand = OPERAND_A; operand <= OPERAND_B; operand++)
            bytes +=
                (size_t)plan->buffers[operand] * plan_panel_bytes(p, plan, (enum operand)operand);
        if (request->verify)
            bytes += plan_check_bytes(plan);
    }
    if (problem_reads_c(p))
        bytes += 2 * plan_buffer_bytes(plan->slot_bytes);
    return bytes;
}

static int writers_beside(int readers)
{
    return (int)max_i64(1, min_i64(readers, READERS_MAX) / 2);
}

/* What the files that are read and the one that is written need beside the slots. */
static size_t store_bytes(const struct problem *p, int readers)
{
    struct matrix_info output = {.rows = p->m, .cols = p->n, .by_offset = true};
    output.elements = p->type == SCALAR_FLOAT ? ELEMENT_FLOAT : ELEMENT_DOUBLE;
    size_t bytes =
        store_overhead_bytes(&output, p->type, STORE_WRITE, p->io, writers_beside(readers));
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, (enum operand)operand))
            bytes += store_overhead_bytes(&p->matrix[operand], p->type, STORE_READ, p->io, readers);
    return bytes;
}

/* Host bytes that do not depend on tile and slots. */
static size_t host_fixed_bytes(const struct problem *p, const struct machine *machine,
                               const struct plan_request *request, int readers)
{
    return HOST_FIXED + store_bytes(p, readers) + algorithm_host_overhead(request->algorithm) +
           (machine->gpu ? 0 : device_cpu_overhead(machine->threads));
}

static size_t host_bytes(const struct problem *p, const struct machine *machine,
                         const struct plan_request *request, const struct plan *plan)
{
    size_t bytes = host_fixed_bytes(p, machine, request, plan->readers);
    bytes += (size_t)(plan->slots_in + plan->slots_out) * plan->slot_bytes;
    if (request->verify)
        bytes += check_host_bytes(plan);
    if (request->trace)
        bytes += trace_bytes();
    return bytes + (machine->gpu ? 0 : plan->device_bytes);
}

/* Memory that a candidate needs, into the plan; whether the machine has it. */
static bool fits(const struct problem *p, const struct machine *machine,
                 const struct plan_request *request, struct plan *plan)
{
    set_lds(p, plan);
    plan->device_bytes = device_bytes(p, plan, request);
    plan->host_bytes = host_bytes(p, machine, request, plan);
    return plan->device_bytes <= machine->device_memory && plan->host_bytes <= machine->host_memory;
}

static void set_slot_bytes(const struct problem *p, struct plan *plan, size_t bytes)
{
    plan->slot_bytes = bytes;
    plan->slot_elements = (int64_t)(bytes / scalar_size(p->type));
}

/* As many threads as the disk asks for or, where a GPU computes and chunks are decoded, as there
 * are; no more than a fair part of the memory holds chunks for. */
static int choose_readers(const struct problem *p, const struct machine *machine)
{
    bool decode = false;
    for (int i = 0; i < OPERAND_COUNT; i++)
        decode |= problem_reads(p, (enum operand)i) && p->matrix[i].pipeline.count > 0 &&
                  !problem_through_hdf5(p, (enum operand)i);
    int most = !machine->gpu ? 2 : decode ? DECODERS_MAX : READERS_MAX;
    int readers = (int)min_i64(most, machine->threads);
    while (readers > 1 && store_bytes(p, readers) - store_bytes(p, 0) > machine->host_memory / 4)
        readers = (readers + 1) / 2;
    return readers;
}

static void set_threads(struct plan *plan, int readers)
{
    plan->readers = readers;
    plan->writers = writers_beside(readers);
    plan->slots_in = (int)max_i64(4, 2 * readers);
}

bool plan_reads_memory(const struct machine *machine)
{
    double nodes = (double)ceil_div(machine->ranks, machine->ranks_per_node);
    return machine_reads_memory(machine->disk_read_bytes_per_s / nodes);
}

/* Slots: as large as helps the disk and the bus, but no more than a fair part of the memory.  What
 * is left of that part may hold a tile on its way out.  Where files are read at the pace of memory
 * smaller slots are faster, which may stay in the CPU's cache. */
static void choose_slots(const struct problem *p, const struct machine *machine,
                         const struct plan_request *request, struct plan *plan)
{
    set_threads(plan, choose_readers(p, machine));
    size_t fixed = host_fixed_bytes(p, machine, request, plan->readers);
    size_t part = machine->host_memory > fixed ? machine->host_memory - fixed : 0;
    part /= machine->gpu ? 2 : 4;
    size_t count = (size_t)(plan->slots_in + SLOTS_OUT_PER_WRITER * plan->writers);
    int64_t largest = max_i64(p->m * p->n, max_i64(p->m * p->k, p->k * p->n));
    size_t bytes = machine->gpu && plan_reads_memory(machine) ? SLOT_CACHED : SLOT_MAX;
    while (bytes > SLOT_MIN && (bytes * count > part || bytes > machine->device_memory / 16 ||
                                (int64_t)(bytes / scalar_size(p->type)) >= 2 * largest))
        bytes /= 2;
    set_slot_bytes(p, plan, bytes);
    plan->spare_bytes = part > bytes * count ? part - bytes * count : 0;
}

/* Counts that follow from tile and slab. */
static void set_counts(const struct problem *p, struct plan *plan)
{
    plan->supers_down = ceil_div(p->m, plan->tile_rows * plan->grid_rows);
    plan->supers_across = ceil_div(p->n, plan->tile_cols * plan->grid_cols);
    plan->slabs = problem_reads_ab(p) ? ceil_div(p->k, plan->slab) : 0;

    int64_t strips = plan->tile_rows * plan->tile_cols / (STRIP_SLOTS * plan->slot_elements);
    plan->strip_rows =
        round_up(ceil_div(plan->tile_rows, max_i64(1, min_i64(strips, STRIPS_MAX))), GRANULE);

    int64_t least = SLOTS_OUT_PER_WRITER * plan->writers;
    int64_t spare = min_i64(OUT_MAX, (int64_t)plan->spare_bytes);
    int64_t most = least + spare / (int64_t)plan->slot_bytes;
    int64_t tile = ceil_div(plan->tile_rows * plan->tile_cols, plan->slot_elements) + 1;
    plan->slots_out = (int)max_i64(least, min_i64(most, tile));
}

/* Panels that later tiles need again stay in what is left of the host's memory: of A those of a row
 * of super-blocks, which every tile of the row needs; with what is then left, those of B.  An
 * element of A kept serves all tiles across, in every row; one of B only one tile in every row. */
static void keep_panels(const struct problem *p, const struct machine *machine, struct plan *plan)
{
    size_t left = machine->host_memory - plan->host_bytes;
    bool a_once = plan->supers_across == 1 || plan_holds(plan, OPERAND_A);
    bool b_once =
        plan->supers_down == 1 || (plan->supers_across == 1 && plan_holds(plan, OPERAND_B));
    int64_t useful[] = {a_once ? 0 : plan->slabs, b_once ? 0 : plan->supers_across * plan->slabs};
    plan->cache_bytes = 0;
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        int64_t rows, cols;
        plan_panel_extents(p, plan, (enum operand)operand, &rows, &cols);
        size_t bytes = plan_buffer_bytes((size_t)(rows * cols) * scalar_size(p->type));
        size_t each = bytes + KEPT_STATE;
        if (plan_reads_memory(machine))
            useful[operand] = 0;
        plan->kept[operand] = each ? min_i64(useful[operand], (int64_t)(left / each)) : 0;
        plan->kept_bytes[operand] = bytes;
        plan->cache_bytes += (size_t)plan->kept[operand] * bytes;
        left -= (size_t)plan->kept[operand] * each;
    }
    plan->host_bytes = machine->host_memory - left;
}

/* How many panels of A the device has: with all of them, tiles to the right need none. */
static void set_held(struct plan *plan, bool all)
{
    plan->buffers[OPERAND_A] = all ? max_i64(PANEL_BUFFERS, plan->slabs + 1) : PANEL_BUFFERS;
    plan->buffers[OPERAND_B] = PANEL_BUFFERS;
}

/* The widest tile that fits beside `tile_rows` rows; 0 when none does. */
static int64_t widest_tile(const struct problem *p, const struct machine *machine,
                           const struct plan_request *request, struct plan *plan)
{
    int64_t low = 0, high = ceil_div(p->n, plan->grid_cols);
    set_held(plan, false);
    while (low < high) {
        plan->tile_cols = low + (high - low + 1) / 2;
        set_counts(p, plan);
        if (fits(p, machine, request, plan))
            low = plan->tile_cols;
        else
            high = plan->tile_cols - 1;
    }
    return low;
}

/* Cut `extent` into at least `pieces` pieces of equal size, a multiple of the granule where it
 * can be. */
static int64_t piece(int64_t extent, int64_t pieces)
{
    int64_t size = ceil_div(extent, pieces);
    return min_i64(extent, size > GRANULE ? round_up(size, GRANULE) : size);
}

/* What is least: the time, and a little of the reading behind it, since others use the disk too. */
static double cost(const struct plan *plan)
{
    return plan->wall_s + 0.1 * plan->link_s[LINK_READ];
}

/* The candidate's cost, once it is complete. */
static double keep_better(const struct problem *p, const struct machine *machine,
                          const struct plan_request *request, const struct plan *candidate,
                          struct plan *best)
{
    struct plan plan = *candidate;
    keep_panels(p, machine, &plan);
    plan_predict(p, machine, request, &plan);
    bool first = best->wall_s == 0;
    if (first || cost(&plan) < cost(best) * (1 - 1e-9) ||
        (cost(&plan) <= cost(best) && plan.device_bytes < best->device_bytes))
        *best = plan;
    return cost(&plan);
}

/* The candidate with two panels of A on the device and, where they fit, with all of a row; the
 * smaller cost, or infinity when neither fits. */
static double compare(const struct problem *p, const struct machine *machine,
                      const struct plan_request *request, struct plan *plan, struct plan *best)
{
    double least = INFINITY;
    bool may_hold = plan->slabs > 1 && plan->slabs <= HELD_MAX && plan->supers_across > 1;
    for (int all = 0; all <= may_hold; all++) {
        set_held(plan, all);
        if (fits(p, machine, request, plan))
            least = fmin(least, keep_better(p, machine, request, plan, best));
    }
    return least;
}

/* All widths for one grid, slab and height: as few tiles across as the memory allows, then more, as
 * long as that is better: small tiles are read for more often, but leave more smoothly. */
static void search_widths(const struct problem *p, const struct machine *machine,
                          const struct plan_request *request, struct plan *plan, struct plan *best)
{
    int64_t widest = widest_tile(p, machine, request, plan), most = ceil_div(p->n, plan->grid_cols);
    double before = INFINITY;
    for (int64_t across = widest ? ceil_div(most, widest) : most + 1; across <= most; across++) {
        plan->tile_cols = min_i64(piece(p->n, plan->grid_cols * across), widest);
        set_counts(p, plan);
        double now = compare(p, machine, request, plan, best);
        if (now >= before)
            return;
        before = now;
    }
}

/* All heights of tile for one grid and slab: 1, 2, 3 ... super-blocks down, then in steps of a
 * twelfth, to tiles of one row. */
static void search_tiles(const struct problem *p, const struct machine *machine,
                         const struct plan_request *request, struct plan *plan, struct plan *best)
{
    int64_t most = ceil_div(p->m, plan->grid_rows), down = 0;
    do {
        down = min_i64(most, down + 1 + down / 12);
        plan->tile_rows = piece(p->m, plan->grid_rows * down);
        search_widths(p, machine, request, plan, best);
    } while (down < most && !(plan->tile_rows <= GRANULE && best->wall_s > 0));
}

/* Slabs that are longer than a chunk end with one, so that the next does not decode it again. */
static int64_t whole_chunks(const struct problem *p, int64_t slab)
{
    const struct matrix_info *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    int64_t chunk = max_i64(p->trans[0] ? a->chunk_rows : a->chunk_cols,
                            p->trans[1] ? b->chunk_cols : b->chunk_rows);
    if (chunk == 0 || chunk % GEMM_QUANTUM || slab < chunk)
        return slab;
    return min_i64(round_up(slab, chunk), round_up(p->k, GEMM_QUANTUM));
}

/* All slabs for one grid: the whole of k, its half, its third ... and one quantum. */
static void search_slabs(const struct problem *p, const struct machine *machine,
                         const struct plan_request *request, struct plan *plan, struct plan *best)
{
    int64_t most = problem_reads_ab(p) ? ceil_div(p->k, GEMM_QUANTUM) : 1, pieces = 0;
    do {
        pieces = min_i64(most, pieces + 1 + pieces / 4);
        plan->slab = whole_chunks(p, GEMM_QUANTUM * ceil_div(most, pieces));
        search_tiles(p, machine, request, plan, best);
    } while (pieces < most);
}

static void search_grid(const struct problem *p, const struct machine *machine,
                        const struct plan_request *request, struct plan *plan, struct plan *best)
{
    if (!request->tile_rows) {
        search_slabs(p, machine, request, plan, best);
        return;
    }
    plan->tile_rows = request->tile_rows;
    plan->tile_cols = request->tile_cols;
    plan->slab = round_up(min_i64(request->slab, max_i64(p->k, 1)), GEMM_QUANTUM);
    set_counts(p, plan);
    compare(p, machine, request, plan, best);
}

static void search_grids(const struct problem *p, const struct machine *machine,
                         const struct plan_request *request, struct plan *plan, struct plan *best)
{
    if (request->grid_rows) {
        plan->grid_rows = request->grid_rows;
        plan->grid_cols = request->grid_cols;
        search_grid(p, machine, request, plan, best);
        return;
    }
    for (int rows = 1; rows <= machine->ranks; rows++) {
        if (machine->ranks % rows != 0)
            continue;
        plan->grid_rows = rows;
        plan->grid_cols = machine->ranks / rows;
        search_grid(p, machine, request, plan, best);
    }
}

/* The smallest plan does not fit: say what it needs. */
static int complain_memory(const struct problem *p, const struct machine *machine,
                           const struct plan_request *request, struct plan *plan, struct error *err)
{
    plan->grid_rows = request->grid_rows ? request->grid_rows : 1;
    plan->grid_cols = request->grid_rows ? request->grid_cols : machine->ranks;
    plan->tile_rows = request->tile_rows ? request->tile_rows : 1;
    plan->tile_cols = request->tile_rows ? request->tile_cols : 1;
    plan->slab = GEMM_QUANTUM;
    if (request->tile_rows)
        plan->slab = round_up(min_i64(request->slab, max_i64(p->k, 1)), GEMM_QUANTUM);
    set_counts(p, plan);
    set_held(plan, false);
    fits(p, machine, request, plan);
    if (plan->device_bytes > machine->device_memory)
        error_add(
            err, EXIT_RESOURCES,
            "the smallest plan needs %zu bytes of device memory on each rank, the limit is %zu; "
            "give at least --gpu-memory %zu",
            plan->device_bytes, machine->device_memory, plan->device_bytes);
    if (plan->host_bytes > machine->host_memory)
        error_add(
            err, EXIT_RESOURCES,
            "the smallest plan needs %zu bytes of host memory on each rank, the limit is %zu; "
            "give at least --host-memory %zu",
            plan->host_bytes, machine->host_memory, plan->host_bytes);
    return err->code;
}

static int check_request(const struct problem *p, const struct machine *machine,
                         const struct plan_request *r, struct error *err)
{
    if (r->grid_rows && (int64_t)r->grid_rows * r->grid_cols > machine->ranks)
        error_add(err, EXIT_USAGE, "--grid %dx%d needs %" PRId64 " ranks, there are %d",
                  r->grid_rows, r->grid_cols, (int64_t)r->grid_rows * r->grid_cols, machine->ranks);
    if (r->tile_rows > p->m || r->tile_cols > p->n)
        error_add(err, EXIT_USAGE, "--tile %" PRId64 "x%" PRId64 ": C is only %" PRId64 "x%" PRId64,
                  r->tile_rows, r->tile_cols, p->m, p->n);
    return err->code;
}

/* Totals of the chosen plan, exactly as the schedule will move them. */
static void account(const struct problem *p, const struct machine *machine, struct plan *plan)
{
    plan->idle_ranks = machine->ranks;
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        struct traffic t = schedule_traffic(p, plan, rank);
        plan->idle_ranks -= t.write_bytes > 0;
        plan->total.read_bytes += t.read_bytes;
        plan->total.in_bytes += t.in_bytes;
        plan->total.out_bytes += t.out_bytes;
        plan->total.write_bytes += t.write_bytes;
        plan->total.flops += t.flops;
        if (t.flops > plan->worst.flops || t.in_bytes > plan->worst.in_bytes)
            plan->worst = t;
    }
    double element = (double)scalar_size(p->type), m = (double)p->m, n = (double)p->n;
    double k = problem_reads_ab(p) ? (double)p->k : 0;
    double fast = (double)(machine->device_memory + plan->cache_bytes) / element * machine->ranks;
    double c_in = problem_reads_c(p) ? m * n : 0;
    double bound = 2 * m * n * k / sqrt(fast) + m * n + c_in;
    double once =
        m * k + k * n + m * n + c_in; /* each matrix once: the bound when all of it fits */
    plan->bound_bytes = element * fmax(bound, once);
    plan->factor = (double)(plan->total.read_bytes + plan->total.write_bytes) / plan->bound_bytes;
}

int plan_make(const struct problem *p, const struct machine *machine,
              const struct plan_request *request, struct plan *plan, struct error *err)
{
    struct plan best = {0};
    *plan = (struct plan){0};
    if (check_request(p, machine, request, err))
        return err->code;
    choose_slots(p, machine, request, plan);
    plan->gemm_flops_per_s =
        machine->gemm_flops_per_s[p->type] * algorithm_share(request->algorithm);
    search_grids(p, machine, request, plan, &best);
    while (best.wall_s == 0 && (plan->slot_bytes > SLOT_MIN || plan->spare_bytes > 0)) {
        plan->spare_bytes = 0;
        set_slot_bytes(p, plan, plan->slot_bytes > SLOT_MIN ? plan->slot_bytes / 2 : SLOT_MIN);
        search_grids(p, machine, request, plan, &best);
    }
    if (best.wall_s == 0) {
        set_threads(plan, 1);
        search_grids(p, machine, request, plan, &best);
    }
    if (best.wall_s == 0)
        return complain_memory(p, machine, request, plan, err);
    *plan = best;
    if (schedule_supers(plan) > TILES_MAX / (plan->grid_rows * plan->grid_cols))
        return error_add(err, EXIT_RESOURCES,
                         "C would be cut into %.2g tiles; give more --gpu-memory or --host-memory",
                         (double)schedule_supers(plan) * plan->grid_rows * plan->grid_cols);
    account(p, machine, plan);
    return 0;
}
