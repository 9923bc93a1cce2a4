#include "place.h"

#include <ctype.h>
#include <hwloc.h>
#include <hwloc/linux.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES_MAX = 16 };

static void name_host(struct place *place)
{
    if (gethostname(place->host, sizeof place->host))
        strcpy(place->host, "?");
    place->host[sizeof place->host - 1] = '\0';
    place->host[strcspn(place->host, ".")] = '\0';
}

/* The CPUs near the GPU; empty where they are not known. */
static void find_near(const char *gpu, const char *local_cpus, hwloc_bitmap_t near)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpus", gpu);
    for (char *c = path; *c; c++) /* CUDA writes 0000:1B:00.0 */
        *c = (char)tolower((unsigned char)*c);
    if (!*gpu || hwloc_linux_read_path_as_cpumask(local_cpus ? local_cpus : path, near))
        hwloc_bitmap_zero(near);
}

/* Leaves in `now` the CPUs that the process has at last. */
static void bind(hwloc_topology_t topology, hwloc_bitmap_t now, hwloc_bitmap_t near, bool wanted,
                 struct place *place)
{
    hwloc_const_bitmap_t all = hwloc_topology_get_allowed_cpuset(topology);
    if (hwloc_get_cpubind(topology, now, HWLOC_CPUBIND_PROCESS))
        hwloc_bitmap_copy(now, all);
    place->bound = hwloc_bitmap_isincluded(all, now) ? PLACE_FREE : PLACE_LAUNCHER;
    hwloc_bitmap_and(near, near, all);
    if (wanted && place->bound == PLACE_FREE && !hwloc_bitmap_iszero(near) &&
        !hwloc_bitmap_isequal(near, all) &&
        hwloc_set_cpubind(topology, near, HWLOC_CPUBIND_PROCESS) == 0) {
        hwloc_bitmap_copy(now, near);
        place->bound = PLACE_NEAR;
    }
}

void place_near(const char *gpu, const char *local_cpus, bool wanted, struct place *place)
{
    hwloc_topology_t topology;
    *place = (struct place){.cpus = "?"};
    snprintf(place->gpu, sizeof place->gpu, "%s", gpu);
    name_host(place);
    if (hwloc_topology_init(&topology))
        return;
    hwloc_bitmap_t now = hwloc_bitmap_alloc(), near = hwloc_bitmap_alloc();
    if (now && near && hwloc_topology_load(topology) == 0) {
        find_near(gpu, local_cpus, near);
        bind(topology, now, near, wanted, place);
        hwloc_bitmap_list_snprintf(place->cpus, sizeof place->cpus, now);
        hwloc_cpuset_to_nodeset(topology, now, near);
        hwloc_bitmap_list_snprintf(place->numa, sizeof place->numa, near);
    }
    hwloc_bitmap_free(now);
    hwloc_bitmap_free(near);
    hwloc_topology_destroy(topology);
}

struct place *place_gather(const struct comm *comm, const struct place *mine)
{
    if (comm->rank > 0) {
        comm_send(mine, sizeof *mine, 0);
        return NULL;
    }
    struct place *places = malloc((size_t)comm->size * sizeof *places), dropped;
    for (int rank = 0; rank < comm->size; rank++) {
        struct place *place = places ? &places[rank] : &dropped;
        *place = *mine;
        if (rank > 0)
            comm_receive(place, sizeof *place, rank);
    }
    return places;
}

static void print_line(int rank, const struct place *place)
{
    static const char *const how[] = {"", ", bound by the launcher", ", bound near the GPU"};
    printf("%-9s %3d %s", rank == 0 ? "Ranks" : "", rank, place->host);
    if (*place->gpu)
        printf(", %s %s", place->device, place->gpu);
    if (*place->numa)
        printf(", NUMA %s", place->numa);
    printf(", CPUs %s%s\n", place->cpus, how[place->bound]);
}

void place_print(const struct place *places, int count, bool all)
{
    int lines = all || count < LINES_MAX ? count : LINES_MAX;
    for (int rank = 0; rank < lines; rank++)
        print_line(rank, &places[rank]);
    if (count > lines)
        printf("              and %d more (-v prints them)\n", count - lines);
    fflush(stdout);
}
