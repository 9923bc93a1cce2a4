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

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"
#include "chunk.h"
#include "scalar.h"

struct error;

enum { MATFILE_NAME_MAX = 512, MATFILE_PART_MAX = 12 };

/* A random text that one run has written somewhere into a file.  Who is about to write to a file of
 * this name reads it back first, since another node may have another file there. */
enum { SIGN_TEXT = 17 }; /* 16 digits, and the end */
struct file_sign {
    uint64_t at; /* bytes from the start of the file */
    char text[SIGN_TEXT];
};

/* The sources of a virtual dataset, direct and indirect, all of which may be open at a time. */
struct matfile_sources {
    int64_t datasets, files;         /* files: others than that of the virtual dataset */
    int64_t chunks;                  /* of all of them */
    uint64_t chunk_bytes, row_bytes; /* the largest chunk, and the largest row of chunks */
};

/* What a matrix file holds.  Plain data: may be sent between ranks.
 *
 * A complex matrix is described as the real one that its bytes are: of twice the columns, a real
 * part and an imaginary part in turns.  All that counts elements or columns counts these, and
 * blocks of such a matrix begin and end at even columns. */
struct matrix_info {
    char file[PATH_MAX]; /* the target's file, if the dataset is behind an external link */
    char dataset[MATFILE_NAME_MAX];
    uint64_t object[3];              /* device, file and address of the dataset; all 0: unknown */
    int64_t rows, cols;              /* row-major extents, as h5py shows them */
    enum scalar elements;            /* in either byte order; OTHER: of another type */
    bool integers;                   /* of whatever type */
    bool complex;                    /* pairs of these; */
    char parts[2][MATFILE_PART_MAX]; /* ... what the file calls their members */
    uint64_t element_bytes;          /* of one element in the file */
    bool swapped;                    /* elements in the other byte order */
    bool by_offset;                  /* contiguous, native, complete: readable without HDF5 */
    bool never_written;              /* contiguous, native, without bytes in the file */
    uint64_t offset;                 /* bytes from the start of the file; only when by_offset */
    uint64_t file_bytes;             /* file size: all ranks have to see the same */
    int64_t chunk_rows, chunk_cols;  /* 0 when not chunked */
    uint64_t chunk_bytes;            /* of one chunk in memory; 0 when not chunked */
    bool by_chunks;                  /* chunks can be read and decoded without HDF5 */
    struct chunk_pipeline pipeline;  /* their filters; all of them when by_chunks */
    double fill;                     /* the value of chunks that were never written, */
    int64_t fill_integer;            /* exactly, if elements are integers up to int64 */
    struct matfile_sources sources;  /* of a virtual one */
    char netcdf[160];   /* "scale_factor = 0.1, ...": netCDF attributes of packing and of missing
                         values; empty: none */
    char similar[80];   /* likewise, of names that only resemble these, which are not looked at */
    char missing_by[8]; /* "netCDF" or "R": elements equal to `missing` are missing there; empty:
                         * none are */
    double missing;
    bool of_matlab;        /* which shows its transpose */
    struct file_sign sign; /* of a file that is written to; empty: none */
    bool unfinished;       /* an output that is not complete: MATFILE_MARK says so */
    char layout[128];      /* "contiguous f64", "chunked 64x64 szip f64: read by HDF5 (szip)" */
};

/* Whether its elements are of this type, in either byte order. */
static inline bool matrix_holds(const struct matrix_info *info, enum scalar type)
{
    return info->elements == type;
}

/* Let its elements be of this type. */
static inline void matrix_set_type(struct matrix_info *info, enum scalar type)
{
    info->elements = type;
    info->integers = scalar_is_integer(type);
}

/* Describe the dataset `dataset` of `file`.  Complains (EXIT_INPUT) about anything but a
 * two-dimensional dataset of real or complex numbers; if there is none of this name, the complaint
 * lists those that exist. */
int matfile_describe(const char *file, const char *dataset, struct matrix_info *info,
                     struct error *err);

/* Columns of the matrix that this is the description of, as h5py shows them. */
static inline int64_t matfile_cols(const struct matrix_info *info)
{
    return info->complex ? info->cols / 2 : info->cols;
}

/* Call `visit` for every two-dimensional dataset of the file, in alphabetical order.  `problem` has
 * the complaint of matfile_describe about it; problem->code is 0 if there is none.  `visit` must
 * not call matfile functions.  Complains (EXIT_INPUT) where groups are nested deeper than names
 * are long, after what came before. */
typedef void matfile_visit(const struct matrix_info *info, const struct error *problem,
                           void *context);
int matfile_each(const char *file, matfile_visit *visit, void *context, struct error *err);

/* Call `visit` for every existing file that the matrix is read from, for some more than once: the
 * named file, the targets of links, and the files of virtual and external datasets.  `visit` must
 * not call matfile functions. */
typedef void matfile_source(const char *file, void *context);
int matfile_each_source(const struct matrix_info *info, matfile_source *visit, void *context,
                        struct error *err);

