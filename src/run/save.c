#include "save.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "device.h"
#include "file.h"
#include "phase.h"
#include "quantity.h"
#include "run_state.h"
#include "saved_sums.h"
#include "sums.h"

enum {
    VOTE_NUMBERS = sizeof(struct vote) / sizeof(double),
    FILE_BLOCK = 4096, /* bytes of a block of a usual file system */
};

_Static_assert(sizeof(struct vote) <= VOTE_MAX * sizeof(double), "one vote adds it up");

_Static_assert(sizeof((struct file_names){0}).sums / PATH_MAX == PLACES, "each has a name");

static const double vote_seconds = 0.2; /* between two votes, as planned */

/* The checkpoint that a run would resume from now stays whole until the first one of this run is
 * recorded. */
static int first_place(const struct run *run)
{
    const struct piece *newest = &run->saver.known->pieces[0];
    if (run->piece->k > 0)
        return 1 - run->piece->place;
    return newest->k > 0 ? 1 - newest->place : 0;
}

/* Write a block of the sums of the tile at work.  Any thread; a failure fails the checkpoint. */
static int write_sum(void *context, const struct block *block, void *memory, struct error *err)
{
    (void)err;
    struct run *run = context;
    struct saver *s = &run->saver;
    struct error why = {0};
    if (run->c.checksum.weights)
        s->sum += checksum_block(&run->c.checksum, block, memory);
    if (!s->failed && store_write(s->stores[s->place], block, memory, &why) &&
        !atomic_exchange(&s->failed, true))
        s->why = why;
    return 0;
}

void save_open(struct run *run)
{
    const struct plan *plan = run->plan;
    struct saver *s = &run->saver;
    s->common = INT64_MAX;
    double steps = (double)schedule_supers(plan) * (double)(plan->slabs > 0 ? plan->slabs : 1);
    if (plan->layers > 1) { /* one super-block; the last layer has the least of k */
        struct problem last = *run->problem;
        last.k_first += (plan->layers - 1) * plan->layer_k - last.blocks.origin;
        last.blocks.origin = (plan->layers - 1) * plan->layer_k;
        last.k = last.k_whole - last.k_first;
        s->common = schedule_slabs(&last, plan);
        steps = (double)s->common;
    }
    s->most_gap = (int64_t)fmax(1, fmin(vote_seconds * steps / plan->roofline.seconds, 1e9));
    s->gap = 1;
    s->vote_step = -1;
    s->place = first_place(run);
    s->sums = (struct sink){write_sum, run, scalar_size(run->problem->sums)};
    s->began = s->super_began = s->asked = clock_now();
}

void save_close(struct run *run)
{
    for (int i = 0; i < PLACES; i++) {
        store_close(run->saver.stores[i]);
        run->saver.stores[i] = NULL;
    }
}

/* This rank's sums cannot be saved, for that reason. */
static void fail_save(struct saver *s, const struct error *why)
{
    if (!s->failed)
        s->why = *why;
    s->failed = true;
}

/* Whether there is room for so many sums of all tiles at work, whose rows take whole blocks, and
 * for the part of C whose blocks are not allocated yet. */
static bool has_room(const struct run *run, int sums, int fd)
{
    const struct plan *plan = run->plan;
    struct statvfs fs;
    struct stat file, c;
    double width = (double)plan->tile_cols * (double)scalar_size(run->problem->sums);
    double rows =
        (double)sums * plan->layers * plan->grid_rows * plan->grid_cols * (double)plan->tile_rows;
    if (fstat(fd, &file) || fstatvfs(fd, &fs) || stat(run->output->file, &c))
        return false;
    double missing = fmax(0, (double)c.st_size - 512.0 * (double)c.st_blocks);
    double room = (double)fs.f_bavail * (double)fs.f_frsize + 512.0 * (double)file.st_blocks;
    errno = ENOSPC;
    return room >= rows * (width + FILE_BLOCK) + missing;
}

/* The other ranks find it when they open the file (store.h). */
static bool write_sign(int fd, const struct file_sign *sign)
{
    return lseek(fd, (off_t)sign->at, SEEK_SET) >= 0 &&
           file_write(fd, sign->text, strlen(sign->text));
}

/* Rank 0: create the file of this checkpoint's sums.  For a new super-block it begins empty, so
 * that it frees the space of an earlier one, unless a run might still resume from it. */
static void make_place(struct run *run, int64_t slabs, const struct source *sums)
{
    struct saver *s = &run->saver;
    struct error why = {0};
    int fd = file_open_own(sums->file, O_CREAT);
    bool empties = !work_refers(s->known, s->place);
    bool made = fd >= 0 && (!empties || ftruncate(fd, 0) == 0) &&
                ftruncate(fd, (off_t)sums->file_bytes) == 0 && write_sign(fd, &sums->sign) &&
                has_room(run, saved_sums_after(run, slabs).count, fd);
    if (!made) {
        error_add(&why, EXIT_RESOURCES, "%.400s: %s", sums->file, strerror(errno));
        fail_save(s, &why);
    }
    if (fd >= 0)
        close(fd);
    file_sync_name(sums->file);
}

