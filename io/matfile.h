/* Matrices in HDF5 files: the only module that calls the HDF5 library.
 *
 * A contiguous dataset of native floats, doubles or integers of up to 64 bits is only described
 * here; its bytes are then moved by offset on a file descriptor (store.h).  So are the chunks of a
 * chunked dataset, if all of its filters are in chunk.h.  Everything else that HDF5 can read goes
 * through H5Dread (matfile_read), which is correct in all cases.  A mutex serialises all calls of
 * the library, since its parallel builds are not thread-safe; so these functions may be called from
 * any thread, but block while another is in the library.
 *
 * Functions that return int return 0 or an exit code with a complaint in `err`. */
#pragma once

#include <stddef.h>

#include "block.h"
#include "source.h"

struct error;

/* Describe the dataset `dataset` of `file`.  Complains (EXIT_INPUT) about anything but a
 * two-dimensional dataset of real or complex numbers; if there is none of this name, the complaint
 * lists those that exist. */
int matfile_describe(const char *file, const char *dataset, struct source *source,
                     struct error *err);

/* Call `visit` for every two-dimensional dataset of the file, in alphabetical order.  `problem` has
 * the complaint of matfile_describe about it; problem->code is 0 if there is none.  `visit` must
 * not call matfile functions.  Complains (EXIT_INPUT) where groups are nested deeper than names
 * are long, after what came before. */
typedef void matfile_visit(const struct source *source, const struct error *problem, void *context);
int matfile_each(const char *file, matfile_visit *visit, void *context, struct error *err);

/* Call `visit` for every existing file that the matrix is read from, for some more than once: the
 * named file, the targets of links, and the files of virtual and external datasets.  `visit` must
 * not call matfile functions. */
typedef void matfile_source(const char *file, void *context);
int matfile_each_source(const struct source *source, matfile_source *visit, void *context,
                        struct error *err);

/* Whether the matrix is read from `file`.  Complains where that cannot be found out. */
bool matfile_draws_on(const struct source *source, const char *file, struct error *err);

/* Find out what kind of object a name in a file denotes, if any. */
enum matfile_object { MATFILE_NOTHING, MATFILE_DATASET, MATFILE_OTHER };
struct matfile_found {
    enum matfile_object object;
    char missing[DATASET_NAME_MAX]; /* the first part of the path that is not there, of NOTHING */
};
int matfile_lookup(const char *file, const char *name, struct matfile_found *found,
                   struct error *err);

/* List in `text` what a file holds besides this dataset, what belongs to it
 * (matfile_add_vector), and the groups of its path, at most the first few objects; empty if
 * nothing.  Links are not followed. */
int matfile_others(const char *file, const char *dataset, char *text, size_t size,
                   struct error *err);

/* Where a chunk is stored; bit i of `mask`: filter i was not applied; bytes 0: never written. */
struct matfile_chunk {
    uint64_t address;
    uint32_t bytes, mask;
};

/* Find all chunks of a dataset that is by_chunks, in row-major order: `chunks` has
 * matrix_chunks entries.  Complains (EXIT_INPUT) about chunks beyond the end of the file. */
int matfile_list_chunks(const struct source *source, struct matfile_chunk *chunks,
                        struct error *err);

/* An open dataset, for matfile_read or matfile_write.  On success *file is the caller's, to be
 * closed by matfile_close (which accepts null). */
struct matfile;

int matfile_open(const struct source *source, struct matfile **file, struct error *err);
void matfile_close(struct matfile *file);

/* Read a block into `to`, packed row-major (block->cols elements per row), converted to `type`.
 * Complains (EXIT_INPUT) about a finite element that is too large for it. */
int matfile_read(struct matfile *file, enum scalar type, const struct block *block, void *to,
                 struct error *err);

/* Complain (EXIT_INPUT) that the element at this place of the file is too large for the type. */
int matfile_complain_too_large(const struct source *source, enum scalar type, int64_t row,
                               int64_t col, struct error *err);

/* Host bytes that HDF5 may use to read this matrix (chunk cache, chunk and conversion buffers), and
 * to list its chunks.  Pure. */
size_t matfile_read_overhead(const struct matrix *matrix);
size_t matfile_list_overhead(const struct matrix *matrix);

/* The layout of a new dataset.  All zero: contiguous, allocated at creation, not filled, aligned to
 * 1 MiB. */
