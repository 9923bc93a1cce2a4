/* The judgement of one row and class: plain functions for the CPU and the GPU.
 *
 * For one row a of op(A), and those w columns B of op(B) that are of one class (freivalds.h): s_0
 * and s_1 are the row's sums where a group of `steps` steps begins and ends, and w_j the weights of
 * the columns, x together.  What is compared is y = sum w_j s_0j + a (B x) with z = sum w_j s_1j.
 *
 * The limit is proven, not fitted.  u and v are the unit roundoffs of the product's type and of
 * double; all norms are 2-norms over the w columns of a class.
 *
 * 1. Rounding of the product.  In `steps` steps an element goes from s_0 to s_1, with the error e.
 *    Sums of exact products p_t in any order satisfy |e| <= steps u (|s_0| + sum |p_t|), without
 *    higher-order terms (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013: their induction
 *    only requires that partial sums are floating-point numbers, so it covers fused steps).  With
 *    b_t, row t of B, ||sum |p_t||| <= sum |a_t| ||b_t|| =: ab, so
 *        ||e|| <= steps u (||s_0|| + ab).
 *    A running sum rounds each s_t once: ||e|| <= u sum ||s_t||.  Each s_t is s_0 plus the first
 *    terms, and also s_1 minus the last terms.  The norms of these are at most f ab and
 *    (1 - f) ab, where f is the fraction of ab in the first terms, and the smaller of the two is at
 *    most ab / 2.  So
 *        ||e|| <= steps u (max(||s_0||, ||s_1||) + ab / 2 + 3 steps u (max(...) + ab)),
 *    where the last term covers the errors of s_t and s_1 themselves as long as steps u <= 0.01.
 *    (What a column added before it was left out is missing from s_1, but is at most ab; the choice
 *    of LAMBDA leaves room for it.)
 *    Where the kernel reports the peak of ||s_t|| after every q steps, all of this holds for each
 *    run of q steps with the peak in place of the maximum, and the runs' ab sum to that of all
 *    steps, so
 *        ||e|| <= steps u peak (1 + 3 q u) + q u ab (1/2 + 3 q u).
 *    A product in residues is a running sum of blocks of k in place of single products: rounded
 *    once a block, so `steps` is the number of blocks in all of this; but a block has an error
 *    before it is added, the norm of which ozaki_bound.c bounds by `inputs` ||a|| ||B||_F.
 * 2. The weights have random signs, drawn independently of the data, and magnitudes of at most 1:
 *    |sum w_j e_j| <= LAMBDA ||e|| except with probability 2 exp(-LAMBDA^2 / 2) (Hoeffding), which
 *    is less than 2e-26 for LAMBDA = 11, and less than 1e-12 for 5e13 comparisons.
 * 3. z and y are computed in double with at most `roundings` roundings per term; their error is
 *    roundings v sqrt(w) (||s_0|| + ||s_1|| + ab), since sum |w_j s_j| <= sqrt(w) ||s|| and
 *    sum_p |a_p| sum_j |w_j b_pj| <= sqrt(w) ab.  What underflows there is less than what
 *    freivalds_norm adds to each ||b_t||.
 * 4. Subnormal numbers: each step adds at most half of the smallest number.
 *
 * 5. What is promised.  d_j, the error of one element in one group, fault and rounding together, is
 *    in |z - y| with a weight of at least 1/2, beside the other elements' rounding, so
 *        |d_j| <= (limit + |z - y|) / (1/2 - slope) =: size,
 *    or the comparison fails.  Each group starts from the sums as they are, so that the rounding of
 *    one is not seen by the next.  In a group without a fault |d_j| <= ||e||.  The error of an
 *    element that is wrong in one group is thus at most size there plus the sum of ||e|| over the
 *    others: VERDICT_SIZE is the largest over these groups, VERDICT_ROUNDED the sum over all.  Both
 *    take the largest of a row's classes in each group.
 *
 * So |z - y| is at most LAMBDA times the bounds of 1 and 4, evidence_error, and that of 3: together
 * evidence_limit.  A right s_1 has ||s_1|| <= 2 (||s_0|| + ab) and the errors before it is rounded,
 * so that to cap it there changes nothing for a right product.  Where the product is
 * scale op(A) op(B), so are ab and ||a|| ||B||_F. */
