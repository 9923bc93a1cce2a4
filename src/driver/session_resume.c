/* What earlier runs have completed is compared with what they wrote, before the work goes on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "meter.h"
#include "phase.h"
#include "quantity.h"
#include "session.h"

/* What is damaged of a symmetric product has mirrors in other groups of rows: begin anew.  Without
 * mirrors the damage may be above the diagonal, where nothing would be written over it. */
static int64_t put_all_back(struct session *s)
{
    struct progress *progress = &s->progress;
    if (s->problem.lower)
        error_add(&s->err, EXIT_INPUT,
                  "the finished part of C in %s differs from what was written; give --restart "
                  "never to start from the beginning",
                  s->output.source.file);
    if (s->err.code)
        return s->problem.m;
    progress->checksums = (struct row_checksums){0};
    progress->findings = (struct findings){0};
    work_begin(&progress->left, &s->problem);
    if (s->comm.rank == 0)
        fprintf(stderr, "dgemm_ooc: the finished part of C differs from what was written; all of C "
                        "is computed again\n");
    return s->problem.m;
}

/* Leave damaged groups of rows to be done, as many together as follow each other.  Returns their
 * rows. */
static int64_t put_back(struct session *s, const struct row_checksums *now)
{
    struct progress *progress = &s->progress;
    const struct source *c = &s->output.source;
    int64_t rows = 0;
    for (int first = 0, end; first < ROW_GROUPS; first = end + 1) {
        for (end = first; end < ROW_GROUPS && now->sums[end] != progress->checksums.sums[end];
             end++)
            progress->checksums.sums[end] = 0;
        struct block part = row_group_block(c->matrix.rows, c->matrix.cols, first, end);
        if (block_empty(&part))
            continue;
        if (!work_put_back(&progress->left, &part))
            error_add(&s->err, EXIT_INPUT,
                      "%s is damaged in too many places to be repaired; give --restart never to "
                      "start from the beginning",
                      c->file);
        rows += part.rows;
        if (s->comm.rank == 0)
            fprintf(stderr,
                    "dgemm_ooc: the finished part of C in rows %" PRId64 " to %" PRId64
                    " differs from what was written; it is computed again\n",
                    part.row, part.row + part.rows - 1);
    }
    return rows;
}

/* Warn that what is complete is taken without comparing it. */
static void warn_trusted(const struct options *o)
{
    if (o->verify == VERIFY_OFF)
        fprintf(stderr, "dgemm_ooc: the finished part of C is not checked for damage: --verify off "
                        "records no checksum\n");
    else
        fprintf(stderr,
                "dgemm_ooc: the finished part of C is not checked for damage (--restart trust)\n");
}

static double bytes_of(const struct reading *what)
{
    double elements = 0;
    for (int i = 0; i < what->count; i++)
        elements += (double)what->blocks[i].rows * (double)what->blocks[i].cols;
    return elements * (double)scalar_size(what->type);
}

void session_complain_unread(struct session *s, const struct error *why)
{
    error_add(&s->err, why->code,
              "C cannot be read back: %s; give --restart never to start from the beginning",
              why->text);
}

/* Collective.  Read what is complete of C, and leave what is damaged of it to be done. */
static int compare(struct session *s, const struct reading *what)
{
    struct report *r = &s->record.report;
    struct progress *progress = &s->progress;
    struct row_checksums now;
    struct error why = {0};
    double begin = clock_now();
    phase_begin("checking what was saved of C", bytes_of(what));
    if (what->count < 0)
        error_add(&s->err, EXIT_INPUT, "the finished part of %s is in too many pieces",
                  what->source->file);
    else if (row_checksums_read(what, &s->comm, &now, &why) == EXIT_STOPPED)
        s->err.code = EXIT_STOPPED;
    else if (why.code)
        session_complain_unread(s, &why);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    phase_end();
    r->compared_bytes = bytes_of(what);
    r->compare_s = clock_now() - begin;
    r->trusted = progress->trusted;
    if (s->comm.rank == 0 && s->options.verbose)
        fprintf(s->out, "            %s of C read back and compared in %s\n",
                quantity_bytes(r->compared_bytes), quantity_time(r->compare_s));
    if (memcmp(&now, &progress->checksums, sizeof now) != 0) {
        r->damaged_rows = progress->left.symmetric ? put_all_back(s) : put_back(s, &now);
        if (!s->err.code)
            session_plan(s);
    }
    return comm_agree(&s->comm, &s->err);
}

int session_compare(struct session *s)
{
    const struct source *c = &s->output.source;
    const struct block all = {0, 0, c->matrix.rows, c->matrix.cols};
    const struct machine *m = &s->hardware.machine;
    /* Within the memory that the run may have, 1 MiB a thread. */
    const int threads = (int)max_i64(min_i64(m->threads, (int64_t)(m->host_memory >> 22)), 1);
    struct block blocks[BLOCKS_MAX];
    struct reading what = {c, s->problem.held[OPERAND_C], blocks, 0, threads, true};
    if (s->options.verify == VERIFY_OFF || s->options.restart == RESTART_TRUST) {
        s->progress.trusted = s->record.report.trusted = true;
        phase_end();
        if (s->comm.rank == 0)
            warn_trusted(&s->options);
        return 0;
    }
    what.count = work_complete(&s->progress.left, &all, blocks);
    return what.count ? compare(s, &what) : 0;
}
