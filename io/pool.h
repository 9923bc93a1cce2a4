/* The pool of I/O threads of the process, for all that is read and written past the page cache.
 *
 * A thread that has many requests runs them on the pool and works on them itself meanwhile.
 * POOL_WIDTH requests of the process are in flight at most.  Runs of different threads take turns,
 * request by request, so that a few writers are not held up by many readers.  A thread whose last
 * requests are in flight may work on one of another run meanwhile, and return later for that. */
#ifndef DGEMM_OOC_POOL_H
#define DGEMM_OOC_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum {
    POOL_WIDTH = 32,
    POOL_ALIGNMENT = 4096,
    POOL_BUFFER = (256 << 10) + 2 * POOL_ALIGNMENT, /* bytes */
};

/* Do request `index` of a run.  Blocking, in any thread.  `buffer` has POOL_BUFFER bytes at a
 * multiple of POOL_ALIGNMENT, which are the request's own until it returns.  `err` is clean at
 * first, and has a complaint after a failure. */
typedef void pool_request(void *context, int64_t index, char *buffer, struct error *err);

/* Become a user of the pool; the first one starts its threads.  EXIT_RESOURCES, and no user, where
 * there is no memory or not one thread for it.  Any thread. */
int pool_acquire(struct error *err);

/* Be a user no more; all runs of this user's have returned.  The last one ends the threads, waiting
 * for them, and frees the memory.  Any thread. */
void pool_release(void);

/* Do requests 0 ... count - 1, in any order and at the same time.  Blocking; for a user of the
 * pool, in any thread that is not doing a request.  Once one has failed no further one begins, and
 * its complaint is in `err` when those that had begun are done.  Returns err->code; `context` stays
 * the caller's. */
int pool_run(pool_request *request, void *context, int64_t count, struct error *err);

/* Host bytes that the pool takes while it has users.  Pure. */
size_t pool_bytes(void);

#endif
