#include "save.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "device.h"
#include "error.h"
#include "output.h"
#include "quantity.h"
#include "run.h"

enum {
    READ_BYTES = 4 << 20, /* of save_sum, at once */
    BALLOT_NUMBERS = sizeof(struct ballot) / sizeof(uint64_t),
};

_Static_assert(sizeof(struct ballot) <= MEETING_SUMS * sizeof(uint64_t), "a meeting adds it up");

static const double meeting_seconds = 0.2; /* between two meetings, as planned */

int save_name(const struct matrix_info *output, int place, struct matrix_info *info,
              struct error *err)
{
    *info = *output;
    info->offset = 0;
    info->file_bytes = (uint64_t)output->rows * (uint64_t)output->cols * output->element_bytes;
    if (snprintf(info->file, sizeof info->file, "%s.sums%d", output->file, place) >=
        (int)sizeof info->file)
        return error_add(err, EXIT_INPUT, "the path %.60s... is too long", output->file);
    return 0;
}

/* What an earlier run has saved of the super-block that begins stays whole until the first save. */
static int first_place(const struct run *run)
{
    return run->piece->k > 0 ? 1 - run->piece->place : 0;
}

void save_open(struct run *run)
{
    const struct plan *plan = run->plan;
    struct saver *s = &run->saver;
    s->common = INT64_MAX;
    double steps = (double)schedule_supers(plan) * (double)(plan->slabs > 0 ? plan->slabs : 1);
    if (plan->layers > 1) { /* one super-block; the last layer has the least of k */
        int64_t whole = run->problem->k_whole; /* layers only where nothing of k is saved */
        s->common = ceil_div(whole - (plan->layers - 1) * plan->layer_k, plan->slab);
        steps = (double)s->common;
    }
    s->period = (int64_t)fmax(1, fmin(meeting_seconds * steps / plan->wall_s, 1e9));
    s->place = first_place(run);
}

void save_close(struct run *run)
{
    for (int i = 0; i < PLACES; i++) {
        store_close(run->saver.stores[i]);
        run->saver.stores[i] = NULL;
    }
}

/* Rank 0: the file of this turn's sums, made when it is first needed.  False, and noted, where it
 * cannot be or has not the room. */
static bool make_place(struct run *run, const struct matrix_info *info)
{
    const struct plan *plan = run->plan;
    struct statvfs fs;
    struct stat file;
    double tiles = (double)plan->grid_rows * plan->grid_cols * (double)plan->tile_rows *
                   (double)plan->tile_cols * (double)scalar_size(run->problem->type);
    int fd = output_open_beside(info->file, O_CREAT);
    bool made = fd >= 0 && ftruncate(fd, (off_t)info->file_bytes) == 0 && fstat(fd, &file) == 0 &&
                fstatvfs(fd, &fs) == 0;
    int number = errno;
    if (made &&
        (double)fs.f_bavail * (double)fs.f_frsize + 512.0 * (double)file.st_blocks < tiles) {
        made = false;
        number = ENOSPC;
    }
    if (fd >= 0)
        close(fd);
    output_sync_name(info->file);
    if (!made)
        snprintf(run->saver.note, sizeof run->saver.note, "%.400s: %s", info->file,
                 strerror(number));
    return made;
}

/* Collective.  Whether there is a place for sums now. */
static int open_place(struct run *run, bool *there, struct error *err)
{
    struct store **store = &run->saver.stores[run->saver.place];
    struct matrix_info info;
    uint64_t missing = 0;
    double none = 0;
    if (save_name(run->output_info, run->saver.place, &info, err))
        return err->code;
    if (run->comm->rank == 0)
        missing = !make_place(run, &info);
    if (!comm_meet(run->comm, &missing, 1, &none))
        return err->code = ERROR_ELSEWHERE;
    *there = missing == 0;
    if (!*there || *store)
        return 0;
    return store_open(&info, run->problem->type, STORE_WRITE, run->problem->io, store, err);
}

