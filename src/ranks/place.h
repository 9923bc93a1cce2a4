/* Where the ranks are: each one's node, GPU and CPUs, and its threads on the CPUs that are its
 * share of the node's. */
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
    int threads;     /* that run on its part of them at once: shared ones count by parts */
    int nearby;      /* of them, how many are near its GPU, where it has one near some */
    int online;      /* CPUs of the computer */
    int allowed;     /* of them, those that the system would let this process have */
    int lanes, lanes_most; /* of the GPU's link: at work, and that both ends have; 0: not known */
    /* To all CPUs, by the launcher or user, by us: near the GPU, to a share of all. */
    enum { PLACE_FREE, PLACE_LAUNCHER, PLACE_NEAR, PLACE_SHARE } bound;
};

/* Collective over the ranks of a computer, `gpus` of which each sees.  The GPU that this rank works
 * on: as few ranks as can be on each; of those the one nearest to the CPUs that the rank is bound
 * to, else the first.  Where the ranks do not see the same GPUs, the one of its local number. */
int place_choose_gpu(const struct comm *comm, int gpus, bool wanted);

/* Collective over the ranks of a computer.  Bind this process to its share of the CPUs and say
 * where it is: of those near the GPU at the address `gpu`, or of all where that is empty or near
 * none in particular, in whole cores, disjoint from the shares of the other ranks.  A process that
 * was bound stays where it is, unless a launcher's default policy did that and the system allows
 * more; so does one that is not `wanted` elsewhere, and one alone on its computer without a GPU.
 * Memory follows: pages lie where they are first touched. */
void place_bind(const struct comm *comm, const char *gpu, bool wanted, struct place *place);

/* Collective.  Rank 0 gets where the ranks are, by rank, its to free; the others nothing. */
struct place *place_gather(const struct comm *comm, const struct place *mine);

/* Print them, a line each, as far as there is room, or all. */
void place_print(const struct place *places, int count, bool all);

#endif
