/* What a matrix in a file is: all that a plan depends on.  Where it lies is struct source
 * (source.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "block.h"
#include "chunk.h"
#include "quantity.h"
#include "scalar.h"

/* The sources of a virtual dataset, direct and indirect, all of which may be open at a time. */
struct virtual_sources {
    int64_t datasets, files;         /* files: others than that of the virtual dataset */
    int64_t chunks;                  /* of all of them */
    uint64_t chunk_bytes, row_bytes; /* the largest chunk, and the largest row of chunks */
};

/* Plain data.
 *
 * A complex matrix is described as the real one that its bytes are: of twice the columns, a real
 * part and an imaginary part in turns.  All that counts elements or columns counts these, and
 * blocks of such a matrix begin and end at even columns. */
struct matrix {
    int format;                     /* of the file: format_of_matrix (format.h) */
    uint64_t object[3];             /* device, file and address of the dataset; all 0: unknown */
    int64_t part[3];                /* of that: first element; row to row, column to column */
    int64_t rows, cols;             /* row-major extents, as h5py shows them */
    enum scalar elements;           /* in either byte order; OTHER: of another type */
    bool integers;                  /* of whatever type */
    bool complex;                   /* pairs of these */
    bool turned;                    /* the transpose of what the user sees: in Fortran's order */
    uint64_t element_bytes;         /* of one element in the file */
    bool swapped;                   /* elements in the other byte order */
    bool packed;                    /* of a square what is on and below the diagonal, row by row,
                                     * as one row of the file; what is above is read as 0 */
    bool by_offset;                 /* contiguous, native, complete: readable without a library */
    bool never_written;             /* contiguous, native, without bytes in the file */
    int64_t chunk_rows, chunk_cols; /* 0 when not chunked */
    uint64_t chunk_bytes;           /* of one chunk in memory; 0 when not chunked */
    bool by_chunks;                 /* chunks can be read and decoded without a library */
    struct chunk_pipeline pipeline; /* their filters; all of them when by_chunks */
    struct virtual_sources sources; /* of a virtual one */
    struct block within;            /* where it begins in what lies in the file, with the extents
                                     * of that; no columns: all of it */
};

/* Whether its elements are of this type, in either byte order. */
static inline bool matrix_holds(const struct matrix *matrix, enum scalar type)
{
    return matrix->elements == type;
}

/* Let its elements be of this type. */
static inline void matrix_set_type(struct matrix *matrix, enum scalar type)
{
    matrix->elements = type;
    matrix->integers = scalar_is_integer(type);
}

/* Its columns, as h5py shows them. */
static inline int64_t matrix_cols(const struct matrix *matrix)
{
    return matrix->complex ? matrix->cols / 2 : matrix->cols;
}

/* As the user sees it. */
static inline struct matrix matrix_seen(const struct matrix *matrix)
{
    struct matrix seen = *matrix;
    if (matrix->turned) {
        seen.rows = matrix_cols(matrix);
        seen.cols = matrix->rows * (matrix->complex ? 2 : 1);
    }
    return seen;
}

/* The extents of what lies in the file. */
static inline int64_t matrix_file_rows(const struct matrix *matrix)
{
    return matrix->within.cols ? matrix->within.rows : matrix->rows;
}

static inline int64_t matrix_file_cols(const struct matrix *matrix)
{
    return matrix->within.cols ? matrix->within.cols : matrix->cols;
}

/* Elements that lie in the file before this row, of a matrix that is no slice. */
static inline int64_t matrix_before(const struct matrix *matrix, int64_t row)
{
    const int64_t triangle = row * (row + 1) / 2 * (matrix->complex ? 2 : 1);
    return matrix->packed ? triangle : row * matrix_file_cols(matrix);
}

/* Elements that the file has. */
static inline int64_t matrix_elements(const struct matrix *matrix)
{
    return matrix->packed ? matrix_before(matrix, matrix->rows) : matrix->rows * matrix->cols;
}

/* The number of its chunks, written or not; 0 when not chunked. */
static inline int64_t matrix_chunks(const struct matrix *matrix)
{
    return matrix->chunk_rows == 0 ? 0
                                   : ceil_div(matrix_file_rows(matrix), matrix->chunk_rows) *
                                         ceil_div(matrix_file_cols(matrix), matrix->chunk_cols);
}

/* Whether both are the same elements of the same dataset, by whatever names.  Names of raw elements
 * also say what these are. */
static inline bool matrix_is_same(const struct matrix *a, const struct matrix *b)
{
    return a->object[1] != 0 && memcmp(a->object, b->object, sizeof a->object) == 0 &&
           memcmp(a->part, b->part, sizeof a->part) == 0 && a->rows == b->rows &&
           a->cols == b->cols && a->elements == b->elements && a->complex == b->complex &&
           a->swapped == b->swapped && a->turned == b->turned;
}
