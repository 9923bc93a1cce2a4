#include <ctype.h>
#include <hwloc/linux.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place_impl.h"
#include "proc.h"
#include "quantity.h"

/* CPUs of this computer that Slurm gave the job, where it says so. */
static int allocated(void)
{
    const char *text = getenv("SLURM_CPUS_ON_NODE");
    int count = text ? atoi(text) : 0;
    return count > 0 ? count : INT_MAX;
}

bool placing_open(struct placing *placing)
{
    *placing = (struct placing){.allowed = hwloc_bitmap_alloc(), .now = hwloc_bitmap_alloc()};
    if (!placing->allowed || !placing->now || hwloc_topology_init(&placing->topology) ||
        hwloc_topology_load(placing->topology) ||
        hwloc_bitmap_copy(placing->allowed, hwloc_topology_get_allowed_cpuset(placing->topology)))
        return false;
    if (hwloc_get_cpubind(placing->topology, placing->now, HWLOC_CPUBIND_PROCESS))
        hwloc_bitmap_copy(placing->now, placing->allowed);
    return true;
}

void placing_close(struct placing *placing)
{
    if (placing->topology)
        hwloc_topology_destroy(placing->topology);
    hwloc_bitmap_free(placing->allowed);
    hwloc_bitmap_free(placing->now);
}

static void name_file(const char *gpu, const char *file, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "/sys/bus/pci/devices/%s/%s", gpu, file);
    for (char *c = path; *c; c++) /* CUDA writes 0000:1B:00.0 */
        *c = (char)tolower((unsigned char)*c);
}

static int read_number(const char *gpu, const char *file)
{
    char path[PATH_MAX];
    uint64_t number = 0;
    name_file(gpu, file, path);
    proc_number(path, "", &number);
    return (int)number;
}

void placing_link(const char *gpu, struct place *place)
{
    place->lanes = read_number(gpu, "current_link_width");
    place->lanes_most = read_number(gpu, "max_link_width");
}

static void find_near(const struct placing *placing, const char *gpu, const char *local_cpus,
                      hwloc_bitmap_t near)
{
    char path[PATH_MAX];
    name_file(gpu, "local_cpus", path);
    if (!*gpu || hwloc_linux_read_path_as_cpumask(local_cpus ? local_cpus : path, near))
        hwloc_bitmap_zero(near);
    hwloc_bitmap_and(near, near, placing->allowed);
    if (hwloc_bitmap_iszero(near))
        hwloc_bitmap_copy(near, placing->allowed);
}

void placing_claim(const struct placing *placing, const char *gpu, const char *local_cpus,
                   bool wanted, bool by_default, struct claim *claim)
{
    bool bound = !hwloc_bitmap_isincluded(placing->allowed, placing->now);
    hwloc_bitmap_t near = hwloc_bitmap_alloc();
    *claim = (struct claim){0};
    if (!near)
        return;
    find_near(placing, gpu, local_cpus, near);
    claim->moves =
        wanted && (!bound || (by_default && hwloc_bitmap_weight(placing->allowed) <= allocated()));
    hwloc_bitmap_to_ulongs(placing->now, CPU_WORDS, claim->now);
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

void placing_share(hwloc_topology_t topology, const struct claim *claims, int count, int rank,
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

int placing_threads(hwloc_topology_t topology, const struct claim *claims, int count, int rank)
{
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), other = hwloc_bitmap_alloc();
    int users[CPU_WORDS * 64] = {0};
    double threads = 0;
    placing_share(topology, claims, count, rank, mine);
    for (int i = 0; i < count; i++) {
        placing_share(topology, claims, count, i, other);
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

void placing_take(const struct placing *placing, const struct claim *claims, int count, int rank,
                  struct place *place)
{
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), near = hwloc_bitmap_alloc();
    placing_share(placing->topology, claims, count, rank, mine);
    hwloc_bitmap_from_ulongs(near, CPU_WORDS, claims[rank].near);
    place->bound = PLACE_LAUNCHER;
    if (claims[rank].moves &&
        (hwloc_bitmap_isequal(mine, placing->now) ||
         hwloc_set_cpubind(placing->topology, mine, HWLOC_CPUBIND_PROCESS) == 0))
        place->bound =
            *place->gpu && !hwloc_bitmap_isequal(near, placing->allowed) ? PLACE_NEAR : PLACE_SHARE;
    else
        hwloc_bitmap_copy(mine, placing->now);
    if (hwloc_bitmap_isequal(mine, placing->allowed))
        place->bound = PLACE_FREE;
    place->threads = placing_threads(placing->topology, claims, count, rank);
    place->allowed = hwloc_bitmap_weight(placing->allowed);
    hwloc_bitmap_list_snprintf(place->cpus, sizeof place->cpus, mine);
    hwloc_bitmap_and(near, near, mine);
    place->nearby = hwloc_bitmap_weight(near);
    hwloc_cpuset_to_nodeset(placing->topology, mine, near);
    hwloc_bitmap_list_snprintf(place->numa, sizeof place->numa, near);
    hwloc_bitmap_free(mine);
    hwloc_bitmap_free(near);
}

/* CPUs near a GPU among those that a rank must stay on. */
static int nearby(const struct claim *claim)
{
    int count = 0;
    for (int i = 0; i < CPU_WORDS && !claim->moves; i++)
        count += __builtin_popcountl(claim->near[i] & claim->now[i]);
    return count;
}

int placing_choose(const struct claim *claims, int count, int rank, int gpus)
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
