#include "layers.h"

#include "error.h"
#include "phase.h"

/* Both ends cut a matrix into the same parts. */
static struct block_cut cut_of(const struct run *run, const struct device_matrix *matrix)
{
    return (struct block_cut){(int64_t)(run->plan->slot_bytes / scalar_size(matrix->type)), 0, 0};
}

static size_t part_bytes(const struct device_matrix *matrix, const struct block *part)
{
    return (size_t)(part->rows * part->cols) * scalar_size(matrix->type);
}

static int take_out(struct run *run, const struct device_matrix *matrix, const struct block *part,
                    struct slot *slot, struct error *err)
{
    struct device *dev = run->device;
    struct copy copy = device_matrix_copy_out(slot->memory, matrix, part);
    if (dev->copy(dev, STREAM_OUT, &copy, err))
        return err->code;
    return dev->record(dev, slot->done, STREAM_OUT, err);
}

/* Each part is copied out while the one before is sent. */
static void send_matrix(struct run *run, const struct device_matrix *matrix, int to,
                        struct slot *const slots[2], struct error *err)
{
    struct block_cut cut = cut_of(run, matrix);
    int64_t parts = block_cut_parts(&matrix->block, &cut);
    struct block part = block_cut_part(&matrix->block, &cut, 0);
    if (!err->code)
        take_out(run, matrix, &part, slots[0], err);
    for (int64_t i = 0; i < parts; i++) {
        struct slot *slot = slots[i % 2];
        size_t bytes = part_bytes(matrix, &part);
        if (i + 1 < parts)
            part = block_cut_part(&matrix->block, &cut, i + 1);
        if (i + 1 < parts && !err->code)
            take_out(run, matrix, &part, slots[(i + 1) % 2], err);
        if (!err->code)
            run->device->sync(run->device, slot->done, err);
        comm_send(run->comm, slot->memory, bytes, to);
    }
}

/* To the device and onto the matrix there. */
static int add_part(struct run *run, const struct device_matrix *matrix, const struct block *part,
                    struct slot *slot, int buffer, struct error *err)
{
    struct device *dev = run->device;
    struct event *used = run->drain.c0_used[buffer];
    struct device_matrix addend = {matrix->type, run->drain.c0[buffer], part->cols, *part};
    struct copy copy = device_matrix_copy_in(&addend, part, slot->memory);
    struct combine sum = {.type = matrix->type,
                          .rows = part->rows,
                          .cols = part->cols,
                          .alpha = 1,
                          .beta = 1,
                          .acc = device_matrix_at(matrix, part->row, part->col),
                          .c0 = addend.memory,
                          .ld_acc = matrix->ld,
                          .ld_c0 = addend.ld};
    if (dev->wait(dev, STREAM_IN, used, err) || dev->copy(dev, STREAM_IN, &copy, err) ||
        dev->record(dev, slot->done, STREAM_IN, err) ||
        dev->wait(dev, STREAM_OUT, slot->done, err) || dev->combine(dev, &sum, err))
        return err->code;
    return dev->record(dev, used, STREAM_OUT, err);
}

/* What belongs to the check does not count as bytes of the product. */
static void receive_part(struct run *run, const struct device_matrix *matrix,
                         const struct block *part, struct slot *slot, int from)
{
    struct meter *meter = &run->exchange.meter;
    size_t bytes = part_bytes(matrix, part);
    struct span span = {.stage = STAGE_NETWORK,
                        .operand = OPERAND_C,
                        .amount = matrix->memory == run->acc.memory ? (double)bytes : 0};
    double since, begin = meter_begin(meter);
    comm_receive(run->comm, slot->memory, bytes, from);
    double end = meter_end(meter, span.amount, &since);
    phase_count((double)bytes);
    trace_host(run->trace, span, begin, end, since);
}

/* Each part comes while the one before is added. */
static void add_matrix(struct run *run, const struct device_matrix *matrix, int from,
                       struct slot *const slots[2], struct error *err)
{
    struct device *dev = run->device;
    struct block_cut cut = cut_of(run, matrix);
    int64_t parts = block_cut_parts(&matrix->block, &cut);
    for (int64_t i = 0; i < parts; i++) {
        struct block part = block_cut_part(&matrix->block, &cut, i);
        struct slot *slot = slots[i % 2];
        if (!err->code)
            dev->sync(dev, slot->done, err);
        receive_part(run, matrix, &part, slot, from);
        if (!err->code)
            add_part(run, matrix, &part, slot, (int)(i % 2), err);
    }
}

/* Send the matrices to the layer that adds them, after all that this one adds itself. */
static void climb(struct run *run, const struct device_matrix *matrices, int count,
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

/* The accumulators of this rank's tile, and what the check has summed up for it. */
static void add_tile(struct run *run, struct slot *const slots[2], struct error *err)
{
    const struct check *check = &run->check;
    const struct block *tile = &run->drain.tile.block;
    const int64_t sums = run->plan->tile_rows * check->classes; /* y, and `before` behind it */
    const struct device_matrix matrices[] = {
        {run->acc.type, run->acc.memory, run->acc.ld, {0, 0, tile->rows, tile->cols}},
        {problem_is_exact(check->problem) ? SCALAR_INT64 : SCALAR_DOUBLE,
         check->memory.y,
         sums,
         {0, 0, 2, sums}},
        {SCALAR_DOUBLE, check_sizes(check), tile->rows, {0, 0, 4, tile->rows}}};
    double bytes = 0;
    for (int step = 1; step < run->plan->layers; step *= 2)
        bytes += (double)part_bytes(&matrices[0], &matrices[0].block);
    phase_begin("adding up the layers", bytes);
    climb(run, matrices, check->on ? 3 : 1, slots, err);
    for (int i = 0; i < 2 && !err->code; i++)
        run->device->sync(run->device, run->drain.c0_used[i], err);
}

/* The sum of all layers is in the first one's tile; `left_out`: of the check of some layer. */
static int drain_sum(struct run *run, bool left_out, struct error *err)
{
    struct drain *drain = &run->drain;
    struct device *dev = run->device;
    if (check_layers(&run->check, run->plan->layers, left_out, run->acc.memory, err))
        return err->code;
    for (int64_t i = 0; i < schedule_strips(run->plan, &drain->tile.block); i++)
        if (dev->record(dev, drain->multiplied[1 - drain->turn][i], STREAM_COMPUTE, err))
            return err->code;
    return drain_rest(drain, err);
}

int layers_add(struct run *run, struct error *err)
{
    struct slot *slots[2] = {0};
    for (int i = 0; i < 2 && !err->code; i++)
        outlet_take(&run->out, &slots[i], err);
    if (err->code > 0)
        comm_raise(run->comm); /* others may be at their last steps */
    if (comm_sum(run->comm, err->code != 0) > 0)
        return err->code = err->code ? err->code : ERROR_ELSEWHERE;
    bool works = !block_empty(&run->drain.tile.block);
    if (works)
        check_now(&run->check, run->acc.memory, err);
    bool left_out = comm_sum(run->comm, works && check_left_out(&run->check)) > 0;
    if (works)
        add_tile(run, slots, err);
    for (int i = 0; i < 2; i++)
        outlet_return(&run->out, slots[i]);
    return err->code || run->comm->layer > 0 || !works ? err->code : drain_sum(run, left_out, err);
}
