/* Where a matrix lies, and what its file says of it. */
#pragma once

#include <limits.h>
#include <stddef.h>

#include "matrix.h"

enum { DATASET_NAME_MAX = 512, PART_NAME_MAX = 12 };

/* A random text that one run has written somewhere into a file.  Who is about to write to a file of
 * this name reads it back first, since another node may have another file there. */
enum { SIGN_TEXT = 17 }; /* 16 digits, and the end */
struct file_sign {
    uint64_t at; /* bytes from the start of the file */
    char text[SIGN_TEXT];
};

/* Which elements of a dataset a matrix is of (slice.h); complex ones count once.  Of a dimension
 * that an index has removed, `first` is that index. */
enum { SLICE_RANK = 8 };
struct slice {
    int length;  /* of the dataset's own name, which the slice follows; 0: there is none */
    int rank;    /* of the dataset */
    int axes[2]; /* the dimensions that are rows and columns; -1: None */
    int64_t counts[2];
    int64_t extents[SLICE_RANK], first[SLICE_RANK], steps[SLICE_RANK];
};

/* Plain data: may be sent between ranks. */
struct source {
    struct matrix matrix;
    char file[PATH_MAX]; /* the target's file, if the dataset is behind an external link */
    char dataset[DATASET_NAME_MAX]; /* with the slice */
    struct slice slice;
    char parts[2][PART_NAME_MAX]; /* of complex elements: what the file calls them, if it does */
    uint64_t offset;              /* bytes from the start of the file; only when by_offset */
    uint64_t file_bytes;          /* file size: all ranks have to see the same */
    double fill;                  /* the value of chunks that were never written, */
    int64_t fill_integer;         /* exactly, if elements are integers up to int64 */
    char netcdf[160];   /* "scale_factor = 0.1, ...": netCDF attributes of packing and of missing
                         values; empty: none */
    char similar[80];   /* likewise, of names that only resemble these, which are not looked at */
    char missing_by[8]; /* "netCDF" or "R": elements equal to `missing` are missing there; empty:
                         * none are */
    double missing;
    bool of_matlab;        /* which shows its transpose */
    struct file_sign sign; /* of a file that is written to; empty: none */
    bool unfinished;       /* an output that is not complete: its mark says so */
    char layout[128];      /* "contiguous f64", "chunked 64x64 szip f64: read by HDF5 (szip)" */
};

struct error;

/* Complain (EXIT_INPUT) about a file that is not there, with what may be meant. */
int source_complain_missing(const char *file, struct error *err);

/* Open a file that exists, without a library.  Returns -1 after a complaint (EXIT_INPUT). */
int source_open_file(const char *file, bool write, struct error *err);

/* Read `bytes` bytes at an offset.  Returns 0, an errno, or -1 if the file ends before. */
int source_read_bytes(int descriptor, void *to, size_t bytes, uint64_t offset);

/* Complain (EXIT_INPUT) about a matrix that is unfinished.  Pure. */
int source_check_finished(const struct source *source, struct error *err);

/* Complain (EXIT_INPUT) that the element at this place of the file is too large for the type. */
int source_complain_too_large(const struct source *source, enum scalar type, int64_t row,
                              int64_t col, struct error *err);

/* Find the sign's text in the file of a contiguous dataset, outside of the dataset's elements; it
 * has been written as an attribute. */
int source_find_sign(const struct source *source, struct file_sign *sign, struct error *err);
