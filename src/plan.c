#include "plan.h"

#include <inttypes.h>
#include <math.h>

#include "error.h"
#include "quantity.h"
#include "schedule.h"
#include "store.h"

enum {
    GRANULE = 16,       /* tile edges, in elements, where the tile is larger */
    SLOT_MIN = 4 << 10, /* bytes */
    SLOT_MAX = 16 << 20,
    SLOTS_OUT_PER_WRITER = 2,
    SLOTS_OUT_MAX = 64,
    READERS_MAX = 8,
    DECODERS_MAX = 32,
    HOST_FIXED = 3 << 20,   /* thread stacks, queues and other small change */
    STEP_MICROSECONDS = 50, /* for every slab of every tile, whatever its size */
    GEMM_HALF_SLAB = 64,    /* a slab this long runs at half the rate: accumulators in and out */
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

/* Rows and columns, as stored, of the largest panel of A or B; of the tile for C. */
static void panel_extents(const struct problem *p, const struct plan *plan, enum operand operand,
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
        panel_extents(p, plan, (enum operand)operand, &rows, &cols);
        plan->ld[operand] = pad_ld(cols, scalar_size(p->type));
    }
}

size_t plan_panel_bytes(const struct problem *p, const struct plan *plan, enum operand operand)
{
    int64_t rows, cols;
    panel_extents(p, plan, operand, &rows, &cols);
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
        size_t panels = plan_panel_bytes(p, plan, OPERAND_A) + plan_panel_bytes(p, plan, OPERAND_B);
        bytes += PANEL_BUFFERS * panels;
        if (request->verify)
            bytes += plan_check_bytes(plan);
    }
    if (problem_reads_c(p))
        bytes += 2 * plan_buffer_bytes(plan->slot_bytes);
    return bytes;
}

/* What reading the operands takes beside the slots. */
static size_t read_bytes(const struct problem *p, int readers)
{
    size_t bytes = 0;
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, (enum operand)operand))
            bytes += store_read_overhead(&p->matrix[operand], p->type, p->force_hdf5, readers);
    return bytes;
}

/* Host bytes that do not depend on tile and slots. */
static size_t host_fixed_bytes(const struct problem *p, const struct machine *machine,
                               const struct plan_request *request, int readers)
{
    return HOST_FIXED + read_bytes(p, readers) + algorithm_host_overhead(request->algorithm) +
           (machine->gpu ? 0 : device_cpu_overhead(machine->threads));
}

static size_t host_bytes(const struct problem *p, const struct machine *machine,
                         const struct plan_request *request, const struct plan *plan)
{
    size_t bytes = host_fixed_bytes(p, machine, request, plan->readers);
    bytes += (size_t)(plan->slots_in + plan->slots_out) * plan->slot_bytes;
    if (request->verify)
        bytes += check_host_bytes(plan);
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
    while (readers > 1 && read_bytes(p, readers) - read_bytes(p, 0) > machine->host_memory / 4)
        readers = (readers + 1) / 2;
    return readers;
}

static void set_threads(struct plan *plan, int readers)
{
    plan->readers = readers;
    plan->writers = (int)max_i64(1, min_i64(readers, READERS_MAX) / 2);
    plan->slots_in = (int)max_i64(4, 2 * readers);
}

/* Slots: as large as helps the disk and the bus, but no more than a fair part of the memory.  What
 * is left of that part may hold a tile on its way out. */
static void choose_slots(const struct problem *p, const struct machine *machine,
                         const struct plan_request *request, struct plan *plan)
{
    set_threads(plan, choose_readers(p, machine));
    size_t fixed = host_fixed_bytes(p, machine, request, plan->readers);
    size_t part = machine->host_memory > fixed ? machine->host_memory - fixed : 0;
    part /= machine->gpu ? 2 : 4;
    size_t count = (size_t)(plan->slots_in + SLOTS_OUT_PER_WRITER * plan->writers);
    int64_t largest = max_i64(p->m * p->n, max_i64(p->m * p->k, p->k * p->n));
    size_t bytes = SLOT_MAX;
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

    int64_t least = SLOTS_OUT_PER_WRITER * plan->writers;
    int64_t most = min_i64(SLOTS_OUT_MAX, least + (int64_t)(plan->spare_bytes / plan->slot_bytes));
    int64_t tile = ceil_div(plan->tile_rows * plan->tile_cols, plan->slot_elements) + 1;
    plan->slots_out = (int)max_i64(least, min_i64(most, tile));
}

/* Rate of the disk with runs of this many bytes. */
static double run_factor(const struct machine *machine, double run_bytes)
{
    return run_bytes / (run_bytes + machine->disk_run_bytes);
}

/* Time to read all that all ranks read; `first`: the part of it that the first slab of all ranks
 * is. */
