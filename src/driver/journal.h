/* The journal of a run, OUTPUT.h5.journal: what is being multiplied, by whom, and, after each save,
 * what is left to do.  Lines of JSON, each behind its hash; a line is appended when all that it
 * speaks of is durable, and never changed, so that whatever moment a run ends at, the last whole
 * line is true.  Rank 0 alone calls this.
 *
 * What was multiplied is known by its operands (size, time of change, a hash of samples) and by all
 * that decides the bits.  Who is at work holds the file's lock, or what stands in for it
 * (lock.h). */
#ifndef DGEMM_OOC_JOURNAL_H
#define DGEMM_OOC_JOURNAL_H

#include "bands.h"
#include "findings.h"
#include "operand_state.h"
#include "options.h"
#include "work.h"

struct json_t;

/* Plain data: what the newest line says. */
struct progress {
    struct work left;
    struct bands bands;       /* the checksum of what is complete */
    struct findings findings; /* of the check, so far */
    double seconds;           /* that all runs together have taken */
    int layers;               /* parts of k */
    bool trusted;             /* a run went on from what was complete without comparing it */
    bool saved;               /* there is such a line */
};

struct journal {
    char path[PATH_MAX], lock[PATH_MAX];
    struct json_t *product; /* what is multiplied, and what decides the bits */
    int descriptor;         /* -1: not open */
    int64_t bytes;          /* that were there when it was read; -1: it was not */
    bool locked;            /* by this run */
    bool saved;             /* it holds something to resume from */
};

/* Say what the product is.  journal_close is due after it. */
int journal_describe(struct journal *journal, const struct options *options,
                     const struct problem *p, const struct operand_state *operands,
                     struct error *err);

/* A hash of that, for the output's attribute: equal for equal products. */
uint64_t journal_identity(const struct journal *journal);

/* Look at the journal beside the output.  `progress->saved` says whether there is something to go
 * on from.  Complains (EXIT_INPUT) when another run is at work, naming it, when the journal is of
 * another product, naming the first difference, and when --restart require finds none.  Changes
 * nothing. */
int journal_read(struct journal *journal, enum restart restart, const struct problem *p,
                 struct progress *progress, struct error *err);

/* Take the journal for this run: a new one, or the one that was read, as it was then. */
int journal_open(struct journal *journal, bool again, struct error *err);

/* Append a line, durably; after a failure the journal says what it said before. */
int journal_save(struct journal *journal, const struct progress *progress, struct error *err);

/* Let go of it, and remove it unless it `stays`. */
void journal_close(struct journal *journal, bool stays);

#endif
