#include "findings.h"

#include <math.h>

#include "comm.h"
#include "freivalds.h"
#include "text.h"

/* The size of an error, where one of every `count` elements that were taken for typical may contain
 * such an error itself. */
static double less_itself(double size, double count)
{
    return size <= 1 ? size / sqrt(1 - size * size / count) : size;
}

/* `verdicts` of the row, `judged` elements of it.  None of these is larger than their norm. */
static void add_row(struct findings *f, const double *verdicts, const struct judged *j,
                    double judged)
{
    const int64_t stride = j->rows;
    const double norm = verdicts[VERDICT_NORM * stride];
    f->rows++;
    if (norm == 0) /* every product is 0 */
        return;
    const double size =
        (verdicts[VERDICT_SIZE * stride] + j->roundoff * norm + j->least) * sqrt(judged);
    const double reach = verdicts[VERDICT_REACH * stride];
    f->rounded = fmax(f->rounded, verdicts[VERDICT_ROUNDED * stride] / norm * sqrt(judged));
    if (!(reach > 0)) {
        f->alone = fmax(f->alone, less_itself(size / norm, judged));
        return;
    }
    f->size = fmax(f->size, size / reach);
    f->squares += judged * (norm / reach) * (norm / reach);
    f->elements += judged;
}

/* What one row is of. */
struct row {
    double cols;    /* that it was multiplied with */
    double written; /* its elements in C, with their mirrors where these are written */
};

/* Columns of a triangle's tile before those of the row's element on the diagonal. */
static double before(const struct judged *j, int64_t row)
{
    return (double)(j->before + row * j->width);
}

/* Whether the tile has the row's element on the diagonal. */
static bool has_diagonal(const struct judged *j, int64_t row)
{
    return j->before + row * j->width < j->cols;
}

static struct row row_of(const struct judged *j, int64_t row)
{
    double cols = (double)j->cols;
    if (j->strip_rows == 0)
        return (struct row){cols, j->mirrored ? 2 * cols : cols};
    int64_t strip = row - row % j->strip_rows, end = strip + j->strip_rows;
    end = end < j->rows ? end : j->rows;
    double here = fmin(cols, before(j, end));
    if (!j->mirrored)
        return (struct row){here, fmin(cols, before(j, row + 1))};
    double left = fmin(cols, before(j, strip)); /* of the square of the strip's rows */
    return (struct row){here, here + (has_diagonal(j, row) ? left : here)};
}

static void collect_row(struct findings *f, const double *verdicts, const struct judged *j,
                        const struct row *row)
{
    double width = ceil((double)j->cols / j->classes);
    double lost = fmin(verdicts[VERDICT_CLASSES * j->rows] * width, row->cols);
    double judged = row->cols - lost;
    if (verdicts[VERDICT_STATE * j->rows] == ROW_NOT_FINITE)
        f->not_finite += row->written;
    else if (judged > 0)
        add_row(f, verdicts, j, judged);
    lost = fmin(lost, row->written);
    f->not_judged += (row->written > row->cols ? 2 : 1) * lost; /* with their mirrors */
}

/* Columns with NaN or Inf of the rows of one strip: left of the square of these rows, and in it. */
struct odd_columns {
    double left, here;
};

/* In a triangle the columns of a tile's own rows are as these rows are: whether that of a row is
 * one of the tile's, and has NaN or Inf. */
static bool is_odd(const double *states, const struct judged *j, int64_t row)
{
    return has_diagonal(j, row) && states[row] == ROW_NOT_FINITE;
}

/* `all` has the tile. */
static struct odd_columns odd_columns(const double *states, const struct judged *j, int64_t row,
                                      double all)
{
    struct odd_columns odd = {.left = all};
    int64_t strip = row - row % j->strip_rows, end = strip + j->strip_rows;
    for (int64_t i = 0; i < j->rows; i++) {
        bool bad = is_odd(states, j, i);
        odd.left -= bad && i >= strip ? (double)j->width : 0;
        odd.here += bad && i >= strip && i < end ? (double)j->width : 0;
    }
    return odd;
}

/* Elements of a row in these columns, with their mirrors. */
static double odd_elements(const struct judged *j, int64_t row, const struct odd_columns *odd)
{
    if (j->strip_rows == 0)
        return (j->mirrored ? 2 : 1) * odd->left;
    return 2 * odd->left + (has_diagonal(j, row) ? 1 : 2) * odd->here;
}

