/* Whether all ranks see the same operands.
 *
 * A name may lead to another file on another node: a stale copy on node-local storage, another
 * mount, other folders that HDF5's variables name.  A product of both would be of no matrices at
 * all, and its check would pass.  So each rank describes the operands itself and looks at every
 * file that they are read from, as rank 0 has done, and compares what it finds. */
#pragma once

#include "operand_state.h"

struct comm;

/* Collective.  `problem` is rank 0's, on all ranks; `state` is valid on rank 0, and empty on the
 * others.  Then the first rank of each computer has it, to see whether a file changes there.
 * Complains (EXIT_INPUT) on each rank that sees something else.  Two files are the same if their
 * sizes, their times of change and samples of their content are. */
void same_files_check(const struct problem *problem, struct operand_state *state,
                      const struct comm *comm, struct error *err);

/* Collective.  Likewise the files of a matrix that rank 0 has described, and that all ranks read:
 * an output that is there already. */
void same_files_check_matrix(const struct source *source, const struct comm *comm,
                             struct error *err);
