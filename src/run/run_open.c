/* What a run is made of: files, device memory, events. */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "device.h"
#include "error.h"
#include "quantity.h"
#include "run.h"

/* Into an empty page cache files are read this many times slower than past it. */
enum { CACHE_PAYS_OFF = 4 };

/* How an operand is read.  What is read many times, each part of it by the same node, and what
 * memory can hold of that, is left to the page cache where the user has not said otherwise. */
static enum store_way reading_way(const struct run *run, enum operand operand)
{
    const struct problem *p = run->problem;
    const struct matrix_info *info = &p->matrix[operand];
    bool often = run->plan->passes[operand] > CACHE_PAYS_OFF;
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    double bytes = (double)info->rows * (double)info->cols * (double)scalar_size(p->type);
    double share = bytes / run->comm->computers;
    return p->io == STORE_AUTO && often && share < memory / 4 ? STORE_BUFFERED : p->io;
}

static int open_stores(struct run *run, struct error *err)
{
    const struct problem *p = run->problem;
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, (enum operand)operand))
            store_open(&p->matrix[operand], p->type, STORE_READ,
                       reading_way(run, (enum operand)operand), &run->stores[operand], err);
    store_open(run->output_info, p->type, STORE_WRITE, p->io, &run->output, err);
    if (run->comm->rank == 0 && !err->code)
        store_reserve(run->output, err);
    return err->code;
}

/* The next `bytes` of the device memory that the plan counts. */
static void *carve(struct run *run, size_t bytes)
{
    char *memory = run->memory + run->carved;
    run->carved += plan_buffer_bytes(bytes);
    return memory;
}

static void carve_memory(struct run *run, void **check)
{
    const struct plan *plan = run->plan;
    run->acc = carve(run, plan_panel_bytes(run->problem, plan, OPERAND_C));
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++)
        for (int64_t i = 0; i < plan->buffers[operand] && plan->slabs > 0; i++)
            run->panels[operand][i].memory =
                carve(run, plan_panel_bytes(run->problem, plan, (enum operand)operand));
    for (int i = 0; i < 2 && plan_adds(run->problem, run->plan); i++)
        run->c0[i] = carve(run, plan->slot_bytes);
    enum algorithm algorithm = run->request->algorithm;
    *check = run->request->verify && plan->slabs > 0
                 ? carve(run, plan_check_bytes(run->problem, plan, algorithm))
                 : NULL;
    assert(run->carved + algorithm_workspace(algorithm) == plan->device_bytes);
}

/* Call `visit` for every event of the run. */
static int for_events(struct run *run,
                      int (*visit)(struct device *, struct event **, struct error *),
                      struct error *err)
{
    struct event **events[STEPS * STEP_EVENTS + 2 * STRIPS_MAX + 2];
    int count = 0;
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++)
        for (int64_t i = 0; run->panels[operand] && i < run->plan->buffers[operand]; i++)
            if (visit(run->device, &run->panels[operand][i].full, err) ||
                visit(run->device, &run->panels[operand][i].used, err))
                return err->code;
    for (int i = 0; i < STEPS * STEP_EVENTS; i++)
        events[count++] = &run->steps[i / STEP_EVENTS].events[i % STEP_EVENTS];
    events[count++] = &run->c0_used[0];
    events[count++] = &run->c0_used[1];
    for (int i = 0; i < STRIPS_MAX; i++) {
        events[count++] = &run->summed[i];
        events[count++] = &run->left[i];
    }
    for (int i = 0; i < count; i++)
        if (visit(run->device, events[i], err))
            return err->code;
    return 0;
}

static int create_event(struct device *dev, struct event **event, struct error *err)
{
    return dev->event_create(dev, event, err);
}

static int destroy_event(struct device *dev, struct event **event, struct error *err)
{
    (void)err;
    if (*event)
        dev->event_destroy(dev, *event);
    return 0;
}

static int read_block(void *context, const struct transfer *t, void *memory, struct error *err)
{
    struct run *run = context;
    if (t->again) {
        cache_get(&run->cache, t, memory);
        return 0;
    }
    int code = store_read(run->stores[t->operand], &t->block, memory, err);
    if (code)
        cache_abort(&run->cache);
    else if (t->kept >= 0)
        cache_put(&run->cache, t, memory);
    return code;
}

/* Of C; or of sums that are saved. */
static int write_block(void *context, const struct transfer *t, void *memory, struct error *err)
{
    struct run *run = context;
    if (run->saver.of_sums) {
        save_write(run, &t->block, memory);
        return 0;
    }
    if (run->checksum.weights)
        bands_add(run->written, &run->checksum, run->output_info->rows, &t->block, memory);
    return store_write(run->output, &t->block, memory, err);
}

