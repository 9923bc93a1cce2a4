#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "error.h"
#include "place_impl.h"

enum { GPUS_MAX = 64 };

static void name_host(struct place *place)
{
    if (gethostname(place->host, sizeof place->host))
        strcpy(place->host, "?");
    place->host[sizeof place->host - 1] = '\0';
    place->host[strcspn(place->host, ".")] = '\0';
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

int place_choose_gpu(const struct comm *comm, int gpus, bool binds)
{
    struct view view;
    struct placing placing;
    int chosen = comm->local_rank % gpus;
    if (!same_view(comm, gpus, &view))
        return chosen;
    struct claim *mine = calloc((size_t)gpus, sizeof *mine);
    if (!mine)
        comm_no_memory(comm, "the choice of a GPU");
    bool known = placing_open(&placing);
    for (int i = 0; known && i < gpus; i++)
        placing_claim(&placing, view.addresses[i], NULL, binds, comm->cpus, &mine[i]);
    struct claim *everyones = comm_local_gather(comm, mine, (size_t)gpus * sizeof *mine);
    chosen = placing_choose(everyones, comm->local_size, comm->local_rank, gpus);
    free(everyones);
    free(mine);
    placing_close(&placing);
    return chosen;
}

void place_bind(const struct comm *comm, const char *gpu, bool wanted, struct place *place)
{
    struct placing placing;
    struct claim mine = {0};
    *place =
        (struct place){.cpus = "?", .threads = 1, .online = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    snprintf(place->gpu, sizeof place->gpu, "%s", gpu);
    name_host(place);
    if (*gpu)
        placing_link(gpu, place);
    bool known = placing_open(&placing);
    if (known)
        placing_claim(&placing, gpu, NULL, wanted, comm->cpus, &mine);
    struct claim *everyones = comm_local_gather(comm, &mine, sizeof mine);
    place->widened = placing_widen(everyones, comm->local_size, comm->local_rank);
    if (known)
        placing_take(&placing, everyones, comm->local_size, comm->local_rank, place);
    free(everyones);
    placing_close(&placing);
}

struct place *place_gather(const struct comm *comm, const struct place *mine)
{
    if (comm->rank > 0) {
        comm_send(comm, mine, sizeof *mine, 0);
        return NULL;
    }
    struct place *places = malloc((size_t)comm->size * sizeof *places), dropped;
    for (int rank = 0; rank < comm->size; rank++) {
        struct place *place = places ? &places[rank] : &dropped;
        *place = *mine;
        if (rank > 0)
            comm_receive(comm, place, sizeof *place, rank);
    }
    return places;
}

static void print_line(FILE *out, int rank, const struct place *place)
{
    static const char *const how[] = {"", ", bound by the launcher", ", bound near the GPU",
                                      ", bound to its share"};
    fprintf(out, "%-9s %3d %s", rank == 0 ? "Ranks" : "", rank, place->host);
    if (*place->gpu)
        fprintf(out, ", %s %s", place->device, place->gpu);
    if (*place->numa)
        fprintf(out, ", NUMA %s", place->numa);
    fprintf(out, ", CPUs %s%s\n", place->cpus, how[place->bound]);
}

void place_print(FILE *out, const struct place *places, int count)
{
    int widened = 0;
    for (int rank = 0; rank < count; rank++)
        print_line(out, rank, &places[rank]);
    while (widened < count && !places[widened].widened)
        widened++;
    if (widened < count)
        fprintf(out,
                "Binding     rank %d was bound to less than its share of the CPUs: widened "
                "(--no-bind: as it was)\n",
                widened);
    fflush(out);
}
