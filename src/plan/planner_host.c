/* What a plan takes of the host: threads, slots, what is kept; and whether it fits. */
#include <math.h>

#include "check_size.h"
#include "checksum.h"
#include "first_read.h"
#include "planner_impl.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "schedule.h"

enum {
    SLOT_MAX = 16 << 20,
    SLOT_CACHED = 4 << 20,   /* faster on an H200's host than 16, 2 or 1 MiB; of four ... */
    RING_CACHED = 128 << 20, /* ... it is 2 MiB, with which their slots in take so much */
    SLOT_SENT = 1 << 20,     /* of several nodes: more slots are better than larger ones */
    SLOTS_LEAST = 16,        /* of a node, for that, */
    SLOTS_MOST = 128,        /* and where there are very many nodes */
    SLOTS_OUT_PER_WRITER = 2,
    STRIP_SLOTS = 2,  /* a strip fills at least so many */
    STRIPS_FEW = 4,   /* strips at least, if these are not too small: a tile leaves meanwhile */
    STRIPS_MOST = 16, /* but in a triangle, where they save work */
    STRIP_ELEMENTS = 1 << 24, /* of each, where there are more: several waves of a GPU's blocks */
    STRIP_ELEMENTS_LEAST = 1 << 22, /* of a strip in a triangle, on a GPU */
    STRIP_ROWS = 256, /* a multiple of which large strips have: whole blocks of threads */
    READERS_MAX = 16,
    READERS_NODE = 32, /* of all ranks of a node, which share what they read */
    READERS_LEAST = 4, /* of a rank with a GPU, for all that */
    WRITERS_MAX = 8,
    WRITERS_WAITED_FOR = 16,
    WINDOW_PART = 16, /* of the host's memory */
    WINDOW_MOST = 1 << 30,
    PREPARERS_LEAST = 2,
    DECODERS_MAX = 32,
    HOST_FIXED = 3 << 20, /* thread stacks, queues and other small change */
    KEPT_STATE = 128,     /* at most, for each kept panel */
};

/* Bytes of all slots out of a node: on its way to a disk much waits, to memory little. */
static const size_t out_max = (size_t)4 << 30, out_max_memory = (size_t)1 << 30;

/* With the table of C's checksum. */
static size_t checking_bytes(const struct problem *p, const struct plan *plan)
{
    return check_host_bytes(plan->tile_rows, plan->tile_cols) +
           checksum_bytes(p->type, max_i64(p->n, p->n_whole));
}

/* Of C's file, where it is written through a mapping. */
static size_t window_bytes(const struct query *q)
{
    const size_t part = q->machine->host_memory / WINDOW_PART;
    bool maps = q->machine->output_in_memory && problem_maps_output(q->p);
    return !maps ? 0 : part < WINDOW_MOST ? part : WINDOW_MOST;
}

/* Host bytes that do not depend on tile and slots. */
static size_t host_fixed_bytes(const struct query *q, const struct plan *plan)
{
    const int preparing = plan->writers + (q->machine->gpu ? plan->readers : 0);
    return HOST_FIXED + problem_reading_bytes(q->p, plan->readers) +
           problem_writing_bytes(q->p, preparing) + plan->window_bytes +
           (q->machine->gpu ? kernels[q->request->algorithm]->host_bytes
                            : device_cpu_overhead(plan->compute_threads));
}

static size_t host_bytes(const struct query *q, const struct plan *plan)
{
    size_t bytes = host_fixed_bytes(q, plan);
    bytes += (size_t)(plan->slots_in + plan->slots_out) * plan->slot_bytes;
    bytes += q->request->record_bytes + (size_t)scaling_vectors(q->p) * plan_line_bytes(q->p) +
             first_read_product_bytes(q->p, plan->readers);
    if (q->request->verify)
        bytes += checking_bytes(q->p, plan) +
                 (q->p->normal ? check_host_bytes(plan->slab, plan->tile_cols) : 0);
    return bytes + (q->machine->gpu ? 0 : plan->device_bytes);
}

