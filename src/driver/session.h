/* A run of the program: what its phases share.  Each phase ends in an agreement of all ranks, so
 * that all continue or none. */
#ifndef DGEMM_OOC_SESSION_H
#define DGEMM_OOC_SESSION_H

#include "journal.h"
#include "options.h"
#include "output.h"
#include "page.h"
#include "place.h"
#include "report.h"
#include "run.h"
#include "ticker.h"

struct session {
    struct options options;
    struct comm comm;
    struct machine machine;
    struct problem problem, piece, part; /* the whole; what is at work; this rank's layer of it */
    int described;                       /* whether the problem is */
    struct operand_state operands;       /* rank 0: as they were then */
    struct plan_request request;
    struct plan plan, part_plan;
    struct simulation predicted, all; /* rank 0: of the plan; of all that was left at first */
    int gpu;                          /* index, or -1 for the CPU */
    enum algorithm algorithm;
    struct device *device;
    struct place place;
    struct progress progress; /* of the whole; at its newest, what is saved */
    struct progress begun;    /* as it was when the piece at work began */
    struct work known;        /* what another run would find to be left */
    bool went_on;             /* from what an earlier run has saved */
    double safe_s;            /* what was multiplied after this moment would be lost */
    uint64_t identity;
    bool complete; /* the output is there, as asked for, of this run or of one before */
    struct journal journal;
    struct output output;
    struct run run;
    struct ticker ticker;          /* of rank 0 */
    struct place *places;          /* of all ranks; rank 0's to free */
    const char *command;           /* as it was given */
    double done;                   /* the part of the product that is done and saved, at the end */
    double started, piece_started; /* clock_now */
    struct report report;
    struct page page; /* these two of all pieces */
    struct trace trace;
    struct error of_trace; /* which is no failure of the run's */
    int verdict;           /* EXIT_COMPLETE or EXIT_NOT_CHECKED, when all went well */
    struct error err;
};

/* Collective, with MPI initialised within: a run, from the command line to the report, or with
 * --check-only session_check_output.  The rest of MPI's life is the caller's: others may still
 * watch this process. */
int session_run(struct session *session);

/* Collective.  Check an output that is there; writes nothing but the report. */
int session_check_output(struct session *session);

/* Plan for a machine that may not be there, and simulate the run on it: no MPI, no GPU, no
 * output. */
int session_dry_run(struct session *session);

/* What there is to tell of the run, which refers to the session. */
struct account session_account(const struct session *session);

/* Rank 0, at the end, whatever it was: the report file, and all that went wrong. */
void session_tell(struct session *session);

/* The page of a report that an earlier run has saved: no MPI, no run.  What goes wrong is
 * printed. */
int session_show_report(const struct options *options, struct error *err);

/* Rank 0 warns where the plan takes more memory than there is now on its computer, which has so
 * many ranks: the limits that were given may be more. */
void session_warn_of_memory(const struct session *session, int local_ranks);

/* Of the first piece that is left: request, algorithm and plan; on rank 0, what it is predicted to
 * take.  Pure but for session->err. */
void session_plan(struct session *session);

/* Complain where this rank does not see the same files as rank 0. */
void session_check_visible(const struct problem *problem, struct error *err);

/* Collective, after an agreement.  Operands that have changed are what went wrong, whatever it was
 * that came of it, but for a stop. */
int session_check_operands(struct session *session);

/* Collective.  Everything that can be found wrong before the work starts. */
int session_prepare(struct session *session);

/* Say why the CPU computes on a computer that has a GPU. */
void session_say_cpu(void);

/* About how long it takes to save, from when that is asked for. */
double session_save_seconds(const struct session *session);

/* Collective.  Take the output and its journal, multiply all that is left, and give the output its
 * name. */
int session_open_output(struct session *session);
int session_execute(struct session *session);

/* Collective.  Before anything is multiplied: read back what earlier runs have completed, and
 * compare it with what they wrote.  What is damaged is left to be done. */
int session_compare(struct session *session);

/* Collective.  Make pieces of the first one until each can be one super-block, where sums of it
 * were saved by ranks with more memory. */
int session_split(struct session *session);

/* What was saved of the first piece is damaged: it is multiplied from the beginning. */
void session_begin_anew(struct session *session);

/* Collective.  Tiles that failed their check are left to be done, once more. */
int session_note_failures(struct session *session);

/* Rank 0: of what is not complete stays what another run can resume from, everything else goes;
 * `done` is how much of it. */
void session_leave(struct session *session);

/* Rank 0: the output was complete before. */
void session_say_complete(struct session *session);

/* Rank 0: nothing was multiplied that a page or a trace could show. */
void session_say_unwritten(const struct session *session, const char *what, const char *path);

#endif