int64_t findings_collect(struct findings *f, const double *verdicts, const struct judged *j)
{
    const int64_t rows = j->rows;
    const double *ratios = verdicts + VERDICT_RATIO * rows, *left_out = verdicts + VERDICTS * rows;
    const double *states = verdicts + VERDICT_STATE * rows;
    const bool lower = j->strip_rows > 0 && !j->mirrored;
    struct odd_columns odd = {.left = left_out[1]};
    double above = 0; /* odd columns that a row has above the diagonal */
    for (int64_t i = 0; i < rows && lower; i++)
        above += is_odd(states, j, i) ? (double)j->width : 0;
    for (int64_t i = 0; i < rows; i++) {
        const struct row row = row_of(j, i);
        if (!(ratios[i] <= f->ratio))
            f->ratio = ratios[i];
        if (!(ratios[i] <= 1))
            return i;
        collect_row(f, verdicts + i, j, &row);
        if (j->strip_rows > 0 && i % j->strip_rows == 0)
            odd = odd_columns(states, j, i, left_out[1]);
        above -= lower && is_odd(states, j, i) ? (double)j->width : 0;
        if (states[i] != ROW_NOT_FINITE)
            f->not_finite += lower ? left_out[1] - above : odd_elements(j, i, &odd);
        f->not_judged += (row.written > row.cols ? 2 : 1) * fmin(left_out[0], row.written);
    }
    return -1;
}

void findings_merge(struct findings *to, const struct findings *other)
{
    to->ratio = fmax(to->ratio, other->ratio);
    to->size = fmax(to->size, other->size);
    to->alone = fmax(to->alone, other->alone);
    to->rounded = fmax(to->rounded, other->rounded);
    to->rows += other->rows;
    to->squares += other->squares;
    to->elements += other->elements;
    to->not_finite += other->not_finite;
    to->not_judged += other->not_judged;
}

/* What is added up over the ranks, and what is the largest of any. */
struct packed {
    double sums[5], largest[4];
};

static struct packed pack(const struct findings *f)
{
    return (struct packed){{f->squares, f->elements, f->rows, f->not_finite, f->not_judged},
                           {f->ratio, f->size, f->alone, f->rounded}};
}

static struct findings unpack(const struct packed *p)
{
    return (struct findings){.ratio = p->largest[0],
                             .size = p->largest[1],
                             .alone = p->largest[2],
                             .rounded = p->largest[3],
                             .squares = p->sums[0],
                             .elements = p->sums[1],
                             .rows = p->sums[2],
                             .not_finite = p->sums[3],
                             .not_judged = p->sums[4]};
}

void findings_gather(const struct comm *comm, struct findings *f)
{
    struct packed all = pack(f);
    comm_sum_vector(comm, all.sums, 5);
    comm_most_vector(comm, all.largest, 4);
    *f = unpack(&all);
}

bool findings_vote(const struct comm *comm, struct findings *f)
{
    struct packed all = pack(f);
    comm_vote_begin(comm, all.sums, 5);
    if (!comm_vote_end(comm, all.sums, 5) || !comm_vote_most(comm, all.largest, 4))
        return false;
    *f = unpack(&all);
    return true;
}

double findings_detectable(const struct findings *f)
{
    if (f->elements == 0)
        return f->alone;
    const double size = f->size / sqrt(f->squares / f->elements);
    return fmax(f->alone, less_itself(size, fmax(f->elements / f->rows, 1)));
}

bool findings_any(const struct findings *f)
{
    return f->rows + f->not_finite + f->not_judged > 0;
}

bool findings_pass(const struct findings *f)
{
    return findings_any(f) && f->not_judged == 0 && findings_detectable(f) <= 1;
}

const char *findings_verdict(const struct findings *f)
{
    return !findings_any(f) ? NULL : findings_pass(f) ? "PASSED" : "NOT CHECKED";
}

const char *findings_summary(const struct findings *f, bool exact)
{
    const double size = findings_detectable(f);
    if (!findings_any(f))
        return "without a product to check";
    if (f->not_judged > 0)
        return text_make("except %.0f elements", f->not_judged);
    if (exact)
        return "for errors down to 1";
    if (size > 1)
        return text_make("for errors only down to %.2g times a typical element", size);
    if (size > 0)
        return text_make("for errors down to %.2g of a typical element", size);
    return f->rows > 0 ? "(every sum is 0)" : "(every sum is NaN or Inf)";
}

const char *findings_sentence(const struct findings *f, bool exact)
{
    const double size = findings_detectable(f);
    if (!findings_any(f))
        return "without a product to check";
    if (f->not_judged > 0)
        return text_make("%.0f elements could not be checked: they, or their squares, overflow",
                         f->not_judged);
    if (exact)
        return "an error of 1 would have been found: sums are exact integers";
    if (size > 1)
        return text_make("only an error of %.2g times a typical element would have been found",
                         size);
    if (size > 0)
        return text_make("an error of %.2g of a typical element would have been found", size);
    return f->rows > 0 ? "every sum of products is 0, as it has to be"
                       : "every sum of products is NaN or Inf, as it has to be";
}