bool plan_fits(const struct query *q, struct plan *plan)
{
    plan_set_lds(q->p, plan);
    plan->residues_bytes = plan_residues_bytes(q, plan);
    plan->tiles = plan_choose_tiles(q, plan);
    plan->device_bytes = plan_device_bytes(q, plan);
    plan->host_bytes = host_bytes(q, plan);
    return plan->device_bytes <= q->machine->device_memory &&
           plan->host_bytes <= q->machine->host_memory;
}

/* As many threads as the disk asks for or, where a GPU computes and chunks are decoded, and where
 * elements are added up, as there are; no more than a fair part of the memory holds chunks for. */
static int choose_readers(const struct query *q)
{
    const struct problem *p = q->p;
    const struct machine *machine = q->machine;
    bool decode = false;
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        decode |= problem_reads(p, i) && p->matrix[i].pipeline.count > 0 &&
                  !problem_through_library(p, i);
    const bool adds = first_read_product_bytes(p, 1) > 0;
    int most = adds || (machine->gpu && decode) ? DECODERS_MAX : machine->gpu ? READERS_MAX : 2;
    int64_t share = max_i64(READERS_LEAST, READERS_NODE / machine->ranks_per_node);
    int readers = (int)min_i64(min_i64(most, share), machine->threads);
    const size_t alone = problem_reading_bytes(p, 0);
    while (readers > 1 && problem_reading_bytes(p, readers) - alone > machine->host_memory / 4)
        readers = (readers + 1) / 2;
    return readers;
}

/* Whether a GPU writes to memory at least as much as it reads, as in outer products: it waits for
 * those who write. */
static bool waits_for_writers(const struct query *q)
{
    const struct problem *p = q->p;
    const double read = problem_bytes(p, OPERAND_A) +
                        (problem_is_of_one_matrix(p) ? 0 : problem_bytes(p, OPERAND_B));
    return q->machine->gpu && q->machine->output_in_memory &&
           problem_elements(p) * (double)problem_written_element(p) >= read;
}

/* As many as readers, up to what a file in memory has work for; no more than a fair part of the
 * memory can keep of it mapped. */
static int choose_writers(const struct query *q, int readers)
{
    int writers = (int)min_i64(readers, waits_for_writers(q) ? WRITERS_WAITED_FOR : WRITERS_MAX);
    while (writers > 1 && problem_writing_bytes(q->p, writers) > q->machine->host_memory / 4)
        writers = (writers + 1) / 2;
    return writers;
}

/* All there are, but no more than a fair part of the memory has buffers for. */
static int choose_compute_threads(const struct machine *machine)
{
    int threads = machine->threads;
    while (!machine->gpu && threads > 1 && device_cpu_overhead(threads) > machine->host_memory / 4)
        threads--;
    return threads;
}

void plan_set_threads(const struct query *q, struct plan *plan, int compute_threads, int readers)
{
    plan->compute_threads = compute_threads;
    plan->readers = readers;
    plan->writers = choose_writers(q, readers);
    plan->preparers =
        (int)max_i64(PREPARERS_LEAST, min_i64(plan->writers / 2, q->machine->threads - readers));
    plan->slots_in = (int)max_i64(4, 2 * readers);
    plan->window_bytes = window_bytes(q);
}

/* Of so many slots in of a node: where files are read at the pace of memory, small enough that they
 * may stay in the CPU's caches until the devices have them. */
static size_t largest_slot(const struct machine *machine, size_t slots)
{
    size_t bytes = SLOT_CACHED;
    if (!machine->gpu || !machine->files_in_memory)
        return SLOT_MAX;
    while (bytes > SLOT_MIN && bytes * slots > RING_CACHED)
        bytes /= 2;
    return bytes;
}

/* Parts from all nodes that need a panel are on their way at the same time where there are slots
 * for them: of A and of B two for each, so that one is filled while the other is sent. */
