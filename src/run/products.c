#include "products.h"

#include "device.h"
#include "error.h"
#include "matrix.h"
#include "waits.h"

int products_open(struct products *products, struct device *device, struct trace *trace,
                  struct error *err)
{
    *products = (struct products){.device = device, .trace = trace};
    for (int i = 0; i < PRODUCTS; i++)
        if (events_create(device, products->ring[i].points, PRODUCT_POINTS, err))
            return err->code;
    return 0;
}

void products_close(struct products *products)
{
    for (int i = 0; i < PRODUCTS && products->device; i++)
        events_destroy(products->device, products->ring[i].points, PRODUCT_POINTS);
}

int products_await(const struct products *products, struct event *event, struct error *err)
{
    wait_begin(WAIT_FOR_DEVICE);
    products->device->sync(products->device, event, err);
    wait_end();
    return err->code;
}

static int retire(struct products *products, const struct enqueued_product *product,
                  struct error *err)
{
    struct device *dev = products->device;
    struct event *const *at = product->points;
    if (products_await(products, at[PRODUCT_CHECKED], err))
        return err->code;
    meter_add(&products->multiplying, dev->elapsed(dev, at[PRODUCT_BEGUN], at[PRODUCT_MULTIPLIED]),
              product->flops);
    meter_add(&products->checking, dev->elapsed(dev, at[PRODUCT_MULTIPLIED], at[PRODUCT_CHECKED]),
              0);
    struct span multiply = {.stage = STAGE_GEMM, .amount = product->flops};
    struct span check = {.stage = STAGE_CHECK};
    trace_device(products->trace, multiply, at[PRODUCT_BEGUN], at[PRODUCT_MULTIPLIED]);
    if (products->checked)
        trace_device(products->trace, check, at[PRODUCT_MULTIPLIED], at[PRODUCT_CHECKED]);
    return 0;
}

int products_retire(struct products *products, int64_t end, struct error *err)
{
    for (; products->retired < end; products->retired++)
        if (retire(products, &products->ring[products->retired % PRODUCTS], err))
            return err->code;
    return 0;
}

int64_t products_pending(struct products *products, struct error *err)
{
    struct device *dev = products->device;
    while (
        products->retired < products->count &&
        dev->reached(dev, products->ring[products->retired % PRODUCTS].points[PRODUCT_CHECKED]) &&
        products_retire(products, products->retired + 1, err) == 0)
        ;
    return products->count - products->retired;
}

void products_forget(struct products *products)
{
    products->count = products->retired = 0;
    products->multiplying = products->checking = (struct meter){0};
}

int products_begin(struct products *products, double flops, struct enqueued_product **product,
                   struct error *err)
{
    if (products_retire(products, products->count + 1 - PRODUCTS, err))
        return err->code;
    *product = &products->ring[products->count++ % PRODUCTS];
    (*product)->flops = flops;
    return products->device->record(products->device, (*product)->points[PRODUCT_BEGUN],
                                    STREAM_COMPUTE, err);
}
