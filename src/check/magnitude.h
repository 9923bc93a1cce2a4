/* The largest magnitudes of the elements of A and of B, matrices of integers, from one pass over
 * their files (shared_read.h) before anything is multiplied. */
#pragma once

#include <stdint.h>

struct comm;
struct error;
struct machine;
struct problem;

/* The same on all ranks. */
struct magnitude {
    uint64_t largest[2];   /* of A, of B */
    double seconds, bytes; /* that it took, and that all ranks read */
};

/* Collective, blocks.  Find them within machine->host_memory on each rank, on machine->threads.
 * EXIT_STOPPED after a request to stop. */
int magnitude_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                   struct magnitude *to, struct error *err);
