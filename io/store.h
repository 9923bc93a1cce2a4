/* Stores: transfer of blocks of one matrix between its file and memory, by any number of threads.
 *
 * There are three back ends: "posix" moves the bytes of a contiguous native matrix by offset, by
 * direct I/O or through the page cache; "chunks" reads the chunks of a chunked matrix by offset and
 * decodes them; "library" reads everything else, by the library of its format.  Blocks in memory
 * are packed row-major, block->cols elements per row; the memory is the caller's.  (block.h cuts a
 * block that is too large for one buffer.)  Above the diagonal of a packed triangle (matrix.h) 0 is
 * read, and nothing is written.
 *
 * Functions that return int return 0 or an exit code with a complaint in `err`.  They block, and
 * may be called from any thread; only store_open and store_close must not overlap with other calls
 * on the same store. */
#pragma once

#include "format.h"

struct store;

enum store_mode { STORE_READ, STORE_WRITE };

/* The I/O method.  AUTO is resolved once, at open: LIBRARY for a matrix that only that can read;
 * BUFFERED for one that is small or chunked, on a memory file system (tmpfs), mostly in the page
 * cache (inputs), or on a file system without direct I/O; otherwise DIRECT.  MAPPED writes through
 * a shared mapping and reads like BUFFERED; AUTO chooses it for writing a large matrix to a memory
 * file system on a node with at least STORE_MAPPING_CPUS CPUs. */
enum store_way { STORE_AUTO, STORE_DIRECT, STORE_BUFFERED, STORE_MAPPED, STORE_LIBRARY };
enum { STORE_MAPPING_CPUS = 8 };

/* Whether a matrix would be read as elements of `type` by offset, or through the library of its
 * format; if neither, its chunks are read by offset.  Pure. */
bool store_by_offset(const struct matrix *matrix, enum scalar type, enum store_way way);
bool store_through_library(const struct matrix *matrix, enum scalar type, enum store_way way);

/* Complain (EXIT_INPUT) where elements would have to be converted, and the format has no library
 * that does it.  Pure. */
int store_check_readable(const struct source *source, enum scalar type, struct error *err);

/* Open a matrix as elements of `type`.  For STORE_WRITE the matrix must be by_offset and of that
 * type; LIBRARY is treated as AUTO, and reading is allowed too.  Complains (EXIT_INPUT) if the file
 * does not exist here or has another size than source->file_bytes or, to be written, another sign
 * than source->sign, or if DIRECT or MAPPED was requested and is not possible.  On success *store
 * is the caller's, to be closed by store_close. */
int store_open(const struct source *source, enum scalar type, enum store_mode mode,
               enum store_way way, struct store **store, struct error *err);

/* The method in use, as one word.  Static storage. */
const char *store_way_name(const struct store *store);

/* Host bytes that a store opened like this may use, besides the blocks of its callers, when
 * `threads` threads call it.  Pure. */
size_t store_overhead_bytes(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                            enum store_way way, int threads);

/* Let a store that writes through a mapping keep so many bytes of the file mapped, beside its
 * overhead: the more, the less often it unmaps them, which stalls all threads.  Before any
 * write. */
void store_widen(struct store *store, size_t bytes);

/* Host bytes that it may use in addition and shares with all other stores of the process: together,
 * several stores use the maximum of these.  Pure. */
size_t store_shared_bytes(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                          enum store_way way);

/* Transfer a block, which must be inside of the matrix.  Concurrent writes must not overlap. */
int store_read(struct store *store, const struct block *block, void *to, struct error *err);
int store_write(struct store *store, const struct block *block, const void *from,
                struct error *err);

/* Allocate the disk space of the whole matrix now, so that a full disk is reported early
 * (EXIT_RESOURCES).  Does nothing where the file system does not support this, or where
 * store_prepare does it instead. */
int store_reserve(struct store *store, struct error *err);

/* Allocate and clear the pages of some rows in a memory file system, ahead of writing them through
 * the mapping: clearing takes longer than writing.  Returns false where there is nothing to gain.
 * Ignores failures, which the later write reports. */
bool store_prepare(struct store *store, int64_t row, int64_t rows);

/* Sync what was written to disk. */
int store_sync(struct store *store, struct error *err);

/* Ask the kernel to drop the file's pages from the page cache, so that later reads come from the
 * disk.  Only pages that have been synced are dropped. */
void store_forget(struct store *store);

/* Accepts null.  Does not sync. */
void store_close(struct store *store);
