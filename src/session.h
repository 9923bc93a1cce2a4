/* A run of the program: what its phases share.  Each phase ends in an agreement of all ranks, so
 * that all go on or none. */
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
    struct plan_request request;
    struct plan plan, part_plan;
    int gpu; /* index, or -1 for the CPU */
    enum algorithm algorithm;
    struct device *device;
    struct place place;
    struct progress progress; /* of the whole; at its newest, what is saved */
    struct progress begun;    /* as it was when the piece at work began */
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
    struct error err;
};

/* Of the first piece that is left: request, algorithm and plan.  Pure but for session->err. */
void session_plan(struct session *session);

/* Complain where this rank does not see the same files as rank 0. */
void session_check_visible(const struct problem *problem, struct error *err);

/* Collective.  Everything that can be found wrong before the work starts. */
int session_prepare(struct session *session);

/* About how long it takes to save, from when that is asked for. */
double session_save_seconds(const struct session *session);

/* Collective.  Take the output and its journal, multiply all that is left, and give the output its
 * name. */
int session_open_output(struct session *session);
int session_execute(struct session *session);

/* Rank 0: of what is not complete stays what another run can go on from, everything else goes;
 * `done` is how much of it. */
void session_leave(struct session *session);

/* Rank 0: the output was complete before. */
void session_say_complete(struct session *session);

#endif
