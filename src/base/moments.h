/* Exact sums of numbers and of their squares, in any order, and the mean and the standard deviation
 * that follow from them.
 *
 * An element is an integer times a power of two, and so is its square.  Its bits are added to a
 * window of words of 64 bits each, which are summed in 128 bits, so that nothing is carried.  Their
 * places are multiples of 2^64 of one fixed unit: the words from that of the largest element so far
 * downwards.  A larger element shifts the window; what
 * leaves it at its lower end is lost.  Since each word that the window has at the end was in all
 * windows before, or above them, what it holds depends on the elements and not on their order, nor
 * on how they were shared among several sums that were merged.
 *
 * What is lost of each element is less than 2^-180 times the largest one and, of its square, 2^-168
 * times the largest square: the deviation has all digits where the mean is 2^52 times as large. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MOMENT_WORDS = 4, MOMENT_PARTS = 32 };

/* Zeros: of no elements.  Plain data. */
struct moments {
    __int128 sum[MOMENT_WORDS]; /* word i: multiples of 2^(64 (top - i)) of the unit */
    __int128 squares[MOMENT_WORDS];
    int32_t top[2];  /* of both; above all others where an element is infinite */
    int64_t missing; /* elements that are NaN, which are not added */
};

/* Add an element, at most 2^50 of them. */
void moments_add(struct moments *m, double x);

void moments_merge(struct moments *m, const struct moments *other);

/* For sums over ranks: raise the tops to those of all; the parts of the words, whole numbers below
 * 2^32, which are added exactly up to 2^21 times; and back. */
void moments_raise(struct moments *m, const int32_t top[2]);
void moments_to_parts(const struct moments *m, double parts[MOMENT_PARTS]);
void moments_from_parts(struct moments *m, const double parts[MOMENT_PARTS]);

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
