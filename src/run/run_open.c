/* Opening and closing what a run consists of: files, slots, device memory, events. */
#include <assert.h>
#include <unistd.h>

#include "device.h"
#include "error.h"
#include "first_read.h"
#include "phase.h"
#include "problem_scaling.h"
#include "run.h"
#include "save.h"
#include "sums.h"

/* Reading through an empty page cache is this many times slower than past it. */
enum { CACHE_PAYS_OFF = 4 };

/* How an operand is read.  Unless the user has chosen, the page cache serves an operand that is
 * read many times, each part of it by the same node, if memory can hold it. */
static enum store_way reading_way(const struct run *run, enum operand operand)
{
    const struct problem *p = run->problem;
    bool often = run->plan->roofline.passes[operand] > CACHE_PAYS_OFF;
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    double share = problem_bytes(p, operand) / run->comm->computers;
    return p->io == STORE_AUTO && often && share < memory / 4 ? STORE_BUFFERED : p->io;
}

static int open_inputs(struct run *run, struct error *err)
{
    const struct problem *p = run->problem;
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, (enum operand)operand))
            store_open(&p->sources[operand], p->held[operand], STORE_READ,
                       reading_way(run, (enum operand)operand), &run->stores[operand], err);
    return err->code;
}

/* The next `bytes` of the device memory that the plan counts. */
static void *carve(struct run *run, size_t bytes)
{
    char *memory = run->memory + run->carved;
    run->carved += plan_buffer_bytes(bytes);
    return memory;
}

static void carve_normal(struct run *run)
{
    const struct problem inner = problem_inner(run->problem);
    const struct plan plan = plan_inner(run->problem, run->plan);
    run->normal.x.memory = carve(run, plan_panel_bytes(run->problem, run->plan, OPERAND_C));
    if (run->request->verify)
        run->normal.check_memory =
            carve(run, plan_check_bytes(&inner, &plan, run->request->algorithm));
}

/* Returns the check's memory, or null. */
static void *carve_memory(struct run *run)
{
    const struct problem *p = run->problem;
    const struct plan *plan = run->plan;
    enum algorithm algorithm = run->request->algorithm;
    for (int i = 0; i < plan->tiles; i++)
        run->sums.tiles[i] = carve(run, plan_panel_bytes(p, plan, OPERAND_C));
    for (int i = 0; i < sums_waiting(p, plan->layers); i++)
        run->sums.waiting[i] = carve(run, plan_panel_bytes(p, plan, OPERAND_C));
    run->acc = (struct device_matrix){
        .type = p->sums, .memory = run->sums.tiles[0], .ld = plan->ld[OPERAND_C]};
    run->drain.tile = run->acc;
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        for (int64_t i = 0; i < plan->buffers[operand] && plan->slabs > 0; i++)
            run->panels.feeds[operand].ring[i].matrix.memory =
                carve(run, plan_panel_bytes(p, plan, (enum operand)operand));
        struct feed *feed = &run->panels.feeds[operand];
        if (plan->slabs > 0)
            feed->factor.memory = carve(run, plan_embedded_bytes(p, plan, (enum operand)operand));
        if (feed->buffers == 0) /* for run_warm_up */
            feed->part.matrix.memory = run->memory;
    }
    for (int i = 0; i < 2 && plan_adds(p, plan); i++)
        run->drain.c0[i] = carve(run, plan->slot_bytes);
    if (p->symmetric)
        run->drain.mirror = carve(run, plan->slot_bytes);
    for (int i = 0; i < 4 && problem_scales(p); i++)
        if (i < 2 ? p->scaling.centers : p->scaling.scales && (i < 3 || scaling_shifts(p)))
            run->lines.vectors[i] = carve(run, plan_line_bytes(p));
    if (p->moduli > 0)
        residues_make(p->moduli, p->complex, &run->residues);
    if (plan->residues_bytes > 0)
        run->workspace = carve(run, plan->residues_bytes);
    void *check = run->request->verify && plan->slabs > 0
                      ? carve(run, plan_check_bytes(p, plan, algorithm))
                      : NULL;
    if (p->normal && plan->slabs > 0)
        carve_normal(run);
    assert(run->carved + kernels[algorithm]->workspace == plan->device_bytes);
    return check;
}

