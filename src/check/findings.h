/* What a check of the product has found, and what it could have found.  Plain data that can be
 * merged over tiles, ranks and runs.
 *
 * In each row of a tile the check knows the largest error that one element may have without being
 * found for certain, rounding included.  It also knows the row's reach: a bound on the norm of its
 * elements, which they would attain if no products cancelled.  Both have the units of the row and
 * of its columns, so their quotient has none, and the largest quotient is that of C.  It is
 * reported in typical elements: the root mean square of all elements of C, each divided by the
 * reach of its row for one element.  So the report depends little on how rows are cut into tiles,
 * and not on elements that are small by chance.
 *
 * Of integers, and of sums that an earlier run began, the reach is not known.  There a typical
 * element is the root mean square of the row, less what the error may have added to it.
 *
 * In a symmetric product (triangle.h) the row is that of the elements that are multiplied, up to
 * the diagonal; what mirrors them above it, where it does, is as right as they are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct comm;

struct findings {
    double ratio;      /* the largest difference, as a share of its limit */
    double size;       /* the largest undetectable error, by the reach for one element */
    double alone;      /* likewise, in typical elements of its row, where the reach is not known */
    double rounded;    /* the largest rounding so far of sums that are saved, likewise */
    double squares;    /* of elements by their reach: their sum */
    double elements;   /* how many these are */
    double rows;       /* that were judged */
    double not_finite; /* elements that are NaN or Inf, as they have to be */
    double not_judged; /* elements that were not, since something near them overflows */
};

/* What verdicts are of.  A tile of a symmetric product (triangle.h) stands for its mirror, too,
 * where that is written; in a triangle it has strips, each of which ends at the diagonal, and so
 * many columns `before` those of its first row's element on the diagonal.  Elements are counted as
 * they are written, a complex one as two: without a mirror, up to the diagonal. */
struct judged {
    int64_t rows, cols;
    int classes;
    /* Of products that are rounded after the check: how much, and the most that is lost of what is
     * too small for that.  0: they are not. */
    double roundoff, least;
    bool mirrored;
    int64_t strip_rows, before, width; /* of a triangle, and columns of an element; else 0 */
};

/* Add the verdicts of judge (freivalds.h) on the rows of a tile.  Returns the first row that is
 * wrong for certain, at which it ends, or -1. */
int64_t findings_collect(struct findings *f, const double *verdicts, const struct judged *judged);

/* Add what another check has found, of other rows, to what one has. */
void findings_merge(struct findings *to, const struct findings *other);

/* Collective.  Merge the findings of all ranks.  findings_vote may be called while the exchange
 * between nodes runs; it returns false when a rank has raised an error. */
void findings_gather(const struct comm *comm, struct findings *f);
bool findings_vote(const struct comm *comm, struct findings *f);

/* The largest error of an element that may have gone undetected, in typical elements. */
double findings_detectable(const struct findings *f);

/* Whether there was anything to check. */
bool findings_any(const struct findings *f);

/* Whether no error of the size of a typical element can have gone unnoticed. */
bool findings_pass(const struct findings *f);

/* "PASSED" or "NOT CHECKED"; null when there was nothing to check. */
const char *findings_verdict(const struct findings *f);

/* The verdict with its reason in a few words, for the last line of a run (text.h).  `exact`: these
 * are sums of integers, of which any error in one element is found (freivalds.h). */
const char *findings_summary(const struct findings *f, bool exact);

/* One sentence: what size of error would have been found, or why C counts as not checked. */
const char *findings_sentence(const struct findings *f, bool exact);
