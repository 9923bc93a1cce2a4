/* One invocation of the program: what its phases share, and the phases.  Each phase ends in an
 * agreement of all ranks, so that either all continue or none does. */
#pragma once

#include "advice.h"
#include "journal.h"
#include "options.h"
#include "output.h"
#include "page.h"
#include "placement.h"
#include "report.h"
#include "run.h"
#include "ticker.h"

/* What this rank computes with, and where it is. */
struct hardware {
    struct machine machine;       /* the same on all ranks */
    int gpu;                      /* index, or -1 for the CPU */
    struct device *device;        /* null: not open */
    struct placement placement;   /* of this rank */
    struct placement *placements; /* rank 0: of all ranks, to free */
};

/* An attempt at a piece of the product (work.h), which is planned first and opened then. */
struct attempt {
    struct problem problem; /* the piece */
    struct plan_request request;
    struct plan plan;
    struct simulation predicted; /* rank 0 */
    /* When it is open: */
    struct problem layer;   /* this rank's layer of the problem (layers.h), */
    struct plan layer_plan; /* and the plan of that */
    struct progress before; /* of the whole product */
    struct run run;
    double started; /* clock_now, of the pipeline */
};

/* What is told of the invocation, while it lasts and at its end. */
struct record {
    const char *command;         /* as it was given */
    struct simulation predicted; /* rank 0: of all that was left at the start */
    struct ticker ticker;        /* rank 0 */
    struct report report;
    struct page page; /* this and the trace: of all attempts, on one timeline */
    struct trace trace;
    struct error trace_error; /* the trace could not be written, which does not stop the run */
    double done;              /* the part of the product that is done and saved, at the end */
    int exit_code;            /* EXIT_COMPLETE or EXIT_NOT_CHECKED, unless there is an error */
};

struct session {
    FILE *out; /* the caller's, for what a run says of itself */
    struct options options;
    struct comm comm;
    struct hardware hardware;
    struct problem problem;               /* the whole product, */
    struct source sources[OPERAND_COUNT]; /* and where its operands lie */
    bool described;                /* `problem` is known */
    struct operand_state operands; /* first rank of a computer: their files, when described */
    struct statistics statistics;  /* of a problem that is scaled */
    struct output output;
    struct journal journal;   /* rank 0 */
    bool complete;            /* the output has its name, from this run or an earlier one */
    struct progress progress; /* now; while an attempt is at work, as of the newest save */
    struct work durable;      /* what is left as the journal states it: less may be left */
    double safe_s;            /* what was multiplied after this moment would be lost in a stop */
    bool resumed;             /* from what an earlier run has saved */
    struct attempt attempt;   /* at the first piece that is left */
    struct record record;
    double started;       /* clock_now */
    double startup_ended; /* likewise, of the newest phase of the start */
    struct error err;
};

/* Collective.  Run the program from the parsed command line to the printed report; with
 * --check-only, session_check_output.  Initialises MPI; what follows, up to comm_close, is the
 * caller's, since other ranks may still watch this process. */
int session_run(struct session *session);

/* Collective.  Check an existing output; writes no file but the report. */
int session_check_output(struct session *session);

/* Plan for a machine that need not be there, and simulate the run on it: no MPI, no GPU, no
 * output. */
int session_dry_run(struct session *session);

/* Make the page of a report that an earlier run has written: no MPI, no run.  Prints errors. */
int session_show_report(const struct options *options, struct error *err);

/* Rank 0, at the end, however it came: write the report file and print all errors. */
void session_report(struct session *session);

/* The rest is for the phases themselves.
 *
 * A phase of the start ends now, which began when the one before ended. */
void session_end_startup(struct session *session, enum startup phase);

/* Collective.  All ranks get rank 0's problem, and where its operands lie. */
void session_share_problem(struct session *s);

/* Collective.  Find everything that can be wrong before the work starts, and plan. */
int session_prepare(struct session *session);

/* Plan the attempt at the first piece that is left; on rank 0, predict it.  Pure but for
 * session->err. */
void session_plan(struct session *session);

/* Likewise, and predict all other pieces, too (record.predicted). */
void session_plan_all(struct session *session);

/* About how long it takes to save the sums of a planned attempt, in seconds. */
double attempt_save_seconds(const struct attempt *attempt, const struct machine *machine);

/* Rank 0: about how long it takes from a signal to stop until all is saved, in seconds: the slabs
 * at work end first. */
double attempt_stop_seconds(const struct attempt *attempt, const struct machine *machine);

/* Warn where the plan takes more host memory than is available now on this computer, which has so
 * many ranks: the limits that were given may be too high.  To be called on one rank. */
void session_warn_of_memory(const struct plan *plan, int local_ranks);

/* Of a product in residues, if the problem is one: as many moduli as the operands need, unless the
 * options say how many; a warning where these are too few.  Reads files; not collective. */
int session_choose_moduli(const struct options *options, struct problem *problem,
                          struct error *err);

/* Warn that the CPU computes on a computer that has a GPU. */
void session_warn_of_cpu(void);

/* Collective, after an agreement.  Operands that have changed meanwhile replace any other error,
 * which they may have caused, but for a stop. */
int session_check_operands(struct session *session);

/* Complain that what an earlier run has completed cannot be read. */
void session_complain_unread(struct session *session, const struct error *why);

/* Collective.  Read back what earlier runs have completed and compare it with what they wrote;
 * what is damaged is left to be done.  To be called before anything is multiplied. */
int session_compare(struct session *session);

/* Collective.  Of a problem that is scaled, read the statistics that it needs. */
int session_read_statistics(struct session *session);

/* Collective.  Read them once more, and complain (EXIT_VERIFY) where they differ. */
int session_compare_statistics(struct session *session);

/* Collective.  Of a problem that `measures`, find the largest elements of A and B, and complain
 * where with these C might not fit. */
int session_measure(struct session *session);

/* Collective.  Multiply all that is left, an attempt after the other. */
int session_execute(struct session *session);

/* Warn, on one rank, of what could not be saved, and of what that may cost.  `stops`: the run ends
 * now. */
void session_warn_unsaved(const struct session *session, bool stops, const char *what,
                          const char *why);

/* Collective.  All is multiplied: check the files as far as that is asked for or needed, and give
 * the output its name. */
int session_publish(struct session *session);

/* Rank 0, at the end: keep what another run can resume from, remove everything else, and record
 * how much is done. */
void session_conclude(struct session *session);

/* Collective.  The output was complete before this run: say so, remove what else that run has left,
 * and check the output where --verify full asks for that. */
int session_find_complete(struct session *session);

/* What advice on the planned attempt depends on, which may be at work or over. */
struct advice session_advice(const struct session *session);

/* Rank 0: print what is to be done, in a few lines. */
void session_print_begin(const struct session *session);

/* Rank 0, at the end: print what a run that was stopped did, and how much is done. */
void session_print_stopped(struct session *session);

/* Collective.  Print what the run did and its result, and write the page. */
int session_print_report(struct session *session);

/* Rank 0: warn where a page or trace was asked for and nothing was multiplied that it could
 * show. */
void session_warn_unwritten(const char *what, const char *path);