static int read_slot(void *context, const struct slot *slot, struct error *err)
{
    struct run *run = context;
    const struct transfer *t = &slot->transfer;
    if (t->again) {
        cache_get(&run->cache, t, slot->memory);
        return 0;
    }
    int code = store_read(run->stores[t->operand], &t->block, slot->memory, err);
    if (code)
        cache_abort(&run->cache);
    else if (t->kept >= 0)
        cache_put(&run->cache, t, slot->memory);
    if (!code && run->lines.census && t->operand != OPERAND_C &&
        !census_add(run->lines.census, t->operand, &t->block, slot->memory))
        census_complain(run->lines.census, err);
    return err->code;
}

static int write_c(void *context, const struct block *block, void *memory, struct error *err)
{
    struct run *run = context;
    return c_file_write(&run->c, block, memory, err);
}

static bool prepare_output(void *context)
{
    struct run *run = context;
    return c_file_prepare(&run->c);
}

/* Collective.  Open the node's ring and cache. */
static int open_window(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    size_t ring = intake_bytes(plan, run->comm);
    if (window_open(&run->window, run->comm, ring + cache_bytes(plan), err))
        return err->code;
    if (run->comm->node_rank == 0) {
        intake_init(run->window.memory, plan, run->comm);
        cache_init(run->window.memory + ring, plan);
    }
    comm_node_all(run->comm, true); /* all ranks may use it from now on */
    cache_open(&run->cache, run->window.memory + ring, run->problem, plan);
    return 0;
}

/* Memory that is populated before it is pinned, on this node. */
static double populated_bytes(const struct run *run)
{
    const struct plan *plan = run->plan;
    const double slots = (double)plan->slots_in * run->comm->node_size + plan->slots_out;
    return run->device->info.kind == DEVICE_GPU ? slots * (double)plan->slot_bytes : 0;
}

static int open_staging(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    struct mover in = {.comm = run->comm,
                       .device = run->device,
                       .trace = run->trace,
                       .slot_bytes = plan->slot_bytes,
                       .problem = run->problem,
                       .threads = plan->readers,
                       .move = read_slot,
                       .prepare = prepare_output,
                       .context = run,
                       .file_stage = STAGE_READ,
                       .link_stage = STAGE_IN};
    struct mover out = in;
    out.threads = plan->writers;
    out.preparers = plan->preparers;
    out.file_stage = STAGE_WRITE;
    out.link_stage = STAGE_OUT;
    phase_begin("preparing memory", populated_bytes(run));
    if (intake_open(&run->in, run->window.memory, &in, plan, run->comm, err) ||
        outlet_open(&run->out, &out, plan->slots_out, err))
        return err->code;
    return 0;
}

/* The parts between the staging slots and the device. */
static int open_parts(struct run *run, struct error *err)
{
    struct device *dev = run->device;
    run->drain = (struct drain){.problem = run->problem,
                                .plan = run->plan,
                                .comm = run->comm,
                                .device = dev,
                                .in = &run->in,
                                .out = &run->out,
                                .to = {write_c, run, problem_written_element(run->problem)},
                                .check = &run->check,
                                .last = run->plan->layers > 1 || run->lines.census};
    run->panels = (struct panels){.problem = run->problem,
                                  .plan = run->plan,
                                  .device = dev,
                                  .in = &run->in,
                                  .products = &run->products};
    if (products_open(&run->products, dev, run->trace, err) || panels_open(&run->panels, err) ||
        drain_open(&run->drain, err))
        return err->code;
    return 0;
}

/* A number for each line to the device; null: there are none. */
static int send_lines(struct run *run, const double *lines, void *to, struct error *err)
{
    size_t bytes = (size_t)run->lines.statistics->lines * sizeof *lines;
    struct copy copy = {to, lines, bytes, bytes, bytes, 1};
    return lines ? run->device->copy(run->device, STREAM_IN, &copy, err) : 0;
}

/* What was sent is there before anything else is done on the stream. */
static int await_lines(struct run *run, enum stream stream, struct error *err)
{
    struct device *dev = run->device;
    struct event *sent = run->drain.drained[0];
    return dev->record(dev, sent, STREAM_IN, err) ? err->code : dev->wait(dev, stream, sent, err);
}

int run_recentre(struct run *run, struct error *err)
{
    const struct problem *p = run->problem;
    const struct statistics *statistics = run->lines.statistics;
    if (!scaling_shifts(p))
        return 0;
    const double *offset = run->lines.vectors[1], *spread = run->lines.vectors[3];
    const int64_t b = scaling_first(p, OPERAND_B);
    run->drain.recentre = (struct recentre){.type = p->type,
                                            .count = (double)scaling_elements(p),
                                            .row_offset = offset,
                                            .col_offset = offset + b,
                                            .row_deviation = spread,
                                            .col_deviation = spread ? spread + b : NULL};
    return send_lines(run, statistics->offset, run->lines.vectors[1], err) ||
                   send_lines(run, statistics->spread, run->lines.vectors[3], err)
               ? err->code
               : await_lines(run, STREAM_OUT, err);
}

