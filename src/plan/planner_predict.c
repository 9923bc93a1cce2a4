/* What a plan will take: the time of each link, and of all of them together. */
#include <math.h>

#include "check_size.h"
#include "planner_impl.h"
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
static const double thread_reads_per_s = 7e9,   /* bytes in memory, of one thread, and those that */
    thread_writes_per_s = 2e9;                  /* it writes: fitted to runs on an H200 */

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
        return fmin(disk, hdf5_bytes_per_s * reading_ranks(machine, plan));
    if (info->chunk_rows == 0)
        return disk * run_factor(machine, run);
    if (info->pipeline.count > 0)
        disk = fmin(disk, decode_bytes_per_s * plan->readers * reading_ranks(machine, plan));
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

/* What all nodes together get of a file system's rate, each through its own link. */
static double through_links(const struct machine *machine, const struct plan *plan, double rate)
{
    double links = plan_nodes(plan) * machine->node_disk_bytes_per_s;
    return links > 0 ? fmin(rate, links) : rate;
}

/* The part of an operand's panels that the host keeps. */
static double kept_part(const struct plan *plan, enum operand operand)
{
    int64_t all = plan->slabs * (operand == OPERAND_A ? 1 : plan->supers_across);
    return all ? (double)plan->kept[operand] / (double)all : 0;
}

/* What all ranks read. */
struct reading {
    double seconds;  /* from the disk or, in its turn, from what the host keeps */
    double read;     /* elements that come from the disk */
    double copied;   /* elements that come to the devices, all of them */
    double received; /* elements by the network at its full rate, to the node with most lines */
    double first;    /* the part of A and B that is the first slab of all ranks */
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
    if (plan_holds(plan, OPERAND_A)) /* a row of super-blocks finds them there */
        reads[OPERAND_A] /= (double)plan->supers_across;
    if (plan_holds(plan, OPERAND_B)) /* at the turns */
        reads[OPERAND_B] *= ((double)plan->supers_across - 1 + 1 / (double)plan->supers_down) /
                            (double)plan->supers_across;
    double again[] = {kept_part(plan, OPERAND_A) * (reads[OPERAND_A] - mk),
                      kept_part(plan, OPERAND_B) * (reads[OPERAND_B] - kn)};
    double slab = (double)min_i64(plan->slab, p->k),
           ranks = (double)plan->grid_rows * plan->grid_cols;
    /* So many ranks of a node share what they copy from there. */
    const double users[] = {(double)ceil_div(p->n, plan->tile_cols) / (double)plan->supers_across,
                            (double)ceil_div(p->m, plan->tile_rows) / (double)plan->supers_down};
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        double nodes = plan_nodes_of_line(plan, (enum operand)operand);
        double wanted = problem_reads(p, (enum operand)operand) ? reads[operand] : 0;
        reads[operand] -= again[operand];
        all.copied += wanted * users[operand];
        all.received += (wanted - again[operand]) *
                        plan_part_received(plan, (enum operand)operand) /
                        plan_turn_rate(p, plan, (enum operand)operand);
        all.seconds += again[operand] * nodes * element / (plan_cache_rate(plan) * ranks);
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
    /* Elements that the check passes over: the panels of each slab, the tile after each group. */
    bool has_peaks = check_has_peaks(request->algorithm, p->type, plan->tile_cols);
    double group =
        fmax((double)check_group_steps(p->type, p->k_whole, has_peaks), (double)plan->slab);
    double groups = fmax(k / group, slabs / (double)plan->slabs);
    double checked = request->verify ? (rows + cols) * k + tile * groups : 0;
    return 2 * computed * k / plan->gemm_flops_per_s * (1 + GEMM_HALF_SLAB / (double)plan->slab) +
           checked * (double)scalar_size(p->type) / machine->device_bytes_per_s +
           slabs * STEP_MICROSECONDS * 1e-6;
}

/* What a super-block's panels take: seconds of each link. */
struct feed {
    double disk, network, host, bus;
};

/* Those of A, which are new in the first of a row of super-blocks, or of B, which are new in the
 * first row; others are on the device, or come again from the host as far as it keeps them. */
static void add_panels(const struct problem *p, const struct machine *machine,
                       const struct plan *plan, enum operand operand, bool new, struct feed *feed)
{
    bool of_a = operand == OPERAND_A;
    double of_k = (double)p->k * (double)scalar_size(p->type);
    double bytes = of_k * (of_a ? (double)p->m / (double)plan->supers_down
                                : (double)p->n / (double)plan->supers_across);
    double again = new ? 0 : kept_part(plan, operand) * bytes,
           nodes = plan_nodes_of_line(plan, operand);
    double ranks = (double)plan->grid_rows * plan->grid_cols;
    feed->disk +=
        (bytes - again) / through_links(machine, plan, plan_read_rate(p, machine, plan, operand));
    feed->network += (bytes - again) * plan_part_received(plan, operand) /
                     (machine->network_bytes_per_s * plan_turn_rate(p, plan, operand));
    feed->host += again * nodes / (plan_cache_rate(plan) * ranks);
    feed->bus +=
        of_k * (double)(of_a ? plan->tile_rows : plan->tile_cols) / machine->in_bytes_per_s;
}

