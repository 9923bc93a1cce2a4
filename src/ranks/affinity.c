#include <ctype.h>
#include <hwloc/linux.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "placement_impl.h"
#include "quantity.h"

/* Leave out what the kernel does not let this thread have, whatever it asks for: in a container
 * hwloc may not find the cpuset. */
static void ask_kernel(const struct affinity *affinity)
{
    hwloc_bitmap_t own = hwloc_bitmap_alloc(), given = hwloc_bitmap_alloc();
    hwloc_topology_t t = affinity->topology;
    if (own && given && hwloc_get_cpubind(t, own, HWLOC_CPUBIND_THREAD) == 0 &&
        hwloc_set_cpubind(t, affinity->allowed, HWLOC_CPUBIND_THREAD) == 0) {
        if (hwloc_get_cpubind(t, given, HWLOC_CPUBIND_THREAD) == 0)
            hwloc_bitmap_and(affinity->allowed, affinity->allowed, given);
        hwloc_set_cpubind(t, own, HWLOC_CPUBIND_THREAD);
    }
    hwloc_bitmap_free(own);
    hwloc_bitmap_free(given);
}

bool affinity_open(struct affinity *affinity)
{
    *affinity = (struct affinity){.allowed = hwloc_bitmap_alloc(), .now = hwloc_bitmap_alloc()};
    if (!affinity->allowed || !affinity->now || hwloc_topology_init(&affinity->topology) ||
        hwloc_topology_load(affinity->topology) ||
        hwloc_bitmap_copy(affinity->allowed, hwloc_topology_get_allowed_cpuset(affinity->topology)))
        return false;
    ask_kernel(affinity);
    if (hwloc_get_cpubind(affinity->topology, affinity->now, HWLOC_CPUBIND_PROCESS))
        hwloc_bitmap_copy(affinity->now, affinity->allowed);
    return true;
}

void affinity_close(struct affinity *affinity)
{
    if (affinity->topology)
        hwloc_topology_destroy(affinity->topology);
    hwloc_bitmap_free(affinity->allowed);
    hwloc_bitmap_free(affinity->now);
}

static void find_near(const struct affinity *affinity, const char *gpu, const char *local_cpus,
                      hwloc_bitmap_t near)
{
    char path[PATH_MAX];
    snprintf(path, PATH_MAX, "/sys/bus/pci/devices/%s/local_cpus", gpu);
    for (char *c = path; *c; c++) /* CUDA writes 0000:1B:00.0 */
        *c = (char)tolower((unsigned char)*c);
    if (!*gpu || hwloc_linux_read_path_as_cpumask(local_cpus ? local_cpus : path, near))
        hwloc_bitmap_zero(near);
    hwloc_bitmap_and(near, near, affinity->allowed);
    if (hwloc_bitmap_iszero(near))
        hwloc_bitmap_copy(near, affinity->allowed);
}

void affinity_claim(const struct affinity *affinity, const char *gpu, const char *local_cpus,
                    bool wanted, int cpus, struct claim *claim)
{
    bool bound = !hwloc_bitmap_isincluded(affinity->allowed, affinity->now);
    hwloc_bitmap_t near = hwloc_bitmap_alloc();
    *claim = (struct claim){0};
    if (!near)
        return;
    find_near(affinity, gpu, local_cpus, near);
    claim->moves = wanted && !bound;
    claim->may_move = wanted && bound && hwloc_bitmap_weight(affinity->allowed) <= cpus;
    hwloc_bitmap_to_ulongs(affinity->now, CPU_WORDS, claim->now);
    hwloc_bitmap_to_ulongs(near, CPU_WORDS, claim->near);
    hwloc_bitmap_free(near);
}

/* How many ranks up to `end` divide the same CPUs as `rank` does. */
static int rivals(const struct claim *claims, int end, int rank)
{
    int count = 0;
    for (int i = 0; i < end; i++)
        count += claims[i].moves &&
                 memcmp(claims[i].near, claims[rank].near, sizeof claims[i].near) == 0;
    return count;
}

static bool has(const unsigned long cpus[CPU_WORDS], int cpu)
{
    return cpus[cpu / 64] >> cpu % 64 & 1;
}

/* CPUs near its GPU that a rank may use now; one that several ranks may use counts by its part. */
static double cpus_now(const struct claim *claims, int count, int rank)
{
    const struct claim *mine = &claims[rank];
    double cpus = 0;
    for (int cpu = 0; cpu < CPU_WORDS * 64; cpu++) {
        int users = 0;
        for (int i = 0; i < count && has(mine->now, cpu) && has(mine->near, cpu); i++)
            users += has(claims[i].now, cpu);
        cpus += users ? 1.0 / users : 0;
    }
    return cpus;
}

/* Whether a rank has fewer than it would if all ranks that may move did so. */
static bool has_less(const struct claim *claims, int count, int rank)
{
    int near = 0;
    for (int i = 0; i < CPU_WORDS; i++)
        near += __builtin_popcountl(claims[rank].near[i]);
    return cpus_now(claims, count, rank) + 1e-6 < (double)near / rivals(claims, count, rank);
}

