/* What an earlier run has saved, or a device got wrong: it is checked before the work goes on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "meter.h"
#include "quantity.h"
#include "schedule.h"
#include "session.h"

/* The tiles of one rank that failed their check. */
struct failures {
    int count;
    struct block tiles[CHECK_AGAIN_MAX];
    double ratio;
    char device[96];
};

/* Collective.  Take a tile out of what is complete, and leave it to be done. */
static void requeue(struct session *s, const struct block *tile)
{
    const struct reading what = {&s->output.info, s->problem.type, tile, 1, 1, false};
    struct progress *now = &s->progress;
    struct bands bands;
    struct error why = {0};
    if (bands_read(&what, &s->comm, &bands, &why))
        error_add(&s->err, EXIT_RUNTIME, "C cannot be read back: %s", why.text);
    else if (!work_again(&now->left, tile))
        error_add(&s->err, EXIT_VERIFY, "too many tiles failed their check");
    for (int band = 0; band < BANDS; band++)
        now->bands.sums[band] -= bands.sums[band];
}

int session_requeue_failed(struct session *s)
{
    const struct check *check = &s->attempt.run.check;
    bool any = comm_sum((uint64_t)check->failures) > 0;
    for (int rank = 0; rank < s->comm.size && any; rank++) {
        struct failures f = {.count = check->failures, .ratio = check->failed_ratio};
        memcpy(f.tiles, check->failed, sizeof f.tiles);
        snprintf(f.device, sizeof f.device, "%s", s->hardware.device->info.name);
        comm_share(&f, sizeof f, rank);
        for (int i = 0; i < f.count; i++) {
            const struct block *tile = &f.tiles[i];
            if (work_has(&s->progress.left, tile)) /* another layer's product of it failed, too */
                continue;
            if (s->comm.rank == 0)
                fprintf(stderr,
                        "dgemm_ooc: rank %d (%s): the tile of C at (%" PRId64 ", %" PRId64
                        ") failed its check: it differs by %.3g times what rounding can do; it is "
                        "multiplied again\n",
                        rank, f.device, tile->row, tile->col, f.ratio);
            requeue(s, tile);
        }
    }
    return comm_agree(&s->comm, &s->err);
}

void session_discard_sums(struct session *s)
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

/* Collective.  Compute the checksum of each of the pieces that a piece was split into, of its saved
 * sums.  False where these cannot be read, or are not together what was saved. */
static bool hash_parts(struct session *s, struct piece *parts, int count, const struct piece *whole)
{
    const struct matrix_info info =
        save_matrix(&s->output.info, s->output.names.sums[whole->place]);
    struct error cannot = {0};
    uint64_t total = 0;
    if (!s->attempt.request.verify)
        return true;
    for (int i = 0; i < count; i++) {
        const struct reading part = {&info, s->problem.type, &parts[i].block, 1, 1, false};
        struct bands bands;
        bands_read(&part, &s->comm, &bands, &cannot);
        parts[i].sum = bands_total(&bands);
        parts[i].hashed = true;
        total += parts[i].sum;
    }
    return comm_min(!cannot.code) && (!whole->hashed || total == whole->sum);
}

int session_split(struct session *s)
{
    struct work *left = &s->progress.left;
    while (left->pieces[0].k > 0 && schedule_supers(&s->attempt.plan) > 1) {
        const struct work before = *left;
        if (work_split(left, &s->attempt.plan) &&
            hash_parts(s, left->pieces, left->count - before.count + 1, &before.pieces[0])) {
            session_plan(s);
        } else {
            *left = before;
            session_discard_sums(s);
        }
        if (comm_agree(&s->comm, &s->err))
            return s->err.code;
    }
    return 0;
}

/* Leave damaged bands to be done, as many together as follow each other.  Returns their rows. */
static int64_t put_back(struct session *s, const struct bands *now)
{
    struct progress *progress = &s->progress;
    const struct matrix_info *c = &s->output.info;
    int64_t rows = 0;
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
        rows += part.rows;
        if (s->comm.rank == 0)
            fprintf(stderr,
                    "dgemm_ooc: what is complete of C in rows %" PRId64 " to %" PRId64
                    " is not what was written; it is multiplied again\n",
                    part.row, part.row + part.rows - 1);
    }
    return rows;
}

/* Warn that what is complete is taken without comparing it. */
static void warn_trusted(const struct options *o)
{
    if (o->verify == VERIFY_OFF)
        fprintf(stderr, "dgemm_ooc: what was saved is not compared with what was written: "
                        "--verify off records no checksum\n");
    else
        fprintf(stderr, "dgemm_ooc: what is complete of C is taken as it is (--restart trust)\n");
}

static double bytes_of(const struct reading *what)
{
    double elements = 0;
    for (int i = 0; i < what->count; i++)
        elements += (double)what->blocks[i].rows * (double)what->blocks[i].cols;
    return elements * (double)scalar_size(what->type);
}

/* Threads that read within the memory that the run may have, 1 MiB each. */
static int reading_threads(const struct machine *m)
{
    int64_t most = (int64_t)(m->host_memory >> 22);
    return (int)max_i64(min_i64(m->threads, most), 1);
}

/* Collective.  Read what is complete of C, and leave what is damaged of it to be done. */
static int compare(struct session *s, const struct reading *what)
{
    struct report *r = &s->record.report;
    struct progress *progress = &s->progress;
    struct bands now;
    struct error why = {0};
    double begin = clock_now();
    if (what->count < 0)
        error_add(&s->err, EXIT_INPUT, "what is complete of %s is in too many places",
                  what->info->file);
    else if (bands_read(what, &s->comm, &now, &why) == EXIT_STOPPED)
        s->err.code = EXIT_STOPPED;
    else if (why.code)
        error_add(&s->err, why.code,
                  "C cannot be read back: %s; give --restart never to start from the beginning",
                  why.text);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    r->compared_bytes = bytes_of(what);
    r->compare_s = clock_now() - begin;
    r->trusted = progress->trusted;
    if (s->comm.rank == 0 && !s->options.quiet)
        printf("            %s of C read back and compared in %s\n",
               quantity_bytes(r->compared_bytes), quantity_time(r->compare_s));
    if (memcmp(&now, &progress->bands, sizeof now) != 0) {
        r->damaged_rows = put_back(s, &now);
        if (!s->err.code)
            session_plan(s);
    }
    return comm_agree(&s->comm, &s->err);
}

int session_compare(struct session *s)
{
    const struct matrix_info *c = &s->output.info;
    const struct block all = {0, 0, c->rows, c->cols};
    const struct machine *m = &s->hardware.machine;
    struct block blocks[BLOCKS_MAX];
    struct reading what = {c, s->problem.type, blocks, 0, reading_threads(m), true};
    if (s->options.verify == VERIFY_OFF || s->options.restart == RESTART_TRUST) {
        s->progress.trusted = s->record.report.trusted = true;
        if (s->comm.rank == 0)
            warn_trusted(&s->options);
        return 0;
    }
    what.count = work_complete(&s->progress.left, &all, blocks);
    return what.count ? compare(s, &what) : 0;
}
