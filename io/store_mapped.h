/* Through a mapping of the file: the way to write to a file system in memory with many threads.
 * There a write call is one copy that holds the file for itself, so that threads take turns; a
 * mapping costs page faults, but every thread copies at once. */
#ifndef DGEMM_OOC_STORE_MAPPED_H
#define DGEMM_OOC_STORE_MAPPED_H

#include "store_impl.h"

/* Set store->mapping; it stays null, without a complaint, where it cannot be. */
void mapped_open(struct store *store);
void mapped_close(struct store *store);

/* Ask for the pages of [begin, end) of the file, ahead of those who write. */
void mapped_prepare(const struct store *store, uint64_t begin, uint64_t end);

/* Move a block from `from` to the file.  Any thread. */
int mapped_write(const struct store *store, const struct runs *runs, const char *from,
                 struct error *err);

/* What so many threads at work keep mapped. */
size_t mapped_overhead_bytes(int threads);

#endif
