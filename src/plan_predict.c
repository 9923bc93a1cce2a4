/* What a plan will take: the time of each link, and of all of them together. */
#include <math.h>

#include "plan_impl.h"
#include "quantity.h"
#include "schedule.h"

enum {
    STEP_MICROSECONDS = 50, /* for every slab of every tile, whatever its size */
    GEMM_HALF_SLAB = 64,    /* a slab this long runs at half the rate: accumulators in and out */
    GEMM_BLOCK = 128,       /* of C, side: what a multiprocessor computes at a time, more or less */
};
static const double decode_bytes_per_s = 0.8e9; /* a thread: libdeflate's inflate, roughly */
static const double hdf5_bytes_per_s = 1e9;     /* H5Dread, roughly */
static const double cache_bytes_per_s = 2e9;    /* a reader that copies what the host keeps */

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

double plan_read_rate(const struct problem *p, const struct machine *machine,
                      const struct plan *plan, enum operand operand)
{
    const struct matrix_info *info = &p->matrix[operand];
    int64_t rows, cols;
    plan_panel_extents(p, plan, operand, &rows, &cols);
    int64_t file_rows = operand == OPERAND_C ? p->m : info->rows;
    int64_t file_cols = operand == OPERAND_C ? p->n : info->cols;
    double run = (double)(cols == file_cols ? rows * cols : cols) * (double)scalar_size(p->type);
    double disk = machine->disk_read_bytes_per_s;
    if (problem_through_hdf5(p, operand)) /* one thread of each rank */
        return fmin(disk, hdf5_bytes_per_s * machine->ranks);
    if (info->chunk_rows == 0)
        return disk * run_factor(machine, run);
    if (info->pipeline.count > 0)
        disk = fmin(disk, decode_bytes_per_s * plan->readers * machine->ranks);
    return disk / chunks_cut(file_rows, rows, info->chunk_rows) /
           chunks_cut(file_cols, cols, info->chunk_cols);
}

double plan_write_rate(const struct problem *p, const struct machine *machine,
                       const struct plan *plan)
{
    int64_t run = plan->tile_cols == p->n ? plan->tile_rows * p->n : plan->tile_cols;
    return machine->disk_write_bytes_per_s *
           run_factor(machine, (double)run * (double)scalar_size(p->type));
}

double plan_cache_rate(const struct plan *plan)
{
    return cache_bytes_per_s * plan->readers;
}

/* What all ranks read. */
struct reading {
    double seconds; /* from the disk or, in its turn, from what the host keeps */
    double read;    /* elements that come from the disk */
    double copied;  /* elements that come to the devices, all of them */
    double sent;    /* elements from node to node */
    double first;   /* the part of A and B that is the first slab of all ranks */
};

