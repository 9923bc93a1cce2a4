#include "steps.h"

#include "device.h"
#include "error.h"
#include "matrix.h"
#include "waits.h"

int steps_open(struct steps *steps, struct device *device, struct trace *trace, struct error *err)
{
    *steps = (struct steps){.device = device, .trace = trace};
    for (int i = 0; i < STEPS; i++)
        if (events_create(device, steps->ring[i].points, STEP_POINTS, err))
            return err->code;
    return 0;
}

void steps_close(struct steps *steps)
{
    for (int i = 0; i < STEPS && steps->device; i++)
        events_destroy(steps->device, steps->ring[i].points, STEP_POINTS);
}

int steps_await(const struct steps *steps, struct event *event, struct error *err)
{
    wait_begin(WAIT_FOR_DEVICE);
    steps->device->sync(steps->device, event, err);
    wait_end();
    return err->code;
}

static int retire(struct steps *steps, const struct step *step, struct error *err)
{
    struct device *dev = steps->device;
    struct event *const *at = step->points;
    if (steps_await(steps, at[STEP_CHECKED], err))
        return err->code;
    meter_add(&steps->products, dev->elapsed(dev, at[STEP_BEGUN], at[STEP_MULTIPLIED]),
              step->flops);
    meter_add(&steps->checks, dev->elapsed(dev, at[STEP_MULTIPLIED], at[STEP_CHECKED]), 0);
    struct span product = {.stage = STAGE_GEMM, .amount = step->flops};
    struct span check = {.stage = STAGE_CHECK};
    trace_device(steps->trace, product, at[STEP_BEGUN], at[STEP_MULTIPLIED]);
    if (steps->checked)
        trace_device(steps->trace, check, at[STEP_MULTIPLIED], at[STEP_CHECKED]);
    return 0;
}

int steps_retire(struct steps *steps, int64_t end, struct error *err)
{
    for (; steps->retired < end; steps->retired++)
        if (retire(steps, &steps->ring[steps->retired % STEPS], err))
            return err->code;
    return 0;
}

int64_t steps_pending(struct steps *steps, struct error *err)
{
    struct device *dev = steps->device;
    while (steps->retired < steps->count &&
           dev->reached(dev, steps->ring[steps->retired % STEPS].points[STEP_CHECKED]) &&
           steps_retire(steps, steps->retired + 1, err) == 0)
        ;
    return steps->count - steps->retired;
}

void steps_forget(struct steps *steps)
{
    steps->count = steps->retired = 0;
    steps->products = steps->checks = (struct meter){0};
}

int steps_begin(struct steps *steps, double flops, struct step **step, struct error *err)
{
    if (steps_retire(steps, steps->count + 1 - STEPS, err))
        return err->code;
    *step = &steps->ring[steps->count++ % STEPS];
    (*step)->flops = flops;
    return steps->device->record(steps->device, (*step)->points[STEP_BEGUN], STREAM_COMPUTE, err);
}
