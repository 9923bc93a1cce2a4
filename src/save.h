/* Saving a run while it goes on, so that another one can go on from there.
 *
 * Between two slabs all ranks ask each other now and then whether one of them wants to save or to
 * stop (stop.h), and how far they are.  All save at the same slab: what is complete of C is made
 * durable, then the sums of the tiles at work, which have been checked, in one of two files beside
 * C that take turns, so that the save before stays whole until this one is; then `done` is called,
 * which makes it known (journal.h). */
#ifndef DGEMM_OOC_SAVE_H
#define DGEMM_OOC_SAVE_H

#include "stop.h"
#include "tally.h"
#include "work.h"

struct comm;
struct error;
struct run;
struct store;

/* What all ranks have saved. */
struct saved {
    int64_t supers;     /* super-blocks that are complete */
    struct piece piece; /* of the next one: k, place, sum */
    uint64_t checksum;  /* of what this run has completed */
    double residual;    /* largest so far */
    int64_t not_finite; /* rows */
    const char *note;   /* why the sums at work are not saved; empty: they are */
};

/* What the ranks ask each other, added up over them.  Nothing but numbers of 64 bits. */
struct ballot {
    uint64_t stop, save; /* who wants that */
    struct tally tally;
};

struct saver {
    int (*done)(void *context, const struct saved *saved, struct error *err); /* on all ranks */
    void (*met)(void *context, const struct tally *all);                      /* now and then */
    void *context;
    char note[512];       /* rank 0: why there is no place for sums now */
    int place;            /* of the next save */
    int64_t period;       /* steps between two meetings */
    int64_t steps;        /* so far */
    int64_t common;       /* steps that all ranks take: layers may have fewer slabs than others */
    bool meeting;         /* one has begun */
    struct ballot ballot; /* of it */
    double met_s;         /* when the last one was; of a single rank */
    int saves;            /* so far */
    double saves_s;       /* that they took */
    bool of_sums;         /* what the outlet writes now is sums, not C */
    _Atomic uint64_t sum; /* of them */
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

/* Collective.  The checksum of a block of C, or of saved sums, as it is in its file.  False when it
 * cannot be read. */
bool save_sum(const struct problem *problem, const struct matrix_info *info,
              const struct block *block, const struct comm *comm, uint64_t *sum, struct error *err);

/* Bring back the sums of a tile that were saved by an earlier run. */
int save_load(struct run *run, const struct block *tile, struct error *err);

#endif
