/* The throughput of the network: every rank sends BYTES to each of the others in messages of 1 MiB,
 * either all at once or round a ring.
 *
 *     mpirun -n N raw_exchange all|ring BYTES      prints the seconds of the slowest rank */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 1 << 20 };

static int rank, ranks;

/* Start to send to one rank and to receive from one, in messages; returns their number. */
static int exchange(char *out, int to, char *in, int from, size_t bytes, MPI_Request *requests)
{
    int count = 0;
    for (size_t done = 0; done < bytes; done += MESSAGE) {
        int size = (int)(bytes - done < MESSAGE ? bytes - done : MESSAGE);
        MPI_Irecv(in + done, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, &requests[count++]);
        MPI_Isend(out + done, size, MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests[count++]);
    }
    return count;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t bytes = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    int ring = bytes > 0 && strcmp(argv[1], "ring") == 0, count = 0;
    char *memory = calloc((size_t)ranks, bytes);
    MPI_Request *requests = calloc(2 * (size_t)ranks * (bytes / MESSAGE + 1), sizeof *requests);
    if (bytes == 0 || !memory || !requests)
        MPI_Abort(MPI_COMM_WORLD, 2);
    double most, begin;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int i = 1; i < ranks; i++) {
        int to = (rank + (ring ? 1 : i)) % ranks, from = (rank + ranks - (ring ? 1 : i)) % ranks;
        int mine = ring ? (rank + ranks - i + 1) % ranks : rank;
        int theirs = ring ? (rank + ranks - i) % ranks : from;
        count += exchange(memory + (size_t)mine * bytes, to, memory + (size_t)theirs * bytes, from,
                          bytes, requests + count);
        if (ring || i + 1 == ranks) {
            MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
            count = 0;
        }
    }
    double seconds = MPI_Wtime() - begin;
    MPI_Reduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.6f\n", most);
    free(requests);
    free(memory);
    MPI_Finalize();
    return 0;
}