#pragma once

#include <float.h>
#include <math.h>
#include <string.h>

#include "freivalds.h"
#include "gemm.h"

#ifdef __CUDACC__
#define JUDGES static inline __host__ __device__
#else
#define JUDGES static inline
#endif

#define FREIVALDS_LAMBDA 11.0
#define FREIVALDS_LEAST_WEIGHT 0.5 /* magnitudes are between this and 1 */

/* What is known of the elements of one row and class in a group of steps. */
struct evidence {
    double before, after; /* sums of squares: ||s_0||^2 and ||s_1||^2 */
    double reach;         /* ab, without the scale */
    double row, columns;  /* ||a||^2 and ||B||_F^2 */
    double scale, steps, rounded, inputs, roundings, width;
    double peak; /* the largest norm of the running sums at every PEAK_STEPS; infinite: unknown */
    bool is_float, running;
};

JUDGES double evidence_smallest(const struct evidence *e)
{
    return e->is_float ? 0x1p-149 : 0x1p-1074;
}

/* ab */
JUDGES double evidence_product(const struct evidence *e)
{
    return e->scale * e->reach;
}

/* The errors before sums are rounded. */
JUDGES double evidence_inputs(const struct evidence *e)
{
    return e->inputs == 0 ? 0
                          : e->inputs * e->scale * freivalds_norm(e->row, e->steps) *
                                freivalds_norm(e->columns, e->steps * e->width);
}

/* ||s_0||, and ||s_1|| capped at what correct sums can reach, so that a wrong sum does not raise
 * its own limit. */
JUDGES double evidence_before(const struct evidence *e)
{
    return freivalds_norm(e->before, e->width);
}

JUDGES double evidence_after(const struct evidence *e)
{
    return fmin(freivalds_norm(e->after, e->width),
                2 * (evidence_before(e) + evidence_product(e) + evidence_inputs(e)));
}

/* The bound on ||e||. */
JUDGES double evidence_error(const struct evidence *e)
{
    const double u = e->is_float ? 0x1p-24 : 0x1p-53, reach = e->rounded * u;
    const double before = evidence_before(e), ab = evidence_product(e);
    const double ends = fmax(before, evidence_after(e));
    const double any = reach * (before + ab);
    const double running = reach * (ends + ab / 2 + 3 * reach * (ends + ab));
    const double inputs = evidence_inputs(e);
    const double group = PEAK_STEPS * u, peak = fmin(e->peak, 2 * (before + ab));
    const double by_peak = reach * peak * (1 + 3 * group) + group * ab * (0.5 + 3 * group);
    const double least = e->running && reach <= 0.01 ? fmin(any, fmin(running, by_peak)) : any;
    return least + inputs * (1 + reach) +
           fmax(1.0, e->scale) * e->rounded * sqrt(e->width) * evidence_smallest(e);
}

/* The limit of |z - y|. */
JUDGES double evidence_limit(const struct evidence *e)
{
    const double v = 0x1p-53;
    const double sizes = evidence_before(e) + evidence_after(e) + evidence_product(e);
    return FREIVALDS_LAMBDA * evidence_error(e) + e->roundings * v * sqrt(e->width) * sizes;
}

/* Bounds the derivative of the limit with respect to an error in an element, which enters the sums
 * and thereby raises the limit. */
JUDGES double evidence_slope(const struct evidence *e)
{
    const double reach = e->rounded * (e->is_float ? 0x1p-24 : 0x1p-53);
    return e->running && reach <= 0.01 ? 1.1 * FREIVALDS_LAMBDA * reach : 0;
}

/* Whether an element may have overflowed. */
JUDGES bool evidence_overflows(const struct evidence *e)
{
    const double largest = e->is_float ? FLT_MAX : DBL_MAX;
    return !(evidence_before(e) + fmax(1.0, e->scale) * e->reach < largest / 2);
}

/* The verdict on a row, accumulated over classes. */
struct row_verdict {
    double ratio, classes, norm;
    double size, rounded; /* in this group */
    double before, reach; /* the norm of the sums it begins with, and ab */
    enum row_state state;
};