/* Rank 0: free the space of sums that could not be written whole; C may need it. */
static void empty_place(struct run *run)
{
    struct saver *s = &run->saver;
    if (work_refers(s->known, s->place))
        return;
    int fd = file_open_own(s->names->sums[s->place], 0);
    if (fd < 0)
        return;
    (void)!ftruncate(fd, 0);
    close(fd);
}

/* Collective.  Create and open the file of the sums; *there: on all ranks. */
static int open_place(struct run *run, int64_t slabs, bool *there, struct error *err)
{
    struct saver *s = &run->saver;
    struct store **store = &s->stores[s->place];
    struct source sums = saved_sums_matrix(run->problem, run->output, s->names->sums[s->place],
                                           sums_saved(run->problem, run->plan->layers));
    struct error why = {0};
    if (run->comm->rank == 0)
        make_place(run, slabs, &sums);
    uint64_t missing = s->failed;
    if (!comm_vote_sum(run->comm, &missing, 1))
        return err->code = ERROR_ELSEWHERE;
    *there = missing == 0;
    if (*there && !*store &&
        store_open(&sums, run->problem->held[OPERAND_C], STORE_WRITE, run->problem->io, store,
                   &why))
        fail_save(s, &why);
    return 0;
}

/* Write the sums of the tiles at work, when so many slabs of them are multiplied, and make them
 * durable, where that is possible. */
static int save_sums(struct run *run, int64_t slabs, struct error *err)
{
    struct saver *s = &run->saver;
    const struct sums_there sums = saved_sums_after(run, slabs);
    struct error why = {0};
    bool there = false;
    if (open_place(run, slabs, &there, err) || !there)
        return err->code;
    saved_sums_begin(run, "saving the sums at work", sums.count);
    if (!block_empty(&run->acc.block) &&
        (check_now(&run->check, run->acc.memory, err) || saved_sums_write(run, &sums, err) ||
         outlet_drain(&run->out, err)))
        return err->code;
    if (!s->failed && store_sync(s->stores[s->place], &why))
        fail_save(s, &why);
    return 0;
}

/* What the ranks have saved, added up over them.  Nothing but numbers of 64 bits. */
struct totals {
    struct row_checksums checksums;
    uint64_t sum, failures, unsaved;
};
enum { TOTAL_NUMBERS = sizeof(struct totals) / sizeof(uint64_t) };
_Static_assert(sizeof(struct totals) <= VOTE_MAX * sizeof(uint64_t), "one vote adds it up");

/* Where sums could not be saved, the lowest rank that failed says why. */
static int add_up(struct run *run, struct totals *totals, struct saved *saved, struct error *err)
{
    struct saver *s = &run->saver;
    struct comm *comm = run->comm;
    *totals = (struct totals){
        .sum = s->sum, .failures = (uint64_t)run->check.verdict.failures, .unsaved = s->failed};
    for (int i = 0; i < ROW_GROUPS; i++)
        totals->checksums.sums[i] = run->c.written[i];
    saved->findings = run->check.verdict.findings;
    findings_merge(&saved->findings, &run->check.verdict.partial);
    findings_merge(&saved->findings, &run->normal.check.verdict.findings);
    saved->findings.not_judged += c_file_not_judged(&run->c);
    if (!comm_vote_sum(comm, (uint64_t *)totals, TOTAL_NUMBERS) ||
        !findings_vote(comm, &saved->findings))
        return err->code = ERROR_ELSEWHERE;
    saved->checksums = totals->checksums;
    double mine = s->failed ? comm->size - comm->rank : 0, lowest = mine;
    if (totals->unsaved && !comm_vote_most(comm, &lowest, 1))
        return err->code = ERROR_ELSEWHERE;
    saved->note = mine > 0 && mine == lowest ? s->why.text : "";
    return 0;
}

/* Record the checkpoint; the next one takes the other file. */
static int make_known(struct run *run, const struct saved *saved, bool sums, struct error *err)
{
    struct saver *s = &run->saver;
    bool known;
    if (s->done(s->context, saved, &known, err))
        return err->code;
    if (sums && known)
        s->place = 1 - s->place;
    return 0;
}

/* How long it takes to save now, by what the run has taken so far: the products that are enqueued
 * come first. */
static double expect_seconds(struct run *run, struct error *err)
{
    const struct saver *s = &run->saver;
    const double pending = (double)products_pending(&run->products, err);
    const double each = (clock_now() - s->began) / fmax(1, (double)run->products.count - pending);
    return fmax(pending * each, s->saves > 0 ? s->saves_s / s->saves : 0);
}

