/* The values of made matrices: functions of the pattern, the seed and the element's place alone. */
#ifndef DGEMM_OOC_H5MAT_PATTERN_H
#define DGEMM_OOC_H5MAT_PATTERN_H

#include "block.h"
#include "scalar.h"

enum pattern {
    PATTERN_RANDOM,  /* uniform in [-1, 1) */
    PATTERN_INTEGER, /* whole numbers, uniform in -8 ... 8 */
    PATTERN_ONES,
    PATTERN_IDENTITY, /* 1 where row = column */
};

/* Fill a packed block of a matrix of `cols` columns. */
void pattern_fill(enum pattern pattern, uint64_t seed, enum scalar type, int64_t cols,
                  const struct block *block, void *to);

#endif
