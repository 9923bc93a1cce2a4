/* Where the ranks are: each one's node, GPU and CPUs, and a rank's threads near its GPU. */
#ifndef DGEMM_OOC_PLACE_H
#define DGEMM_OOC_PLACE_H

#include <stdbool.h>

#include "comm.h"

/* Plain data. */
struct place {
    char host[64];
    char device[96]; /* "NVIDIA H200" */
    char gpu[16];    /* its PCI address, 0000:1b:00.0; empty on the CPU */
    char numa[32];   /* the memory near those CPUs: 0, or 0-1; empty where that is not known */
    char cpus[128];  /* that this rank's threads may use: 0-15,32-47 */
    enum { PLACE_FREE, PLACE_LAUNCHER, PLACE_NEAR } bound; /* by nobody, the launcher, us */
};

/* Bind this process to those of its CPUs that are near the device at `gpu`, and say where it is.
 * `local_cpus`: the whole path of the file that names them as sysfs does; null: the device's own.
 * A process that its launcher has bound stays where it is; so does one without a GPU, one that is
 * not `wanted` near it, and one whose GPU is near no CPU in particular.  Memory follows: pages lie
 * where they are first touched. */
void place_near(const char *gpu, const char *local_cpus, bool wanted, struct place *place);

/* Collective.  Rank 0 gets where the ranks are, by rank, its to free; the others nothing. */
struct place *place_gather(const struct comm *comm, const struct place *mine);

/* Print them, a line each, as far as there is room, or all. */
void place_print(const struct place *places, int count, bool all);

#endif
