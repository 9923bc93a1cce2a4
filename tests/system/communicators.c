/* A program with ranks of its own, some of which multiply (tests/system/test_library.py). */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "dgemm_ooc.h"

/* What all ranks of a communicator know of a call. */
static void tell(MPI_Comm ranks, const char *step, int status, const char *said)
{
    int rank, size, first = status, alike;
    MPI_Comm_rank(ranks, &rank);
    MPI_Comm_size(ranks, &size);
    MPI_Bcast(&first, 1, MPI_INT, 0, ranks);
    alike = status == first;
    MPI_Allreduce(MPI_IN_PLACE, &alike, 1, MPI_INT, MPI_SUM, ranks);
    if (rank == 0)
        printf("%s: %d on %d of %d: %s\n", step, status, alike, size, said);
    fflush(stdout);
}

static void refuse(const char *step, const int *ranks)
{
    dgemm_ooc *product;
    int status = dgemm_ooc_create(&product, ranks);
    printf("%s: %d: %s\n", step, status, dgemm_ooc_error(product));
    fflush(stdout);
    dgemm_ooc_destroy(product);
}

static void step(MPI_Comm ranks, dgemm_ooc *product, const char *name)
{
    int status = dgemm_ooc_run(product);
    tell(ranks, name, status, dgemm_ooc_error(product));
}

/* A product of ranks whose communicator is gone. */
static dgemm_ooc *create(MPI_Comm ranks, const char *input, const char *output)
{
    MPI_Comm copy;
    dgemm_ooc *product;
    MPI_Comm_dup(ranks, &copy);
    int handle = MPI_Comm_c2f(copy);
    dgemm_ooc_create(&product, &handle);
    MPI_Comm_free(&copy);
    const char *const words[] = {input, "-o", output, "--force", "--device", "cpu"};
    dgemm_ooc_set_arguments(product, sizeof words / sizeof *words, words);
    return product;
}

static void work(MPI_Comm ranks, const char *input, const char *output)
{
    int rank;
    char report[4096];
    MPI_Comm_rank(ranks, &rank);
    snprintf(report, sizeof report, "%s.json", output);
    dgemm_ooc *product = create(ranks, input, output);
    dgemm_ooc_set(product, "a", "/none");
    step(ranks, product, "missing");
    dgemm_ooc_set(product, "a", rank == 1 ? "/other" : "/A");
    step(ranks, product, "other");
    dgemm_ooc_set(product, "a", "/A");
    dgemm_ooc_set(product, "report", "/none/report.json");
    step(ranks, product, "report");
    dgemm_ooc_set(product, "report", report);
    step(ranks, product, "product");
    dgemm_ooc_destroy(product);
}

/* With an MPI that no two threads may call, not even in turns. */
static int refuse_single(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
    int ranks = MPI_Comm_c2f(MPI_COMM_WORLD);
    refuse(provided < MPI_THREAD_SERIALIZED ? "single" : "MPI gives more", &ranks);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    int rank, provided, ranks = 1;
    MPI_Comm part, rest;
    if (argc == 1)
        return refuse_single(argc, argv);
    bool first = argc == 3;
    const char *task =
        getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    first = first && task && *task == '0';
    if (first)
        refuse("before MPI", &ranks);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ranks = MPI_Comm_c2f(MPI_COMM_NULL);
    if (first)
        refuse("nobody's", &ranks);
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0 ? 1 : MPI_UNDEFINED, -rank, &part);
    if (part != MPI_COMM_NULL) {
        work(part, argv[1], argv[2]);
        MPI_Comm_rank(part, &rank);
        MPI_Comm_split(part, rank < 2 ? 1 : MPI_UNDEFINED, rank, &rest);
        if (rest != MPI_COMM_NULL) {
            dgemm_ooc *product = create(rest, argv[1], argv[2]);
            step(rest, product, "again");
            dgemm_ooc_destroy(product);
            MPI_Comm_free(&rest);
        }
        MPI_Comm_free(&part);
    }
    MPI_Finalize();
    return 0;
}
