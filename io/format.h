/* File formats: what is known of the matrices of a file, and what only the format itself can do.
 * Bytes that lie in a file as they do in memory are moved by store.h.
 *
 * A format is a file that exports its record, format_NAME, and has a line in FORMATS.  Nothing
 * outside of its files names it.
 *
 * Functions that return int return 0 or an exit code with a complaint in `err`.  All may be called
 * from any thread, and may block while another is in the format's library. */
#pragma once

#include <stddef.h>

#include "block.h"
#include "source.h"

struct error;

/* The first one has the files whose names say nothing else. */
#define FORMATS(FORMAT) FORMAT(hdf5) FORMAT(npy) FORMAT(raw) FORMAT(bed)

/* What is called for each matrix, with the complaint about it in `problem` (code 0: none), or for
 * each file.  Neither may call functions of formats. */
typedef void format_visit(const struct source *source, const struct error *problem, void *context);
typedef void format_file_visit(const char *file, void *context);

/* What kind of object a name in a file denotes, if any. */
enum format_object { FORMAT_NOTHING, FORMAT_DATASET, FORMAT_OTHER };
struct format_found {
    enum format_object object;
    char missing[DATASET_NAME_MAX]; /* the first part of the path that is not there, of NOTHING */
};

/* Where a chunk is stored; bit i of `mask`: filter i was not applied; bytes 0: never written. */
struct format_chunk {
    uint64_t address;
    uint32_t bytes, mask;
};

/* The layout of a new dataset.  All zero: contiguous, allocated at creation, not filled, aligned to
 * 1 MiB. */
struct format_layout {
    int64_t chunk_rows, chunk_cols; /* 0: contiguous; clipped to the matrix; as h5py counts */
    int gzip_level;                 /* 0: none */
    bool shuffle;
};

struct format_attribute {
    const char *name;
    const char *text; /* null: `number` */
    double number;
    bool fixed; /* of fixed length, for replace_text */
};

/* The attributes by which a dataset that is long in the making says what it is, all fixed: whether
 * it is complete, which is written last; and its checksum.  Earlier versions of the program made no
 * mark: what they have made is unfinished as long as the checksum, if there is one, is unknown. */
#define FORMAT_MARK "complete"
#define FORMAT_MARK_NO "no "
#define FORMAT_MARK_YES "yes"
#define FORMAT_CHECKSUM "checksum"
#define FORMAT_CHECKSUM_UNKNOWN "----------------"

/* What a dataset is that belongs to a matrix beside it. */
#define FORMAT_STATISTIC "statistic"

/* What is missing of a symmetric matrix.  By this a dataset of one dimension is a packed triangle
 * (matrix.h), and the matrix has its name. */
#define FORMAT_TRIANGLE "triangle"
#define FORMAT_TRIANGLE_PACKED "lower, packed row by row"

/* The value of an attribute: one string, truncated if too long, or one real number. */
struct format_value {
    const char *name;
    bool found; /* the attribute exists and is one of these */
    char text[DATASET_NAME_MAX];
    double number;
    size_t bytes; /* in the file */
};

/* A dataset of one dimension, which belongs to a matrix beside it. */
struct format_vector {
    char dataset[DATASET_NAME_MAX];
    char statistic[64]; /* what it is */
    const double *values;
    int64_t count;
};

/* What a format cannot do, or need not, is null.  It has at least a name, `describe` and, but for
 * the first format, endings of names or `is_named_by`. */
struct format {
    const char *name;                         /* as --io calls what its library reads */
    const char *endings;                      /* of its files' names, as in ".npy .npy.part" */
    bool (*is_named_by)(const char *dataset); /* whatever the file's name */
    const char *(*version)(void);             /* of its library (text.h) */
    void (*own_process)(void);                /* as format_own_process, below */
    double read_bytes_per_s;                  /* that a rank gets by `read`, roughly */

    /* Describe the dataset that `source` names.  Complains (EXIT_INPUT) about anything but a
     * two-dimensional one of real or complex numbers; if there is none of this name, the complaint
     * lists those that exist. */
    int (*describe)(struct source *source, struct error *err);

    /* As format_each and format_each_file, and format_lookup, below.  Null: a file is one matrix,
     * by any name. */
    int (*each)(const char *file, format_visit *visit, void *context, struct error *err);
    int (*each_file)(const struct source *source, format_file_visit *visit, void *context,
                     struct error *err);
    int (*lookup)(const char *file, const char *name, struct format_found *found,
                  struct error *err);

    /* What is neither by_offset nor by_chunks.  On success *file, what the format knows of the open
     * dataset, is the caller's, to be closed.  `close` accepts null.  Blocks are packed row-major
     * (block->cols elements per row), and converted from or to `type`.  `read` complains
     * (EXIT_INPUT) about a finite element that is too large for it; `write` is fastest for whole
     * chunks; `sync` flushes buffers and syncs the file to disk. */
    int (*open)(const struct source *source, bool write, void **file, struct error *err);
    void (*close)(void *file);
    int (*read)(void *file, enum scalar type, const struct block *block, void *to,
                struct error *err);
    int (*write)(void *file, enum scalar type, const struct block *block, const void *from,
                 struct error *err);
    int (*sync)(void *file, struct error *err);