static void choose_slots_in(const struct machine *machine, size_t part, size_t *bytes,
                            struct plan *plan)
{
    int64_t local = min_i64(machine->ranks_per_node, machine->ranks);
    int64_t nodes = ceil_div(machine->ranks, local);
    int64_t wanted = ceil_div(max_i64(SLOTS_LEAST, min_i64(SLOTS_MOST, 4 * nodes)), local);
    int64_t slots = plan->slots_in;
    if (nodes == 1)
        return;
    for (; slots < wanted && *bytes >= 2 * SLOT_SENT; slots *= 2)
        *bytes /= 2;
    int64_t most = (int64_t)(part / *bytes) - SLOTS_OUT_PER_WRITER * plan->writers;
    plan->slots_in = (int)max_i64(plan->slots_in, min_i64(wanted, most));
}

void plan_choose_slots(const struct query *q, struct plan *plan)
{
    const struct problem *p = q->p;
    const struct machine *machine = q->machine;
    plan_set_threads(q, plan, choose_compute_threads(machine), choose_readers(q));
    const size_t fixed = host_fixed_bytes(q, plan);
    size_t part = machine->host_memory > fixed ? machine->host_memory - fixed : 0;
    part /= machine->gpu ? 2 : 4;
    size_t count = (size_t)(plan->slots_in + SLOTS_OUT_PER_WRITER * plan->writers);
    int64_t largest = max_i64(p->m * p->n, max_i64(p->m * p->k, p->k * p->n));
    size_t local = (size_t)min_i64(machine->ranks_per_node, machine->ranks);
    size_t bytes = largest_slot(machine, (size_t)plan->slots_in * local);
    while (bytes > SLOT_MIN && (bytes * count > part || bytes > machine->device_memory / 16 ||
                                (int64_t)(bytes / scalar_size(p->type)) >= 2 * largest))
        bytes /= 2;
    choose_slots_in(machine, part, &bytes, plan);
    count = (size_t)(plan->slots_in + SLOTS_OUT_PER_WRITER * plan->writers);
    plan->slot_bytes = bytes;
    size_t most = (machine->output_in_memory ? out_max_memory : out_max) / local;
    plan->spare_bytes = part > bytes * count ? part - bytes * count : 0;
    plan->spare_bytes = plan->spare_bytes < most ? plan->spare_bytes : most;
}

static int64_t choose_strip_rows(const struct problem *p, const struct plan *plan)
{
    int64_t tile = plan->tile_rows * plan->tile_cols;
    int64_t slots = tile / (STRIP_SLOTS * plan_slot_elements(p, plan, OPERAND_C));
    int64_t few = min_i64(STRIPS_FEW, slots);
    int64_t strips = max_i64(few, min_i64(STRIPS_MOST, tile / STRIP_ELEMENTS));
    int64_t rows = ceil_div(plan->tile_rows, max_i64(1, strips));
    return round_up(rows, rows < 4 * STRIP_ROWS ? GRANULE : STRIP_ROWS);
}

/* Whether the device computes half of a square on the diagonal (`mirrored` in gemm.h). */
static bool halves_squares(const struct problem *p, const struct machine *machine)
{
    return !machine->gpu && p->moduli == 0 && !problem_of_bytes(p) && problem_width(p) == 1;
}

/* In every slab a triangle is multiplied strip by strip.  A GPU needs blocks for all of its
 * multiprocessors.  Where squares are halved, large strips cost only what they write. */
int64_t plan_triangle_strip_rows(const struct query *q, const struct plan *plan)
{
    int64_t rows = ceil_div(plan->tile_rows, STRIPS_MAX);
    if (q->machine->gpu)
        rows = max_i64(rows, STRIP_ELEMENTS_LEAST / ceil_div(q->p->n, plan->grid_cols));
    else if (halves_squares(q->p, q->machine) && !q->p->lower)
        rows = max_i64(rows, STRIP_ROWS);
    return round_up(rows, rows < 4 * STRIP_ROWS ? PEAK_ROWS : STRIP_ROWS);
}

