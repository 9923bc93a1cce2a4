/* The epilogue of a tile of C, what changes panels of A and B before they are multiplied, and the
 * addition of sums: one pass over memory each.  Matrices here are ROW-major, as in the files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scalar.h"

/* No sum of integers is stored as this one. */
#define INT64_OVERFLOW INT64_MIN

/* acc := alpha acc + beta c0 in place, rows x cols, as fma(alpha, acc, beta * c0).  With beta = 0
 * the result is alpha * acc and c0 is not read; with alpha = 0 it is beta * c0 and acc is not read.
 * With alpha = 1 this is C += beta A.  alpha and beta are rounded to `type` before use.
 *
 * `whole`: acc holds int64, and `type` is that of c0 and of what acc becomes.  For doubles acc is
 * rounded first.  For int64 alpha and beta are integers of up to 53 bits, and what does not fit
 * becomes INT64_OVERFLOW.  Where `type` is int64 without `whole`, all is modulo 2^64.
 *
 * Where alpha_i or beta_i is not 0, elements are pairs of a real part r and an imaginary part i,
 * and so are alpha and beta.  Then t = beta c0 is
 *     tr = fma(beta, r, -(beta_i * i)),  ti = fma(beta, i, beta_i * r),  or 0 where beta = 0,
 * and acc becomes
 *     fma(alpha, r, fma(-alpha_i, i, tr)),  fma(alpha, i, fma(alpha_i, r, ti)),  or t where
 * alpha = 0. */
struct combine {
    enum scalar type;
    int64_t rows, cols;
    double alpha, beta;
    void *acc;
    const void *c0;
    int64_t ld_acc, ld_c0; /* leading dimensions: elements between rows */
    bool whole;
    double alpha_i, beta_i;
};

/* The transpose of what combine gives, elsewhere: to[j][i] := alpha acc[i][j] + beta c0[j][i], with
 * the same roundings.  acc is rows x cols; `to` and c0 are cols x rows and do not overlap it.
 *
 * `pairs`: elements are pairs of a real and an imaginary part, and so are alpha and beta; with
 * `conjugate` the imaginary part of acc[i][j] is subtracted from 0 before (so 0 stays +0). */
struct mirror {
    enum scalar type;
    int64_t rows, cols; /* elements */
    double alpha, beta;
    const void *acc, *c0;
    void *to;
    int64_t ld_acc, ld_c0, ld_to; /* numbers between rows */
    bool whole;                   /* as above; `type` is that of c0 and `to` */
    bool pairs, conjugate;
    double alpha_i, beta_i;
};

/* Of a square of pairs, in place: what is above the diagonal becomes the mirror of what is below
 * it, with `conjugate` the conjugate as above; imaginary parts on the diagonal then become `zero`,
 * +0 or -0, unless they are NaN or Inf. */
struct reflect {
    enum scalar type;
    int64_t side; /* pairs */
    void *matrix;
    int64_t ld; /* numbers between rows */
    bool conjugate;
    double zero;
};

/* What NaN stands for: itself (elements are not to be missing), the mean, or 0. */
enum missing { MISSING_ERROR, MISSING_MEAN, MISSING_ZERO };

/* x := ((x - mean) - rest) / deviation in place, with the numbers of the element's row (by_rows) or
 * column: in double, by two subtractions and one division, and rounded to `type` at the end.  NaN
 * is taken for 0, or becomes 0 where it stands for the mean. */
struct standardize {
    enum scalar type;
    int64_t rows, cols;
    void *matrix;
    int64_t ld;
    bool by_rows;
    const double *mean;      /* from the first row or column on; null: nothing is subtracted */
    const double *rest;      /* likewise: what rounding the mean has left; null: nothing */
    const double *deviation; /* likewise; null: nothing is divided */
    double constant;         /* the divisor where the deviation is 0 */
    enum missing missing;
};

/* What sums of shifted elements become once the means are known: the sums of elements minus their
 * means, or of these divided by deviations.  With offset_i, the mean of the shifted elements that
 * row i multiplies:
 *     acc[i][j] := fma(-count, offset_i * offset_j, acc[i][j]) / (deviation_i * deviation_j)
 * in double, and rounded to `type` at the end.  Where a deviation is 0 it becomes NaN. */
struct recentre {
    enum scalar type;
    int64_t rows, cols;
    void *acc;
    int64_t ld;
    double count;                                /* of elements that were added */
    const double *row_offset, *col_offset;       /* from the first row and column on */
    const double *row_deviation, *col_deviation; /* likewise; null: nothing is divided */
};

/* What is multiplied in place of what a file has: numbers of another type, or the real matrix that
 * stands for a complex one.  Each element r + si of `from`, or
 * with `conjugate` r - si, becomes so many numbers of `to`:
 *     wide:  r s      high:  r      both:   r s
 *                            s             -s r
 * Where `from` is real, s is 0. */
struct embed {
    enum scalar type;   /* of `to` */
    enum scalar stored; /* of `from`: this, or one that becomes it (scalar.h) */
    int64_t rows, cols; /* of `from`, in elements: pairs of numbers, if it is complex */
    const void *from;
    void *to;
    int64_t ld_from, ld_to; /* numbers between rows */
    bool complex, conjugate, high, wide;
};

enum { FOLD_MOST = 8, FOLD_BLOCKS = 1 << FOLD_MOST }; /* addends; what they may stand for */

/* to := ((acc + addends[0]) + addends[1]) + ..., rows x cols; `to` may be acc.  All have the same
 * leading dimension.  Integers are added modulo 2^64. */
struct fold {
    enum scalar type;
    int64_t rows, cols;
    const void *acc;
    void *to;
    const void *addends[FOLD_MOST];
    int count;
    int64_t ld;
};

/* The operations on at most `threads` threads of the CPU.  They block until they are done. */
void combine_cpu(const struct combine *c, int threads);
void mirror_cpu(const struct mirror *m, int threads);
void reflect_cpu(const struct reflect *r, int threads);
void standardize_cpu(const struct standardize *s, int threads);
void recentre_cpu(const struct recentre *r, int threads);
void embed_cpu(const struct embed *e, int threads);
void fold_cpu(const struct fold *f, int threads);

/* Whether combine takes pairs. */
static inline bool combine_is_complex(const struct combine *c)
{
    return c->alpha_i != 0 || c->beta_i != 0;
}
