/* The files that the operands are read from, as they were when the operands were described.  A file
 * that changes while it is read would make a product of no matrix at all.
 *
 * A file is identified by its size, its time of change and a hash of samples of its content, which
 * do not change when the file is read, linked or renamed. */
#pragma once

#include <stdint.h>
#include <time.h>

#include "problem.h"

struct operand_file {
    char *name;
    unsigned operands; /* a bit for each that is read from it */
    int samples;
    uint64_t bytes;
    struct timespec changed;
    bool sampled; /* `content` is valid; otherwise the file could not be read, */
    int number;   /* for this reason, an errno */
    uint64_t content;
};

struct operand_state {
    int count;
    struct operand_file *files; /* first those that the user or a link names, then their sources */
    int named;                  /* how many are named */
};

/* Record the files of the operands that the problem reads.  operand_state_free is due after it. */
int operand_state_take(struct operand_state *state, const struct problem *problem,
                       struct error *err);
void operand_state_free(struct operand_state *state);

/* Likewise, of one matrix, which may be an output. */
int operand_state_take_matrix(struct operand_state *state, const struct source *source,
                              struct error *err);

/* The file of a matrix; the state must contain it. */
const struct operand_file *operand_state_file(const struct operand_state *state,
                                              const struct source *source);

/* A hash of sizes, times of change and samples of the other files that an operand is read from; 0
 * where there are none. */
uint64_t operand_state_others(const struct operand_state *state, enum operand operand,
                              const struct source *source);

/* Complain (EXIT_INPUT) about the first file that has changed.  operand_state_glance compares only
 * the sizes and times of change of the files that are named, and is cheap. */
int operand_state_glance(const struct operand_state *state, struct error *err);
int operand_state_check(const struct operand_state *state, struct error *err);
