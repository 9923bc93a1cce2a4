/* Byte movers: blocks of one matrix between a file and memory, from any number of threads.
 *
 * Three back ends: "posix" moves the bytes of a contiguous native matrix by offset with large pread
 * and pwrite calls; "chunks" reads the chunks of a chunked one by offset and decodes them; "hdf5"
 * reads everything else.  Memory is packed row-major: block->cols elements
 * a row.  A block too large for one buffer is moved in parts (block.h). */
#ifndef DGEMM_OOC_STORE_H
#define DGEMM_OOC_STORE_H

#include "matfile.h"

struct store;

enum store_mode { STORE_READ, STORE_WRITE };

/* How a matrix is read as elements of `type`: whether by HDF5, and the host bytes that this takes
 * with so many threads, beside the memory that is read to.  Pure. */
bool store_through_hdf5(const struct matrix_info *info, enum scalar type, bool force_hdf5);
size_t store_read_overhead(const struct matrix_info *info, enum scalar type, bool force_hdf5,
                           int readers);

/* Open the matrix as elements of `type`.  `force_hdf5`: read through HDF5 even where offsets would
 * do.  Writing needs a matrix that is by_offset, of that type; what was written can be read back.
 * Complains (EXIT_INPUT) when this process sees no such file or one of another size. */
int store_open(const struct matrix_info *info, enum scalar type, enum store_mode mode,
               bool force_hdf5, struct store **store, struct error *err);

int store_read(struct store *store, const struct block *block, void *to, struct error *err);
int store_write(struct store *store, const struct block *block, const void *from,
                struct error *err);

/* Take the disk space of the whole matrix now, so that a full disk is no surprise later
 * (EXIT_RESOURCES).  Does nothing where the file system cannot. */
int store_reserve(struct store *store, struct error *err);

/* Make what was written durable. */
int store_sync(struct store *store, struct error *err);

void store_close(struct store *store);

#endif
