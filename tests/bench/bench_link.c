/* Rates of the copies between host and device alone: in, out, and both at once, as JSON.
 *
 *     bench_link [SLOT_BYTES [cpu]]
 *
 * Slots are copied from and to pinned host memory, on the GPU if there is one; `cpu` selects the
 * CPU device.  The buffers are too large for the caches. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "error.h"
#include "machine.h"
#include "meter.h"
#include "quantity.h"

enum { GPU = 0, ALIGNMENT = 4096, ROUNDS = 4 };

static const size_t slot_bytes = 16 << 20, ring_bytes = 128 << 20;

/* One direction: a ring of slots on either side. */
struct lane {
    enum stream stream;
    void *host, *memory;
    struct event *done;
};

struct link {
    struct device *dev;
    struct lane lanes[2]; /* in, out */
    size_t slot, slots;   /* bytes of one, how many in a ring */
    struct error err;
};

static int lane_open(struct link *link, struct lane *lane)
{
    struct device *dev = link->dev;
    size_t bytes = link->slot * link->slots;
    if (posix_memalign(&lane->host, ALIGNMENT, bytes) != 0)
        return error_add(&link->err, EXIT_RESOURCES, "no %s of host memory",
                         quantity_bytes((double)bytes));
    memset(lane->host, 1, bytes);
    if (dev->pin(dev, lane->host, bytes, &link->err) ||
        dev->alloc(dev, bytes, &lane->memory, &link->err))
        return link->err.code;
    return dev->event_create(dev, &lane->done, &link->err);
}

static int lane_move(struct link *link, const struct lane *lane, size_t slot)
{
    char *host = (char *)lane->host + slot * link->slot;
    char *memory = (char *)lane->memory + slot * link->slot;
    bool in = lane->stream == STREAM_IN;
    struct copy copy = {in ? memory : host, in ? host : memory, link->slot,
                        link->slot,         link->slot,         1};
    return link->dev->copy(link->dev, lane->stream, &copy, &link->err);
}

/* Bytes per second in each direction, with `count` lanes from `first` on active at once. */
static double measure(struct link *link, int first, int count)
{
    struct device *dev = link->dev;
    double start = clock_now();
    for (size_t i = 0; i < ROUNDS * link->slots; i++)
        for (int lane = first; lane < first + count; lane++)
            if (lane_move(link, &link->lanes[lane], i % link->slots))
                return 0;
    for (int lane = first; lane < first + count; lane++)
        if (dev->record(dev, link->lanes[lane].done, link->lanes[lane].stream, &link->err))
            return 0;
    for (int lane = first; lane < first + count; lane++)
        if (dev->sync(dev, link->lanes[lane].done, &link->err))
            return 0;
    return (double)(ROUNDS * link->slots * link->slot) / (clock_now() - start);
}

static json_t *link_json(struct link *link)
{
    const struct device_info *info = &link->dev->info;
    measure(link, 0, 2); /* warms up */
    double in = measure(link, 0, 1), out = measure(link, 1, 1), both = measure(link, 0, 2);
    return json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f}", "device",
                     info->kind == DEVICE_GPU ? "gpu" : "cpu", "name", info->name,
                     "memory_free_bytes", (json_int_t)info->memory_free, "slot_bytes",
                     (json_int_t)link->slot, "in_bytes_per_s", in, "out_bytes_per_s", out,
                     "both_bytes_per_s", both);
}

static int link_open(struct link *link, bool cpu)
{
    if (cpu || device_gpu_count() == 0)
        device_cpu_open(machine_threads(machine_cpus(), 1), &link->dev, &link->err);
    else
        device_gpu_open(GPU, ALGORITHM_NAIVE, &link->dev, &link->err);
    for (int i = 0; i < 2 && link->err.code == 0; i++)
        lane_open(link, &link->lanes[i]);
    return link->err.code;
}

static void link_close(struct link *link)
{
    struct device *dev = link->dev;
    for (int i = 0; i < 2 && dev; i++) {
        struct lane *lane = &link->lanes[i];
        if (lane->done)
            dev->event_destroy(dev, lane->done);
        if (lane->memory)
            dev->release(dev, lane->memory);
        if (lane->host)
            dev->unpin(dev, lane->host);
        free(lane->host);
    }
    if (dev)
        dev->close(dev);
}

int main(int argc, char **argv)
{
    static struct link link = {.lanes = {{.stream = STREAM_IN}, {.stream = STREAM_OUT}}};
    uint64_t bytes = slot_bytes;
    if (argc > 3 || (argc > 1 && (!quantity_parse_bytes(argv[1], &bytes) || bytes == 0)) ||
        (argc > 2 && strcmp(argv[2], "cpu") != 0)) {
        fprintf(stderr, "usage: bench_link [SLOT_BYTES [cpu]]\n");
        return EXIT_USAGE;
    }
    link.slot = bytes;
    link.slots = (size_t)max_i64(2, (int64_t)(ring_bytes / bytes));
    if (link_open(&link, argc > 2) == 0) {
        json_t *result = link_json(&link);
        if (link.err.code == 0)
            json_dumpf(result, stdout, JSON_COMPACT);
        json_decref(result);
    }
    if (link.err.code)
        fprintf(stderr, "bench_link: %s\n", link.err.text);
    link_close(&link);
    return link.err.code;
}
