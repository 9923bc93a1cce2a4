/* Checkpoints: saving a run while it is at work, so that another one can resume from there.
 *
 * Between two slabs all ranks ask each other now and then whether one of them wants to save or to
 * stop (stop.h), and how far they are.  All save at the same slab: what is complete of C is made
 * durable, then the sums of the tiles at work, which have been checked, in one of two files beside
 * C that take turns, so that the save before stays whole until this one is; then `done` is called,
 * which makes it known (journal.h).
 *
 * A save that fails, for lack of room or whatever else, ends no run: it is said, and the next one
 * tries again.  Only C itself must be written. */
#ifndef DGEMM_OOC_SAVE_H
#define DGEMM_OOC_SAVE_H

#include "bands.h"
#include "error.h"
#include "findings.h"
#include "stop.h"
#include "tally.h"
#include "work.h"

struct run;
struct store;

/* What all ranks have saved. */
struct saved {
    int64_t supers;           /* super-blocks that are complete */
    struct piece piece;       /* of the next one: k, place, sum */
    struct bands bands;       /* the checksum of what this run has completed */
    struct findings findings; /* of the check, by this run so far */
    double since;             /* what was multiplied after this moment (clock_now) is not saved */
    bool stops;               /* the run ends now */
    const char *note;         /* on one rank: why the sums at work are not saved; empty: they are */
};

/* What the ranks ask each other, added up over them.  Nothing but doubles. */
struct ballot {
    double stop, save; /* who wants that */
    struct tally tally;
};

struct saver {
    /* On all ranks; `known`: a run that resumes will find it. */
    int (*done)(void *context, const struct saved *saved, bool *known, struct error *err);
    int (*met)(void *context, const struct tally *all, struct error *err); /* now and then */
    void (*stops)(void *context, double save_s); /* a save begins, after which the run ends; those
                                                    before took so long, 0: there were none */
    void *context;
    const struct work *known; /* what another run would find now */

    int place;             /* of the next save */
    int64_t holds[PLACES]; /* the super-block whose sums a file was made for; -1: none */
    double super_began;    /* clock_now */
    _Atomic bool failed;   /* this rank could not write its sums, */
    struct error why;      /* for this reason */
    int64_t period;        /* steps between two meetings */
    int64_t steps;         /* so far */
    int64_t common;        /* steps that all ranks take: layers may have fewer slabs than others */
    bool meeting;          /* one has begun */
    struct ballot ballot;  /* of it */
    double met_s;          /* when the last one was; of a single rank */
    int saves;             /* so far */
    double saves_s;        /* that they took */
    bool of_sums;          /* what the outlet writes now is sums, not C */
    _Atomic uint64_t sum;  /* of them */
    struct store *stores[PLACES];
};

/* The file of saved sums: as large as C, with holes where nothing was saved. */
int save_name(const struct matrix_info *output, int place, struct matrix_info *info,
              struct error *err);

void save_open(struct run *run);
void save_close(struct run *run);

/* A step is through: `slabs` of the super-block, of which this rank has `tile`, or none.  Saves
 * where some rank asks for it.  EXIT_STOPPED when that was to be the end. */
int save_step(struct run *run, int64_t super, int64_t slabs, const struct block *tile,
              struct error *err);

/* After the last step. */
int save_finish(struct run *run, struct error *err);

/* Part of a save, from any thread: write a block of the tile at work. */
void save_write(struct run *run, const struct block *block, const void *memory);

/* Collective, before run_execute.  Bring back the sums that an earlier run has saved of this piece.
 * `whole`: they are what was saved; each is read only once. */
int save_load(struct run *run, bool *whole, struct error *err);

#endif
