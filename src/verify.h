/* The full check: C as it is on the disk, against A, B and C0 as they are there.
 *
 * For a vector x of signs all ranks compute alpha op(A) (op(B) x) + beta C0 x - C x, each matrix
 * being read once, each rank reading its share of the rows of each file, and compare every row
 * with a proven bound.  C's checksum is computed on the way: what was written is compared with
 * what is read bit by bit, which no bound can do.
 *
 * The bound.  With u and v as in check.h and S = |alpha| |op(A)| |op(B)| + |beta| |C0|, a product
 * by sums of k terms in any order, scaled and added to beta C0, has |C - exact| <= (k + 3) u S.
 * In double, op(B) x takes n roundings, the product with op(A) k, C x n, C0 (beta x) n + 1, and
 * scaling and adding these three a few more: (2n + k + 8) v S |x| covers them.  So in every row
 *     |alpha op(A) op(B) x + beta C0 x - C x| <= limit * u S |x|,
 *     limit = 1.01 (k + 3 + (2n + k + 8) v / u). */
#ifndef DGEMM_OOC_VERIFY_H
#define DGEMM_OOC_VERIFY_H

#include "comm.h"
#include "machine.h"
#include "problem.h"

/* Plain data; the same on all ranks. */
struct verify {
    bool has_expected; /* set by the caller: C's checksum is known, */
    uint64_t expected; /* and is this */

    bool judged;        /* all was read; else nothing of the rest is known but the time */
    uint64_t checksum;  /* of C as it was read */
    double residual;    /* largest of any row, in units of u S |x| */
    double limit;       /* that it may have */
    int64_t not_finite; /* rows with NaN, Inf or overflow in |A||B|: not judged */
    double seconds;     /* that the check took */
    double bytes;       /* that all ranks read */
};

/* Complain (EXIT_RESOURCES) where the check would take more than the machine's host memory: five
 * vectors, and at least 64 KiB a thread. */
int verify_fits(const struct problem *p, const struct machine *machine, struct error *err);

/* Collective.  Check the matrix `c`, which is durable.  Within machine->host_memory on each rank,
 * by machine->threads.  A wrong checksum or a row beyond the limit: EXIT_VERIFY; a stop that was
 * asked for: EXIT_STOPPED. */
int verify_files(const struct problem *p, const struct matrix_info *c,
                 const struct machine *machine, struct comm *comm, struct verify *verify,
                 struct error *err);

#endif
