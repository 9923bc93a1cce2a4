/* Whether it was a person or a default that bound this process to its CPUs. */
#include "comm.h"
#include "comm_impl.h"

#include <stdlib.h>
#include <string.h>

/* One of the MPI's own parameters, from its files, the environment or the command line; empty where
 * it has none of that name. */
static void read_parameter(const char *name, char *text, int size)
{
    MPI_T_cvar_handle handle;
    int index, count;
    text[0] = '\0';
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return;
    if (count <= size)
        MPI_T_cvar_read(handle, text);
    MPI_T_cvar_handle_free(&handle);
}

bool comm_names_cpus(const char *mapping)
{
    static const char *const coarse[] = {"slot", "node", "seq"};
    if (strcasestr(mapping, "pe="))
        return true;
    if (strncmp(mapping, "ppr:", 4) == 0)
        return !strstr(mapping, ":node");
    for (size_t i = 0; i < sizeof coarse / sizeof coarse[0]; i++)
        if (strncmp(mapping, coarse[i], strlen(coarse[i])) == 0)
            return false;
    return strcspn(mapping, ":") > 0; /* or it is a qualifier alone */
}

static bool readable, by_default;

void comm_open_parameters(void)
{
    int provided;
    readable = getenv("OMPI_MCA_orte_bound_at_launch") &&
               !getenv("OMPI_MCA_rmaps_base_cpus_per_rank") &&
               MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS;
}

void comm_read_parameters(void)
{
    enum { LONGEST = 4096 }; /* of Open MPI's parameters */
    static const char *const asked[] = {"hwloc_base_binding_policy", "hwloc_base_cpu_list",
                                        "orte_rankfile"};
    char text[LONGEST];
    by_default = readable;
    if (getenv("PRTE_LAUNCHED")) {
        int found = (int)comm_prte_binding();
        MPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        by_default = found == (int)PRTE_DEFAULT;
    }
    if (!readable)
        return;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        read_parameter(asked[i], text, sizeof text);
        by_default &= text[0] == '\0';
    }
    read_parameter("rmaps_base_mapping_policy", text, sizeof text);
    by_default &= !comm_names_cpus(text);
    MPI_T_finalize();
}

bool comm_bound_by_default(void)
{
    return by_default;
}
