/* Past the page cache: O_DIRECT, with many requests at work at once, which all such stores of the
 * process share (pool.h). */
#ifndef DGEMM_OOC_STORE_DIRECT_H
#define DGEMM_OOC_STORE_DIRECT_H

#include "store_impl.h"

/* Shorter runs are not worth writing directly. */
enum { DIRECT_WRITE_MIN = 64 << 10 };

/* Set store->direct; it stays null, without a complaint, where the file system refuses. */
int direct_open(struct store *store, struct error *err);
void direct_close(struct direct *direct); /* may be null */

/* Move a block from the file to `to`, or from `from` to the file; the other one is null.  Blocking,
 * any thread. */
int direct_move(const struct direct *direct, const struct runs *runs, char *to, const char *from,
                struct error *err);

#endif
