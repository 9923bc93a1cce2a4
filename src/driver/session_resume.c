/* What an earlier run has saved, or a device got wrong: looked at before it is gone on from. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "meter.h"
#include "quantity.h"
#include "schedule.h"
#include "session.h"

struct failures {
    int count;
    struct block tiles[CHECK_AGAIN_MAX];
    double ratio;
    char device[96];
};

int session_note_failures(struct session *s)
{
    const struct check *check = &s->run.check;
    struct progress *now = &s->progress;
    bool any = comm_sum((uint64_t)check->failures) > 0;
    for (int rank = 0; rank < s->comm.size && any; rank++) {
        struct failures f = {.count = check->failures, .ratio = check->failed_ratio};
        memcpy(f.tiles, check->failed, sizeof f.tiles);
        snprintf(f.device, sizeof f.device, "%s", s->device->info.name);
        comm_share(&f, sizeof f, rank);
        for (int i = 0; i < f.count; i++) {
            if (work_has(&now->left, &f.tiles[i])) /* another layer's product of it failed, too */
                continue;
            const struct reading tile = {
                &s->output.info, s->problem.type, &f.tiles[i], 1, 1, false};
            struct bands bands;
            if (s->comm.rank == 0)
                fprintf(stderr,
                        "dgemm_ooc: rank %d (%s): the tile of C at (%" PRId64 ", %" PRId64
                        ") failed its check: it differs by %.3g times what rounding can do; it is "
                        "multiplied again\n",
                        rank, f.device, f.tiles[i].row, f.tiles[i].col, f.ratio);
            struct error why = {0};
            if (bands_read(&tile, &s->comm, &bands, &why))
                error_add(&s->err, EXIT_RUNTIME, "C cannot be read back: %s", why.text);
            else if (!work_again(&now->left, &f.tiles[i]))
                error_add(&s->err, EXIT_VERIFY, "too many tiles failed their check");
            for (int band = 0; band < BANDS; band++)
                now->bands.sums[band] -= bands.sums[band];
        }
    }
    return comm_agree(&s->comm, &s->err);
}

void session_begin_anew(struct session *s)
{
    struct piece *piece = &s->progress.left.pieces[0];
    if (s->comm.rank == 0)
        fprintf(stderr,
                "dgemm_ooc: what was saved of C from row %" PRId64 ", column %" PRId64
                " on is damaged; it is multiplied again\n",
                piece->block.row, piece->block.col);
    piece->k = 0;
    session_plan(s);
}

/* The checksums of the first `count` pieces' saved sums, each of its own.  False where these cannot
 * be read, or are not together what was saved. */
static bool hash_parts(struct session *s, struct piece *pieces, int count, const struct piece *all)
{
    struct matrix_info info;
    struct error cannot = {0};
    uint64_t total = 0;
    if (!s->request.verify)
        return true;
    save_name(&s->output.info, all->place, &info, &cannot);
    for (int i = 0; i < count; i++) {
        const struct reading part = {&info, s->problem.type, &pieces[i].block, 1, 1, false};
        struct bands bands;
        bands_read(&part, &s->comm, &bands, &cannot);
        pieces[i].sum = bands_total(&bands);
        pieces[i].hashed = true;
        total += pieces[i].sum;
    }
    return comm_min(!cannot.code) && (!all->hashed || total == all->sum);
}

int session_split(struct session *s)
{
    struct work *left = &s->progress.left;
    while (left->pieces[0].k > 0 && schedule_supers(&s->plan) > 1) {
        const struct work before = *left;
        if (work_split(left, &s->plan) &&
            hash_parts(s, left->pieces, left->count - before.count + 1, &before.pieces[0])) {
            session_plan(s);
        } else {
            *left = before;
            session_begin_anew(s);
        }
        if (comm_agree(&s->comm, &s->err))
            return s->err.code;
    }
    return 0;
}

/* Damaged bands are left to be done, as many together as follow each other. */
static void put_back(struct session *s, const struct bands *now)
{
    struct progress *progress = &s->progress;
    const struct matrix_info *c = &s->output.info;
    for (int first = 0, end; first < BANDS; first = end + 1) {
        for (end = first; end < BANDS && now->sums[end] != progress->bands.sums[end]; end++)
            progress->bands.sums[end] = 0;
        struct block part = bands_block(c->rows, c->cols, first, end);
        if (block_empty(&part))
            continue;
        if (!work_put_back(&progress->left, &part))
            error_add(&s->err, EXIT_INPUT,
                      "%s is damaged in too many places to be mended; give --restart never to "
                      "start from the beginning",
                      c->file);
        s->report.damaged_rows += part.rows;
        if (s->comm.rank == 0)
            fprintf(stderr,
                    "dgemm_ooc: what is complete of C in rows %" PRId64 " to %" PRId64
                    " is not what was written; it is multiplied again\n",
                    part.row, part.row + part.rows - 1);
    }
}

/* Whether what is complete is taken without comparing it, which is said. */
static bool trusts(const struct session *s)
{
    bool off = s->options.verify == VERIFY_OFF, trust = s->options.restart == RESTART_TRUST;
    if (s->comm.rank == 0 && off)
        fprintf(stderr, "dgemm_ooc: what was saved is not compared with what was written: "
                        "--verify off records no checksum\n");
    else if (s->comm.rank == 0 && trust)
        fprintf(stderr, "dgemm_ooc: what is complete of C is taken as it is (--restart trust)\n");
    return off || trust;
}

static double bytes_of(const struct reading *what)
{
    double elements = 0;
    for (int i = 0; i < what->count; i++)
        elements += (double)what->blocks[i].rows * (double)what->blocks[i].cols;
    return elements * (double)scalar_size(what->type);
}

/* Within the memory that the run may have: 1 MiB each. */
static int reading_threads(const struct machine *m)
{
    int64_t most = (int64_t)(m->host_memory >> 22);
    return (int)max_i64(min_i64(m->threads, most), 1);
}

int session_compare(struct session *s)
{
    const struct matrix_info *c = &s->output.info;
    const struct block all = {0, 0, c->rows, c->cols};
    struct block blocks[BLOCKS_MAX];
    struct reading what = {c, s->problem.type, blocks, 0, reading_threads(&s->machine), true};
    struct bands now;
    struct error why = {0};
    bool damaged, speaks = s->comm.rank == 0 && !s->options.quiet;
    if (!s->progress.saved)
        return 0;
    s->went_on = true;
    if (trusts(s)) {
        s->progress.trusted = s->report.trusted = true;
        return 0;
    }
    what.count = work_complete(&s->progress.left, &all, blocks);
    if (what.count == 0)
        return 0;
    double begin = clock_now();
    if (what.count < 0)
        error_add(&s->err, EXIT_INPUT, "what is complete of %s is in too many places", c->file);
    else if (bands_read(&what, &s->comm, &now, &why) == EXIT_STOPPED)
        s->err.code = EXIT_STOPPED;
    else if (why.code)
        error_add(&s->err, why.code,
                  "C cannot be read back: %s; give --restart never to start from the beginning",
                  why.text);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    s->report.compared_bytes = bytes_of(&what);
    s->report.compare_s = clock_now() - begin;
    s->report.trusted = s->progress.trusted;
    if (speaks)
        printf("            %s of C read back and compared in %s\n",
               quantity_bytes(s->report.compared_bytes), quantity_time(s->report.compare_s));
    damaged = memcmp(&now, &s->progress.bands, sizeof now) != 0;
    if (damaged)
        put_back(s, &now);
    if (damaged && !s->err.code)
        session_plan(s);
    return comm_agree(&s->comm, &s->err);
}