/* Save.  Collective, at the same step on all ranks. */
static int save(struct run *run, enum stop_level level, int64_t super, int64_t slabs,
                struct error *err)
{
    struct saver *s = &run->saver;
    const struct plan *plan = run->plan;
    double begin = clock_now();
    bool whole = slabs >= plan->slabs, sums = !whole;
    struct saved saved = {.supers = super + whole, .stops = level == STOP_END};
    struct totals totals;
    s->failed = false;
    s->why = (struct error){0};
    s->sum = 0;
    if (level == STOP_END)
        s->stops(s->context, expect_seconds(run, err));
    phase_begin("saving", 0);
    if (drain_rest(&run->drain, err) || check_judge(&run->check, err) ||
        outlet_drain(&run->out, err) || products_retire(&run->products, run->products.count, err) ||
        (sums && save_sums(run, slabs, err)) ||
        (run->normal.store && normal_settle(&run->normal, &run->check, err)) ||
        store_sync(run->c.store, err) || add_up(run, &totals, &saved, err))
        return err->code;
    if (totals.unsaved && run->comm->rank == 0)
        empty_place(run);
    sums = sums && !totals.unsaved;
    saved.since = sums || whole ? begin : s->super_began;
    if (sums)
        saved.piece = (struct piece){.k = run->problem->k_first - run->problem->blocks.origin +
                                          schedule_k(run->problem, plan, slabs),
                                     .layers = plan->layers,
                                     .place = s->place,
                                     .hashed = run->request->verify,
                                     .sampled = run->lines.census != NULL,
                                     .sum = totals.sum};
    stop_saved();
    /* A tile that failed its check is not recorded before it has been multiplied again. */
    if (totals.failures == 0 && make_known(run, &saved, sums, err))
        return err->code;
    s->saves++;
    s->asked = clock_now();
    s->saves_s += s->asked - begin;
    s->longest_s = fmax(s->longest_s, s->asked - begin);
    return level == STOP_END ? err->code = EXIT_STOPPED : 0;
}

/* What this rank wants now.  A stop takes as long as the longest save so far, and may be decided as
 * late as this rank was last asked before. */
static enum stop_level ask(struct run *run, double now)
{
    struct saver *s = &run->saver;
    const bool keeps_time = run->comm->rank == 0;
    if (keeps_time)
        stop_measured(now - s->asked + s->longest_s);
    s->asked = now;
    return stop_level(keeps_time);
}

/* What the only rank of a run wants. */
static enum stop_level ask_alone(struct run *run, struct error *err)
{
    struct saver *s = &run->saver;
    double now = clock_now();
    if (now > s->met_s + vote_seconds) {
        s->met_s = now;
        run_totals(run, &s->vote.done);
        s->met(s->context, &s->vote.done, err);
    }
    return ask(run, now);
}

static void vote_begin(struct run *run)
{
    struct saver *s = &run->saver;
    const double now = clock_now();
    const bool late = now > s->asked + vote_seconds;
    const enum stop_level level = ask(run, now);
    s->vote_step = s->steps;
    s->vote = (struct vote){.stop = level == STOP_END, .save = level == STOP_SAVE, .late = late};
    run_totals(run, &s->vote.done);
    s->voting = true;
    comm_vote_begin(run->comm, (double *)&s->vote, VOTE_NUMBERS);
}

/* False when another rank has failed. */
static bool vote_end(struct run *run, enum stop_level *level, struct error *err)
{
    struct saver *s = &run->saver;
    s->voting = false;
    if (!comm_vote_end(run->comm, (double *)&s->vote, VOTE_NUMBERS))
        return false;
    *level = s->vote.stop > 0 ? STOP_END : s->vote.save > 0 ? STOP_SAVE : STOP_NOT;
    s->gap = s->vote.late > 0 ? max_i64(1, s->gap / 2) : min_i64(2 * s->gap, s->most_gap);
    s->met(s->context, &s->vote.done, err);
    return true;
}

int save_step(struct run *run, int64_t super, int64_t slabs, struct error *err)
{
    struct saver *s = &run->saver;
    enum stop_level level = STOP_NOT;
    if (s->steps >= s->common && !s->voting)
        return 0;
    if (run->comm->size == 1)
        level = ask_alone(run, err);
    else if (!s->voting && s->steps >= s->vote_step + s->gap)
        vote_begin(run);
    else if (s->voting && !vote_end(run, &level, err))
        return err->code = ERROR_ELSEWHERE;
    if (err->code)
        return err->code;
    if (++s->steps >= s->common)
        return 0;
    bool whole = slabs >= run->plan->slabs;
    if (super + 1 == schedule_supers(run->plan) && whole)
        return 0; /* all is done */
    if (level > STOP_NOT && save(run, level, super, slabs, err))
        return err->code;
    if (whole)
        s->super_began = clock_now();
    return 0;
}

int save_finish(struct run *run, struct error *err)
{
    enum stop_level ignored;
    if (run->saver.voting && !vote_end(run, &ignored, err))
        return err->code = ERROR_ELSEWHERE;
    return err->code;
}

int save_load(struct run *run, bool *whole, struct error *err)
{
    struct error cannot = {0};
    uint64_t sum = 0;
    saved_sums_load(run, &sum, &cannot, err);
    if (comm_agree(run->comm, err))
        return err->code;
    sum = comm_sum(run->comm, sum);
    *whole = comm_min(run->comm, !cannot.code) && (!run->piece->hashed || sum == run->piece->sum);
    return 0;
}
