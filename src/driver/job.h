/* One product, from its operands to its C, and the steps that make it, which a program can call:
 *
 *     hardware_find     this rank's GPU, and the machine (hardware.h)
 *     job_open          what the operands are, and what earlier runs have left of C
 *     hardware_probe    how fast the files are, if job->described
 *     job_plan          how what is left is to be multiplied
 *     job_resume        take C for this run, and compare what is complete of it
 *     hardware_open     the device
 *     job_begin         means and deviations; C's file
 *     job_run           multiply what is left
 *     job_publish       check the files as was asked for, and give C its name
 *     job_conclude      keep what another run can resume from, and remove everything else
 *     hardware_close, job_close
 *
 * or job_check, for a C that is there.  All but job_conclude are collective over the ranks of the
 * caller, who has opened these (comm_impl.h, nodes.h), and block until they are done.  They print
 * to the caller's streams; warnings are notices (notice.h).
 *
 * Each adds what is wrong to `err` and returns its code.  Complaints up to job_plan are gathered,
 * and there they become one error of all ranks; each later step ends in such an agreement.  After
 * an error only the last lines are due: job_conclude if job_resume was called, and those that
 * close.  What is handed in stays the caller's.  What is filled begins as zeros.
 *
 * A process has one job at a time: its lock, what it leaves behind and signals are the process's
 * (lock.h, leftovers.h, stop.h). */
#pragma once

#include "caller.h"
#include "hardware.h"
#include "journal.h"
#include "outlook.h"
#include "output.h"
#include "page.h"
#include "report.h"

struct job {
    struct problem problem;
    struct source sources[OPERAND_COUNT]; /* where its operands lie */
    bool described;                       /* `problem` is known */
    struct operand_state operands; /* first rank of a computer: their files, when described */
    struct statistics statistics;  /* of a problem that is scaled */
    struct output output;
    struct journal journal;   /* rank 0 */
    bool complete;            /* the output has its name, from this run or an earlier one */
    bool resumed;             /* from what an earlier run has saved */
    struct progress progress; /* now; while an attempt is at work, as of the newest save */
    struct work durable;      /* what is left as the journal states it: less may be left */
    double safe_s;            /* what was multiplied after this moment would be lost in a stop */
};

/* What is known of the work of this run, while it lasts and after it. */
struct record {
    struct report report;     /* rank 0 */
    struct page page;         /* of all attempts, on one timeline; where files.html is named */
    struct error trace_error; /* rank 0: the trace could not be written, which stops no run */
    double began;             /* clock_now, when the first attempt began; 0: none has */
};

/* Fills `job`; job_close is due, also after an error.  `complete`: C was there before. */
int job_open(const struct caller *caller, struct job *job, struct error *err);

/* Part of it, on one rank: the problem alone.  Reads files. */
int job_describe(const struct caller *caller, struct job *job, struct error *err);

/* Unless it is complete, plan what is left. */
int job_plan(const struct caller *caller, const struct machine *machine, struct job *job,
             struct outlook *outlook, struct error *err);

/* From now on other runs are refused this output.  Read back what earlier runs have completed and
 * compare it with what they wrote; what is damaged is planned to be done again.  Into the report:
 * what was compared. */
int job_resume(const struct caller *caller, const struct machine *machine, struct job *job,
               struct outlook *outlook, struct report *report, struct error *err);

/* What has to be known of the elements of A and B is read, and a new output is created. */
int job_begin(const struct caller *caller, const struct machine *machine, struct job *job,
              const struct outlook *outlook, struct error *err);

/* An attempt after the other.  stop.h ends it early (EXIT_STOPPED), when all is saved.
 * `outlook->first` becomes the newest attempt. */
int job_run(const struct caller *caller, const struct hardware *hardware, struct job *job,
            struct outlook *outlook, struct record *record, struct error *err);

/* All is multiplied.  Into the report: what the check has found. */
int job_publish(const struct caller *caller, const struct machine *machine, struct job *job,
                struct report *report, struct error *err);

/* Rank 0.  Returns the part of the product that is done and saved. */
double job_conclude(const struct caller *caller, struct job *job, struct error *err);

/* Rank 0: the product was complete when it was opened.  Remove what else that run has left. */
void job_remove_rest(struct job *job);

/* Check the C that options->output names against the operands that it says it was made from, unless
 * the options name others.  Writes nothing.  Fills `job`, as job_open does, and `found`. */
int job_check(const struct caller *caller, struct hardware *hardware, struct job *job,
              struct verify *found, struct error *err);

void job_close(struct job *job);

/* The rest is for the steps themselves.
 *
 * After an agreement.  Operands that have changed meanwhile replace any other error, which they may
 * have caused, but for a stop. */
int job_check_operands(const struct caller *caller, const struct job *job, struct error *err);

/* All ranks get rank 0's problem, and where its operands lie. */
void job_share_problem(const struct caller *caller, struct job *job);

/* What job_plan plans, on each rank by itself, without reading a file: all pieces that are left,
 * which rank 0 predicts.  Triangles are halved where that is better, and `job->problem.symmetric`
 * becomes false where the general product is clearly faster.  job_plan_first: the first piece
 * alone, after what is left has changed. */
int job_foresee(const struct caller *caller, const struct machine *machine, struct job *job,
                struct outlook *outlook, struct error *err);
int job_plan_first(const struct caller *caller, const struct machine *machine, struct job *job,
                   struct outlook *outlook, struct error *err);

/* Create the output that was taken, made from so many parts of k; or open the one that an earlier
 * run has left. */
int job_create_output(const struct caller *caller, struct job *job, struct error *err);

/* Of a problem that is scaled, read the statistics that it needs; `predicted_s`: in so many
 * seconds.  Read them once more, and complain (EXIT_VERIFY) where they differ.  Or let the product
 * find them (first_read_is_product): before and after it; `again`: it has to be repeated. */
int job_read_statistics(const struct caller *caller, const struct machine *machine, struct job *job,
                        double predicted_s, struct error *err);
int job_compare_statistics(const struct caller *caller, const struct machine *machine,
                           const struct job *job, struct error *err);
int job_begin_statistics(const struct caller *caller, const struct machine *machine,
                         struct job *job, struct error *err);
void job_end_statistics(const struct caller *caller, const struct job *job, bool again);

/* Of a problem that `measures`, find the largest elements of A and B, and complain where with these
 * C might not fit. */
int job_measure(const struct caller *caller, const struct machine *machine, const struct job *job,
                double predicted_s, struct error *err);

/* Collective, blocks.  Check C, and what is beside it of a normal product, against A and B
 * (verify.h). */
int job_verify(const struct caller *caller, const struct machine *machine, const struct job *job,
               const struct source *c, struct verify *found, struct error *err);

/* Warn, on one rank, of what could not be saved, and of what that may cost.  `stops`: the run ends
 * now. */
void job_warn_unsaved(const struct job *job, bool stops, const char *what, const char *why);
