/* A matrix that all ranks and threads read together, once, each part of which is given to a
 * function.  What is read is counted (phase.h).  It ends on all ranks where one of them fails or is
 * asked to stop. */
#pragma once

#include <stdbool.h>

#include "block.h"
#include "store.h"

struct comm;
struct error;

enum { SHARED_READ_PART_LEAST = 64 << 10 }; /* bytes */

struct shared_read {
    /* Set by the caller: */
    const struct source *source;
    enum scalar type; /* of the elements as they are read */
    enum store_way way;
    struct comm *comm;
    int threads;   /* the same on all ranks, unless it is `apart` */
    int rooms;     /* what a thread has, in parts; 0: one, which it reads to */
    bool apart;    /* each rank has blocks of its own to read */
    void *context; /* of these functions: */
    /* A part is in memory, packed.  Called by the thread that has read it, while others do. */
    void (*add)(void *context, const struct block *part, void *memory);
    /* Null, or: so many parts (`parts`, shared_read_memory) have been added.  Called by one thread,
     * before others are read.  Returns whether this rank is to read on. */
    bool (*add_round)(void *context, int count);

    size_t part_bytes;   /* of a part, at most */
    struct block *parts; /* that the threads have read last */
    uint64_t bytes;      /* that this rank has read */
    char *memory;
    struct store *store;
};

/* Memory that it takes beside its parts. */
size_t shared_read_overhead(const struct matrix *matrix, enum scalar type, enum store_way way,
                            int threads);

/* Open the matrix, for parts that so much memory holds, but of SHARED_READ_PART_LEAST bytes at
 * least; where ranks are not `apart`, it has to be the same on all of them.  After a failure
 * shared_read_close is still due. */
int shared_read_open(struct shared_read *r, size_t memory, struct error *err);

/* Collective, blocks.  Read a block of the matrix, all of it or one after the other.  A rank that
 * has failed before, with `err`, makes all fail; EXIT_STOPPED after a request to stop (stop.h). */
int shared_read_block(struct shared_read *r, const struct block *block, struct error *err);

/* What the thread of that index has read, and its room behind it. */
void *shared_read_memory(const struct shared_read *r, int index);

void shared_read_close(struct shared_read *r);
