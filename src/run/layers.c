#include "layers.h"

#include "error.h"
#include "phase.h"
#include "quantity.h"

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

/* Whether this rank sends its sums, at that step of the tree, to the layer that adds them. */
static bool sends(const struct run *run, int step)
{
    return run->comm->layer % (2 * step) == step;
}

/* Tell the other layer which columns the check has left out, and leave out what it has. */
static void share_columns(struct run *run, int other, int step, struct slot *slot,
                          struct error *err)
{
    const int64_t cols = run->drain.tile.block.cols,
                  each = (int64_t)(run->plan->slot_bytes / sizeof(int));
    int *mine = NULL, *theirs = slot->memory;
    if (!err->code)
        check_left_out(&run->check, &mine, err);
    for (int64_t first = 0; first < cols; first += each) {
        const int64_t count = min_i64(each, cols - first);
        const size_t bytes = (size_t)count * sizeof *mine;
        const int *from = mine ? mine + first : theirs; /* another rank waits for any */
        if (sends(run, step))
            comm_send(run->comm, from, bytes, other);
        comm_receive(run->comm, theirs, bytes, other);
        if (!sends(run, step))
            comm_send(run->comm, from, bytes, other);
        for (int64_t i = 0; i < count && mine; i++)
            mine[first + i] = mine[first + i] > theirs[i] ? mine[first + i] : theirs[i];
    }
    if (!err->code)
        check_leave_out(&run->check, run->acc.memory, err);
}

/* The verdicts of the check go up, too. */
static void share_verdicts(struct run *run, int other, int step, struct slot *slot)
{
    const int64_t rows = run->drain.tile.block.rows,
                  each = (int64_t)(run->plan->slot_bytes / (VERDICTS * sizeof(double)));
    for (int64_t first = 0; first < rows; first += each) {
        const int64_t count = min_i64(each, rows - first);
        const size_t bytes = (size_t)count * VERDICTS * sizeof(double);
        if (sends(run, step)) {
            check_pack(&run->check, first, count, slot->memory);
            comm_send(run->comm, slot->memory, bytes, other);
        } else {
            comm_receive(run->comm, slot->memory, bytes, other);
            check_merge(&run->check, first, count, slot->memory);
        }
    }
}

/* The accumulators of this rank's tile, and what the check expects of them. */
static int matrices_of(const struct run *run, struct device_matrix matrices[3])
{
    const struct check *check = &run->check;
    const struct block *tile = &run->drain.tile.block;
    const int64_t sums = run->plan->tile_rows * check->classes;
    matrices[0] = (struct device_matrix){
        run->acc.type, run->acc.memory, run->acc.ld, {0, 0, tile->rows, tile->cols}};
    matrices[1] =
        (struct device_matrix){problem_is_exact(check->problem) ? SCALAR_INT64 : SCALAR_DOUBLE,
                               check->memory.carried,
                               sums,
                               {0, 0, 1, sums}};
    matrices[2] =
        (struct device_matrix){SCALAR_DOUBLE, check->memory.carried_squares, sums, {0, 0, 1, sums}};
    return check->on ? 3 : 1;
}

/* Add up along the tree: this rank's tile and that of another layer. */
static void add_tile(struct run *run, int other, int step, struct slot *const slots[2],
                     struct error *err)
{
    struct device_matrix matrices[3];
    const int count = matrices_of(run, matrices);
    for (int i = 0; i < count; i++)
        if (sends(run, step))
            send_matrix(run, &matrices[i], other, slots, err);
        else
            add_matrix(run, &matrices[i], other, slots, err);
    for (int i = 0; i < 2 && !err->code; i++)
        run->device->sync(run->device, run->drain.c0_used[i], err);
    if (run->check.on)
        share_verdicts(run, other, step, slots[0]);
}

/* Send the tile to the layer that adds it, after all that this one adds itself.  `left_out`: the
 * check of some layer has left columns out. */
static void climb(struct run *run, bool left_out, struct slot *const slots[2], struct error *err)
{
    const struct comm *comm = run->comm;
    for (int step = 1; step < run->plan->layers; step *= 2) {
        const int away = step * comm->peers;
        const int other = sends(run, step) ? comm->rank - away : comm->rank + away;
        if (!sends(run, step) && comm->layer + step >= run->plan->layers)
            continue;
        if (left_out)
            share_columns(run, other, step, slots[0], err);
        add_tile(run, other, step, slots, err);
        if (sends(run, step))
            return;
    }
}

int layers_add(struct run *run, struct error *err)
{
    struct slot *slots[2] = {0};
    for (int i = 0; i < 2 && !err->code; i++)
        outlet_take(&run->out, &slots[i], err);
    if (run_fails_anywhere(run, err))
        return err->code;
    bool works = !block_empty(&run->drain.tile.block);
    if (works)
        check_fetch(&run->check, err);
    bool left_out = comm_sum(run->comm, works && check_leaves_out(&run->check)) > 0;
    const struct device_matrix *tile = &run->drain.tile;
    double bytes = 0; /* that one rank sends or receives at most */
    for (int step = 1; step < run->plan->layers; step *= 2)
        bytes += (double)part_bytes(tile, &tile->block);
    phase_begin("adding up the layers", bytes);
    if (works)
        climb(run, left_out, slots, err);
    for (int i = 0; i < 2; i++)
        outlet_return(&run->out, slots[i]);
    if (!err->code && run->comm->layer == 0 && works)
        check_layers(&run->check, run->plan->layers, run->acc.memory, err);
    return err->code;
}