    /* Find all chunks of a dataset that is by_chunks, in row-major order: `chunks` has
     * matrix_chunks entries.  Complains (EXIT_INPUT) about chunks beyond the end of the file. */
    int (*list_chunks)(const struct source *source, struct format_chunk *chunks, struct error *err);

    /* Host bytes that its library may use to read the matrix, and to list its chunks.  Pure. */
    size_t (*read_overhead)(const struct matrix *matrix);
    size_t (*list_overhead)(const struct matrix *matrix);

    /* Look up attributes of a dataset; `values` ends with a null name. */
    int (*get_attributes)(const struct source *source, struct format_value *values,
                          struct error *err);

    /* Overwrite a fixed attribute by a text of the same length, and sync the file.  In place: the
     * file does not grow, so this succeeds on a full disk. */
    int (*replace_text)(const struct source *source, const char *name, const char *text,
                        struct error *err);

    /* Create `source->dataset` (rows, cols, and its type by matrix_set_type, complex and parts) in
     * `source->file`, and the groups of its path.  `new_file`: the file must not exist and is
     * created (never through a symbolic link); otherwise it is opened.  On success the file is
     * closed again and `source` describes the dataset; a contiguous one is by_offset, to be written
     * at `offset`.  On failure what was created is removed.  `attributes` ends with a null name;
     * may be null. */
    int (*create)(struct source *source, bool new_file, const struct format_layout *layout,
                  const struct format_attribute *attributes, struct error *err);

    /* Add a dataset of one dimension to a file that `create` has made, which belongs to the matrix
     * `of`.  Put values, in place, where it has NaN, if it is there.  Compare it with what it was
     * made from, bit by bit: complains (EXIT_VERIFY) where it is not there, and where it differs,
     * with the first value that does. */
    int (*add_vector)(const struct source *of, const struct format_vector *vector,
                      struct error *err);
    int (*fill_vector)(const struct source *of, const struct format_vector *vector,
                       struct error *err);
    int (*compare_vector)(const struct source *of, const struct format_vector *vector,
                          struct error *err);

    /* List in `text` what a file holds besides this dataset, what belongs to it (add_vector), and
     * the groups of its path, at most the first few objects; empty if nothing.  Links are not
     * followed. */
    int (*others)(const char *file, const char *dataset, char *text, size_t size,
                  struct error *err);

    /* What h5mat does with a dataset that `create` has made, and that is still there under its
     * name.  Another one of that name is left alone.
     * rename: give it another name, and sync the file.  A dataset that has this name is replaced on
     * demand; anything else that has it is a complaint.
     * retract: take away the dataset; the groups of its path that nothing else is in, up to the one
     * that was `missing` before; and, where nothing was (an empty text), the file, if nothing else
     * is in it. */
    int (*rename)(const struct source *made, const char *to, bool replace, struct error *err);
    int (*retract)(const struct source *made, const char *missing, struct error *err);

    /* Remove a dataset, if it exists, and ignore errors. */
    void (*remove)(const char *file, const char *dataset);
};

#define FORMAT_RECORD(name) extern const struct format format_##name;
FORMATS(FORMAT_RECORD)

/* The format of a file of this name, and that of a matrix. */
const struct format *format_of(const char *file);
const struct format *format_of_matrix(const struct matrix *matrix);

/* Whether a file of this name is one matrix, as .npy files are, which its name alone names. */
bool format_is_one_matrix(const char *file);

/* Complain (EXIT_USAGE) where no matrix can be made under these names (matname_check_new). */
int format_check_new(const char *file, const char *dataset, struct error *err);

/* Begin to describe a dataset: an empty description with these names, and the format of the file.
 * Complains (EXIT_INPUT) of names that are too long. */
int format_begin(struct source *source, const char *file, const char *dataset, struct error *err);

/* Describe the dataset `dataset` of `file`. */
int format_describe(const char *file, const char *dataset, struct source *source,
                    struct error *err);

/* Call `visit` for every two-dimensional dataset of the file, in alphabetical order.  Complains
 * (EXIT_INPUT) where groups are nested deeper than names are long, after what came before. */
int format_each(const char *file, format_visit *visit, void *context, struct error *err);

/* Call `visit` for every existing file that the matrix is read from, for some more than once: the
 * named file, the targets of links, and the files of virtual and external datasets. */
int format_each_file(const struct source *source, format_file_visit *visit, void *context,
                     struct error *err);

/* Whether the matrix is read from `file`.  Complains where that cannot be found out. */
bool format_draws_on(const struct source *source, const char *file, struct error *err);

/* Find out what a name in a file denotes. */
int format_lookup(const char *file, const char *name, struct format_found *found,
                  struct error *err);

/* Look up attributes of a dataset; `values` ends with a null name. */
int format_get_attributes(const struct source *source, struct format_value *values,
                          struct error *err);

/* Overwrite a fixed attribute, where the format has attributes. */
int format_replace_text(const struct source *source, const char *name, const char *text,
                        struct error *err);

/* This process is the program's own, before anything else is called: where it ends, no library of
 * a format need clean up. */
void format_own_process(void);

/* The libraries of all formats: "HDF5 1.10.8" (text.h). */
const char *format_versions(void);
