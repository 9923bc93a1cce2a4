/* The operations of the product check (after Freivalds; freivalds_judge.h has the proof).
 *
 * A check multiplies both sides of C = op(A) op(B) by random vectors.  The columns of C are dealt
 * round-robin to `classes` vectors, `deal` adjacent columns at a time; the vector of a class has
 * the weight w_j for its own columns and 0 for all others, so that a wrong element has to exceed
 * the rounding errors of its own class only.  `classes` and `deal` are powers of two.
 *
 * Of a product of integers (`exact`) there is one class, w_j is an odd integer of 64 bits, and both
 * sides are computed modulo 2^64, in which C, too, is known: they are equal or C is wrong.  An
 * error in one element of a row is found for certain, since w_j has an inverse.  Of those in
 * several, of which bit b is the lowest that is wrong in any, 1 in 2^(63 - b) is missed.
 *
 * Matrices here are ROW-major, as in the files.  All other sums are doubles, for either type of
 * matrix, and deterministic.  project sums in chains of FREIVALDS_CHAIN products;
 * freivalds_roundings() bounds how often a term is rounded.
 *
 * A line is a row of op(M).  All pointers of the structs are to memory of the device that runs the
 * operation, and stay the caller's. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index_map.h"
#include "scalar.h"
#include "vector.h"

enum {
    CLASSES_MAX = 64,
    FREIVALDS_CHAIN = 64, /* consecutive additions before a chain is added to the total */
    PROJECT_ROWS = 64,    /* rows per thread block of project on a GPU, */
    PROJECT_STEPS = 256,  /* and its steps of k, at least */
    PROJECT_BLOCKS = 512, /* thread blocks that fill a GPU */
};

/* An upper bound on the norm, given a sum of `count` squares that may have underflowed. */
INDEX_MAP double freivalds_norm(double squares, double count)
{
    return sqrt(squares + count * 0x1p-1022);
}

/* Columns with larger elements are left out, like those with NaN or Inf: squares might overflow. */
#define FREIVALDS_LARGEST 0x1p480

/* The class of column j. */
INDEX_MAP int freivalds_class(int64_t j, int deal, int classes)
{
    return (int)(j / deal % classes);
}

/* Why a column is left out of the check, by the weight 0. */
enum left_out { LEFT_OUT_NOT = 0, LEFT_OUT_LARGE = 1, LEFT_OUT_NOT_FINITE = 2 };

/* The weighted sum of the elements of each class, and the sum of their squares, for every line of
 * op(M):
 *     sums[line * classes + c] = sum of op(M)[line][j] * weights[j], column first + j of class c
 * M is stored rows x cols; op(M) is M, or its transpose when `trans`.  weights[j] and left_out[j]
 * belong to column j of op(M).
 *
 * Elements that are not finite count as 0.  With `odd` null, M is a factor: elements larger than
 * FREIVALDS_LARGEST count as 0 too, left_out[j] records the reason for either, and *found becomes
 * `tag` if a column with a weight is concerned.  Otherwise M is the product, and
 * odd[line * classes + c] counts its elements that are not finite in columns with a weight, plus
 * FREIVALDS_WRONG for each finite one in a column of LEFT_OUT_NOT_FINITE, unless the product is
 * `partial`: what makes that column NaN or Inf is still to be multiplied. */
struct sketch {
    enum scalar type;
    bool trans, accumulate; /* accumulate: add to sums, squares and odd */
    int64_t rows, cols;
    const void *matrix;
    int64_t ld;
    int classes, deal; /* `first` is a multiple of deal */
    int64_t first;
    const double *weights;
    int *left_out;
    double *sums, *squares, *odd;
    int *found, tag;
    bool partial;
    bool only_found; /* do nothing unless *found is `tag` */
    /* M holds integers; `weights` and `sums` are uint64_t, and nothing is left out.  It is the
     * product if it is of int64; a factor has no squares. */
    bool exact;
};

#define FREIVALDS_WRONG 0x1p32

/* Set the weights of the columns that are left out to 0, and subtract what earlier slabs have added
 * to y for them:
 *     y[i * classes + c] -= weights[j] * acc[i][j],  then weights[j] = 0.
 * Where acc[i][j] is not finite, that y becomes NaN (unknown).  `acc` is row-major, rows x cols;
 * null while y is empty.  Likewise what `count` other matrices have added to `carried`.  Does
 * nothing unless *found is `tag`. */
