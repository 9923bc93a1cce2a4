/* What a plan gets of the machine's rates, and what its work takes: for planner_roofline.c and for
 * the simulator. */
#include <math.h>

#include "check_size.h"
#include "embedding.h"
#include "first_read.h"
#include "integers.h"
#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"

enum {
    GEMM_HALF_SLAB = 64, /* a slab this long runs at half the rate: accumulators in and out */
    GEMM_BLOCK = 128,    /* of C, side: what a multiprocessor computes at a time, more or less */
};
static const double decode_bytes_per_s = 0.8e9; /* a thread: libdeflate's inflate, roughly */
static const double cache_bytes_per_s = 2e9;    /* a reader that copies what the host keeps */
/* A slab of a super-block: launches, events and slots; then votes, and ranks that wait for panels
 * that they share.  Slabs of 4 MB took 170 us alone on an H200, and 210 to 250 us on two ranks;
 * larger ones hide most of that where a rank is alone. */
static const double step_alone_s = 50e-6, step_shared_s = 250e-6;

/* Rate of the disk with runs of this many bytes. */
static double run_factor(const struct machine *machine, double run_bytes)
{
    return run_bytes / (run_bytes + machine->disk_run_bytes);
}

/* How much more is read where pieces of an extent end within chunks, which are read whole. */
static double chunks_cut(int64_t extent, int64_t piece, int64_t chunk)
{
    bool cuts = chunk > 0 && piece < extent && piece % chunk != 0;
    return cuts ? (double)(piece + chunk) / (double)piece : 1;
}

static double reading_ranks(const struct machine *machine, const struct plan *plan)
{
    return fmin(machine->ranks, plan_nodes(plan) * plan->ranks_per_node);
}

/* Reading files in memory is slower the more GPUs copy each byte meanwhile: those of a row of the
 * grid copy A's panels, those of a column B's, taken for the same number of bytes.  Beside one GPU
 * the probe's rate holds, beside two 0.77 of it, as measured on hosts of two H200s; for more GPUs
 * that is extrapolated. */
static double beside_copies(const struct machine *machine, const struct plan *plan)
{
    static const double copying = 1.5; /* a byte's cost to memory for each GPU; 1 to read it */
    if (!machine->gpu || !machine->files_in_memory || plan->triangle)
        return 1;
    double of_a = plan->grid_cols / plan_nodes_of_line(plan, OPERAND_A),
           of_b = plan->grid_rows / plan_nodes_of_line(plan, OPERAND_B);
    return (1 + copying) / (1 + copying * (of_a + of_b) / 2);
}

static double reading_rate(const struct problem *p, const struct machine *machine,
                           const struct plan *plan, enum operand operand)
{
    const struct matrix *matrix = &p->matrix[operand];
    int64_t rows, cols;
    plan_panel_extents(p, plan, operand, &rows, &cols);
    int64_t file_rows = operand == OPERAND_C ? p->m : matrix->rows;
    int64_t file_cols = operand == OPERAND_C ? p->n : matrix->cols;
    double run =
        (double)(cols == file_cols ? rows * cols : cols) * (double)problem_element(p, operand);
    double disk = machine->disk_read_bytes_per_s;
    if (operand != OPERAND_C)
        disk *= beside_copies(machine, plan);
    if (problem_through_library(p, operand))
        return fmin(disk, problem_library_rate(p, operand) * reading_ranks(machine, plan));
    if (matrix->chunk_rows == 0)
        return disk * run_factor(machine, run);
    if (matrix->pipeline.count > 0)
        disk = fmin(disk, decode_bytes_per_s * plan->readers * reading_ranks(machine, plan));
    return disk / chunks_cut(file_rows, rows, matrix->chunk_rows) /
           chunks_cut(file_cols, cols, matrix->chunk_cols);
}

/* Seconds that all readers together take to add up a byte that they have read (first_read.h): more
 * where several GPUs copy out of the same memory meanwhile, as measured on a host of two H200s. */
