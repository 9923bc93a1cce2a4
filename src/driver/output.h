/* The output file: made under the name FILE.part, given its final name when it is complete and
 * durable. Rank 0 alone calls this; it tells the others where the bytes go. */
#ifndef DGEMM_OOC_OUTPUT_H
#define DGEMM_OOC_OUTPUT_H

#include "options.h"
#include "problem.h"

struct output {
    struct matrix_info info; /* of the part file: what the ranks write to */
    int lock;                /* descriptor that holds the part file's lock; -1: none */
};

/* Complain about everything that would keep the output from being written: it exists, it is an
 * input, its directory is missing or not writable, too little space.  `again`: its space is taken
 * already.  Touches nothing. */
int output_check(const struct options *options, const struct problem *p, bool again,
                 struct error *err);

/* Complain of the names of report and trace: where they would take the place of an input, of the
 * output, or of each other, and where they cannot be written. */
int output_check_beside(const struct options *options, const struct problem *p, struct error *err);

/* Whether the output exists and is the product with this identity (journal.h), which nobody has
 * asked for anew. */
bool output_is_complete(const struct options *options, uint64_t identity);

/* The part file's name; empty when too long. */
void output_part(const struct options *options, char part[PATH_MAX]);

/* Whether there is a part file. */
bool output_is_there(const struct options *options);

/* Create the part file, or take it `again`, which must be as the run has left it that made it. */
int output_create(struct output *output, const struct options *options, const struct problem *p,
                  uint64_t identity, int layers, bool again, struct error *err);

/* Everything is written and synced: record the checksum of C in the file. */
int output_record(const struct output *output, uint64_t checksum, struct error *err);

/* Everything is written: make it durable.  Complains where the part file is not this run's any
 * more. */
int output_sync(const struct output *output, struct error *err);

/* Give it its final name.  A file that has got this name meanwhile is replaced only by --force, and
 * only when it may be. */
int output_finish(struct output *output, const struct options *options, struct error *err);

/* Remove what is not complete. */
void output_drop(struct output *output);

/* An output that is there, and the checksum in it. */
struct recall {
    struct matrix_info info;
    bool has_checksum; /* outputs of other programs have none */
    uint64_t checksum;
};

/* Describe the output that the options name, and set those options that say how it was made as it
 * says.  Complains (EXIT_INPUT) about options that were given and say otherwise, and of operands
 * also where a default does.  Touches nothing. */
int output_recall(struct options *options, struct recall *recall, struct error *err);

#endif
