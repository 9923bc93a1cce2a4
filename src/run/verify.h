/* The full check: C as it is on the disk, against A, B and C0 as they are there.
 *
 * For random vectors x all ranks compute alpha op(A) (op(B) x) + beta C0 x and C x, each matrix
 * being read once, each rank reading its share of the rows of each file, and compare row by row as
 * the online check does (check.h), with vectors of its own.  It sees no sums at the ends of groups
 * of k, only those of all of k, so that of floats and long k it finds less.  C's checksum is
 * computed on the way: what was written is compared with what is read bit by bit, which no bound
 * can do. */
#ifndef DGEMM_OOC_VERIFY_H
#define DGEMM_OOC_VERIFY_H

#include "comm.h"
#include "findings.h"
#include "machine.h"
#include "problem.h"

/* Plain data; the same on all ranks. */
struct verify {
    uint64_t seed;     /* set by the caller: of the vectors; */
    bool has_expected; /* C's checksum is known, */
    uint64_t expected; /* and is this */

    bool judged;       /* all was read; else nothing of the rest is known but the time */
    uint64_t checksum; /* of C as it was read */
    struct findings findings;
    double seconds; /* that the check took */
    double bytes;   /* that all ranks read */
};

/* Complain (EXIT_RESOURCES) where the check would take more than the machine's host memory: its
 * vectors, and at least 64 KiB a thread. */
int verify_fits(const struct problem *p, const struct machine *machine, struct error *err);

/* Collective.  Check the matrix `c`, which is durable.  Within machine->host_memory on each rank,
 * by machine->threads.  A wrong checksum or a row beyond the limit: EXIT_VERIFY; a stop that was
 * asked for: EXIT_STOPPED. */
int verify_files(const struct problem *p, const struct matrix_info *c,
                 const struct machine *machine, struct comm *comm, struct verify *verify,
                 struct error *err);

#endif