/* The norm of the elements of a class; where the squares are out of range, at least that. */
JUDGES double norm_in_range(double squares, double y, double width)
{
    return squares > 0x1p-960 && squares <= DBL_MAX ? sqrt(squares) : fabs(y) / sqrt(width);
}

/* Judge one class of a row.  `odd`: from sketch.  `weighted`: the number of its columns with a
 * weight; none of them may be finite in a row of ROW_NOT_FINITE.  `unknown`: elements may have been
 * NaN or Inf before this group. */
JUDGES void judge_class(const struct evidence *e, double y, double z, double odd, double weighted,
                        bool unknown, struct row_verdict *row)
{
    if (odd >= FREIVALDS_WRONG || (row->state == ROW_NOT_FINITE && odd != weighted))
        row->ratio = INFINITY;
    if (row->state == ROW_NOT_FINITE)
        return;
    if (odd > 0 && row->state == ROW_FINITE) {
        if (unknown || evidence_overflows(e))
            row->state = ROW_UNKNOWN;
        else
            row->ratio = INFINITY;
    }
    const double limit = evidence_limit(e), off = fabs(z - y), ratio = off / limit;
    if (odd > 0 || y != y || !(limit <= DBL_MAX)) {
        row->classes++;
        return;
    }
    row->ratio = fmax(row->ratio, ratio == ratio ? ratio : INFINITY);
    row->size = fmax(row->size, (limit + off) / (FREIVALDS_LEAST_WEIGHT - evidence_slope(e)));
    row->rounded = fmax(row->rounded, evidence_error(e));
    row->before = hypot(row->before, sqrt(e->before));
    row->reach = hypot(row->reach, evidence_product(e));
    row->norm = hypot(row->norm, norm_in_range(e->after, y, e->width));
}

/* The verdict on the row after the preceding groups. */
JUDGES struct row_verdict row_before(const struct judge *j, int64_t i)
{
    struct row_verdict row = {0, 0, 0, 0, 0, 0, 0, ROW_FINITE};
    if (!j->begin)
        row.ratio = j->verdicts[VERDICT_RATIO * j->stride + i];
    if (j->whole || j->waiting)
        row.state = (enum row_state)j->verdicts[VERDICT_BROKEN * j->stride + i];
    else if (!j->begin && !j->carry.begins)
        row.state = (enum row_state)j->verdicts[VERDICT_STATE * j->stride + i];
    if (j->row_squares && j->row_squares[i] != j->row_squares[i])
        row.state = ROW_NOT_FINITE;
    return row;
}

/* Add this group's size, rounding and reach to those of the groups before.  What sums that were
 * saved have cancelled is not known. */
JUDGES void row_keep_size(const struct judge *j, int64_t i, const struct row_verdict *row)
{
    double *size = &j->verdicts[VERDICT_SIZE * j->stride + i];
    double *rounded = &j->verdicts[VERDICT_ROUNDED * j->stride + i];
    double *reach = &j->verdicts[VERDICT_REACH * j->stride + i];
    if (j->begin) {
        *size = *rounded = j->saved > 0 ? j->saved * row->before / sqrt((double)j->cols) : 0;
        *reach = j->exact || j->unknown_rows ? (double)NAN : row->before;
    }
    *reach += row->reach;
    *size = j->exact ? row->size : fmax(*size + row->rounded, *rounded + row->size);
    *rounded += row->rounded;
}

/* Store the verdict on a row. */
JUDGES void row_keep(const struct judge *j, int64_t i, const struct row_verdict *row)
{
    double *v = j->verdicts + i;
    v[VERDICT_RATIO * j->stride] = row->ratio;
    row_keep_size(j, i, row);
    v[VERDICT_CLASSES * j->stride] =
        j->begin ? row->classes : fmax(v[VERDICT_CLASSES * j->stride], row->classes);
    if (!j->waiting) { /* the group before has the norm of all */
        v[VERDICT_NORM * j->stride] = row->norm;
        v[VERDICT_STATE * j->stride] = row->state;
    }
    v[VERDICT_BROKEN * j->stride] =
        j->begin ? row->state
                 : row_state_of_both(row->state, (enum row_state)v[VERDICT_BROKEN * j->stride]);
}

/* The number of columns of a class that have a weight. */
JUDGES double count_weighted(const struct judge *j, int c)
{
    double count = 0;
    for (int64_t col = 0; col < j->cols; col++)
        count += j->weights[col] != 0 && freivalds_class(col, j->deal, j->classes) == c;
    return count;
}