void plan_set_counts(const struct query *q, struct plan *plan)
{
    const struct problem *p = q->p;
    plan->supers_down = ceil_div(p->m, plan->tile_rows * plan->grid_rows);
    plan->supers_across = ceil_div(p->n, plan->tile_cols * plan->grid_cols);
    plan->slabs = problem_reads_ab(p) ? schedule_slabs(p, plan) : 0;

    plan_set_turns(p, plan);

    plan->strip_rows =
        problem_is_triangle(p) ? plan_triangle_strip_rows(q, plan) : choose_strip_rows(p, plan);

    int64_t least = SLOTS_OUT_PER_WRITER * plan->writers;
    int64_t most = least + (int64_t)(plan->spare_bytes / plan->slot_bytes);
    int64_t tile =
        ceil_div(plan->tile_rows * plan->tile_cols, plan_slot_elements(p, plan, OPERAND_C)) + 1;
    plan->slots_out = (int)max_i64(least, min_i64(most, tile));
}

/* Ranks of the node that has the fewest. */
static int smallest_node(const struct machine *machine)
{
    int rest = machine->ranks % machine->ranks_per_node;
    return rest ? rest : machine->ranks_per_node;
}

void plan_keep_panels(const struct query *q, struct plan *plan)
{
    const struct machine *machine = q->machine;
    size_t ranks = (size_t)smallest_node(machine), left = machine->host_memory - plan->host_bytes;
    size_t pooled = left * ranks;
    bool a_once = plan->supers_across == 1 || plan_holds(plan, OPERAND_A);
    bool b_once =
        plan->supers_down == 1 || (plan->supers_across == 1 && plan_holds(plan, OPERAND_B));
    int64_t useful[] = {a_once ? 0 : plan->slabs, b_once ? 0 : plan->supers_across * plan->slabs};
    plan->cache_bytes = 0;
    for (enum operand operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        size_t bytes = plan_kept_bytes(q->p, plan, operand);
        size_t lines = (size_t)plan->node_lines[operand], each = lines * (bytes + KEPT_STATE);
        if (machine->files_in_memory)
            useful[operand] = 0;
        plan->kept[operand] = min_i64(useful[operand], (int64_t)(pooled / each));
        plan->cache_bytes += (size_t)plan->kept[operand] * lines * bytes;
        pooled -= (size_t)plan->kept[operand] * each;
    }
    plan->host_bytes = machine->host_memory - pooled / ranks;
}

void plan_set_held(struct plan *plan, enum operand held)
{
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        plan->buffers[i] = held == i ? max_i64(PANEL_BUFFERS, plan->slabs + 1) : PANEL_BUFFERS;
}

double plan_computed(const struct problem *p, const struct machine *machine,
                     const struct plan *plan, const struct block *tile)
{
    const double all = schedule_multiplied(p, plan, tile);
    const double beyond = GRANULE * (double)tile->rows; /* of the kernel's tiles on the diagonal */
    return halves_squares(p, machine) ? fmin(all, schedule_products(p, tile) + beyond) : all;
}

struct tile_product plan_tile_product(const struct problem *p, const struct machine *machine,
                                      const struct plan *plan)
{
    struct tile_product most = {plan->tile_rows, plan->tile_cols, p->k, plan->slabs};
    double elements = 0;
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols && plan->triangle; rank++) {
        struct block tile = schedule_triangle(p, plan, rank);
        double now = plan_computed(p, machine, plan, &tile);
        if (now > elements) {
            elements = now;
            most.rows = tile.rows;
            most.cols = (int64_t)(now / (double)tile.rows);
        }
    }
    return most;
}

double plan_tile_written(const struct problem *p, const struct plan *plan)
{
    const struct block general = {p->row, p->col, plan->tile_rows, plan->tile_cols};
    double most = plan->triangle ? 0 : schedule_written(p, plan, &general);
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols && plan->triangle; rank++) {
        struct block tile = schedule_triangle(p, plan, rank);
        most = fmax(most, schedule_written(p, plan, &tile));
    }
    return most;
}
