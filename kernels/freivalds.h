/* The operations of the product check (after Freivalds; freivalds_judge.h has the proof).
 *
 * A check multiplies both sides of C = op(A) op(B) by random vectors.  The columns of C are dealt
 * to `classes` vectors in turn, `deal` neighbours at a time, and the vector of a class has the
 * weight w_j for its own columns and 0 for all others.  So a wrong element competes with the
 * rounding of its own class alone.  Both numbers are powers of two.
 *
 * Matrices here are ROW-major, as in the files; all sums are doubles, whatever the type of the
 * matrix, and deterministic.  project adds up chains of FREIVALDS_CHAIN products;
 * freivalds_roundings() bounds how often a term is rounded. */
#ifndef DGEMM_OOC_FREIVALDS_H
#define DGEMM_OOC_FREIVALDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index_map.h"
#include "scalar.h"

enum {
    CLASSES_MAX = 64,
    FREIVALDS_CHAIN = 64, /* additions in a row */
    PROJECT_ROWS = 64,    /* what a block of threads projects, on a GPU: rows, */
    PROJECT_STEPS = 256,  /* and steps of k at least */
    PROJECT_BLOCKS = 512, /* that keep a GPU busy */
};

/* Larger elements are left out as if they were not finite: their squares might overflow. */
#define FREIVALDS_LARGEST 0x1p480

/* The class of column j. */
INDEX_MAP int freivalds_class(int64_t j, int deal, int classes)
{
    return (int)(j / deal % classes);
}

/* Why a column is left out of the check, with the weight 0. */
enum left_out { LEFT_OUT_NOT = 0, LEFT_OUT_LARGE = 1, LEFT_OUT_NOT_FINITE = 2 };

/* For every line of op(M), the weighted sum of each class of its elements, and the sum of their
 * squares:
 *     sums[line * classes + c] = sum of op(M)[line][j] * weights[j], column first + j of class c
 * M is stored rows x cols; op(M) is M, or its transpose when `trans`; a line has `length` elements,
 * the weights are theirs.
 *
 * Elements that are not finite count as 0.  With `odd` null, M is a factor: larger elements than
 * FREIVALDS_LARGEST count as 0 too, and the columns of both are noted: left_out[j] says why, and
 * *found becomes `tag`.  Otherwise M is the product, and odd[line * classes + c] counts its
 * elements that are not finite in columns with a weight, plus FREIVALDS_WRONG for each that is
 * finite in a column of LEFT_OUT_NOT_FINITE. */
struct sketch {
    enum scalar type;
    bool trans, accumulate; /* add to what is in sums, squares and odd */
    int64_t rows, cols;
    const void *matrix;
    int64_t ld;
    int classes, deal; /* `first` is a multiple of deal */
    int64_t first;
    const double *weights;
    int *left_out;
    double *sums, *squares, *odd;
    int *found, tag;
    bool only_found; /* do nothing unless *found is `tag` */
};

#define FREIVALDS_WRONG 0x1p32

/* Columns that were found to be left out lose their weights; what the product's first slabs have
 * put into y for them is taken out again:
 *     y[i * classes + c] -= weights[j] * acc[i][j],  then weights[j] = 0.
 * Where acc[i][j] is not finite, nothing is known of that y any more: it becomes NaN.
 * `acc` null: y holds nothing yet.  Does nothing unless *found is `tag`. */
struct retire {
    enum scalar type;
    int64_t rows, cols;
    const void *acc;
    int64_t ld;
    int classes, deal;
    double *weights;
    const int *left_out;
    double *y;
    const int *found;
    int tag;
};

/* y += op(M) x for all classes: y[i * classes + c] += sum over k of op(M)[i][k] x[k * classes + c];
 * and squares[i] += the sum of op(M)[i][k]^2, NaN if one of them is NaN or infinite.  M is stored
 * rows x cols. */
struct project {
    enum scalar type;
    bool trans;
    bool from_zero; /* y starts from 0 */
    bool begin;     /* squares do: a group begins */
    int64_t rows, cols;
    const void *matrix;
    int64_t ld;
    int classes;
    const double *x;
    double *y, *squares;
    double *partial; /* project_partials numbers to work with; not used on the CPU */
};

