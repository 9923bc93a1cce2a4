/* Writes through a shared mapping, for memory file systems (tmpfs) and many threads.  There write
 * calls lock the file while they copy, so that they are serialised; a mapping costs page faults,
 * but all threads copy concurrently. */
#pragma once

#include "store_impl.h"

/* Set store->mapping and its window; the mapping stays null, without a complaint, if the file
 * cannot be mapped and populated. */
void mapped_open(struct store *store);
void mapped_close(struct store *store);

/* Populate the pages of [begin, end) of the file, ahead of writing.  Ignores failures. */
void mapped_prepare(struct store *store, uint64_t begin, uint64_t end);

/* Write a block from `from`, packed, to the file.  Blocks; any thread. */
int mapped_write(struct store *store, const struct runs *runs, const char *from, struct error *err);

/* The bytes that `threads` threads, which write or prepare, keep mapped, at most, with the least
 * window.  Pure. */
size_t mapped_overhead_bytes(int threads);