/* The sums of the tile at work, as they are now. */
static int write_sums(struct run *run, const struct block *tile, struct error *err)
{
    struct device *dev = run->device;
    struct block_cut cut = schedule_cut(run->problem, run->plan, OPERAND_C);
    struct event *done = run->summed[0];
    if (dev->record(dev, done, STREAM_COMPUTE, err) || dev->wait(dev, STREAM_OUT, done, err))
        return err->code;
    for (int64_t i = 0; i < schedule_strips(run->plan, tile); i++) {
        struct block strip = schedule_strip(run->plan, tile, i);
        for (int64_t j = 0; j < block_cut_parts(&strip, &cut); j++) {
            struct block part = block_cut_part(&strip, &cut, j);
            if (run_take_out(run, tile, &part, err))
                return err->code;
        }
    }
    return 0;
}

/* On all ranks at the same step. */
static int save(struct run *run, enum stop_level level, int64_t super, int64_t slabs,
                const struct block *tile, struct error *err)
{
    struct saver *s = &run->saver;
    const struct plan *plan = run->plan;
    double begin = clock_now();
    bool whole = slabs >= plan->slabs, sums = !whole && plan->layers == 1;
    if (run_leave(run, err) || check_judge(&run->check, err) || outlet_drain(&run->out, err) ||
        run_settle(run, err))
        return err->code;
    s->note[0] = '\0';
    if (sums && open_place(run, &sums, err))
        return err->code;
    s->sum = 0;
    s->of_sums = sums;
    if (sums && !block_empty(tile) &&
        (check_now(&run->check, run->acc, err) || write_sums(run, tile, err) ||
         outlet_drain(&run->out, err)))
        return err->code;
    s->of_sums = false;
    if (store_sync(run->output, err) || (sums && store_sync(s->stores[s->place], err)))
        return err->code;
    uint64_t totals[] = {run->checksum_written, s->sum, (uint64_t)run->check.not_finite,
                         (uint64_t)run->check.failures};
    double residual = run->check.residual;
    if (!comm_meet(run->comm, totals, 4, &residual))
        return err->code = ERROR_ELSEWHERE;
    struct saved saved = {.supers = super + whole,
                          .checksum = totals[0],
                          .residual = residual,
                          .not_finite = (int64_t)totals[2],
                          .note = s->note};
    if (sums)
        saved.piece = (struct piece){.k = run->problem->k_first + slabs * plan->slab,
                                     .place = s->place,
                                     .hashed = run->request->verify,
                                     .sum = totals[1]};
    stop_saved();
    /* Of a tile that failed its check nothing is said before it has been multiplied again. */
    if (totals[3] == 0) {
        if (sums)
            s->place = 1 - s->place;
        if (s->done(s->context, &saved, err))
            return err->code;
    }
    s->saves++;
    s->saves_s += clock_now() - begin;
    return level == STOP_END ? err->code = EXIT_STOPPED : 0;
}

/* Whether this rank wants to save, when nobody else is to be asked. */
static enum stop_level ask_alone(struct run *run)
{
    struct saver *s = &run->saver;
    double now = clock_now();
    if (now > s->met_s + meeting_seconds) {
        s->met_s = now;
        tally_take(run, &s->ballot.tally);
        s->met(s->context, &s->ballot.tally);
    }
    return stop_level(true);
}

static void ask_begin(struct run *run)
{
    struct saver *s = &run->saver;
    enum stop_level level = stop_level(run->comm->rank == 0);
    s->ballot = (struct ballot){.stop = level == STOP_END, .save = level == STOP_SAVE};
    tally_take(run, &s->ballot.tally);
    s->meeting = true;
    comm_meet_begin((uint64_t *)&s->ballot, BALLOT_NUMBERS);
}

/* False when another rank has failed. */
static bool ask_end(struct run *run, enum stop_level *level)
{
    struct saver *s = &run->saver;
    s->meeting = false;
    if (!comm_meet_end(run->comm, (uint64_t *)&s->ballot, BALLOT_NUMBERS))
        return false;
    *level = s->ballot.stop ? STOP_END : s->ballot.save ? STOP_SAVE : STOP_NOT;
    s->met(s->context, &s->ballot.tally);
    return true;
}