static struct reading predict_reading(const struct problem *p, const struct machine *machine,
                                      struct plan *plan)
{
    struct reading all = {0};
    double element = (double)scalar_size(p->type);
    const double mk = (double)p->m * (double)p->k, kn = (double)p->k * (double)p->n;
    const double once[] = {mk, kn, (double)p->m * (double)p->n};
    double reads[] = {mk * (double)plan->supers_across, kn * (double)plan->supers_down,
                      once[OPERAND_C]};
    double all_b = (double)(plan->supers_across * plan->slabs);
    double kept_a = plan->slabs ? (double)plan->kept[OPERAND_A] / (double)plan->slabs : 0;
    double kept_b = plan->slabs ? (double)plan->kept[OPERAND_B] / all_b : 0;
    if (plan_holds(plan, OPERAND_A)) /* a row of super-blocks finds them there */
        reads[OPERAND_A] /= (double)plan->supers_across;
    if (plan_holds(plan, OPERAND_B)) /* at the turns */
        reads[OPERAND_B] *= ((double)plan->supers_across - 1 + 1 / (double)plan->supers_down) /
                            (double)plan->supers_across;
    double again[] = {kept_a * (reads[OPERAND_A] - mk), kept_b * (reads[OPERAND_B] - kn)};
    double slab = (double)min_i64(plan->slab, p->k),
           ranks = (double)plan->grid_rows * plan->grid_cols;
    /* A line of the grid lies on so many nodes, each of which has its own copy; and so many of its
     * ranks share what they copy from there. */
    const double nodes[] = {(double)plan->grid_cols / (double)plan->node_lines[1],
                            (double)plan->grid_rows / (double)plan->node_lines[0]};
    const double users[] = {(double)ceil_div(p->n, plan->tile_cols) / (double)plan->supers_across,
                            (double)ceil_div(p->m, plan->tile_rows) / (double)plan->supers_down};
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        double wanted = problem_reads(p, (enum operand)operand) ? reads[operand] : 0;
        reads[operand] -= again[operand];
        all.copied += wanted * users[operand];
        all.sent += (wanted - again[operand]) * fmax(0, nodes[operand] - 1);
        all.seconds += again[operand] * nodes[operand] * element / (plan_cache_rate(plan) * ranks);
    }
    all.copied += problem_reads_c(p) ? once[OPERAND_C] : 0;
    if (plan->slabs)
        all.first = fmin(1, ((double)plan->tile_rows * plan->grid_rows +
                             (double)plan->tile_cols * plan->grid_cols) *
                                slab / (reads[OPERAND_A] + reads[OPERAND_B]));
    for (int operand = 0; operand < OPERAND_COUNT; operand++) {
        if (!problem_reads(p, (enum operand)operand))
            continue;
        plan->passes[operand] = reads[operand] / once[operand];
        all.read += reads[operand];
        all.seconds +=
            reads[operand] * element / plan_read_rate(p, machine, plan, (enum operand)operand);
    }
    return all;
}

/* A disk has one channel for both.  In memory a byte that is read crosses the bus four times (out
 * of the file, twice into the slot, out to the device), one that is written five times (into the
 * slot and out, as a zero and twice into the file), but more than half of that falls between
 * readings: two GPUs lose half a reading to it. */
double plan_lost_to_writing(const struct machine *machine, double bytes)
{
    return (machine->files_in_memory ? 0.5 : 1) * bytes / machine->disk_read_bytes_per_s;
}

/* What all nodes together get of a file system's rate, each through its own link. */
static double through_links(const struct machine *machine, double rate)
{
    double nodes = (double)ceil_div(machine->ranks, machine->ranks_per_node);
    double links = nodes * machine->node_disk_bytes_per_s;
    return links > 0 ? fmin(rate, links) : rate;
}

static double whole_blocks(int64_t extent)
{
    return (double)round_up(extent, GEMM_BLOCK);
}

double plan_product_seconds(const struct problem *p, const struct machine *machine,
                            const struct plan_request *request, const struct plan *plan,
                            const struct product *product)
{
    double rows = (double)product->rows, cols = (double)product->cols, k = (double)product->k;
    double slabs = (double)product->slabs, tile = rows * cols;
    double computed =
        machine->gpu ? whole_blocks(product->rows) * whole_blocks(product->cols) : tile;
    /* Elements that the check passes over: the panels of each slab, once the tile. */
    double checked = request->verify ? (rows + cols) * k + tile * slabs / (double)plan->slabs : 0;
    return 2 * computed * k / plan->gemm_flops_per_s * (1 + GEMM_HALF_SLAB / (double)plan->slab) +
           checked * (double)scalar_size(p->type) / machine->device_bytes_per_s +
           slabs * STEP_MICROSECONDS * 1e-6;
}

/* Where the device holds A's panels for a row of super-blocks, or B's for a column, its first tile
 * reads both and the others one: seconds of all tiles, each at the pace of its reading or its
 * product. */
static double uneven_seconds(const struct problem *p, const struct machine *machine,
                             const struct plan *plan)
{
    double of_c = (double)p->m * (double)p->n * (double)scalar_size(p->type);
    double of_k = (double)p->k * (double)scalar_size(p->type);
    double link = of_k / machine->in_bytes_per_s,
           disk = of_k / through_links(machine, machine->disk_read_bytes_per_s);
    double a = (double)plan->tile_rows, b = (double)plan->tile_cols;
    double by_a = disk * a * plan->grid_rows, by_b = disk * b * plan->grid_cols;
    double product = plan->link_s[LINK_GEMM] / (double)schedule_supers(plan);
    bool holds_a = plan_holds(plan, OPERAND_A);
    int64_t firsts = holds_a ? plan->supers_down : plan->supers_across;
    int64_t others = schedule_supers(plan) - firsts;
    double supers = (double)schedule_supers(plan); /* all but the last are written beside reading */
    double left = plan_lost_to_writing(machine, of_c / supers) * (supers - 1) / supers;
    double first = fmax(by_a + by_b + left, link * (a + b));
    double other = fmax((holds_a ? by_b : by_a) + left, link * (holds_a ? b : a));
    return (double)firsts * fmax(first, product) + (double)others * fmax(other, product);
}

