/* The full check: C as it is on the disk, against A, B and C0 as they are there.
 *
 * For random vectors x all ranks compute alpha op(A) (op(B) x) + beta C0 x and C x and compare them
 * row by row, as the online check does (check.h), with vectors of their own.  Each matrix is read
 * once, each rank reads its share of its rows.  Unlike the online check this one has no sums at the
 * ends of groups of k, only those of all of k, so that it finds less where floats have a long k.
 * C's checksum is computed from the same bytes, which compares every bit of C with what was
 * written.
 *
 * Where C is the lower half alone of a symmetric product, C0 counts below and on the diagonal, and
 * both are taken for the symmetric matrices that they are the lower halves of; findings are in
 * these. */
#pragma once

#include "comm.h"
#include "findings.h"
#include "machine.h"
#include "problem.h"

struct statistics;

/* The same on all ranks. */
struct verify {
    uint64_t seed;                       /* of the vectors; set by the caller, as the next three */
    bool has_expected;                   /* the checksum of C is known */
    uint64_t expected;                   /* that checksum */
    const struct statistics *statistics; /* of a problem that is scaled; the caller's */
    bool inner;                          /* of what C of a normal product is made of */

    bool judged;       /* all files were read; otherwise only `seconds` below is valid */
    uint64_t checksum; /* of C as it was read */
    struct findings findings;
    double seconds; /* that the check took */
    double bytes;   /* that all ranks read */
};

/* Complain (EXIT_RESOURCES) where the check would take more than the machine's host memory, for its
 * vectors and at least 64 KiB a thread.  Pure. */
int verify_fits(const struct problem *p, const struct machine *machine, struct error *err);

/* Collective, blocks.  Check the matrix `c`, which is durable, within machine->host_memory on each
 * rank, on machine->threads.  EXIT_VERIFY for a wrong checksum or a row beyond its limit,
 * EXIT_STOPPED after a request to stop. */
int verify_files(const struct problem *p, const struct source *c, const struct machine *machine,
                 struct comm *comm, struct verify *verify, struct error *err);
