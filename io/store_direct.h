/* Direct I/O (O_DIRECT), which bypasses the page cache, with many requests in flight, by threads
 * that all stores of the process share (pool.h). */
#pragma once

#include "store_impl.h"

/* Shorter runs are written through the page cache, which is faster for them. */
enum { DIRECT_WRITE_MIN = 64 << 10 };

/* Set store->direct; it stays null, without a complaint, if the file system does not support direct
 * I/O.  Complains (EXIT_RESOURCES) if there is no memory or thread for it. */
int direct_open(struct store *store, struct error *err);
void direct_close(struct direct *direct); /* may be null */

/* Read a block to `to`, or write it from `from`; the other one is null.  Blocks; any thread. */
int direct_move(const struct direct *direct, const struct runs *runs, char *to, const char *from,
                struct error *err);
