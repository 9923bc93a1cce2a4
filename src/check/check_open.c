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

static void carve_memory(struct check *c, double *left, bool has_peaks)
{
    const struct plan *plan = c->plan;
    struct check_memory *m = &c->memory;
    size_t classes = (size_t)c->classes, sums = (size_t)plan->tile_rows * classes;
    m->weights = carve(&left, (size_t)plan->tile_cols);
    m->left_out = (int *)carve(&left, (size_t)plan->tile_cols + 2);
    m->t = carve(&left, (size_t)plan->slab * classes);
    m->t_squares = carve(&left, (size_t)plan->slab * classes);
    m->t_roots = carve(&left, (size_t)plan->slab * classes);
    m->y = carve(&left, sums);
    m->before = carve(&left, sums);
    m->z = carve(&left, sums);
    m->squares = carve(&left, sums);
    m->odd = carve(&left, sums);
    m->reach = carve(&left, sums);
    if (c->problem->blocks.steps > 0) {
        m->carried = carve(&left, sums);
        m->carried_squares = carve(&left, sums);
    }
    m->row_squares = carve(&left, (size_t)plan->tile_rows);
    m->norms = carve(&left, (size_t)check_passes(c->problem) * classes * check_parts(plan->slab));
    m->parts = carve(&left, project_partials(plan->tile_rows, plan->slab, c->classes));
    if (has_peaks)
        m->peaks = (float *)carve(&left, check_peak_numbers(plan->tile_rows, plan->tile_cols));
    m->verdicts[0] = carve(&left, check_verdicts(plan->tile_rows)) + 1;
    m->verdicts[1] = left + 1;
}

int check_open(struct check *c, enum algorithm algorithm, void *memory, struct error *err)
{
    const struct problem *p = c->problem;
    const struct plan *plan = c->plan;
    struct device *device = c->device;
    bool has_peaks = check_has_peaks(algorithm, p->type, plan->tile_cols);
    struct residues residues;
    if (p->moduli > 0)
        residues_make(p->moduli, p->complex, &residues);
    c->on = memory != NULL && plan->slabs > 0;
    c->running = p->moduli > 0 || algorithm_is_running_sum(algorithm);
    c->inputs = p->moduli > 0 ? ozaki_error(&residues) : 0;
    c->classes = check_classes(p, plan->tile_cols);
    c->deal = has_peaks ? PEAK_ROWS : 1;
    c->group_steps = check_group_steps(p, plan->tile_cols, has_peaks);
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