/* Seconds from one super-block to the next, of one that is the first of its row or not, in the
 * first row or not: those of the device, `each`, or of the link that needs most, and what is lost
 * to the writing of the super-block before.  A disk makes up for that where it has time left.
 * Panels come from memory at half the pace meanwhile: then the device, which has few of them,
 * waits, unless they come twice as fast as it needs them. */
static double super_seconds(const struct problem *p, const struct machine *machine,
                            const struct plan *plan, double each, bool first_col, bool first_row)
{
    double of_c =
        (double)p->m * (double)p->n * (double)scalar_size(p->type) / (double)schedule_supers(plan);
    double written = first_col && first_row ? 0 : of_c;
    struct feed feed = {0};
    if (problem_reads_c(p))
        feed.disk =
            of_c / through_links(machine, plan, plan_read_rate(p, machine, plan, OPERAND_C));
    if (first_col || !plan_holds(plan, OPERAND_A))
        add_panels(p, machine, plan, OPERAND_A, first_col, &feed);
    if (first_row || !first_col || !plan_holds(plan, OPERAND_B))
        add_panels(p, machine, plan, OPERAND_B, first_row, &feed);
    if (!machine->files_in_memory)
        feed.disk += plan_lost_to_writing(machine, written);
    double pace = fmax(fmax(feed.disk, feed.network), fmax(fmax(feed.host, feed.bus), each));
    if (!machine->files_in_memory || feed.disk == 0)
        return pace;
    double writing = written / machine->disk_write_bytes_per_s;
    return pace + writing * fmax(0, 1 - pace / (2 * feed.disk));
}

/* Panels come unevenly: nearly all of them with the first row and column of super-blocks, where
 * later ones find theirs on the device or the host.  Seconds of all, each at the pace of what it
 * needs most: a link for its panels, or the device, which takes `each`.  `first`: of the first,
 * which waits `fill` for its first slab or multiplies its last one when all have come. */
static double paced_seconds(const struct problem *p, const struct machine *machine,
                            const struct plan *plan, double each, double fill, double *first)
{
    double down = (double)plan->supers_down - 1, across = (double)plan->supers_across - 1;
    *first = fmax(super_seconds(p, machine, plan, 0, true, true) + each / (double)plan->slabs,
                  each + fill);
    return *first + across * super_seconds(p, machine, plan, each, false, true) +
           down * super_seconds(p, machine, plan, each, true, false) +
           down * across * super_seconds(p, machine, plan, each, false, false);
}

/* Files in memory are moved by the threads: seconds that these take for it. */
static double thread_seconds(const struct machine *machine, double read, double written)
{
    if (!machine->gpu || !machine->files_in_memory)
        return 0;
    return (read / thread_reads_per_s + written / thread_writes_per_s) /
           ((double)machine->threads * machine->ranks);
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
    s[LINK_READ] =
        fmax(reading.seconds, reading.read * element / through_links(machine, plan, INFINITY));
    s[LINK_NETWORK] = reading.received * element / machine->network_bytes_per_s;
    s[LINK_IN] = reading.copied * element / ranks / machine->in_bytes_per_s;
    s[LINK_OUT] = tiles * tile * element / machine->out_bytes_per_s;
    double steps = tiles * (double)plan->slabs;
    struct product all_k = {plan->tile_rows, plan->tile_cols, p->k, plan->slabs};
    s[LINK_GEMM] =
        plan->slabs ? tiles * plan_product_seconds(p, machine, request, plan, &all_k) : 0;
    double of_c = (double)p->m * (double)p->n * element;
    double write_rate = through_links(machine, plan, plan_write_rate(p, machine, plan));
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
    double hops = fmax(plan_hops_seconds(p, machine, plan, OPERAND_A, s[LINK_NETWORK]),
                       plan_hops_seconds(p, machine, plan, OPERAND_B, s[LINK_NETWORK]));
    double fill = fmax(s[LINK_READ], s[LINK_IN]) * reading.first + hops;
    double device = s[LINK_GEMM] + exposed + moving;
    double first = 0;
    double busiest =
        plan->slabs ? paced_seconds(p, machine, plan, device / tiles, fill, &first) : device;
    enum link feeding = s[LINK_READ] >= s[LINK_IN] ? LINK_READ : LINK_IN;
    enum link own = s[LINK_GEMM] >= exposed ? LINK_GEMM : LINK_OUT;
    bool is_fed = fill > device || busiest > (device + fill) * (1 + 1e-9);
    plan->limit = is_fed ? feeding : own;
    double last = fmin(of_c, ranks * tile * element); /* the bytes that nothing is read beside */
    const double before[] = {plan_lost_to_writing(machine, of_c - last),
                             fill,
                             fill,
                             fill,
                             fill,
                             first - last / write_rate};
    /* How A and B are read is in that already.  A link that waits for most of its time is not the
     * limit. */
    for (int link = plan->slabs ? LINK_NETWORK : LINK_READ; link < LINK_COUNT; link++)
        if (s[link] + before[link] > busiest) {
            busiest = s[link] + before[link];
            if (s[link] >= before[link])
                plan->limit = (enum link)link;
        }
    double host = thread_seconds(machine, reading.read * element, of_c);
    if (host > busiest)
        plan->limit = s[LINK_READ] > s[LINK_WRITE] ? LINK_READ : LINK_WRITE;
    busiest = fmax(busiest, host);
    double drain = drain_seconds(plan, last / write_rate, step);
    if (drain > busiest)
        plan->limit = LINK_WRITE;
    plan->wall_s = busiest + drain;
}
