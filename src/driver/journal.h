/* The journal of a run (names.journal): what is being multiplied, by which process, and, after each
 * save, what is left to do.  It consists of lines of JSON, each behind its hash.  A line is
 * appended when all that it states is durable, and is never changed, so that the last complete line
 * is true whatever moment a run ends at.  Rank 0 alone calls this.
 *
 * A product is identified by its operands (size, time of change, a hash of samples) and by all that
 * decides the bits.  The run at work holds the file's lock, or its substitute (lock.h). */
#pragma once

#include "file_names.h"
#include "findings.h"
#include "operand_state.h"
#include "options.h"
#include "row_checksums.h"
#include "work.h"

struct json_t;

/* Plain data: the state of a product, as the newest line states it. */
struct progress {
    struct work left;
    struct row_checksums checksums; /* the checksum of what is complete */
    struct findings findings;       /* of the check, so far */
    double seconds;                 /* that all runs together have taken */
    bool trusted;                   /* a run resumed without comparing what was complete */
    bool saved;                     /* the journal has such a line */
};

struct journal {
    const struct file_names *names;
    struct json_t *product; /* what is multiplied, and what decides the bits */
    int descriptor;         /* -1: not open */
    int64_t bytes;          /* that were there when it was read; -1: it was not */
    bool earlier;           /* it has what an earlier run has saved, and this one will discard */
    bool locked;            /* by this run */
    bool saved;             /* it holds something to resume from */
};

/* Begin with the description of the product.  The names stay the caller's, and valid until
 * journal_close, which is due after it. */
void journal_describe(struct journal *journal, const struct file_names *names,
                      const struct options *options, const struct problem *p,
                      const struct operand_state *operands);

/* A hash of the description, for the output's attribute: equal for equal products. */
uint64_t journal_identity(const struct journal *journal);

/* Read the journal beside the output.  `progress->saved` states whether there is something to
 * resume from.  Complains (EXIT_INPUT) when another run is at work, which is named; when the
 * journal is of another product, with the first difference; and when --restart require finds none.
 * Changes no file. */
int journal_read(struct journal *journal, enum restart restart, const struct problem *p,
                 struct progress *progress, struct error *err);

/* Lock the journal for this run and record the process: a new journal or the one that was read,
 * unchanged since.  What an earlier run has saved stays in it, whether this one has `resumed` from
 * that or not. */
int journal_open(struct journal *journal, bool resumed, struct error *err);

/* Discard what an earlier run has saved, if this one has not resumed. */
int journal_begin(struct journal *journal, struct error *err);

/* Append a line, durably.  After a failure the journal states what it stated before. */
int journal_save(struct journal *journal, const struct progress *progress, struct error *err);

/* Close the journal and give back its lock; remove the file unless `keep`, or unless it still has
 * what an earlier run has saved. */
void journal_close(struct journal *journal, bool keep);
