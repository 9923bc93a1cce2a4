/* After the work: the files are checked, C gets its name, and what the run no longer needs goes. */
#include <stdio.h>
#include <unistd.h>

#include "error.h"
#include "leftovers.h"
#include "lock.h"
#include "phase.h"
#include "session.h"
#include "verify.h"

/* Rank 0: make what is complete something to resume from. */
static bool save_complete(struct session *s, struct error *why)
{
    s->progress.saved = true;
    if (journal_save(&s->journal, &s->progress, why))
        return false;
    leftovers_keep();
    return true;
}

/* Collective.  Read all matrices back, in the memory that the pipeline has given back.  The product
 * is saved before, and discarded when it is found to be wrong. */
static int read_back(struct session *s)
{
    struct verify *full = &s->record.report.full;
    struct error why = {0};
    s->progress.saved = true;
    if (s->comm.rank == 0 && !save_complete(s, &why))
        session_warn_unsaved(s, false, "", why.text);
    *full = (struct verify){.seed = s->options.check_seed,
                            .has_expected = true,
                            .expected = s->record.report.checksum,
                            .statistics = &s->statistics};
    if (s->comm.rank == 0)
        output_compare_part(&s->output, &s->problem, &s->err);
    if (comm_agree(&s->comm, &s->err) == 0 && session_compare_statistics(s) == 0)
        verify_files(&s->problem, &s->output.source, &s->hardware.machine, &s->comm, full, &s->err);
    session_check_operands(s);
    if (s->err.code == EXIT_VERIFY && s->resumed)
        error_add(&s->err, EXIT_VERIFY,
                  "an operand or C may have changed since an earlier run; the checkpoint is "
                  "discarded, and the same command starts from the beginning");
    s->journal.saved &= s->err.code != EXIT_VERIFY;
    return s->err.code;
}

/* Collective.  Whether all files are read back: as asked for, or because several runs had a part in
 * C.  Between these an operand may have changed silently and kept its times. */
static bool reads_back(const struct session *s)
{
    const bool speaks = s->comm.rank == 0;
    struct error why = {0};
    if (s->options.verify != VERIFY_ONLINE || !s->resumed || s->options.restart == RESTART_TRUST)
        return s->options.verify == VERIFY_FULL;
    bool fits = comm_sum(&s->comm, verify_fits(&s->problem, &s->hardware.machine, &why) != 0) == 0;
    phase_hide();
    if (speaks && !fits)
        fprintf(stderr,
                "dgemm_ooc: no full check, so an operand that changed since an earlier run but "
                "kept its times is not detected: %s\n",
                why.code ? why.text : "another rank has no memory for the full check");
    if (speaks && fits && s->options.verbose)
        fprintf(s->out,
                "            several runs computed parts of C, so the files are read back\n");
    return fits;
}

int session_publish(struct session *s)
{
    struct report *r = &s->record.report;
    struct error ignored = {0};
    r->findings = s->progress.findings; /* of all runs that had a part in it */
    r->checksum = row_checksums_total(&s->progress.checksums);
    r->complete = true;
    phase_begin("recording the checksum", 0);
    if (r->planned.pieces == 0 && s->options.verify != VERIFY_OFF)
        r->checked = true; /* by the run that multiplied all, and then read it back */
    if (s->comm.rank == 0 && s->options.verify != VERIFY_OFF)
        output_record(&s->output, r->checksum, &s->err);
    if (comm_agree(&s->comm, &s->err) || (reads_back(s) && read_back(s)))
        return s->err.code;
    phase_begin("making C durable", 0);
    /* Where C cannot have its name, it stays for a run that can give it that. */
    if (s->comm.rank == 0 && output_complete(&s->output, &s->err) == 0 &&
        output_publish(&s->output, &s->options, &s->err))
        save_complete(s, &ignored);
    s->complete = comm_agree(&s->comm, &s->err) == 0;
    phase_end();
    return s->err.code;
}

static void remove_sums(const struct file_names *names)
{
    for (int i = 0; i < PLACES; i++)
        unlink(names->sums[i]);
}

/* What a run that was stopped leaves to the next one. */
static void complain_stopped(struct session *s, bool resumable)
{
    if (!resumable)
        error_add(&s->err, EXIT_STOPPED, "stopped by %s before there was anything to save",
                  stop_reason());
    else
        error_add(&s->err, EXIT_STOPPED,
                  "stopped by %s with %.1f %% done; %sthe same command "
                  "resumes from there",
                  stop_reason(), 100 * s->record.done,
                  s->options.restart == RESTART_NEVER ? "without --restart never " : "");
}

void session_conclude(struct session *s)
{
    const bool resumable = s->err.code && s->journal.saved && !s->complete;
    if (s->output.source.file[0] && !resumable && lock_is_held())
        remove_sums(&s->output.names);
    if (s->err.code && !resumable)
        output_drop(&s->output);
    journal_close(&s->journal, resumable);
    s->record.done = s->complete ? 1 : 0;
    if (resumable)
        s->record.done = work_done(&s->progress.left, &s->problem);
    if (s->err.code == EXIT_STOPPED)
        complain_stopped(s, resumable);
}

/* Rank 0: a run that was killed as soon as the output was complete may have left the rest. */
static void remove_rest(struct session *s)
{
    struct error why = {0};
    if (output_part_exists(&s->output.names, &why)) /* of a run that is to replace this output */
        return;
    if (why.code == 0 && journal_open(&s->journal, true, &why) == 0)
        remove_sums(&s->output.names);
    journal_close(&s->journal, false);
}

int session_find_complete(struct session *s)
{
    struct options *o = &s->options;
    const bool speaks = s->comm.rank == 0;
    o->check_only = o->verify == VERIFY_FULL;
    o->given.a = o->given.b = o->given.c =
        true; /* these operands, wherever C says that they were */
    s->record.done = 1;
    if (speaks) {
        remove_rest(s);
        session_warn_unwritten("page", o->html);
        session_warn_unwritten("trace", o->trace);
    }
    if (speaks && !o->check_only)
        fprintf(s->out, "RESULT: C complete: %s:%s was made from these operands already\n",
                o->output.file, o->output.dataset);
    else if (speaks && !o->quiet)
        fprintf(s->out, "Note        %s:%s was made from these operands already; it is checked\n",
                o->output.file, o->output.dataset);
    return o->check_only ? session_check_output(s) : 0;
}
