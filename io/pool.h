/* The process's pool of I/O threads, for direct I/O.
 *
 * A caller runs a set of requests on the pool and executes some of them itself.  At most POOL_WIDTH
 * requests of the process are in flight.  The runs of different callers are served round-robin,
 * request by request, so that many readers do not starve a few writers.  A caller whose last
 * requests are in flight may execute a request of another run meanwhile, and return later because
 * of that. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum {
    POOL_WIDTH = 32,
    POOL_ALIGNMENT = 4096,
    POOL_BUFFER = (256 << 10) + 2 * POOL_ALIGNMENT, /* bytes */
};

/* Execute request `index` of a run.  Blocks; called on any thread.  `buffer` has POOL_BUFFER bytes,
 * aligned to POOL_ALIGNMENT, for this request alone until it returns.  `err` is empty on entry, and
 * has a complaint after a failure. */
typedef void pool_request(void *context, int64_t index, char *buffer, struct error *err);

/* Become a user of the pool; the first user starts its threads.  Fails (EXIT_RESOURCES) if there is
 * no memory for it or no thread can be started.  Any thread. */
int pool_acquire(struct error *err);

/* Stop being a user; all runs of this user must have returned.  The last user joins the threads and
 * frees the memory.  Any thread. */
void pool_release(void);

/* Execute requests 0 ... count - 1, in any order and concurrently.  Blocks until all are done.  The
 * caller is a user of the pool, on any thread that is not executing a request.  After a failure no
 * further requests are started, and `err` has the first complaint.  Returns err->code; `context`
 * stays the caller's. */
int pool_run(pool_request *request, void *context, int64_t count, struct error *err);

/* Host bytes that the pool uses while it has users.  Pure. */
size_t pool_bytes(void);