/* Seconds after the last product, of tiles that take `leave` to the disk: their first strip leaves
 * when it is done, and their last one after that. */
static double drain_seconds(const struct plan *plan, double leave, double step)
{
    double strip = fmin(1, (double)plan->strip_rows / (double)plan->tile_rows);
    return fmax(leave * strip, leave - step * (1 - strip));
}

void plan_predict(const struct problem *p, const struct machine *machine,
                  const struct plan_request *request, struct plan *plan)
{
    double element = (double)scalar_size(p->type);
    double tile = (double)plan->tile_rows * (double)plan->tile_cols,
           tiles = (double)schedule_supers(plan);
    double ranks = (double)plan->grid_rows * plan->grid_cols, *s = plan->link_s;
    struct reading reading = predict_reading(p, machine, plan);
    s[LINK_READ] = fmax(reading.seconds, reading.read * element / through_links(machine, INFINITY));
    s[LINK_NETWORK] = reading.sent * element /
                      (machine->network_bytes_per_s * ceil(ranks / plan->ranks_per_node));
    s[LINK_IN] = reading.copied * element / ranks / machine->in_bytes_per_s;
    s[LINK_OUT] = tiles * tile * element / machine->out_bytes_per_s;
    double steps = tiles * (double)plan->slabs;
    struct product all_k = {plan->tile_rows, plan->tile_cols, p->k, plan->slabs};
    s[LINK_GEMM] =
        plan->slabs ? tiles * plan_product_seconds(p, machine, request, plan, &all_k) : 0;
    double of_c = (double)p->m * (double)p->n * element;
    double write_rate = through_links(machine, plan_write_rate(p, machine, plan));
    s[LINK_WRITE] = of_c / write_rate;

    /* A tile leaves while its last slab and the next tile's first one are multiplied: into slots
     * where there are enough, at the pace of the disk otherwise. */
    double slots = (double)plan->slots_out * (double)plan->slot_elements;
    double beyond = ranks * fmax(0, tile - slots) * element / write_rate;
    double leave = fmax(s[LINK_OUT] / tiles, beyond);
    double step = plan->slabs ? s[LINK_GEMM] / steps : 0;
    double exposed = tiles * fmax(0, leave - 2 * step);
    /* On the CPU the same cores move every byte twice: between file and slot, slot and panel. */
    double moving = machine->gpu ? 0 : 2 * (s[LINK_IN] + s[LINK_OUT]) / machine->threads;
    bool held = plan->slabs > 1 && (plan_holds(plan, OPERAND_A) || plan_holds(plan, OPERAND_B));
    double product = held ? fmax(s[LINK_GEMM], uneven_seconds(p, machine, plan)) : s[LINK_GEMM];
    double busiest = product + exposed + moving;
    enum link feeding = s[LINK_READ] >= s[LINK_IN] ? LINK_READ : LINK_IN;
    enum link pace = product > s[LINK_GEMM] ? feeding : LINK_GEMM;
    plan->limit = product >= exposed ? pace : LINK_OUT;
    double last = fmin(of_c, ranks * tile * element); /* the bytes that nothing is read beside */
    for (int link = 0; link < LINK_COUNT; link++) {
        double lost = link == LINK_READ ? plan_lost_to_writing(machine, of_c - last) : 0;
        if (s[link] + lost > busiest) {
            busiest = s[link] + lost;
            plan->limit = (enum link)link;
        }
    }
    double fill = fmax(s[LINK_READ], s[LINK_IN]) * reading.first;
    plan->wall_s = busiest + fill + drain_seconds(plan, last / write_rate, step);
}