/* The number of columns that are left out for this reason. */
JUDGES double count_left_out(const struct judge *j, enum left_out why)
{
    double count = 0;
    for (int64_t col = 0; col < j->cols && *j->found >= j->tag; col++)
        count += j->left_out[col] == (int)why;
    return count;
}

JUDGES void keep_left_out(const struct judge *j)
{
    j->counts[0] = count_left_out(j, LEFT_OUT_LARGE);
    j->counts[1] = count_left_out(j, LEFT_OUT_NOT_FINITE);
}

/* The peak norm of class c in row i. */
JUDGES double peak_of(const struct judge *j, int64_t i, int c)
{
    const int64_t deals = freivalds_parts(j->cols, j->deal);
    double squares = 0;
    for (int64_t deal = c; deal < deals; deal += j->classes) {
        const double norm = j->peaks[deal * j->peaks_ld + i];
        squares += norm * norm;
    }
    return squares <= DBL_MAX ? sqrt(squares) : INFINITY;
}

/* At a block's end. */
JUDGES void carry_on(const struct judge *j, int64_t at)
{
    const struct carry *c = &j->carry;
    if (!c->ends)
        return;
    if (j->exact) {
        uint64_t sum, before = 0;
        memcpy(&sum, &j->z[at], sizeof sum);
        if (c->adds)
            memcpy(&before, &c->sums[at], sizeof before);
        sum += before;
        memcpy(&c->sums[at], &sum, sizeof sum);
    } else {
        c->sums[at] = j->z[at] + (c->adds ? c->sums[at] : 0);
    }
    c->squares[at] = j->squares[at] + (c->adds ? c->squares[at] : 0);
}

/* Of integers: whether y and z are equal.  An error is at least 1; where a typical element is less,
 * one of its size cannot be told from none. */
JUDGES void judge_exact(const struct judge *j, int64_t i, struct row_verdict *row)
{
    uint64_t expected, found;
    memcpy(&expected, &j->y[i], sizeof expected);
    memcpy(&found, &j->z[i], sizeof found);
    row->ratio = fmax(row->ratio, expected == found ? 0.0 : INFINITY);
    row->norm = sqrt(j->squares[i]);
    row->size = 0.5 * fmin(1.0, row->norm / sqrt((double)j->cols));
    memcpy(&j->y[i], &found, sizeof found);
}

/* Judge class c of row i, and turn its sums into those before the next group. */
JUDGES void judge_one(const struct judge *j, int64_t i, int c, struct row_verdict *row)
{
    const int64_t at = i * j->classes + c;
    if (j->exact) {
        judge_exact(j, i, row);
        carry_on(j, at);
        return;
    }
    const bool sums = !j->row_squares; /* of products: bounded by the sum of their squares */
    struct evidence e;
    e.before = j->from_zero ? 0 : j->before[at] * (sums ? j->steps : 1);
    e.after = j->squares[at];
    e.reach = sums ? 0 : j->reach[at];
    e.row = sums ? 0 : j->row_squares[i];
    e.columns = sums ? 0 : j->norms[c];
    e.scale = j->scale;
    e.steps = j->steps;
    e.rounded = j->rounded;
    e.inputs = j->inputs;
    e.roundings = j->roundings;
    e.width = (double)freivalds_width(j->cols, j->deal, j->classes);
    e.peak = j->peaks ? peak_of(j, i, c) : INFINITY;
    e.is_float = j->type == SCALAR_FLOAT;
    e.running = j->running;
    double weighted = row->state == ROW_NOT_FINITE ? count_weighted(j, c) : 0;
    if (j->waiting) /* some of them may be finite */
        weighted = j->odd[at];
    judge_class(&e, j->y[at], j->z[at], j->odd[at], weighted, j->unknown_rows, row);
    if (j->carry.adds) { /* the sums of blocks before are saved, too */
        row->before = hypot(row->before, sqrt(j->carry.squares[at]));
        row->norm = hypot(row->norm, sqrt(j->carry.squares[at]));
    }
    j->y[at] = j->z[at];
    j->before[at] = j->squares[at];
    carry_on(j, at);
}
