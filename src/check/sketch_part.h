/* Sketches (freivalds.h) of a matrix that comes in parts, packed row-major, as stores have them. */
#pragma once

#include "block.h"
#include "freivalds.h"

/* Add a part to the sketch `all` of its matrix, whose vectors begin at the first row and column. */
void sketch_part(const struct sketch *all, const struct block *part, const void *memory,
                 int threads);

/* A square matrix that is known by its lower half: symmetric, or Hermitian. */
struct lower_half {
    int64_t cols, width; /* of all of it, and of an element: 2 of a complex one */
    bool conjugate;      /* Hermitian */
};

/* Likewise, of a part of such a matrix: what it has below the diagonal stands for its mirror, too;
 * what it has above is ignored, and may be overwritten in `memory`.  `all` is not transposed. */
void sketch_lower_part(const struct sketch *all, const struct lower_half *half,
                       const struct block *part, void *memory, int threads);