static double means_seconds(const struct problem *p, const struct machine *machine,
                            const struct plan *plan)
{
    static const double beside_gpus = 1.5;
    const bool shared = machine->gpu && machine->files_in_memory &&
                        (double)(plan->grid_rows * plan->grid_cols) > plan_nodes(plan);
    return (shared ? beside_gpus : 1) * first_read_addition(p) /
           (plan->readers * reading_ranks(machine, plan));
}

double plan_read_rate(const struct problem *p, const struct machine *machine,
                      const struct plan *plan, enum operand operand)
{
    const double rate = reading_rate(p, machine, plan, operand);
    return operand == OPERAND_C || !first_read_is_product(p, plan)
               ? rate
               : 1 / (1 / rate + means_seconds(p, machine, plan));
}

double plan_write_rate(const struct problem *p, const struct machine *machine,
                       const struct plan *plan)
{
    int64_t run = plan->tile_cols == p->n ? plan->tile_rows * p->n : plan->tile_cols;
    return machine->disk_write_bytes_per_s *
           run_factor(machine, (double)run * (double)problem_written_element(p));
}

double plan_pace_beside_writing(const struct machine *machine, const struct plan *plan)
{
    const double pace = 0.9; /* of memory that is written to, where no reader waits for a CPU */
    return pace * fmin(1, (double)machine->threads / (plan->readers + plan->writers));
}

double plan_cache_rate(const struct plan *plan)
{
    return cache_bytes_per_s * plan->readers;
}

static double whole_blocks(int64_t extent)
{
    return (double)round_up(extent, GEMM_BLOCK);
}

/* How often a GPU converts a panel of A, and one of B, to residues.  It multiplies part by part of
 * the columns where the workspace does not hold those of the tile; then it converts A's panel for
 * each part, and B's again for each strip of the first and the last slab. */
static void count_conversions(const struct problem *p, const struct plan *plan, double times[2])
{
    const struct ozaki_part part = ozaki_part(p->moduli, p->complex, plan->residues_bytes,
                                              plan->tile_cols, plan->tile_rows, plan->slab);
    const bool keeps = part.rows >= plan->tile_cols && plan->slab <= OZAKI_BLOCK;
    const double strips = (double)ceil_div(plan->tile_rows, plan->strip_rows);
    const double slabs = (double)plan->slabs;
    times[OPERAND_A] = (double)ceil_div(plan->tile_cols, part.rows);
    times[OPERAND_B] = keeps ? 1 : 1 + (strips - 1) * fmin(2, slabs) / slabs;
}

/* How often a GPU reads a panel to measure and to convert it. */
static double conversion_passes(const struct problem *p, enum operand operand)
{
    const bool contiguous_along_k = p->trans[operand] == (operand == OPERAND_B);
    return contiguous_along_k ? 1 : 3;
}

/* The part of a panel that it reads: op(B) of a complex product has each number twice. */
static double converted_part(const struct problem *p, enum operand operand)
{
    return p->complex && operand == OPERAND_B ? 0.5 : 1;
}

/* Bytes that a GPU moves to turn panels into residues, and residues into sums. */
static double residues_moved(const struct problem *p, const struct plan *plan,
                             const struct tile_product *product)
{
    double element = (double)scalar_size(p->type), moduli = p->moduli, times[2];
    double sums = (double)(product->rows * product->cols) *
                  (double)max_i64(product->slabs, ceil_div(product->k, OZAKI_BLOCK));
    count_conversions(p, plan, times);
    const double lines[] = {(double)product->rows, (double)product->cols};
    double converted = 0; /* bytes of a step of k */
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        converted += lines[i] * converted_part(p, i) * times[i] *
                     (conversion_passes(p, i) * element + moduli);
    return converted * (double)product->k + sums * (moduli + 2 * element);
}

int plan_plane_products(const struct problem *p)
{
    return integers_planes(p->held[OPERAND_A]) * integers_planes(p->held[OPERAND_B]);
}

/* Bytes that a GPU moves to make planes of panels, unless they are such as they are, and to add
 * sums of 32 bits to those of doubles. */