INDEX_MAP int64_t freivalds_parts(int64_t length, int64_t part)
{
    return (length + part - 1) / part;
}

/* Steps of k, whole chains, that a block of threads sums: fewer where there are fewer rows. */
static inline int64_t project_depth(int64_t rows, int64_t steps)
{
    int64_t blocks = freivalds_parts(rows, PROJECT_ROWS);
    int64_t parts = blocks < PROJECT_BLOCKS && blocks > 0 ? PROJECT_BLOCKS / blocks : 1;
    int64_t depth = freivalds_parts(steps, parts);
    if (depth < PROJECT_STEPS)
        depth = PROJECT_STEPS;
    return freivalds_parts(depth, FREIVALDS_CHAIN) * FREIVALDS_CHAIN;
}

/* Partial sums of at most so many rows and steps. */
size_t project_partials(int64_t rows, int64_t steps, int classes);

/* norms[c] += the sum over k < steps of squares[k * classes + c]; `begin`: from 0. */
struct norms {
    int64_t steps;
    int classes;
    const double *squares;
    double *norms;
    bool begin;
};

/* Compare the sketch z of a product with the one that is expected, y, row by row and class by
 * class, in the group of steps since the last comparison.  Then z becomes the next group's y, and
 * `squares` its `before`.
 *
 * The numbers of a row are kept in `verdicts`, VERDICTS vectors of `stride` numbers; behind them
 * stand two more: how many columns are LEFT_OUT_LARGE, and how many LEFT_OUT_NOT_FINITE.  `counts`
 * is where. */
enum verdict {
    VERDICT_RATIO,   /* the largest |z - y| / limit so far; infinite: wrong for certain */
    VERDICT_SIZE,    /* the largest error that would not have been found for certain */
    VERDICT_CLASSES, /* how many classes were not judged, in the group where most were not */
    VERDICT_NORM,    /* of the product's elements in the classes that were judged last */
    VERDICT_STATE,   /* enum row_state */
    VERDICTS
};

/* What a row of op(A) has shown of itself. */
enum row_state {
    ROW_FINITE,
    ROW_NOT_FINITE, /* NaN or Inf in op(A): the whole row of C has to be */
    ROW_UNKNOWN,    /* not finite, by overflow or by what was saved: cannot be judged */
};

struct judge {
    enum scalar type;
    int64_t rows, cols;
    int classes, deal;
    double *y, *z;            /* rows x classes */
    double *before, *squares; /* of the product's elements, at the begin and the end of the group */
    const double *odd;        /* of sketch */
    const double *weights;
    const int *left_out, *found;
    int tag;                   /* *found is less: no column was left out */
    const double *row_squares; /* of project; null: the group adds `steps` products up, and `before`
                                * is the sum of all their squares */
    const double *norms;
    const float *peaks; /* of the product's kernel (gemm.h), PEAK_ROWS of them a deal; or null */
    int64_t peaks_ld;
    double *verdicts, *counts;
    int64_t stride;
    double scale;      /* the product is so many times op(A) op(B) */
    double steps;      /* roundings of each element in this group */
    double roundings;  /* of y and z, from freivalds_roundings */
    bool running;      /* each element is one running sum, in the order of k */
    bool from_zero;    /* which begins here: `before` is 0 */
    bool unknown_rows; /* what is not finite now may have been so before */
    bool begin;        /* the first comparison of a tile */
};

/* Bounds the additions in double that an element passes on its way into z, or into y when the
 * slabs of that group have `slab` steps each. */
double freivalds_roundings(int64_t length, int classes, int64_t slab, int64_t slabs);

void sketch_cpu(const struct sketch *s, int threads);
void retire_cpu(const struct retire *r, int threads);
void project_cpu(const struct project *p, int threads);
void norms_cpu(const struct norms *n);
void judge_cpu(const struct judge *j, int threads);

#endif