struct retire {
    enum scalar type;
    int64_t rows, cols;
    const void *acc;
    const void *waiting[FOLD_MOST];
    int count;
    double *carried;
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
 * rows x cols.  With `absolute`, y += |op(M)| x instead. */
struct project {
    enum scalar type;
    bool trans;
    bool from_zero; /* y starts from 0 */
    bool begin;     /* squares start from 0: a group begins */
    bool absolute;
    int64_t rows, cols;
    const void *matrix;
    int64_t ld;
    int classes;
    const double *x;
    double *y, *squares; /* squares: may be null */
    double *partial;     /* workspace of project_partials doubles; unused on the CPU */
    bool exact;          /* M holds integers; x and y are uint64_t, and there are no squares */
};

/* length / part, rounded up. */
INDEX_MAP int64_t freivalds_parts(int64_t length, int64_t part)
{
    return (length + part - 1) / part;
}

/* Steps of k per thread block, a multiple of the chain: fewer where there are fewer rows
 * (split-K). */
static inline int64_t project_depth(int64_t rows, int64_t steps)
{
    int64_t blocks = freivalds_parts(rows, PROJECT_ROWS);
    int64_t parts = blocks < PROJECT_BLOCKS && blocks > 0 ? PROJECT_BLOCKS / blocks : 1;
    int64_t depth = freivalds_parts(steps, parts);
    if (depth < PROJECT_STEPS)
        depth = PROJECT_STEPS;
    return freivalds_parts(depth, FREIVALDS_CHAIN) * FREIVALDS_CHAIN;
}

/* An upper bound on the columns of a class. */
INDEX_MAP int64_t freivalds_width(int64_t cols, int deal, int classes)
{
    return freivalds_parts(freivalds_parts(cols, deal), classes) * deal;
}

/* The size of project's workspace, in doubles, for at most so many rows and steps.  Pure. */
size_t project_partials(int64_t rows, int64_t steps, int classes);

/* norms[c] += the sum over k < steps of squares[k * classes + c]; with `begin`, norms start from
 * 0.  roots[k * classes + c] becomes the norm of `width` elements with these squares; it may be in
 * their place. */
struct norms {
    int64_t steps;
    int classes;
    double width;
    const double *squares;
    double *norms, *roots;
    bool begin;
};

/* Compare the sketch z of a product with the expected one, y, for each row and class, over the
 * group of steps since the last comparison.  Then z becomes the next group's y, and `squares` its
 * `before`.
 *
 * The results are stored in `verdicts`, VERDICTS vectors of `stride` numbers, one per row;
 * counts[0] and counts[1] become the numbers of columns that are LEFT_OUT_LARGE and
 * LEFT_OUT_NOT_FINITE. */
enum verdict {
    VERDICT_RATIO,   /* the largest |z - y| / limit so far; infinite: certainly wrong */
    VERDICT_SIZE,    /* the largest error of an element that may have gone undetected, */
    VERDICT_ROUNDED, /* and what rounding may have added to it in all groups */
    VERDICT_REACH,   /* what the norm of the row might be without cancellation; NaN: not known */
    VERDICT_CLASSES, /* the number of classes that were not judged: the maximum over groups */
    VERDICT_NORM,    /* of the product's elements in the classes of the latest comparison */
    VERDICT_STATE,   /* enum row_state, of the latest block */
    VERDICT_BROKEN,  /* likewise, of all blocks */
    VERDICTS
};

/* What is known of a row of C. */
enum row_state {
    ROW_FINITE,
    ROW_NOT_FINITE, /* the row of op(A) has NaN or Inf, so no element of C may be finite */
    ROW_UNKNOWN,    /* not finite by overflow or from saved sums: cannot be judged */
};

/* What is known of a row by two groups. */
INDEX_MAP enum row_state row_state_of_both(enum row_state one, enum row_state other)
{
    if (one == ROW_NOT_FINITE || other == ROW_NOT_FINITE)
        return ROW_NOT_FINITE;
    return one > other ? one : other;
}

/* Sums of blocks of k (sums.h) are judged as they are made.  What each has come to is carried: at
 * its end z is added to `carried`, and `squares` to `carried_squares`.  These are what the sum of
 * all blocks is compared with. */
struct carry {
    double *sums, *squares; /* rows x classes; null: k is one block */
    bool begins, ends;      /* this group begins, ends a block */
    bool adds;              /* there are blocks before */
};

struct judge {
    enum scalar type;
    int64_t rows, cols;
    int classes, deal;
    double *y, *z;            /* rows x classes */
    double *before, *squares; /* sums of squares of the product, before and after the group */
    const double *odd;        /* of sketch */
    const double *weights;
    const int *left_out, *found;
    int tag;                   /* if *found < tag, no column was left out */
    const double *row_squares; /* of project; null: the group is a sum of `steps` products, and
                                * `before` the sum of all their squares */
    const double *reach;       /* rows x classes, in this group: |op(A)| times the norms of the rows
                                * of op(B) */
    const double *norms;
    const float *peaks; /* of the GEMM kernel (gemm.h), where deal is PEAK_ROWS; or null */
    int64_t peaks_ld;
    double *verdicts, *counts;
    int64_t stride;
    double scale;      /* the product is scale * op(A) op(B) */
    double steps;      /* of k in this group */
    double rounded;    /* how often each element is rounded in this group */
    double inputs;     /* the error for other reasons, by ||a|| ||B||_F: ozaki_error, or 0 */
    double roundings;  /* of a term of y or z, from freivalds_roundings */
    double saved;      /* VERDICT_ROUNDED when a tile begins, in typical elements of the row */
    bool running;      /* each element is one running sum in the order of k */
    bool from_zero;    /* the sums start in this group: `before` is 0 */
    bool unknown_rows; /* elements may have been NaN or Inf before this group */
    bool begin;        /* the first comparison of a tile */
    bool exact;        /* y and z are uint64_t, and equal; of the rest `squares` counts */
    bool whole;        /* of all blocks: a row is what VERDICT_BROKEN says */
    bool waiting;      /* of sums of complete blocks, one by one: likewise */
    struct carry carry;
};

/* An upper bound on the roundings of a term of z, or of y in a group of `slabs` slabs of `slab`
 * steps each.  `length`: elements of a line.  Pure. */
double freivalds_roundings(int64_t length, int classes, int64_t slab, int64_t slabs);

/* The operations on the CPU, on at most `threads` threads.  They block until they are done. */
void sketch_cpu(const struct sketch *s, int threads);
void retire_cpu(const struct retire *r, int threads);
void project_cpu(const struct project *p, int threads);
void norms_cpu(const struct norms *n);
void judge_cpu(const struct judge *j, int threads);
