#include "saved_sums.h"

#include <stdio.h>

#include "device.h"
#include "error.h"
#include "phase.h"
#include "run_state.h"

struct sums_there saved_sums_after(const struct run *run, int64_t slabs)
{
    const struct problem *p = run->problem;
    return sums_there(p, p->k_first - p->blocks.origin + schedule_k(p, run->plan, slabs));
}

void saved_sums_begin(const struct run *run, const char *what, int count)
{
    const struct block *tile = &run->acc.block;
    const double element = (double)problem_element(run->problem, OPERAND_C);
    phase_begin(what, count * (double)(tile->rows * tile->cols) * element);
}

/* A level of this rank's sums (sums_there), as it is on the device, and its place in the file. */
static struct device_matrix sum_of(const struct run *run, int level)
{
    struct device_matrix sum = run->acc;
    sum.memory = level < 0 ? run->acc.memory : run->sums.waiting[level];
    return sum;
}

static int64_t shift_of(const struct run *run, int level)
{
    return run->output->matrix.rows *
           sums_place(run->problem, run->plan->layers, run->comm->layer, level);
}

/* A strip of one of the sums. */
static int write_strip(struct run *run, int level, int64_t index, struct error *err)
{
    const struct device_matrix sum = sum_of(run, level);
    const struct saved_place place = {&run->saver.sums, shift_of(run, level)};
    const struct block_cut cut = schedule_cut(run->problem, run->plan, OPERAND_C);
    const struct block strip = schedule_strip(run->problem, run->plan, &sum.block, index);
    struct device_matrix there = sum;
    there.block.row += place.shift;
    if (problem_is_triangle(run->problem) &&
        drain_sums_mirror(&run->drain, &sum, index, &place, err))
        return err->code;
    for (int64_t i = 0; i < block_cut_parts(&strip, &cut); i++) {
        struct block part = block_cut_part(&strip, &cut, i);
        part.row += place.shift;
        if (outlet_copy(&run->out, &there, &part, place.sink, err))
            return err->code;
    }
    return 0;
}

int saved_sums_write(struct run *run, const struct sums_there *sums, struct error *err)
{
    struct device *dev = run->device;
    struct event *done = run->drain.multiplied[run->drain.turn][0];
    if (dev->record(dev, done, STREAM_COMPUTE, err) || dev->wait(dev, STREAM_OUT, done, err))
        return err->code;
    for (int i = 0; i < sums->count; i++)
        for (int64_t j = 0; j < schedule_strips(run->plan, &run->acc.block); j++)
            if (write_strip(run, sums->levels[i], j, err))
                return err->code;
    return 0;
}

/* Saved sums that come back. */
struct loading {
    struct run *run;
    struct store *store;
    int level;
    uint64_t sum; /* their checksum */
    struct error *cannot;
};

/* `to_device`: it is of the tile, and not of a mirror, which is only compared. */
static int load_part(struct loading *l, const struct block *part, bool to_device, struct error *err)
{
    struct run *run = l->run;
    struct device *dev = run->device;
    struct slot *slot;
    if (outlet_take(&run->out, &slot, err))
        return err->code;
    const struct device_matrix sum = sum_of(run, l->level);
    struct block there = *part;
    there.row += shift_of(run, l->level);
    if (store_read(l->store, &there, slot->memory, l->cannot) == 0) {
        if (run->c.checksum.weights)
            l->sum += checksum_block(&run->c.checksum, &there, slot->memory);
        struct copy copy = {0};
        if (to_device)
            copy = device_matrix_copy_in(&sum, part, slot->memory);
        if (to_device && dev->copy(dev, STREAM_IN, &copy, err) == 0 &&
            dev->record(dev, slot->done, STREAM_IN, err) == 0)
            dev->sync(dev, slot->done, err);
    }
    outlet_return(&run->out, slot);
    phase_count((double)(part->rows * part->cols) *
                (double)problem_element(run->problem, OPERAND_C));
    return err->code;
}

static void load_block(struct loading *l, const struct block *block, bool to_device,
                       struct error *err)
{
    struct block_cut cut = schedule_cut(l->run->problem, l->run->plan, OPERAND_C);
    for (int64_t i = 0; i < block_cut_parts(block, &cut) && !l->cannot->code && !err->code; i++) {
        struct block part = block_cut_part(block, &cut, i);
        load_part(l, &part, to_device, err);
    }
}

/* All of one of the sums. */
static void load_sum(struct loading *l, struct error *err)
{
    struct run *run = l->run;
    const struct problem *p = run->problem;
    const struct block *tile = &run->acc.block;
    for (int64_t i = 0; i < schedule_strips(run->plan, tile); i++) {
        struct block strip = schedule_strip(p, run->plan, tile, i);
        load_block(l, &strip, true, err);
        for (int j = 0; j < MIRRORS && problem_is_triangle(p); j++) {
            struct block mirror = schedule_mirror(p, run->plan, tile, i, j);
            load_block(l, &mirror, false, err);
        }
    }
}

int saved_sums_load(struct run *run, uint64_t *sum, struct error *cannot, struct error *err)
{
    const struct problem *p = run->problem;
    int64_t super = 0;
    struct block tile = schedule_next_tile(run->problem, run->plan, comm_place(run->comm), &super);
    const struct source sums =
        saved_sums_matrix(p, run->output, run->saver.names->sums[run->piece->place],
                          sums_saved(p, run->plan->layers));
    const struct sums_there there = saved_sums_after(run, 0);
    struct loading loading = {.run = run, .cannot = cannot};
    if (block_empty(&tile))
        return 0;
    run->acc.block = tile;
    saved_sums_begin(run, "loading what was saved", there.count);
    store_open(&sums, p->held[OPERAND_C], STORE_READ, STORE_BUFFERED, &loading.store, cannot);
    for (int i = 0; i < there.count; i++) {
        loading.level = there.levels[i];
        load_sum(&loading, err);
    }
    store_close(loading.store);
    *sum = loading.sum;
    return err->code;
}

struct source saved_sums_matrix(const struct problem *p, const struct source *output,
                                const char *file, int matrices)
{
    struct source sums = *output;
    matrix_set_type(&sums.matrix, p->held[OPERAND_C]);
    sums.matrix.element_bytes = problem_element(p, OPERAND_C);
    sums.matrix.rows *= matrices;
    sums.matrix.packed = false;
    sums.matrix.within = (struct block){0};
    sums.offset = 0;
    sums.sign.at =
        (uint64_t)sums.matrix.rows * (uint64_t)sums.matrix.cols * sums.matrix.element_bytes;
    sums.file_bytes = sums.sign.at + SIGN_TEXT - 1;
    snprintf(sums.file, sizeof sums.file, "%s", file);
    return sums;
}
