/* What h5mat gen fills matrices with. */
#pragma once

#include <stdbool.h>

#include "block.h"
#include "scalar.h"

enum pattern_kind {
    PATTERN_RANDOM,  /* uniform in [-1, 1); of integers: any of the type */
    PATTERN_INTEGER, /* uniform in -8 ... 8; their magnitudes where none is negative */
    PATTERN_ONES,
    PATTERN_IDENTITY, /* 1 where row = column */
    PATTERN_GENOTYPE, /* two draws of the minor allele of the column, a marker */
};

#define PATTERN_OWN_FREQUENCY (-1.0) /* each marker has its own, uniform in [0.05, 0.5) */

struct pattern {
    enum pattern_kind kind;
    enum scalar type;
    bool complex; /* columns are a real and an imaginary part in turns; of ones and of the identity
                   * the latter are 0 */
    uint64_t seed;
    double frequency; /* of the minor allele, or PATTERN_OWN_FREQUENCY */
    double missing;   /* share of genotypes that are NaN */
};

/* Fill a packed block of a matrix of `cols` columns: values are functions of the pattern and of the
 * element's place alone, and genotypes that are not missing do not depend on `missing`. */
void pattern_fill(const struct pattern *pattern, int64_t cols, const struct block *block, void *to);
