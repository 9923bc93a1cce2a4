/* What a run knows of its checkpoints (save.h). */
#pragma once

#include "error.h"
#include "file_names.h"
#include "findings.h"
#include "row_checksums.h"
#include "slot.h"
#include "stop.h"
#include "timeline.h"
#include "work.h"

struct store;

/* What all ranks have saved. */
struct saved {
    int64_t supers;                 /* super-blocks that are complete */
    struct piece piece;             /* of the next one: k, place, sum */
    struct row_checksums checksums; /* the checksum of what this run has completed */
    struct findings findings;       /* of the check, by this run so far */
    double since;     /* what was multiplied after this moment (clock_now) is not saved */
    bool stops;       /* the run ends now */
    const char *note; /* on one rank: why the sums at work are not saved; empty: they are */
};

/* What the ranks vote on, added up over them.  Nothing but doubles. */
struct vote {
    double stop, save; /* ranks that want it */
    double late;       /* ranks that were last asked longer ago than votes should be apart */
    struct run_totals done;
};

struct saver {
    /* Called on all ranks.  done: a checkpoint is complete; `known`: a run that resumes will find
     * it.  met: after a vote.  stops: a checkpoint begins, after which the run ends; by the pace
     * so far, and that of the checkpoints before it, it takes stop_s seconds. */
    int (*done)(void *context, const struct saved *saved, bool *known, struct error *err);
    int (*met)(void *context, const struct run_totals *all, struct error *err);
    void (*stops)(void *context, double stop_s);
    void *context;
    const struct file_names *names;
    const struct work *known; /* what another run would find now */

    int place;             /* the file of the next checkpoint's sums */
    double began;          /* clock_now, of the run; */
    double super_began;    /* of the super-block */
    _Atomic bool failed;   /* this rank could not write its sums, */
    struct error why;      /* for this reason */
    int64_t most_gap;      /* steps between two votes, as planned; */
    int64_t gap;           /* and now: fewer at the start, and where steps take longer */
    int64_t vote_step;     /* with which the last one began; -1: none has, */
    double asked;          /* clock_now: when it was last asked whether to stop, or had saved */
    int64_t steps;         /* so far */
    int64_t common;        /* steps that all ranks take: layers may have fewer slabs than others */
    bool voting;           /* a vote is in flight */
    struct vote vote;      /* that one */
    double met_s;          /* when a single rank last called `met` */
    int saves;             /* checkpoints so far */
    double saves_s;        /* seconds that they took; */
    double longest_s;      /* the longest of them */
    struct sink sums;      /* where sums go that are saved; */
    _Atomic uint64_t sum;  /* their checksum */
    struct store *stores[PLACES];
};
