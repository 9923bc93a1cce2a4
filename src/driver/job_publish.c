/* After the work: the files are checked, C gets its name, and what the run no longer needs goes. */
#include <unistd.h>

#include "error.h"
#include "job.h"
#include "leftovers.h"
#include "lock.h"
#include "meter.h"
#include "notice.h"
#include "phase.h"
#include "quantity.h"
#include "verify.h"

void job_warn_unsaved(const struct job *job, bool stops, const char *what, const char *why)
{
    const char *time = quantity_time(clock_now() - job->safe_s);
    if (stops)
        notice("%s%s; this loses the last %s", what, why, time);
    else
        notice("%s%s; the run continues, but a stop now would lose the last %s", what, why, time);
}

/* Rank 0: make what is complete something to resume from. */
static bool save_complete(struct job *job, struct error *why)
{
    job->progress.saved = true;
    if (journal_save(&job->journal, &job->progress, why))
        return false;
    leftovers_keep();
    return true;
}

/* Collective.  Read all matrices back, in the memory that the pipeline has given back.  The product
 * is saved before, and discarded when it is found to be wrong. */
static int read_back(const struct caller *caller, const struct machine *machine, struct job *job,
                     struct report *report, struct error *err)
{
    const struct problem *p = &job->problem;
    const struct output *output = &job->output;
    struct verify *full = &report->full;
    struct error why = {0};
    job->progress.saved = true;
    if (caller->comm->rank == 0 && !save_complete(job, &why))
        job_warn_unsaved(job, false, "", why.text);
    *full = (struct verify){.seed = caller->options->check.seed,
                            .has_expected = true,
                            .expected = report->checksum,
                            .statistics = &job->statistics};
    if (caller->comm->rank == 0)
        output_compare_part(output, p, err);
    if (comm_agree(caller->comm, err) == 0 &&
        job_compare_statistics(caller, machine, job, err) == 0)
        job_verify(caller, machine, job, &output->source, full, err);
    job_check_operands(caller, job, err);
    if (err->code == EXIT_VERIFY && job->resumed)
        error_add(err, EXIT_VERIFY,
                  "an operand or C may have changed since an earlier run; the checkpoint is "
                  "discarded, and the same command starts from the beginning");
    job->journal.saved &= err->code != EXIT_VERIFY;
    return err->code;
}

/* Collective.  Whether all files are read back: as asked for, or because several runs had a part in
 * C.  Between these an operand may have changed silently and kept its times. */
static bool reads_back(const struct caller *caller, const struct machine *machine,
                       const struct job *job)
{
    const struct options *o = caller->options;
    struct error why = {0};
    if (o->check.verify != VERIFY_ONLINE || !job->resumed || o->saving.restart == RESTART_TRUST)
        return o->check.verify == VERIFY_FULL;
    bool fits = comm_sum(caller->comm, verify_fits(&job->problem, machine, &why) != 0) == 0;
    phase_hide();
    if (fits)
        caller_print(caller->details,
                     "            several runs computed parts of C, so the files are read back\n");
    else if (caller->comm->rank == 0)
        notice("no full check, so an operand that changed since an earlier run but kept its "
               "times is not detected: %s",
               why.code ? why.text : "another rank has no memory for the full check");
    return fits;
}

int job_publish(const struct caller *caller, const struct machine *machine, struct job *job,
                struct report *report, struct error *err)
{
    const struct output *output = &job->output;
    const bool first = caller->comm->rank == 0,
               checks = caller->options->check.verify != VERIFY_OFF;
    struct error ignored = {0};
    report->findings = job->progress.findings; /* of all runs that had a part in it */
    report->checksum = row_checksums_total(&job->progress.checksums);
    report->complete = true;
    phase_begin("recording the checksum", 0);
    if (report->planned.pieces == 0 && checks)
        report->checked = true; /* by the run that multiplied all, and then read it back */
    if (first && output_fill_statistics(output, &job->problem, err) == 0 && checks)
        output_record(output, report->checksum, err);
    if (comm_agree(caller->comm, err) ||
        (reads_back(caller, machine, job) && read_back(caller, machine, job, report, err)))
        return err->code;
    phase_begin("making C durable", 0);
    /* Where C cannot have its name, it stays for a run that can give it that. */
    if (first && output_complete(output, err) == 0 &&
        output_publish(&job->output, caller->options, err))
        save_complete(job, &ignored);
    job->complete = comm_agree(caller->comm, err) == 0;
    phase_end();
    return err->code;
}

static void remove_sums(const struct file_names *names)
{
    for (int i = 0; i < PLACES; i++)
        unlink(names->sums[i]);
}

/* What a run that was stopped leaves to the next one. */
static void complain_stopped(enum restart restart, bool resumable, double done, struct error *err)
{
    if (!resumable)
        error_add(err, EXIT_STOPPED, "stopped by %s before there was anything to save",
                  stop_reason());
    else
        error_add(err, EXIT_STOPPED,
                  "stopped by %s with %.1f %% done; %sthe same command resumes from there",
                  stop_reason(), 100 * done,
                  restart == RESTART_NEVER ? "without --restart never " : "");
}

double job_conclude(const struct caller *caller, struct job *job, struct error *err)
{
    const bool resumable = err->code && job->journal.saved && !job->complete;
    if (job->output.source.file[0] && !resumable && lock_is_held())
        remove_sums(&job->output.names);
    if (err->code && !resumable)
        output_drop(&job->output);
    output_leave(&job->output);
    journal_close(&job->journal, resumable);
    const double done = resumable ? work_done(&job->progress.left, &job->problem) : job->complete;
    if (err->code == EXIT_STOPPED)
        complain_stopped(caller->options->saving.restart, resumable, done, err);
    return done;
}

void job_remove_rest(struct job *job)
{
    struct error why = {0};
    /* A run that was killed as soon as the output was complete may have left it. */
    if (output_part_exists(&job->output.names, &why)) /* of a run that is to replace this one */
        return;
    if (why.code == 0 && journal_open(&job->journal, true, &why) == 0)
        remove_sums(&job->output.names);
    journal_close(&job->journal, false);
}