static double read_seconds(const struct problem *p, const struct machine *machine,
                           const struct plan *plan, double *first)
{
    double element = (double)scalar_size(p->type), seconds = 0;
    double ranks_across =
        (double)min_i64(plan->supers_across * plan->grid_cols, ceil_div(p->n, plan->tile_cols));
    double ranks_down =
        (double)min_i64(plan->supers_down * plan->grid_rows, ceil_div(p->m, plan->tile_rows));
    double reads[] = {(double)p->m * (double)p->k * ranks_across,
                      (double)p->k * (double)p->n * ranks_down, (double)p->m * (double)p->n};
    if (plan->slabs == 1) { /* a panel stays for the whole serpentine row of super-blocks */
        reads[OPERAND_A] /= (double)plan->supers_across;
        reads[OPERAND_B] *= ((double)plan->supers_across - 1 + 1 / (double)plan->supers_down) /
                            (double)plan->supers_across;
    }
    double slab = (double)min_i64(plan->slab, p->k),
           ranks = (double)plan->grid_rows * plan->grid_cols;
    *first = plan->slabs ? ranks * (double)(plan->tile_rows + plan->tile_cols) * slab /
                               (reads[OPERAND_A] + reads[OPERAND_B])
                         : 0;
    for (int operand = 0; operand < OPERAND_COUNT; operand++) {
        if (!problem_reads(p, (enum operand)operand))
            continue;
        int64_t rows, cols;
        panel_extents(p, plan, (enum operand)operand, &rows, &cols);
        int64_t file_cols = operand == OPERAND_C ? p->n : p->matrix[operand].cols;
        double run = element * (double)(cols == file_cols ? rows * cols : cols);
        seconds +=
            reads[operand] * element / machine->disk_read_bytes_per_s / run_factor(machine, run);
    }
    return seconds;
}

/* Predicted time of each link and of the whole. */
static void predict(const struct problem *p, const struct machine *machine, struct plan *plan)
{
    double element = (double)scalar_size(p->type);
    double tile = (double)plan->tile_rows * (double)plan->tile_cols,
           tiles = (double)schedule_supers(plan);
    double panels = (double)(plan->tile_rows + plan->tile_cols) * (double)p->k;
    double ranks = (double)plan->grid_rows * plan->grid_cols, *s = plan->link_s;
    double c_in = problem_reads_c(p) ? tile : 0;
    double first;
    s[LINK_READ] = read_seconds(p, machine, plan, &first);
    s[LINK_IN] = tiles * ((plan->slabs ? panels : 0) + c_in) * element / machine->in_bytes_per_s;
    s[LINK_OUT] = tiles * tile * element / machine->out_bytes_per_s;
    double steps = tiles * (double)plan->slabs;
    s[LINK_GEMM] = plan->slabs ? tiles * 2 * tile * (double)p->k / plan->gemm_flops_per_s *
                                         (1 + GEMM_HALF_SLAB / (double)plan->slab) +
                                     steps * STEP_MICROSECONDS * 1e-6
                               : 0;
    double run_c =
        element * (double)(plan->tile_cols == p->n ? plan->tile_rows * p->n : plan->tile_cols);
    double write_rate = machine->disk_write_bytes_per_s * run_factor(machine, run_c);
    s[LINK_WRITE] = (double)p->m * (double)p->n * element / write_rate;

    /* The next tile waits until this one has left the device, into slots where there are enough,
     * at the pace of the disk otherwise; the first slab and the last tile have nothing to
     * overlap with. */
    double slots = (double)plan->slots_out * (double)plan->slot_elements;
    double beyond = tiles * ranks * fmax(0, tile - slots) * element / write_rate;
    double busiest = s[LINK_GEMM] + fmax(s[LINK_OUT], beyond);
    plan->limit = s[LINK_GEMM] >= s[LINK_OUT] ? LINK_GEMM : LINK_OUT;
    for (int link = 0; link < LINK_COUNT; link++)
        if (s[link] > busiest) {
            busiest = s[link];
            plan->limit = (enum link)link;
        }
    double fill = (s[LINK_READ] + s[LINK_IN]) * fmin(1, first);
    double drain = fmin(s[LINK_WRITE], ranks * tile * element / write_rate);
    plan->wall_s = busiest + fill + drain;
}

/* The widest tile that fits beside `tile_rows` rows; 0 when none does. */
static int64_t widest_tile(const struct problem *p, const struct machine *machine,
                           const struct plan_request *request, struct plan *plan)
{
    int64_t low = 0, high = ceil_div(p->n, plan->grid_cols);
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

/* The narrowest granule-sized width that needs no more tiles across than the widest that fits. */
static bool choose_width(const struct problem *p, const struct machine *machine,
                         const struct plan_request *request, struct plan *plan)
{
    int64_t widest = widest_tile(p, machine, request, plan);
    if (widest == 0)
        return false;
    int64_t across = plan->grid_cols * ceil_div(p->n, widest * plan->grid_cols);
    plan->tile_cols = min_i64(piece(p->n, across), widest);
    set_counts(p, plan);
    return fits(p, machine, request, plan);
}

/* What is least: the time, and a little of the reading behind it, since others use the disk too. */
static double cost(const struct plan *plan)
{
    return plan->wall_s + 0.1 * plan->link_s[LINK_READ];
}

static void keep_better(const struct problem *p, const struct machine *machine,
                        const struct plan *candidate, struct plan *best)
{
    struct plan plan = *candidate;
    predict(p, machine, &plan);
    bool first = best->wall_s == 0;
    if (first || cost(&plan) < cost(best) * (1 - 1e-9) ||
        (cost(&plan) <= cost(best) && plan.device_bytes < best->device_bytes))
        *best = plan;
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
        if (choose_width(p, machine, request, plan))
            keep_better(p, machine, plan, best);
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
    if (fits(p, machine, request, plan))
        keep_better(p, machine, plan, best);
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
    double fast = (double)machine->device_memory / element * machine->ranks;
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
    account(p, machine, plan);
    return 0;
}
