/* The fixture of tests whose code agrees with other ranks: this one is alone. */
#pragma once

#include <mpi.h>
#include <stdlib.h>

#include "comm.h"
#include "comm_impl.h"

static struct comm comm;

static inline void open_comm(void)
{
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    comm_open(&comm, MPI_COMM_WORLD, exit);
}

static inline void close_comm(void)
{
    comm_close(&comm);
    MPI_Finalize();
}
