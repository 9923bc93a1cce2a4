/* CPU affinity: what one rank has of its computer's CPUs, and what follows for each from what all
 * of them say. */
#pragma once

#include <hwloc.h>

#include "placement.h"

enum { CPU_WORDS = 64 }; /* of 64 CPUs each; those beyond are left alone */

/* What a rank tells the others.  Plain data. */
struct claim {
    unsigned long now[CPU_WORDS];  /* CPUs that it may use */
    unsigned long near[CPU_WORDS]; /* those near its GPU, or all */
    bool moves;                    /* it is to have a share of `near` instead of `now` */
    bool may_move;                 /* it is bound, but that may be changed */
};

struct affinity {
    hwloc_topology_t topology;
    hwloc_bitmap_t allowed, now; /* CPUs that the system allows; that this process is bound to */
};

/* False where nothing can be known of the CPUs; affinity_close is due all the same. */
bool affinity_open(struct affinity *affinity);
void affinity_close(struct affinity *affinity);

/* `gpu`: the address of its GPU, or empty.  `local_cpus`: the whole path of the file that names the
 * CPUs near it as sysfs does; null: the device's own.  `cpus`: how many of this computer the job
 * has for itself (launcher_cpus); where the system allows more, some are another job's, and a
 * binding stays. */
void affinity_claim(const struct affinity *affinity, const char *gpu, const char *local_cpus,
                    bool wanted, int cpus, struct claim *claim);

/* Where one of a computer's ranks is bound to fewer CPUs than its share, all move that may: shares
 * are disjoint only among ranks that have shares.  Returns whether `rank` was bound so. */
bool affinity_widen(struct claim *claims, int count, int rank);

/* Of a computer's ranks, the CPUs that one is to have, and how many threads run on them at once,
 * where a CPU that several ranks have counts for each by its part. */
void affinity_share(hwloc_topology_t topology, const struct claim *claims, int count, int rank,
                    hwloc_bitmap_t share);
int affinity_threads(hwloc_topology_t topology, const struct claim *claims, int count, int rank);

/* Bind this process to its share, and say so. */
void affinity_take(const struct affinity *affinity, const struct claim *claims, int count, int rank,
                   struct placement *placement);

/* The GPU of one of a computer's ranks, from the claims that each would make for each of the GPUs:
 * `claims` [rank][gpu]. */
int affinity_choose(const struct claim *claims, int count, int rank, int gpus);
