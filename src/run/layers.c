#include "layers.h"

#include "device.h"
#include "error.h"

/* A row-major matrix on the device. */
struct matrix {
    enum scalar type;
    void *memory;
    int64_t ld;
    struct block all;
};

/* Both ends cut it into the same parts. */
static struct block_cut cut_of(const struct run *run, const struct matrix *matrix)
{
    return (struct block_cut){(int64_t)(run->plan->slot_bytes / scalar_size(matrix->type)), 0, 0};
}

static char *part_memory(const struct matrix *matrix, const struct block *part)
{
    size_t at = (size_t)(part->row * matrix->ld + part->col);
    return (char *)matrix->memory + at * scalar_size(matrix->type);
}

static size_t part_bytes(const struct matrix *matrix, const struct block *part)
{
    return (size_t)(part->rows * part->cols) * scalar_size(matrix->type);
}

static int take_out(struct run *run, const struct matrix *matrix, const struct block *part,
                    struct slot *slot, struct error *err)
{
    struct device *dev = run->device;
    size_t size = scalar_size(matrix->type), width = (size_t)part->cols * size;
    struct copy copy = {slot->memory, part_memory(matrix, part), width, (size_t)matrix->ld * size,
                        width,        (size_t)part->rows};
    if (dev->copy(dev, STREAM_OUT, &copy, err))
        return err->code;
    return dev->record(dev, slot->done, STREAM_OUT, err);
}

/* Each part is copied out while the one before is sent. */
static void send_matrix(struct run *run, const struct matrix *matrix, int to,
                        struct slot *const slots[2], struct error *err)
{
    struct block_cut cut = cut_of(run, matrix);
    int64_t parts = block_cut_parts(&matrix->all, &cut);
    struct block part = block_cut_part(&matrix->all, &cut, 0);
    if (!err->code)
        take_out(run, matrix, &part, slots[0], err);
    for (int64_t i = 0; i < parts; i++) {
        struct slot *slot = slots[i % 2];
        size_t bytes = part_bytes(matrix, &part);
        if (i + 1 < parts)
            part = block_cut_part(&matrix->all, &cut, i + 1);
        if (i + 1 < parts && !err->code)
            take_out(run, matrix, &part, slots[(i + 1) % 2], err);
        if (!err->code)
            run->device->sync(run->device, slot->done, err);
        comm_send(slot->memory, bytes, to);
    }
}

/* To the device and onto the matrix there. */
static int add_part(struct run *run, const struct matrix *matrix, const struct block *part,
                    struct slot *slot, int buffer, struct error *err)
{
    struct device *dev = run->device;
    size_t bytes = part_bytes(matrix, part);
    struct copy copy = {run->c0[buffer], slot->memory, bytes, bytes, bytes, 1};
    struct combine sum = {matrix->type,    part->rows, part->cols, 1, 1, part_memory(matrix, part),
                          run->c0[buffer], matrix->ld, part->cols};
    if (dev->wait(dev, STREAM_IN, run->c0_used[buffer], err) ||
        dev->copy(dev, STREAM_IN, &copy, err) || dev->record(dev, slot->done, STREAM_IN, err) ||
        dev->wait(dev, STREAM_OUT, slot->done, err) || dev->combine(dev, &sum, err))
        return err->code;
    return dev->record(dev, run->c0_used[buffer], STREAM_OUT, err);
}

/* What belongs to the check does not count as bytes of the product. */
static void receive_part(struct run *run, const struct matrix *matrix, const struct block *part,
                         struct slot *slot, int from)
{
    struct meter *meter = &run->exchange.meter;
    size_t bytes = part_bytes(matrix, part);
    struct span span = {.stage = STAGE_NETWORK,
                        .operand = OPERAND_C,
                        .amount = matrix->memory == run->acc ? (double)bytes : 0};
    double since, begin = meter_begin(meter);
    comm_receive(slot->memory, bytes, from);
    double end = meter_end(meter, span.amount, &since);
    trace_host(run->trace, span, begin, end, since);
}

/* Each part comes while the one before is added. */
static void add_matrix(struct run *run, const struct matrix *matrix, int from,
                       struct slot *const slots[2], struct error *err)
{
    struct device *dev = run->device;
    struct block_cut cut = cut_of(run, matrix);
    int64_t parts = block_cut_parts(&matrix->all, &cut);
    for (int64_t i = 0; i < parts; i++) {
        struct block part = block_cut_part(&matrix->all, &cut, i);
        struct slot *slot = slots[i % 2];
        if (!err->code)
            dev->sync(dev, slot->done, err);
        receive_part(run, matrix, &part, slot, from);
        if (!err->code)
            add_part(run, matrix, &part, slot, (int)(i % 2), err);
    }
}

/* Send the matrices to the layer that adds them, after all that this one adds itself. */
static void climb(struct run *run, const struct matrix *matrices, int count,
                  struct slot *const slots[2], struct error *err)
{
    const struct comm *comm = run->comm;
    for (int step = 1; step < run->plan->layers; step *= 2) {
        int below = comm->layer % (2 * step), ranks = comm->peers;
        for (int i = 0; i < count && below == 0 && comm->layer + step < run->plan->layers; i++)
            add_matrix(run, &matrices[i], comm->rank + step * ranks, slots, err);
        for (int i = 0; i < count && below == step; i++)
            send_matrix(run, &matrices[i], comm->rank - step * ranks, slots, err);
        if (below == step)
            return;
    }
}

void layers_add(struct run *run, const struct block *tile, struct slot *const slots[2],
                struct error *err)
{
    const struct check *check = &run->check;
    const int64_t sums = run->plan->tile_rows * check->classes;
    const struct matrix matrices[] = {
        {run->problem->type, run->acc, run->plan->ld[OPERAND_C], {0, 0, tile->rows, tile->cols}},
        {SCALAR_DOUBLE, check->y, sums, {0, 0, 2, sums}}, /* and its `before` */
        {SCALAR_DOUBLE, check_sizes(check), tile->rows, {0, 0, 2, tile->rows}}};
    climb(run, matrices, check->on ? 3 : 1, slots, err);
    for (int i = 0; i < 2 && !err->code; i++)
        run->device->sync(run->device, run->c0_used[i], err);
}
