#include "products.h"

#include "device.h"
#include "device_matrix.h"
#include "error.h"
#include "waits.h"

int products_open(struct products *p, struct device *device, struct trace *trace, struct error *err)
{
    *p = (struct products){.device = device, .trace = trace};
    for (int i = 0; i < PRODUCTS; i++)
        if (events_create(device, p->ring[i].points, PRODUCT_POINTS, err))
            return err->code;
    return 0;
}

void products_close(struct products *p)
{
    for (int i = 0; i < PRODUCTS && p->device; i++)
        events_destroy(p->device, p->ring[i].points, PRODUCT_POINTS);
}

int products_await(const struct products *p, struct event *event, struct error *err)
{
    wait_begin(WAIT_FOR_DEVICE);
    p->device->sync(p->device, event, err);
    wait_end();
    return err->code;
}

static int retire(struct products *p, const struct enqueued_product *product, struct error *err)
{
    struct device *dev = p->device;
    struct event *const *at = product->points;
    if (products_await(p, at[PRODUCT_CHECKED], err))
        return err->code;
    meter_add(&p->multiplying, dev->elapsed(dev, at[PRODUCT_BEGUN], at[PRODUCT_MULTIPLIED]),
              product->flops);
    meter_add(&p->checking, dev->elapsed(dev, at[PRODUCT_MULTIPLIED], at[PRODUCT_CHECKED]), 0);
    struct span multiply = {.stage = STAGE_GEMM, .amount = product->flops};
    struct span check = {.stage = STAGE_CHECK};
    trace_device(p->trace, multiply, at[PRODUCT_BEGUN], at[PRODUCT_MULTIPLIED]);
    if (p->checked)
        trace_device(p->trace, check, at[PRODUCT_MULTIPLIED], at[PRODUCT_CHECKED]);
    return 0;
}

int products_retire(struct products *p, int64_t end, struct error *err)
{
    for (; p->retired < end; p->retired++)
        if (retire(p, &p->ring[p->retired % PRODUCTS], err))
            return err->code;
    return 0;
}

int64_t products_pending(struct products *p, struct error *err)
{
    struct device *dev = p->device;
    while (p->retired < p->count &&
           dev->reached(dev, p->ring[p->retired % PRODUCTS].points[PRODUCT_CHECKED]) &&
           products_retire(p, p->retired + 1, err) == 0)
        ;
    return p->count - p->retired;
}

void products_forget(struct products *p)
{
    p->count = p->retired = 0;
    p->multiplying = p->checking = (struct meter){0};
}

int products_begin(struct products *p, double flops, struct enqueued_product **product,
                   struct error *err)
{
    if (products_retire(p, p->count + 1 - PRODUCTS, err))
        return err->code;
    *product = &p->ring[p->count++ % PRODUCTS];
    (*product)->flops = flops;
    return p->device->record(p->device, (*product)->points[PRODUCT_BEGUN], STREAM_COMPUTE, err);
}
