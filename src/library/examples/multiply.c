/* Multiply A and B of a file on all ranks:
 *
 *     mpicc multiply.c $(pkg-config --cflags --libs dgemm_ooc) -o multiply
 *     mpirun -n 3 ./multiply input.h5 C.h5 */
#include <dgemm_ooc.h>
#include <mpi.h>
#include <stdio.h>

static int tell(void *user, const char *phase, double share, double seconds_left)
{
    (void)user;
    if (share >= 0)
        printf("%s: %.0f %%, %.0f s to go\n", phase, 100 * share, seconds_left);
    return 0; /* anything else would stop the run */
}

int main(int argc, char **argv)
{
    int provided, rank;
    double seconds;
    dgemm_ooc *product;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int ranks = MPI_Comm_c2f(MPI_COMM_WORLD), status = dgemm_ooc_create(&product, &ranks);
    if (status == DGEMM_OOC_OK && argc == 3) {
        const char *const words[] = {argv[1], "-o", argv[2], "--transa", "T"};
        dgemm_ooc_set_arguments(product, 5, words);
        dgemm_ooc_set(product, "host-memory", "1G");
        dgemm_ooc_on_progress(product, tell, NULL);
        status = dgemm_ooc_run(product);
    }
    if (rank == 0 && dgemm_ooc_number(product, "wall_s", &seconds) == DGEMM_OOC_OK)
        printf("%s after %.1f s\n", argv[2], seconds);
    if (rank == 0)
        fputs(dgemm_ooc_error(product), stderr);
    dgemm_ooc_destroy(product);
    MPI_Finalize();
    return status;
}
