#include "launcher.h"

#include <limits.h>
#include <mpi.h> /* only for the name of the MPI */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int number_of(const char *const *names, int otherwise)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value)
            return atoi(value);
    }
    return otherwise;
}

static int count_of(const char *const *names, int otherwise)
{
    int count = number_of(names, otherwise);
    return count > 0 ? count : 1;
}

static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK",
                                         "PMIX_RANK",
                                         "PMI_RANK",
                                         "PALS_RANKID",
                                         "ALPS_APP_PE",
                                         "FLUX_TASK_RANK",
                                         "JSM_NAMESPACE_RANK",
                                         "MV2_COMM_WORLD_RANK",
                                         "SLURM_PROCID",
                                         NULL};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE",
                                         "PMI_SIZE",
                                         "JSM_NAMESPACE_SIZE",
                                         "FLUX_JOB_SIZE",
                                         "MV2_COMM_WORLD_SIZE",
                                         "SLURM_STEP_NUM_TASKS",
                                         NULL};

int launcher_rank(void)
{
    return number_of(rank_names, 0);
}

int launcher_size(void)
{
    return count_of(size_names, 1);
}

int launcher_tasks_left(void)
{
    const char *tasks = getenv("SLURM_JOB_ID") ? getenv("SLURM_NTASKS") : NULL;
    return tasks && number_of(size_names, 0) == 0 ? atoi(tasks) : 0;
}

bool launcher_is_absent(void)
{
    return number_of(rank_names, -1) < 0 && number_of(size_names, -1) < 0;
}

bool launcher_needs_no_mpi(void)
{
#if defined(OPEN_MPI) || defined(MPICH_VERSION)
    return launcher_is_absent() || launcher_ends_mpi();
#else
    return false;
#endif
}

int launcher_local_size(void)
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",           "PALS_LOCAL_SIZE",
        "JSM_NAMESPACE_LOCAL_SIZE",   "MV2_COMM_WORLD_LOCAL_SIZE", NULL};
    return count_of(names, launcher_size());
}

bool launcher_is_on_one_computer(void)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *all = getenv("OMPI_COMM_WORLD_SIZE");
    return local && all && strcmp(local, all) == 0;
}

bool launcher_ends_mpi(void)
{
#ifdef OPEN_MPI
    return getenv("SLURM_STEP_NUM_TASKS") && !getenv("OMPI_COMM_WORLD_SIZE") &&
           !getenv("PMIX_RANK") && !getenv("PMI_RANK");
#else
    return false; /* others use what leaves no such trace: PMI-1, what PALS says */
#endif
}

const char *launcher_srun(const char *library)
{
    static const struct {
        const char *part, *srun; /* of what the MPI says */
    } known[] = {
        {"Open MPI", "srun --mpi=pmix"},
        {"CRAY", "srun --mpi=cray_shasta"},
        {"Intel", "srun --mpi=pmi2, with I_MPI_PMI_LIBRARY=/path/to/libpmi2.so"},
        {"", "srun --mpi=pmi2"}, /* MPICH and those that are made of it */
    };
    int i = 0;
    while (!strstr(library, known[i].part))
        i++;
    return known[i].srun;
}

void launcher_name_mpi(const char *library, char *text, size_t size)
{
    char line[256], *rest = NULL;
    size_t used = 0;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(library, ",\n"), library);
    snprintf(text, size, "MPI");
    for (char *word = strtok_r(line, " \t:", &rest); word; word = strtok_r(NULL, " \t:", &rest))
        if (strcasecmp(word, "version") && (used > 0 || strcmp(word, "MPI")) && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "", word);
}

bool launcher_is_srun(void)
{
    return getenv("SLURM_STEP_ID") || getenv("SLURM_STEP_NUM_TASKS");
}

int launcher_cpus(void)
{
    static const char *const allocated[] = {"SLURM_CPUS_ON_NODE", NULL};
    static const char *const dividing[] = {"FLUX_TASK_RANK", "JSM_NAMESPACE_RANK", "PALS_RANKID",
                                           "ALPS_APP_PE", NULL};
    if (launcher_is_absent() || number_of(dividing, -1) >= 0)
        return 0;
    return number_of(allocated, INT_MAX);
}
