/* Matrices in HDF5 files: the only part of the program that knows HDF5.
 *
 * A contiguous dataset of native floats or doubles is only described here; its bytes are then moved
 * by offset on a plain descriptor (store.h).  So are the chunks of a chunked one of floats or
 * doubles, when its filters are among those of chunk.h.  Everything else that HDF5 can read goes
 * through H5Dread (matfile_read), which is correct for all of it, and one call at a time: two
 * threads never enter the library at once, since parallel builds of it are not thread-safe. */
#ifndef DGEMM_OOC_MATFILE_H
#define DGEMM_OOC_MATFILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"
#include "chunk.h"
#include "scalar.h"

struct error;

enum { MATFILE_NAME_MAX = 512 };

enum element_class { ELEMENT_FLOAT, ELEMENT_DOUBLE, ELEMENT_OTHER_REAL, ELEMENT_INTEGER };

/* What a matrix file holds.  Plain data: may be sent between ranks. */
struct matrix_info {
    char file[PATH_MAX]; /* where an external link leads to another file, that file */
    char dataset[MATFILE_NAME_MAX];
    int64_t rows, cols;             /* row-major extents, as h5py shows them */
    enum element_class elements;    /* FLOAT and DOUBLE in either byte order */
    uint64_t element_bytes;         /* of one element in the file */
    bool swapped;                   /* elements in the other byte order */
    bool by_offset;                 /* contiguous, native, whole: bytes can be moved without HDF5 */
    uint64_t offset;                /* bytes from the start of the file; only when by_offset */
    uint64_t file_bytes;            /* a rank that sees another size sees another file */
    int64_t chunk_rows, chunk_cols; /* 0 when not chunked */
    uint64_t chunk_bytes;           /* of one chunk in memory; 0 when not chunked */
    bool by_chunks;                 /* chunks can be read and decoded without HDF5 */
    struct chunk_pipeline pipeline; /* their filters; all of them when by_chunks */
    double fill;                    /* chunks that were never written are full of it */
    int64_t sources;  /* datasets that a virtual one is drawn from; 0 when not virtual */
    char netcdf[160]; /* "scale_factor = 0.1, ...": attributes by which its elements are packed or
                         missing; empty: none are */
    bool has_missing; /* no attribute says so, but netCDF takes elements equal to ... */
    double missing;   /* ... this one for missing */
    char layout[128]; /* "contiguous f64", "chunked 64x64 szip f64: read by HDF5 (szip)" */
};

/* Describe the dataset `dataset` of `file`.  A missing dataset's complaint lists what is there.
 * Complains (EXIT_INPUT) about anything but a two-dimensional dataset of real numbers. */
int matfile_describe(const char *file, const char *dataset, struct matrix_info *info,
                     struct error *err);

/* Call `visit` for every two-dimensional dataset of the file, in order of their names.  One that
 * matfile_describe would refuse comes with its complaint, otherwise problem->code is 0.
 * `visit` must not call matfile functions. */
typedef void matfile_visit(const struct matrix_info *info, const struct error *problem,
                           void *context);
int matfile_each(const char *file, matfile_visit *visit, void *context, struct error *err);

/* Call `visit` for every file that the matrix is read from and that is there, some more than once:
 * the one named, one that links lead to, those of virtual and external datasets.  `visit` must not
 * call matfile functions. */
typedef void matfile_source(const char *file, void *context);
int matfile_each_source(const struct matrix_info *info, matfile_source *visit, void *context,
                        struct error *err);

/* Whether that file is one of them. */
bool matfile_draws_on(const struct matrix_info *info, const char *file);

/* What a name of a file stands for. */
enum matfile_object { MATFILE_NOTHING, MATFILE_DATASET, MATFILE_OTHER };
int matfile_lookup(const char *file, const char *name, enum matfile_object *object,
                   struct error *err);

/* Name in `text` what a file holds beside that dataset and the groups on its way, of much the first
 * few: empty where that is nothing.  Of links, where they lead to is no matter. */
int matfile_others(const char *file, const char *dataset, char *text, size_t size,
                   struct error *err);

/* Where a chunk is stored, and which of its filters were left out; bytes 0: never written. */
struct matfile_chunk {
    uint64_t address;
    uint32_t bytes, mask;
};

/* Find all chunks of a dataset that is by_chunks, row by row.  Complains (EXIT_INPUT) about chunks
 * that are not within the file. */
int64_t matfile_chunk_count(const struct matrix_info *info);
int matfile_list_chunks(const struct matrix_info *info, struct matfile_chunk *chunks,
                        struct error *err);

/* A dataset open for H5Dread. */
struct matfile;

int matfile_open(const struct matrix_info *info, struct matfile **file, struct error *err);
void matfile_close(struct matfile *file);

/* Read a block, packed row-major (block->cols elements a row), converted to `type`.  Any thread. */
int matfile_read(struct matfile *file, enum scalar type, const struct block *block, void *to,
                 struct error *err);

/* Host bytes that HDF5 may take to read this matrix (chunk cache, chunk and conversion buffers),
 * and to list its chunks. */
size_t matfile_read_overhead(const struct matrix_info *info);
size_t matfile_list_overhead(const struct matrix_info *info);

/* How a new dataset is to be.  Zero: contiguous, and then allocated early, never filled, aligned to
 * 1 MiB. */
struct matfile_layout {
    int64_t chunk_rows, chunk_cols; /* 0: contiguous; cut to the matrix where larger */
    int gzip_level;                 /* 0: none */
    bool shuffle;
};

struct matfile_attribute {
    const char *name;
    const char *text; /* null: `number` */
    double number;
    bool fixed; /* a text that matfile_replace_text may replace */
};

/* Create `info->dataset` (rows, cols, elements FLOAT or DOUBLE) in `info->file`, with groups on its
 * way.  `new_file`: the file must not exist and is created (never through a symbolic link);
 * otherwise it is opened or created.  On success the file is closed again and `info` describes the
 * dataset: for a contiguous layout by_offset and offset say where the bytes go.  On failure nothing
 * new is left behind.  `attributes` ends with a null name; may be null. */
int matfile_create(struct matrix_info *info, bool new_file, const struct matfile_layout *layout,
                   const struct matfile_attribute *attributes, struct error *err);

/* Write another text of that length into a fixed attribute, durably.  In place: the file does not
 * grow, so that a full disk is no matter. */
int matfile_replace_text(const struct matrix_info *info, const char *name, const char *text,
                         struct error *err);

/* What an attribute holds: one string (cut where too long) or one real number. */
struct matfile_value {
    const char *name;
    bool found; /* and readable as one of the two */
    char text[MATFILE_NAME_MAX];
    double number;
    size_t bytes; /* in the file */
};

/* Look up attributes of a dataset; `values` ends with a null name. */
int matfile_get_attributes(const struct matrix_info *info, struct matfile_value *values,
                           struct error *err);

/* Write blocks of an existing dataset through H5Dwrite.  Blocks of whole chunks are fastest. */
int matfile_open_write(const struct matrix_info *info, struct matfile **file, struct error *err);
int matfile_write(struct matfile *file, enum scalar type, const struct block *block,
                  const void *from, struct error *err);

/* Make what was written durable. */
int matfile_sync(struct matfile *file, struct error *err);

/* Rename a dataset, durably; a dataset that has the new name is replaced.  With matfile_remove,
 * h5mat's way to never leave a half-written one. */
int matfile_rename(const char *file, const char *from, const char *to, struct error *err);
void matfile_remove(const char *file, const char *dataset);

/* "HDF5 1.10.8" and, when built so, ", parallel". */
const char *matfile_version(void);

#endif
