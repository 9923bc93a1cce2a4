/* Placement: the computer, GPU and CPUs of each rank, whose threads are bound to its share of the
 * computer's CPUs. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "comm.h"

/* Plain data. */
struct placement {
    char host[64];
    char device[96]; /* "NVIDIA H200" */
    char gpu[16];    /* its PCI address, 0000:1b:00.0; empty on the CPU */
    char numa[32];   /* the memory near those CPUs: 0, or 0-1; empty where that is not known */
    char cpus[128];  /* that this rank's threads may use: 0-15,32-47 */
    int threads;     /* how many of these run its threads; a CPU shared by ranks counts in part */
    int nearby;      /* how many of `threads` are near its GPU, if that is near some CPUs */
    int online;      /* CPUs of the computer */
    /* Not bound; bound by launcher or user; bound here, near the GPU or to a share of all CPUs. */
    enum { PLACEMENT_FREE, PLACEMENT_LAUNCHER, PLACEMENT_NEAR, PLACEMENT_SHARE } bound;
    bool widened; /* its launcher had bound it to fewer CPUs than its share */
};

/* Collective over the ranks of a computer, each of which sees `gpus` GPUs.  Choose the GPU of this
 * rank, which is then bound near it or, unless `binds`, stays where it is.  Each GPU gets as few
 * ranks as possible; among such GPUs, the one nearest to the CPUs that the rank is bound to,
 * otherwise the first, is chosen.  Where the ranks do not see the same GPUs, a rank takes the one
 * with its local number. */
int placement_choose_gpu(const struct comm *comm, int gpus, bool binds);

/* Collective over the ranks of a computer.  Bind this process to its share of the CPUs, in whole
 * cores, disjoint from the shares of the other ranks, and describe its placement.  The share is one
 * of the CPUs near the GPU at the address `gpu`, or of all CPUs where that is empty or near none in
 * particular.  Ranks that were bound already stay where they are, unless one of them has less than
 * its share of what the job has for itself (launcher_cpus).  Nothing is bound unless that is
 * `wanted`, nor where a rank is alone on its computer without a GPU.  Memory follows the threads:
 * the first thread that touches a page decides where it lies. */
void placement_bind(const struct comm *comm, const char *gpu, bool wanted,
                    struct placement *placement);

/* Collective.  Gather the placements of all ranks, in their order, on rank 0, which frees them;
 * null on the other ranks. */
struct placement *placement_gather(const struct comm *comm, const struct placement *mine);

/* Print the placements, a line each, and whether bindings were widened. */
void placement_print(FILE *out, const struct placement *placements, int count);
