/* The files that the operands are read from, as they were when the operands were described: what
 * they become while they are read would be mixed into the product.  Rank 0 alone calls this.
 *
 * A file is known by its size, its time of change and a hash of samples of its content, all of
 * which stay what they are when it is read, linked or renamed to. */
#ifndef DGEMM_OOC_OPERAND_STATE_H
#define DGEMM_OOC_OPERAND_STATE_H

#include <stdint.h>
#include <time.h>

#include "problem.h"

struct operand_file {
    char *name;
    unsigned operands; /* a bit for each that is read from it */
    int samples;
    uint64_t bytes;
    struct timespec changed;
    bool sampled; /* else nothing is known of its content: it could not be read */
    uint64_t content;
};

struct operand_state {
    int count;
    struct operand_file *files; /* those that the user or a link names, before their sources */
    int named;                  /* how many of them */
};

/* Look at the operands that the problem reads.  operand_state_free is due after it. */
int operand_state_take(struct operand_state *state, const struct problem *problem,
                       struct error *err);
void operand_state_free(struct operand_state *state);

/* The file of a matrix, which the state must have. */
const struct operand_file *operand_state_file(const struct operand_state *state,
                                              const struct matrix_info *info);

/* A hash of sizes, times of change and samples of the other files that an operand is read from; 0
 * where there are none. */
uint64_t operand_state_others(const struct operand_state *state, enum operand operand,
                              const struct matrix_info *info);

/* Complain (EXIT_INPUT) of the first file that is not what it was.  A glance: only size and time of
 * change of the files that are named. */
int operand_state_glance(const struct operand_state *state, struct error *err);
int operand_state_check(const struct operand_state *state, struct error *err);

#endif