int save_step(struct run *run, int64_t super, int64_t slabs, const struct block *tile,
              struct error *err)
{
    struct saver *s = &run->saver;
    enum stop_level level = STOP_NOT;
    if (s->steps >= s->common && !s->meeting)
        return 0;
    if (run->comm->size == 1)
        level = ask_alone(run);
    else if (!s->meeting && s->steps % s->period == 0)
        ask_begin(run);
    else if (s->meeting && !ask_end(run, &level))
        return err->code = ERROR_ELSEWHERE;
    if (++s->steps >= s->common)
        return 0;
    bool whole = slabs >= run->plan->slabs;
    if (super + 1 == schedule_supers(run->plan) && whole)
        return 0; /* all is done */
    if (level > STOP_NOT && save(run, level, super, slabs, tile, err))
        return err->code;
    if (whole)
        s->place = first_place(run);
    return 0;
}

int save_finish(struct run *run, struct error *err)
{
    enum stop_level ignored;
    if (run->saver.meeting && !ask_end(run, &ignored))
        return err->code = ERROR_ELSEWHERE;
    return 0;
}

static int load_part(struct run *run, struct store *store, const struct block *tile,
                     const struct block *part, struct error *err)
{
    struct device *dev = run->device;
    size_t size = scalar_size(run->problem->type), width = (size_t)part->cols * size;
    int64_t ld = run->plan->ld[OPERAND_C];
    size_t at = (size_t)((part->row - tile->row) * ld + part->col - tile->col) * size;
    struct slot *slot;
    if (outlet_take(&run->out, &slot, err))
        return err->code;
    struct copy copy = {(char *)run->acc + at, slot->memory, (size_t)ld * size, width, width,
                        (size_t)part->rows};
    if (store_read(store, part, slot->memory, err) == 0 &&
        dev->copy(dev, STREAM_IN, &copy, err) == 0 &&
        dev->record(dev, slot->done, STREAM_IN, err) == 0)
        dev->sync(dev, slot->done, err);
    outlet_return(&run->out, slot);
    return err->code;
}

int save_load(struct run *run, const struct block *tile, struct error *err)
{
    struct block_cut cut = schedule_cut(run->problem, run->plan, OPERAND_C);
    struct matrix_info info;
    struct store *store = NULL;
    if (save_name(run->output_info, run->piece->place, &info, err) ||
        store_open(&info, run->problem->type, STORE_READ, STORE_BUFFERED, &store, err) ||
        run_leave(run, err))
        return err->code;
    for (int i = 0; i < STRIPS_MAX && !err->code; i++)
        run->device->sync(run->device, run->left[i], err);
    for (int64_t i = 0; i < block_cut_parts(tile, &cut) && !err->code; i++) {
        struct block part = block_cut_part(tile, &cut, i);
        load_part(run, store, tile, &part, err);
    }
    store_close(store);
    return err->code ? err->code : check_resume(&run->check, run->acc, err);
}

bool save_sum(const struct problem *p, const struct matrix_info *info, const struct block *all,
              const struct comm *comm, uint64_t *sum, struct error *err)
{
    struct store *store = NULL;
    struct checksum table = {0};
    struct error cannot = {0};
    int64_t share = ceil_div(all->rows, comm->size), first = min_i64(comm->rank * share, all->rows);
    struct block mine = {all->row + first, all->col, min_i64(share, all->rows - first), all->cols};
    struct block_cut cut = {READ_BYTES / (int64_t)scalar_size(p->type), 0, 0};
    void *memory = malloc(READ_BYTES);
    *sum = 0;
    if (!memory)
        error_add(err, EXIT_RESOURCES, "out of host memory");
    else if (checksum_open(&table, p->type, p->n, err) == 0 &&
             store_open(info, p->type, STORE_READ, STORE_BUFFERED, &store, &cannot) == 0)
        for (int64_t i = 0; i < block_cut_parts(&mine, &cut) && !cannot.code; i++) {
            struct block part = block_cut_part(&mine, &cut, i);
            if (store_read(store, &part, memory, &cannot) == 0)
                *sum += checksum_block(&table, &part, memory);
        }
    store_close(store);
    checksum_close(&table);
    free(memory);
    *sum = comm_sum(*sum);
    return comm_min(!cannot.code);
}