struct matfile_layout {
    int64_t chunk_rows, chunk_cols; /* 0: contiguous; clipped to the matrix; as h5py counts */
    int gzip_level;                 /* 0: none */
    bool shuffle;
};

struct matfile_attribute {
    const char *name;
    const char *text; /* null: `number` */
    double number;
    bool fixed; /* of fixed length, for matfile_replace_text */
};

/* The attributes by which a dataset that is long in the making says what it is, all fixed: whether
 * it is complete, which is written last; and its checksum.  Earlier versions of the program made no
 * mark: what they have made is unfinished as long as the checksum, if there is one, is unknown. */
#define MATFILE_MARK "complete"
#define MATFILE_MARK_NO "no "
#define MATFILE_MARK_YES "yes"
#define MATFILE_CHECKSUM "checksum"
#define MATFILE_CHECKSUM_UNKNOWN "----------------"

/* Complain (EXIT_INPUT) about a matrix that is unfinished.  Pure. */
int matfile_check_finished(const struct source *source, struct error *err);

/* Create `source->dataset` (rows, cols, and its type by matrix_set_type, complex and parts) in
 * `source->file`, and the groups of its path.  `new_file`: the file must not exist and is created
 * (never through a symbolic link); otherwise it is opened.  On success the file is
 * closed again and `source` describes the dataset; a contiguous one is by_offset, to be written at
 * `offset`.  On failure what was created is removed.  `attributes` ends with a null name; may be
 * null. */
int matfile_create(struct source *source, bool new_file, const struct matfile_layout *layout,
                   const struct matfile_attribute *attributes, struct error *err);

/* Add a dataset of one dimension to a file that matfile_create has made, which belongs to the
 * matrix `of`: `statistic` says what it is, and is an attribute.  matfile_others does not list
 * what belongs to the matrix. */
struct matfile_vector {
    char dataset[DATASET_NAME_MAX];
    char statistic[64];
    const double *values;
    int64_t count;
};
int matfile_add_vector(const struct source *of, const struct matfile_vector *vector,
                       struct error *err);

/* Compare such a dataset with what it was made from, bit by bit.  Complains (EXIT_VERIFY) where it
 * is not there, and where it differs, with the first value that does. */
int matfile_compare_vector(const struct source *of, const struct matfile_vector *vector,
                           struct error *err);

/* Overwrite a fixed attribute by a text of the same length, and sync the file.  In place: the file
 * does not grow, so this succeeds on a full disk. */
int matfile_replace_text(const struct source *source, const char *name, const char *text,
                         struct error *err);

/* Find the sign's text in the file of a contiguous dataset, outside of the dataset's elements; it
 * has been written as an attribute.  Calls no library. */
int matfile_find_sign(const struct source *source, struct file_sign *sign, struct error *err);

/* The value of an attribute: one string, truncated if too long, or one real number. */
struct matfile_value {
    const char *name;
    bool found; /* the attribute exists and is one of these */
    char text[DATASET_NAME_MAX];
    double number;
    size_t bytes; /* in the file */
};

/* Look up attributes of a dataset; `values` ends with a null name. */
int matfile_get_attributes(const struct source *source, struct matfile_value *values,
                           struct error *err);

/* Open an existing dataset for writing; write blocks, packed as for matfile_read, by H5Dwrite.
 * Blocks of whole chunks are fastest. */
int matfile_open_write(const struct source *source, struct matfile **file, struct error *err);
int matfile_write(struct matfile *file, enum scalar type, const struct block *block,
                  const void *from, struct error *err);

/* Flush HDF5's buffers and sync the file to disk. */
int matfile_sync(struct matfile *file, struct error *err);

/* What h5mat does with a dataset that matfile_create has made, and that is still there under its
 * name.  Another one of that name is left alone.
 * matfile_rename: give it another name, and sync the file.  A dataset that has this name is
 * replaced on demand; anything else that has it is a complaint.
 * matfile_retract: take away the dataset; the groups of its path that nothing else is in, up to the
 * one that was `missing` before; and, where nothing was (an empty text), the file, if nothing else
 * is in it. */
int matfile_rename(const struct source *made, const char *to, bool replace, struct error *err);
int matfile_retract(const struct source *made, const char *missing, struct error *err);

/* Remove a dataset, if it exists, and ignore errors. */
void matfile_remove(const char *file, const char *dataset);

/* "HDF5 1.10.8", or "HDF5 1.10.8, parallel".  Static storage. */
const char *matfile_version(void);
