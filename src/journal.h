/* The journal of a run, OUTPUT.h5.journal: what is being multiplied, by whom, and, after each save,
 * what is left to do.  Lines of JSON, each behind its hash; a line is appended when all that it
 * speaks of is durable, and never changed, so that whatever moment a run ends at, the last whole
 * line is true.  Rank 0 alone calls this.
 *
 * What was multiplied is known by its operands (size, time of change, a hash of samples) and by all
 * that decides the bits.  Who is at work holds the file's lock. */
#ifndef DGEMM_OOC_JOURNAL_H
#define DGEMM_OOC_JOURNAL_H

#include "options.h"
#include "work.h"

struct json_t;

/* Plain data: what the newest line says. */
struct progress {
    struct work left;
    uint64_t checksum; /* of what is complete */
    double residual;   /* the largest so far */
    int64_t not_finite;
    double seconds; /* that all runs together have taken */
    int layers;     /* parts of k */
    bool saved;     /* there is such a line */
};

struct journal {
    char path[PATH_MAX];
    struct json_t *product; /* what is multiplied, and what decides the bits */
    int descriptor;         /* -1: not open */
    bool locked;            /* by this run */
    bool saved;             /* it holds something to go on from */
};

/* Say what the product is: the operands are looked at here, and only here.  journal_close is due
 * after it. */
int journal_describe(struct journal *journal, const struct options *options,
                     const struct problem *p, struct error *err);

/* A hash of that, for the output's attribute: equal for equal products. */
uint64_t journal_identity(const struct journal *journal);

/* Look at the journal beside the output.  `progress->saved` says whether there is something to go
 * on from.  Complains (EXIT_INPUT) when another run is at work, naming it, when the journal is of
 * another product, naming the first difference, and when --restart require finds none.  Changes
 * nothing. */
int journal_read(const struct journal *journal, enum restart restart, const struct problem *p,
                 struct progress *progress, struct error *err);

/* Take the journal for this run: a new one, or the one that was read. */
int journal_open(struct journal *journal, bool again, struct error *err);

/* Append a line, durably. */
int journal_save(struct journal *journal, const struct progress *progress, struct error *err);

/* Let go of it, and remove it unless it `stays`. */
void journal_close(struct journal *journal, bool stays);

#endif