/* Whether both are the same dataset, by whatever names. */
bool matfile_is_same(const struct matrix_info *a, const struct matrix_info *b);

/* Whether the matrix is read from `file`.  Complains where that cannot be found out. */
bool matfile_draws_on(const struct matrix_info *info, const char *file, struct error *err);

/* Find out what kind of object a name in a file denotes, if any. */
enum matfile_object { MATFILE_NOTHING, MATFILE_DATASET, MATFILE_OTHER };
struct matfile_found {
    enum matfile_object object;
    char missing[MATFILE_NAME_MAX]; /* the first part of the path that is not there, of NOTHING */
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

/* The number of chunks of a matrix, written or not; 0 when not chunked.  Pure. */
int64_t matfile_chunk_count(const struct matrix_info *info);

/* Find all chunks of a dataset that is by_chunks, in row-major order: `chunks` has
 * matfile_chunk_count entries.  Complains (EXIT_INPUT) about chunks beyond the end of the file. */
int matfile_list_chunks(const struct matrix_info *info, struct matfile_chunk *chunks,
                        struct error *err);

/* An open dataset, for matfile_read or matfile_write.  On success *file is the caller's, to be
 * closed by matfile_close (which accepts null). */
struct matfile;

int matfile_open(const struct matrix_info *info, struct matfile **file, struct error *err);
void matfile_close(struct matfile *file);

/* Read a block into `to`, packed row-major (block->cols elements per row), converted to `type`.
 * Complains (EXIT_INPUT) about a finite element that is too large for it. */
int matfile_read(struct matfile *file, enum scalar type, const struct block *block, void *to,
                 struct error *err);

/* Complain (EXIT_INPUT) that the element at this place of the file is too large for the type. */
int matfile_complain_too_large(const struct matrix_info *info, enum scalar type, int64_t row,
                               int64_t col, struct error *err);

/* Host bytes that HDF5 may use to read this matrix (chunk cache, chunk and conversion buffers), and
 * to list its chunks.  Pure. */
size_t matfile_read_overhead(const struct matrix_info *info);
size_t matfile_list_overhead(const struct matrix_info *info);

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
int matfile_check_finished(const struct matrix_info *info, struct error *err);

/* Create `info->dataset` (rows, cols, and its type by matrix_set_type, complex and parts) in
 * `info->file`, and the groups of its path.  `new_file`: the file must not exist and is created
 * (never through a symbolic link); otherwise it is opened.  On success the file is
 * closed again and `info` describes the dataset; a contiguous one is by_offset, to be written at
 * `offset`.  On failure what was created is removed.  `attributes` ends with a null name; may be
 * null. */
int matfile_create(struct matrix_info *info, bool new_file, const struct matfile_layout *layout,
                   const struct matfile_attribute *attributes, struct error *err);

/* Add a dataset of one dimension to a file that matfile_create has made, which belongs to the
 * matrix `of`: `statistic` says what it is, and is an attribute.  matfile_others does not list
 * what belongs to the matrix. */
struct matfile_vector {
    char dataset[MATFILE_NAME_MAX];
    char statistic[64];
    const double *values;
    int64_t count;
};
int matfile_add_vector(const struct matrix_info *of, const struct matfile_vector *vector,
                       struct error *err);

/* Compare such a dataset with what it was made from, bit by bit.  Complains (EXIT_VERIFY) where it
 * is not there, and where it differs, with the first value that does. */
int matfile_compare_vector(const struct matrix_info *of, const struct matfile_vector *vector,
                           struct error *err);

/* Overwrite a fixed attribute by a text of the same length, and sync the file.  In place: the file
 * does not grow, so this succeeds on a full disk. */
int matfile_replace_text(const struct matrix_info *info, const char *name, const char *text,
                         struct error *err);

/* Find the sign's text in the file of a contiguous dataset, outside of the dataset's elements; it
 * has been written as an attribute.  Calls no library. */
int matfile_find_sign(const struct matrix_info *info, struct file_sign *sign, struct error *err);

/* The value of an attribute: one string, truncated if too long, or one real number. */
struct matfile_value {
    const char *name;
    bool found; /* the attribute exists and is one of these */
    char text[MATFILE_NAME_MAX];
    double number;
    size_t bytes; /* in the file */
};

/* Look up attributes of a dataset; `values` ends with a null name. */
int matfile_get_attributes(const struct matrix_info *info, struct matfile_value *values,
                           struct error *err);

/* Open an existing dataset for writing; write blocks, packed as for matfile_read, by H5Dwrite.
 * Blocks of whole chunks are fastest. */
int matfile_open_write(const struct matrix_info *info, struct matfile **file, struct error *err);
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
int matfile_rename(const struct matrix_info *made, const char *to, bool replace, struct error *err);
int matfile_retract(const struct matrix_info *made, const char *missing, struct error *err);

/* Remove a dataset, if it exists, and ignore errors. */
void matfile_remove(const char *file, const char *dataset);

/* "HDF5 1.10.8", or "HDF5 1.10.8, parallel".  Static storage. */
const char *matfile_version(void);
