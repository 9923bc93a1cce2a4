#include "placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "error.h"
#include "placement_impl.h"

enum { GPUS_MAX = 64 };

static void name_host(struct placement *p)
{
    if (gethostname(p->host, sizeof p->host))
        strcpy(p->host, "?");
    p->host[sizeof p->host - 1] = '\0';
    p->host[strcspn(p->host, ".")] = '\0';
}

/* What a rank sees of its computer's GPUs. */
struct view {
    int gpus;
    char addresses[GPUS_MAX][16];
};

/* Whether all ranks of a computer see the same GPUs, in the same order; fills this one's view. */
static bool same_view(const struct comm *comm, int gpus, struct view *mine)
{
    bool same = gpus <= GPUS_MAX;
    *mine = (struct view){.gpus = gpus};
    for (int i = 0; same && i < gpus; i++)
        device_gpu_address(i, mine->addresses[i]);
    struct view *views = comm_local_gather(comm, mine, sizeof *mine);
    for (int i = 0; i < comm->local_size; i++)
        same &= memcmp(&views[i], mine, sizeof *mine) == 0;
    free(views);
    return same;
}

int placement_choose_gpu(const struct comm *comm, int gpus, bool binds)
{
    struct view view;
    struct affinity affinity;
    int chosen = comm->local_rank % gpus;
    if (!same_view(comm, gpus, &view))
        return chosen;
    struct claim *mine = calloc((size_t)gpus, sizeof *mine);
    if (!mine)
        comm_no_memory(comm, "the choice of a GPU");
    bool known = affinity_open(&affinity);
    for (int i = 0; known && i < gpus; i++)
        affinity_claim(&affinity, view.addresses[i], NULL, binds, comm->cpus, &mine[i]);
    struct claim *everyones = comm_local_gather(comm, mine, (size_t)gpus * sizeof *mine);
    chosen = affinity_choose(everyones, comm->local_size, comm->local_rank, gpus);
    free(everyones);
    free(mine);
    affinity_close(&affinity);
    return chosen;
}

void placement_bind(const struct comm *comm, const char *gpu, bool wanted, struct placement *p)
{
    struct affinity affinity;
    struct claim mine = {0};
    *p =
        (struct placement){.cpus = "?", .threads = 1, .online = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    snprintf(p->gpu, sizeof p->gpu, "%s", gpu);
    name_host(p);
    bool known = affinity_open(&affinity);
    if (known)
        affinity_claim(&affinity, gpu, NULL, wanted, comm->cpus, &mine);
    struct claim *everyones = comm_local_gather(comm, &mine, sizeof mine);
    p->widened = affinity_widen(everyones, comm->local_size, comm->local_rank);
    if (known)
        affinity_take(&affinity, everyones, comm->local_size, comm->local_rank, p);
    free(everyones);
    affinity_close(&affinity);
}

struct placement *placement_gather(const struct comm *comm, const struct placement *mine)
{
    if (comm->rank > 0) {
        comm_send(comm, mine, sizeof *mine, 0);
        return NULL;
    }
    struct placement *placements = malloc((size_t)comm->size * sizeof *placements), dropped;
    for (int rank = 0; rank < comm->size; rank++) {
        struct placement *placement = placements ? &placements[rank] : &dropped;
        *placement = *mine;
        if (rank > 0)
            comm_receive(comm, placement, sizeof *placement, rank);
    }
    return placements;
}

static void print_line(FILE *out, int rank, const struct placement *p)
{
    static const char *const how[] = {"", ", bound by the launcher", ", bound near the GPU",
                                      ", bound to its share"};
    fprintf(out, "%-9s %3d %s", rank == 0 ? "Ranks" : "", rank, p->host);
    if (*p->gpu)
        fprintf(out, ", %s %s", p->device, p->gpu);
    if (*p->numa)
        fprintf(out, ", NUMA %s", p->numa);
    fprintf(out, ", CPUs %s%s\n", p->cpus, how[p->bound]);
}

void placement_print(FILE *out, const struct placement *placements, int count)
{
    int widened = 0;
    for (int rank = 0; rank < count; rank++)
        print_line(out, rank, &placements[rank]);
    while (widened < count && !placements[widened].widened)
        widened++;
    if (widened < count)
        fprintf(out,
                "Binding     rank %d was bound to less than its share of the CPUs: widened "
                "(--no-bind: as it was)\n",
                widened);
    fflush(out);
}