/* Where the statistics are not known yet, they are gathered. */
static int open_census(struct run *run, struct error *err)
{
    const struct problem *p = run->problem;
    if (!problem_scales(p) || run->lines.statistics->known)
        return 0;
    const int readers = run->plan->readers;
    run->lines.census =
        census_open(p, run->comm, readers, scaling_lines(p), first_read_copies(p, readers), err);
    if (run->lines.census)
        census_begin(run->lines.census, 0, scaling_lines(p));
    return err->code;
}

static int open_standard(struct run *run, struct error *err)
{
    struct standardize *s = &run->panels.standardize;
    if (!problem_scales(run->problem))
        return 0;
    *s = statistics_shifted(run->problem, run->lines.statistics);
    if (send_lines(run, s->mean, run->lines.vectors[0], err) ||
        send_lines(run, s->rest, run->lines.vectors[1], err) ||
        send_lines(run, s->deviation, run->lines.vectors[2], err) ||
        await_lines(run, STREAM_COMPUTE, err))
        return err->code;
    s->mean = s->mean ? run->lines.vectors[0] : NULL;
    s->rest = s->rest ? run->lines.vectors[1] : NULL;
    s->deviation = s->deviation ? run->lines.vectors[2] : NULL;
    return run->lines.census ? 0 : run_recentre(run, err);
}

static int open_check(struct run *run, void *memory, struct error *err)
{
    run->check.problem = run->problem;
    run->check.plan = run->plan;
    run->check.device = run->device;
    run->check.memory.waiting = run->sums.waiting;
    run->check.verdict.retry_on_failure = !run->piece->again;
    if (check_open(&run->check, run->request->algorithm, memory, err))
        return err->code;
    run->products.checked = run->check.on;
    return 0;
}

static int open_normal(struct run *run, struct error *err)
{
    struct normal *n = &run->normal;
    const struct block tile = schedule_tile(run->problem, run->plan, comm_place(run->comm), 0);
    n->from = run->stores[OPERAND_B];
    n->device = run->device;
    n->panels = &run->panels;
    n->products = &run->products;
    n->out = &run->out;
    n->check.seed = run->check.seed;
    n->check.verdict.retry_on_failure = run->check.verdict.retry_on_failure;
    return normal_open(n, &tile, run->request->algorithm, err);
}

static int open_all(struct run *run, struct error *err)
{
    struct device *dev = run->device;
    size_t own = run->plan->device_bytes - kernels[run->request->algorithm]->workspace;
    run->c = (struct c_file){
        .problem = run->problem, .plan = run->plan, .source = run->output, .comm = run->comm};
    if (open_inputs(run, err) || open_census(run, err) ||
        c_file_open(&run->c, run->request->verify, err) || open_staging(run, err) ||
        open_parts(run, err) || dev->alloc(dev, own, (void **)&run->memory, err) ||
        open_check(run, carve_memory(run), err) || open_standard(run, err) ||
        (run->normal.x.memory && open_normal(run, err)) || run_warm_up(run, err))
        return err->code;
    return outlet_begin(&run->out, err) ? err->code : intake_begin(&run->in, err);
}

int run_open(struct run *run, struct error *err)
{
    phase_begin("opening files", 0);
    save_open(run);
    if (open_window(run, err))
        return err->code;
    if (open_all(run, err))
        run_stop(run);
    return err->code;
}

/* Nothing may be freed while the device still works on it. */
static void wait_for_device(struct run *run)
{
    struct error ignored = {0};
    struct event *event = run->drain.drained[0];
    for (int stream = 0; stream < STREAM_COUNT && event; stream++)
        if (run->device->record(run->device, event, (enum stream)stream, &ignored) == 0)
            run->device->sync(run->device, event, &ignored);
}

void run_close(struct run *run)
{
    if (!run->device)
        return;
    wait_for_device(run);
    run_stop(run);
    exchange_close(&run->exchange);
    intake_close(&run->in);
    outlet_close(&run->out);
    check_close(&run->check);
    normal_close(&run->normal);
    save_close(run);
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        store_close(run->stores[operand]);
    c_file_close(&run->c);
    drain_close(&run->drain);
    panels_close(&run->panels);
    products_close(&run->products);
    if (run->memory)
        run->device->release(run->device, run->memory);
    window_close(&run->window);
    census_close(run->lines.census);
    *run = (struct run){0};
}
