/* For the other users of MPI: who opens the ranks' communicators, nodes, and the exchange. */
#pragma once

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "comm.h"

enum { TAG_RAISE = 1, TAG_DATA }; /* of what is sent between ranks */

/* End all ranks at once.  From any thread. */
typedef void (*comm_ending)(int code) __attribute__((noreturn));

/* What only users of MPI see of a `struct comm`. */
struct comm_links {
    MPI_Comm all, computer,
        node;        /* in the program's order: all ranks, those of a computer, of a node;
                      * MPI_COMM_NULL: a rank alone, without MPI (comm_open_alone) */
    MPI_Comm votes;  /* apart, since a rank that raises takes no part in them */
    MPI_Comm panels; /* whose tags are numbers */
    struct {
        MPI_Request request;
        uint64_t numbers[VOTE_MAX]; /* or doubles; one that was given up may still write here */
    } vote;                         /* the newest one */
    atomic_bool has_failed;         /* comm_fail */
    comm_ending end;                /* comm_abort */
};

/* Collective over `ranks`, which stay the caller's.  Number the ranks computer by computer; each is
 * a node of its own at first (nodes.h).  MPI has started, with MPI_THREAD_SERIALIZED where there
 * are several nodes.  Without memory it calls `end`, as comm_abort does. */
void comm_open(struct comm *comm, MPI_Comm ranks, comm_ending end);

/* A single rank, for which MPI is neither started nor called. */
void comm_open_alone(struct comm *comm, comm_ending end);

/* Collective.  Form nodes of so many ranks. */
void comm_group(struct comm *comm, int size);

/* While two threads use MPI, one at a time: around every call. */
void comm_lock(void);
void comm_unlock(void);

/* Who waits for MPI naps between two looks, and asks now and then whether a rank has failed. */
enum { LOOKS = 50 };
void comm_nap(void);
