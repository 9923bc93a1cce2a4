/* The version strings of MPI libraries, and how Slurm starts their ranks. */
#include "scratch.h"

#include "launcher.h"

static const struct {
    const char *says, *name, *srun;
} libraries[] = {
    {"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022",
     "Open MPI v4.1.4", "srun --mpi=pmix"},
    {"MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n", "MPICH 4.0.2",
     "srun --mpi=pmi2"},
    {"MPICH Version:      4.2.1\nMPICH Release date: x\n", "MPICH 4.2.1", "srun --mpi=pmi2"},
    {"MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\nMPI BUILD INFO : x\n",
     "CRAY MPICH 8.1.25.17 (ANL base 3.4a2)", "srun --mpi=cray_shasta"},
    {"MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date : x\n", "MVAPICH2 2.3.7",
     "srun --mpi=pmi2"},
    {"Intel(R) MPI Library 2021.5 for Linux* OS\n", "Intel(R) MPI Library 2021.5 for Linux* OS",
     "srun --mpi=pmi2, with I_MPI_PMI_LIBRARY=/path/to/libpmi2.so"},
    {"", "MPI", "srun --mpi=pmi2"},
};

static void test_libraries(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        char name[64], shorter[8];
        launcher_name_mpi(libraries[i].says, name, sizeof name);
        assert_string_equal(name, libraries[i].name);
        assert_string_equal(launcher_srun(libraries[i].says), libraries[i].srun);
        launcher_name_mpi(libraries[i].says, shorter, sizeof shorter);
        assert_memory_equal(shorter, name, strnlen(shorter, sizeof shorter - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_libraries)};
    return cmocka_run_group_tests_name("launcher", tests, NULL, NULL);
}
