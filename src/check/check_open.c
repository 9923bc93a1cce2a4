/* The memory and the events of the online check. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device.h"
#include "error.h"

static double *carve(double **memory, size_t count)
{
    double *part = *memory;
    *memory += count;
    return part;
}

static void carve_memory(struct check *c, double *memory, bool has_peaks)
{
    const struct plan *plan = c->plan;
    size_t classes = (size_t)c->classes, sums = (size_t)plan->tile_rows * classes;
    c->weights = carve(&memory, (size_t)plan->tile_cols);
    c->left_out = (int *)carve(&memory, (size_t)plan->tile_cols + 2);
    c->t = carve(&memory, (size_t)plan->slab * classes);
    c->t_squares = carve(&memory, (size_t)plan->slab * classes);
    c->t_roots = carve(&memory, (size_t)plan->slab * classes);
    c->y = carve(&memory, sums);
    c->before = carve(&memory, sums);
    c->z = carve(&memory, sums);
    c->squares = carve(&memory, sums);
    c->odd = carve(&memory, sums);
    c->reach = carve(&memory, sums);
    c->row_squares = carve(&memory, (size_t)plan->tile_rows);
    c->norms = carve(&memory, (size_t)check_passes(c->problem) * classes * check_parts(plan->slab));
    c->parts = carve(&memory, project_partials(plan->tile_rows, plan->slab, c->classes));
    if (has_peaks)
        c->peaks = (float *)carve(&memory, check_peak_numbers(plan->tile_rows, plan->tile_cols));
    c->verdicts[0] = carve(&memory, check_verdicts(plan->tile_rows)) + 1;
    c->verdicts[1] = memory + 1;
}

int check_open(struct check *c, const struct problem *p, const struct plan *plan,
               enum algorithm algorithm, struct device *device, void *memory, struct error *err)
{
    bool has_peaks = check_has_peaks(algorithm, p->type, plan->tile_cols);
    struct residues residues;
    if (p->moduli > 0)
        residues_make(p->moduli, p->complex, &residues);
    *c = (struct check){.problem = p,
                        .plan = plan,
                        .device = device,
                        .on = memory != NULL && plan->slabs > 0,
                        .running = p->moduli > 0 || algorithm_is_running_sum(algorithm),
                        .inputs = p->moduli > 0 ? ozaki_error(&residues) : 0,
                        .classes = check_classes(p, plan->tile_cols),
                        .deal = has_peaks ? PEAK_ROWS : 1,
                        .group_steps = check_group_steps(p, plan->tile_cols, has_peaks)};
    if (!c->on)
        return 0;
    carve_memory(c, memory, has_peaks);
    size_t bytes = check_host_bytes(plan->tile_rows, plan->tile_cols);
    void *host = aligned_alloc(4096, bytes);
    if (!host)
        return error_no_memory(err, "the check");
    memset(host, 0, bytes);
    if (device->pin(device, host, bytes, err)) {
        free(host);
        return err->code;
    }
    c->host = host;
    if (device->event_create(device, &c->ready, err) ||
        device->event_create(device, &c->summed, err) ||
        device->event_create(device, &c->done, err))
        return err->code;
    return 0;
}

void check_close(struct check *c)
{
    struct device *dev = c->device;
    struct event *events[] = {c->ready, c->summed, c->done};
    for (int i = 0; i < 3; i++)
        if (events[i])
            dev->event_destroy(dev, events[i]);
    if (c->host)
        dev->unpin(dev, c->host);
    free(c->host);
    *c = (struct check){0};
}
