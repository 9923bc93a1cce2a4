/* C is taken for this run, and what earlier runs have completed of it is compared with what they
 * wrote, before the work goes on. */
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "job.h"
#include "meter.h"
#include "notice.h"
#include "phase.h"
#include "quantity.h"
#include "same_files.h"

/* What is damaged of a symmetric product has mirrors in other groups of rows: begin anew.  Without
 * mirrors the damage may be above the diagonal, where nothing would be written over it, unless the
 * file has nothing there. */
static int64_t put_all_back(const struct caller *caller, struct job *job, struct error *err)
{
    struct progress *progress = &job->progress;
    const struct problem *p = &job->problem;
    if (p->lower == LOWER_ZEROS)
        error_add(err, EXIT_INPUT,
                  "the finished part of C in %s differs from what was written; give --restart "
                  "never to start from the beginning",
                  job->output.source.file);
    if (err->code)
        return p->m;
    progress->checksums = (struct row_checksums){0};
    progress->findings = (struct findings){0};
    work_begin(&progress->left, p);
    if (caller->comm->rank == 0)
        notice("the finished part of C differs from what was written; all of C is "
               "computed again");
    return p->m;
}

/* Leave damaged groups of rows to be done, as many together as follow each other.  Returns their
 * rows. */
static int64_t put_back(const struct caller *caller, struct job *job,
                        const struct row_checksums *now, struct error *err)
{
    struct progress *progress = &job->progress;
    const struct source *c = &job->output.source;
    int64_t rows = 0;
    for (int first = 0, end; first < ROW_GROUPS; first = end + 1) {
        for (end = first; end < ROW_GROUPS && now->sums[end] != progress->checksums.sums[end];
             end++)
            progress->checksums.sums[end] = 0;
        struct block part = row_group_block(c->matrix.rows, c->matrix.cols, first, end);
        if (block_empty(&part))
            continue;
        if (!work_put_back(&progress->left, &part))
            error_add(err, EXIT_INPUT,
                      "%s is damaged in too many places to be repaired; give --restart never to "
                      "start from the beginning",
                      c->file);
        rows += part.rows;
        if (caller->comm->rank == 0)
            notice("the finished part of C in rows %" PRId64 " to %" PRId64
                   " differs from what was written; it is computed again",
                   part.row, part.row + part.rows - 1);
    }
    return rows;
}

/* Warn that what is complete is taken without comparing it. */
static void warn_trusted(const struct caller *caller)
{
    if (caller->options->check.verify == VERIFY_OFF)
        notice("the finished part of C is not checked for damage: --verify off "
               "records no checksum");
    else
        notice("the finished part of C is not checked for damage (--restart trust)");
}

static double bytes_of(const struct reading *what)
{
    double elements = 0;
    for (int i = 0; i < what->count; i++)
        elements += (double)what->blocks[i].rows * (double)what->blocks[i].cols;
    return elements * (double)scalar_size(what->type);
}

static void complain_unread(const struct error *why, struct error *err)
{
    error_add(err, why->code,
              "C cannot be read back: %s; give --restart never to start from the beginning",
              why->text);
}

/* Collective.  Read what is complete of C, and what its checksums are now. */
static int read_complete(const struct caller *caller, const struct reading *what,
                         struct row_checksums *now, struct report *report, struct error *err)
{
    struct error why = {0};
    const double begin = clock_now();
    phase_begin("checking what was saved of C", bytes_of(what));
    if (what->count < 0)
        error_add(err, EXIT_INPUT, "the finished part of %s is in too many pieces",
                  what->source->file);
    else if (row_checksums_read(what, caller->comm, now, &why) == EXIT_STOPPED)
        err->code = EXIT_STOPPED;
    else if (why.code)
        complain_unread(&why, err);
    if (comm_agree(caller->comm, err))
        return err->code;
    phase_end();
    report->compared_bytes = bytes_of(what);
    report->compare_s = clock_now() - begin;
    caller_print(caller->details, "            %s of C read back and compared in %s\n",
                 quantity_bytes(report->compared_bytes), quantity_time(report->compare_s));
    return 0;
}

/* Collective.  Read what is complete of C, and leave what is damaged of it to be done. */
static int compare(const struct caller *caller, const struct machine *machine, struct job *job,
                   struct outlook *outlook, struct report *report, struct error *err)
{
    const struct source *c = &job->output.source;
    const struct block all = {0, 0, c->matrix.rows, c->matrix.cols};
    /* Within the memory that the run may have, 1 MiB a thread. */
    const int threads =
        (int)max_i64(min_i64(machine->threads, (int64_t)(machine->host_memory >> 22)), 1);
    struct progress *progress = &job->progress;
    struct block blocks[BLOCKS_MAX];
    struct reading what = {c, problem_written(&job->problem), blocks, 0, threads, true};
    struct row_checksums now;
    what.count = work_complete(&progress->left, &all, blocks);
    if (what.count == 0 || read_complete(caller, &what, &now, report, err))
        return err->code;
    report->trusted = progress->trusted;
    if (memcmp(&now, &progress->checksums, sizeof now) != 0) {
        const bool all_or_none = progress->left.symmetric || job->problem.normal;
        report->damaged_rows =
            all_or_none ? put_all_back(caller, job, err) : put_back(caller, job, &now, err);
        if (!err->code)
            job_plan_first(caller, machine, job, outlook, err);
    }
    return comm_agree(caller->comm, err);
}

/* Collective.  What is resumed from is read by all ranks. */
static void compare_part(const struct caller *caller, const struct job *job, struct error *err)
{
    struct error why = {0};
    same_files_check_matrix(&job->output.source, caller->comm, &why);
    if (why.code == EXIT_RUNTIME)
        complain_unread(&why, err);
    else
        error_append(err, &why);
}

/* Collective.  The part file that an earlier run has left. */
static int open_part(const struct caller *caller, struct job *job, struct error *err)
{
    if (job_create_output(caller, job, err))
        return err->code;
    compare_part(caller, job, err);
    return comm_agree(caller->comm, err);
}

int job_resume(const struct caller *caller, const struct machine *machine, struct job *job,
               struct outlook *outlook, struct report *report, struct error *err)
{
    phase_begin("opening the journal", 0);
    job->resumed = job->journal.saved = job->progress.saved;
    if (caller->comm->rank == 0)
        journal_open(&job->journal, job->resumed, err);
    if (comm_agree(caller->comm, err) || !job->resumed || open_part(caller, job, err))
        return err->code;
    if (caller->options->check.verify != VERIFY_OFF &&
        caller->options->saving.restart != RESTART_TRUST)
        return compare(caller, machine, job, outlook, report, err);
    job->progress.trusted = report->trusted = true;
    phase_end();
    if (caller->comm->rank == 0)
        warn_trusted(caller);
    return 0;
}