static double integers_moved(const struct problem *p, const struct tile_product *product)
{
    const double sizes[] = {(double)problem_element(p, OPERAND_A),
                            (double)problem_element(p, OPERAND_B)};
    const double lines[] = {(double)product->rows, (double)product->cols};
    const bool plane[] = {!p->trans[OPERAND_A] && sizes[OPERAND_A] == 1,
                          p->trans[OPERAND_B] && sizes[OPERAND_B] == 1};
    double moved = 2 * sizeof(double) * lines[0] * lines[1] * plan_plane_products(p) *
                   (double)max_i64(product->slabs, ceil_div(product->k, INTEGERS_BLOCK));
    for (int i = OPERAND_A; i <= OPERAND_B; i++)
        moved += plane[i] ? 0 : 2 * sizes[i] * lines[i] * (double)product->k;
    return moved;
}

double plan_product_seconds(const struct problem *p, const struct machine *machine,
                            const struct plan_request *request, const struct plan *plan,
                            const struct tile_product *product)
{
    double rows = (double)product->rows, cols = (double)product->cols, k = (double)product->k;
    double slabs = (double)product->slabs, tile = rows * cols;
    double computed =
        machine->gpu ? whole_blocks(product->rows) * whole_blocks(product->cols) : tile;
    /* Elements that the check passes over: the panels of each slab, the tile after each group. */
    bool has_peaks = check_has_peaks(request->algorithm, p->type, plan->tile_cols);
    double group =
        fmax((double)check_group_steps(p, plan->tile_cols, has_peaks), (double)plan->slab);
    double groups = fmax(k / group, slabs / (double)plan->slabs);
    double panels =
        rows * (double)problem_element(p, OPERAND_A) + cols * (double)problem_element(p, OPERAND_B);
    double moved = request->verify ? panels * k + tile * groups * (double)scalar_size(p->type) : 0;
    if (p->moduli > 0 && machine->gpu)
        moved += residues_moved(p, plan, product);
    if (problem_of_bytes(p) && machine->gpu)
        moved += integers_moved(p, product);
    return problem_passes(p) * 2 * computed * k / plan->gemm_flops_per_s *
               (1 + GEMM_HALF_SLAB / (double)plan->slab) +
           moved / machine->device_bytes_per_s + slabs * step_alone_s;
}

double plan_step_seconds(const struct plan *plan)
{
    return plan->grid_rows * plan->grid_cols > 1 ? step_shared_s : step_alone_s;
}

double plan_step_bytes(const struct problem *p, const struct plan *plan)
{
    const double lines[] = {(double)min_i64(p->m, plan->tile_rows * plan->grid_rows),
                            (double)min_i64(p->n, plan->tile_cols * plan->grid_cols)};
    double bytes = 0;
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        if (problem_has_panels(p, i))
            bytes += (plan->triangle ? (double)p->n : lines[i]) * embedding_stored(p, i) *
                     (double)problem_element(p, i);
    return bytes * (double)plan->slab;
}

double plan_first_wait(const struct problem *p, const struct plan *plan, const struct block *tile,
                       double feed, double device, double *last)
{
    *last = device;
    if (!plan_comes_by_rows(p, plan))
        return feed;
    *last = 0;
    const double all = schedule_multiplied(p, plan, tile);
    double wait = 0, before = 0;
    for (int64_t i = 0; i < schedule_strips(plan, tile); i++) {
        struct block strip = schedule_strip(p, plan, tile, i);
        double share = (double)(strip.row + strip.rows - p->row) / (double)p->m;
        wait = fmax(wait, feed * share - device * before);
        *last = device * (double)(strip.rows * strip.cols) / all;
        before += (double)(strip.rows * strip.cols) / all;
    }
    return wait;
}

/* In a triangle the lowest tile waits longest for its first rows, or the first one for all that
 * come after its own. */
double plan_longest_wait(const struct problem *p, const struct plan *plan, double feed,
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
