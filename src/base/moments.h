/* Exact sums of numbers and of their squares, in any order, and the mean and the standard deviation
 * that follow from them.
 *
 * An element is an integer times a power of two, and so is its square.  Both are added to whole
 * numbers that are long enough for any sum of them: nothing is rounded and nothing is lost, and
 * what they hold depends neither on the order of the elements nor on how these were shared among
 * several sums that were merged. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of 64 bits each, the lowest first, as a two's complement. */
enum { MOMENT_SUM_WORDS = 34, MOMENT_SQUARES_WORDS = 68 };

enum { MOMENT_SPAN = 4, MOMENT_PARTS = 2 * (MOMENT_SUM_WORDS + MOMENT_SQUARES_WORDS) };

/* Zeros: of no elements.  Plain data. */
struct moments {
    uint64_t sum[MOMENT_SUM_WORDS];         /* in units of 2^-1074 */
    uint64_t squares[MOMENT_SQUARES_WORDS]; /* in units of 2^-2148 */
    double largest;                         /* size; infinite elements are not added */
    int64_t missing;                        /* elements that are NaN, likewise */
};

/* Add an element, at most 2^50 of them. */
void moments_add(struct moments *m, double x);

/* The sums of several elements and of their squares, each of which is the sum of some finite parts
 * without rounding; those of squares are multiples of 2^-1074.  The largest of these elements, and
 * those that are missing beside them. */
struct moment_sums {
    const double *sum, *squares;
    int sum_parts, squares_parts;
    double largest;
    int64_t missing;
};
void moments_add_sums(struct moments *m, const struct moment_sums *sums);

void moments_merge(struct moments *m, const struct moments *other);

/* For sums over ranks: the span of words that are in use, which begins as moment_no_span.  Of
 * several spans the largest of each number make the span of all. */
extern const double moment_no_span[MOMENT_SPAN];
void moments_widen(const struct moments *m, double span[MOMENT_SPAN]);
/* The words of that span as whole numbers, which are added exactly up to 2^21 times, and back; the
 * rest of *m is not among them.  Returns how many these are, at most MOMENT_PARTS. */
int moments_to_parts(const struct moments *m, const double span[MOMENT_SPAN], double *parts);
void moments_from_parts(struct moments *m, const double span[MOMENT_SPAN], const double *parts);

/* The mean is `mean` + `rest`, of which the first is rounded to a double and the second is what is
 * missing then: a rounded mean would cost digits where the deviation is much smaller. */
struct mean {
    double mean, rest;
};

/* Mean and deviation of `elements` elements.  Those that are missing count as zeros, or have no
 * part in the mean (`apart`) and count as the mean in the deviation, whose divisor is elements - 1.
 * Both are within one unit in the last place, the deviation 0 where all elements are equal, and
 * both NaN where one is infinite.  Without any element both are 0. */
struct mean moments_finish(const struct moments *m, int64_t elements, bool apart,
                           double *deviation);
