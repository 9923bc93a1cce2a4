/* Byte movers: blocks of one matrix between a file and memory, from any number of threads.
 *
 * Three back ends: "posix" moves the bytes of a contiguous native matrix by offset, past the
 * page cache or through it; "chunks" reads the chunks of a chunked one by offset and decodes
 * them; "hdf5" reads everything else.  Memory is packed row-major: block->cols elements a row.
 * A block too large for one buffer is moved in parts (block.h). */
#ifndef DGEMM_OOC_STORE_H
#define DGEMM_OOC_STORE_H

#include "matfile.h"

struct store;

enum store_mode { STORE_READ, STORE_WRITE };

/* How bytes are to move.  AUTO, decided once, at open: a matrix that HDF5 must read is read by it;
 * buffered what is small or chunked, lies in a file system in memory, is mostly in the page cache
 * already (of an input) or on a file system that refuses direct I/O; direct all other.  MAPPED
 * writes through a mapping and reads as BUFFERED does; AUTO takes it for what is not small, in a
 * file system in memory, where enough CPUs copy at once. */
enum store_way { STORE_AUTO, STORE_DIRECT, STORE_BUFFERED, STORE_MAPPED, STORE_HDF5 };
enum { STORE_MAPPING_CPUS = 8 }; /* of the node: so many or more are enough */

/* How a matrix would be read as elements of `type`: its bytes by offset; by HDF5; when neither, its
 * chunks by offset.  Pure. */
bool store_by_offset(const struct matrix_info *info, enum scalar type, enum store_way way);
bool store_through_hdf5(const struct matrix_info *info, enum scalar type, enum store_way way);

/* Open the matrix as elements of `type`.  Writing needs a matrix that is by_offset, of that type,
 * and takes HDF5 for AUTO; what was written can be read back.  Complains (EXIT_INPUT) when this
 * process sees no such file or one of another size, or when DIRECT or MAPPED is asked for but
 * not to be had. */
int store_open(const struct matrix_info *info, enum scalar type, enum store_mode mode,
               enum store_way way, struct store **store, struct error *err);

/* The way that was chosen, in one word. */
const char *store_way_name(const struct store *store);

/* Host bytes that a store so opened may take for itself beside the blocks of its callers, who have
 * so many threads.  Pure. */
size_t store_overhead_bytes(const struct matrix_info *info, enum scalar type, enum store_mode mode,
                            enum store_way way, int threads);

/* Those that it may take together with all other stores of the process: of several stores, the
 * largest number is what they take.  Pure. */
size_t store_shared_bytes(const struct matrix_info *info, enum scalar type, enum store_mode mode,
                          enum store_way way);

int store_read(struct store *store, const struct block *block, void *to, struct error *err);
int store_write(struct store *store, const struct block *block, const void *from,
                struct error *err);

/* Take the disk space of the whole matrix now, so that a full disk is no surprise later
 * (EXIT_RESOURCES).  Does nothing where the file system cannot, or where store_prepare is for. */
int store_reserve(struct store *store, struct error *err);

/* Make memory of a file system in memory ready for some rows, ahead of those who write them through
 * a mapping: clearing it takes longer than writing.  False where there is nothing to gain.  A
 * failure is left to who writes there.  Any thread. */
bool store_prepare(struct store *store, int64_t row, int64_t rows);

/* Make what was written durable. */
int store_sync(struct store *store, struct error *err);

/* Let the kernel drop what it has cached of the file, where it is willing to, so that the disk is
 * read: for what has been made durable. */
void store_forget(struct store *store);

void store_close(struct store *store);

#endif