/* The next rows of C of those that are this rank's to prepare, in the order in which they are
 * written: all ranks take turns, and so do the tiles of a column of the grid. */
static bool prepare_output(void *context)
{
    enum { PIECE = 4 << 20 };
    struct run *run = context;
    const struct problem *p = run->problem;
    const struct plan *plan = run->plan;
    int64_t row_bytes = run->output_info->cols * (int64_t)scalar_size(p->type);
    int64_t rows = max_i64(PIECE / max_i64(row_bytes, 1), 1);
    int64_t pieces = ceil_div(plan->tile_rows, rows), lines = plan->grid_rows;
    int64_t piece = run->prepared++ * run->comm->size + run->comm->rank;
    int64_t super = piece / (pieces * lines), skip = piece / lines % pieces * rows;
    int64_t tile = (super * lines + piece % lines) * plan->tile_rows;
    rows = min_i64(min_i64(rows, plan->tile_rows - skip), p->m - tile - skip);
    return super < plan->supers_down &&
           (rows <= 0 || store_prepare(run->output, p->row + tile + skip, rows));
}

/* Collective.  The ring and the cache of the node. */
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
    comm_node_all(run->comm, true); /* from here on it can be used */
    cache_open(&run->cache, run->window.memory + ring, run->problem, plan);
    return 0;
}

static int open_staging(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    struct mover in = {.device = run->device,
                       .trace = run->trace,
                       .slot_bytes = plan->slot_bytes,
                       .element_bytes = scalar_size(run->problem->type),
                       .threads = plan->readers,
                       .move = read_block,
                       .context = run,
                       .file_stage = STAGE_READ,
                       .link_stage = STAGE_IN};
    struct mover out = in;
    out.threads = plan->writers;
    out.preparers = plan->preparers;
    out.move = write_block;
    out.prepare = prepare_output;
    out.file_stage = STAGE_WRITE;
    out.link_stage = STAGE_OUT;
    if (intake_open(&run->in, run->window.memory, &in, run->problem, plan, run->comm, err) ||
        outlet_open(&run->out, &out, plan->slots_out, err))
        return err->code;
    return 0;
}

static int open_panels(struct run *run, struct error *err)
{
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct panel *panels = calloc((size_t)run->plan->buffers[operand], sizeof *panels);
        if (!panels)
            return error_add(err, EXIT_RESOURCES, "out of host memory");
        run->panels[operand] = run->newest[operand] = run->current[operand] = panels;
    }
    return 0;
}

static int open_all(struct run *run, struct error *err)
{
    struct device *dev = run->device;
    size_t own = run->plan->device_bytes - algorithm_workspace(run->request->algorithm);
    void *check;
    if (open_stores(run, err) || open_staging(run, err) || open_panels(run, err) ||
        for_events(run, create_event, err) || dev->alloc(dev, own, (void **)&run->memory, err))
        return err->code;
    carve_memory(run, &check);
    if (check_open(&run->check, run->problem, run->plan, run->request->algorithm, dev, check,
                   err) ||
        (run->request->verify &&
         checksum_open(&run->checksum, run->problem->type, run->output_info->cols, err)) ||
        run_warm_up(run, err))
        return err->code;
    run->check.retry_on_failure = !run->piece->again;
    run->check.seed = run->seed;
    run->check.tiles = run->map;
    return outlet_begin(&run->out, err) ? err->code : intake_begin(&run->in, err);
}

void run_stop(struct run *run)
{
    intake_stop(&run->in);
    cache_abort(&run->cache);
}

int run_open(struct run *run, struct error *err)
{
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
    struct event *event = run->left[0];
    for (int stream = 0; stream < STREAM_COUNT && event; stream++)
        if (run->device->record(run->device, event, (enum stream)stream, &ignored) == 0)
            run->device->sync(run->device, event, &ignored);
}

void run_close(struct run *run)
{
    struct error ignored = {0};
    if (!run->device)
        return;
    wait_for_device(run);
    run_stop(run);
    exchange_close(&run->exchange);
    intake_close(&run->in);
    outlet_close(&run->out);
    check_close(&run->check);
    save_close(run);
    checksum_close(&run->checksum);
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        store_close(run->stores[operand]);
    store_close(run->output);
    for_events(run, destroy_event, &ignored);
    free(run->panels[OPERAND_A]);
    free(run->panels[OPERAND_B]);
    if (run->memory)
        run->device->release(run->device, run->memory);
    window_close(&run->window);
    *run = (struct run){0};
}
