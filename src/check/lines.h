/* What is known of the rows or columns of matrices that are centred or scaled. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* So many lines, of which this is the first. */
struct line_count {
    int64_t count, first;
};

/* The same on all ranks. */
struct statistics {
    int64_t lines;
    double *mean, *rest, *deviation; /* of each line (moments.h), one behind the other, ... */
    bool known;                      /* ... once they are; NaN before */
    /* Of shifted lines (scaling_shifts): the shift, from the beginning, and the mean of what they
     * have become; and where they are scaled the power of two by which they are divided, and the
     * deviation of what they have become.  Else null. */
    double *shift, *offset, *scale, *spread;
    double drift;        /* the largest (offset / spread)^2 */
    int64_t moved;       /* lines whose shift or scale was too far away and has been replaced */
    struct {             /* of the lines of A, and those that are B's own: */
        int64_t missing; /* elements that are NaN */
        struct line_count constant; /* whose deviation is 0 */
        struct line_count infinite; /* with an infinite element: both are NaN */
    } found[2];
    double seconds, bytes; /* that it took, and that all ranks read */
};

/* The power of two next to a positive number. */
static inline double lines_scale(double size)
{
    return ldexp(1, ilogb(size));
}