bool affinity_widen(struct claim *claims, int count, int rank)
{
    bool any = false, mine = false;
    for (int i = 0; i < count; i++)
        claims[i].moves |= claims[i].may_move;
    for (int i = 0; i < count; i++) {
        const bool less = claims[i].may_move && has_less(claims, count, i);
        any |= less;
        mine |= less && i == rank;
    }
    for (int i = 0; i < count; i++)
        claims[i].moves &= any || !claims[i].may_move;
    return mine;
}

void affinity_share(hwloc_topology_t topology, const struct claim *claims, int count, int rank,
                    hwloc_bitmap_t share)
{
    const struct claim *mine = &claims[rank];
    hwloc_bitmap_from_ulongs(share, CPU_WORDS, mine->moves ? mine->near : mine->now);
    int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, share, HWLOC_OBJ_CORE);
    int all = rivals(claims, count, rank), before = rivals(claims, rank, rank);
    hwloc_bitmap_t near = hwloc_bitmap_dup(share);
    if (!mine->moves || !near || cores < all) {
        hwloc_bitmap_free(near);
        return;
    }
    hwloc_bitmap_zero(share);
    for (int i = before * cores / all; i < (before + 1) * cores / all; i++)
        hwloc_bitmap_or(
            share, share,
            hwloc_get_obj_inside_cpuset_by_type(topology, near, HWLOC_OBJ_CORE, (unsigned)i)
                ->cpuset);
    hwloc_bitmap_free(near);
}

int affinity_threads(hwloc_topology_t topology, const struct claim *claims, int count, int rank)
{
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), other = hwloc_bitmap_alloc();
    int users[CPU_WORDS * 64] = {0};
    double threads = 0;
    affinity_share(topology, claims, count, rank, mine);
    for (int i = 0; i < count; i++) {
        affinity_share(topology, claims, count, i, other);
        hwloc_bitmap_and(other, other, mine);
        for (int cpu = hwloc_bitmap_first(other); cpu >= 0; cpu = hwloc_bitmap_next(other, cpu))
            users[cpu]++;
    }
    for (int cpu = hwloc_bitmap_first(mine); cpu >= 0; cpu = hwloc_bitmap_next(mine, cpu))
        threads += 1.0 / users[cpu];
    hwloc_bitmap_free(mine);
    hwloc_bitmap_free(other);
    return (int)max_i64(1, (int64_t)(threads + 1e-6));
}

void affinity_take(const struct affinity *affinity, const struct claim *claims, int count, int rank,
                   struct placement *placement)
{
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), near = hwloc_bitmap_alloc();
    affinity_share(affinity->topology, claims, count, rank, mine);
    hwloc_bitmap_from_ulongs(near, CPU_WORDS, claims[rank].near);
    placement->bound = PLACEMENT_LAUNCHER;
    if (claims[rank].moves &&
        (hwloc_bitmap_isequal(mine, affinity->now) ||
         hwloc_set_cpubind(affinity->topology, mine, HWLOC_CPUBIND_PROCESS) == 0))
        placement->bound = *placement->gpu && !hwloc_bitmap_isequal(near, affinity->allowed)
                               ? PLACEMENT_NEAR
                               : PLACEMENT_SHARE;
    else
        hwloc_bitmap_copy(mine, affinity->now);
    if (hwloc_bitmap_isequal(mine, affinity->allowed))
        placement->bound = PLACEMENT_FREE;
    placement->threads = affinity_threads(affinity->topology, claims, count, rank);
    hwloc_bitmap_list_snprintf(placement->cpus, sizeof placement->cpus, mine);
    hwloc_bitmap_and(near, near, mine);
    placement->nearby = hwloc_bitmap_weight(near);
    hwloc_cpuset_to_nodeset(affinity->topology, mine, near);
    hwloc_bitmap_list_snprintf(placement->numa, sizeof placement->numa, near);
    hwloc_bitmap_free(mine);
    hwloc_bitmap_free(near);
}

/* CPUs near a GPU among those that a rank may use now. */
static int nearby(const struct claim *claim)
{
    int count = 0;
    for (int i = 0; i < CPU_WORDS; i++)
        count += __builtin_popcountl(claim->near[i] & claim->now[i]);
    return count;
}

int affinity_choose(const struct claim *claims, int count, int rank, int gpus)
{
    int chosen = 0;
    int *loads = calloc((size_t)gpus, sizeof *loads);
    for (int i = 0; i <= rank && i < count && loads; i++) {
        const struct claim *claim = &claims[i * gpus];
        chosen = 0;
        for (int gpu = 1; gpu < gpus; gpu++)
            if (loads[gpu] < loads[chosen] ||
                (loads[gpu] == loads[chosen] && nearby(&claim[gpu]) > nearby(&claim[chosen])))
                chosen = gpu;
        loads[chosen]++;
    }
    free(loads);
    return chosen;
}
