/* What the parts of the pipeline have on the device: row-major matrices and events. */
#pragma once

#include "block.h"
#include "device.h"

/* A matrix in device memory, which holds a block of C or of an operand's file. */
struct device_matrix {
    enum scalar type;
    void *memory;
    int64_t ld; /* leading dimension: elements from one row to the next */
    struct block block;
};

/* The element in that row and column of the block. */
void *device_matrix_at(const struct device_matrix *matrix, int64_t row, int64_t col);

/* The copy of a part of the block between the matrix and packed host memory.  `part` is in the
 * coordinates of `block` and lies within it. */
struct copy device_matrix_copy_in(const struct device_matrix *to, const struct block *part,
                                  const void *from);
/* Likewise, of what of `packed`, which is in host memory, lies in the block; *part becomes that. */
struct copy device_matrix_copy_common(const struct device_matrix *to, const struct block *packed,
                                      const void *from, struct block *part);
struct copy device_matrix_copy_out(void *to, const struct device_matrix *from,
                                   const struct block *part);

/* Create `count` events, or destroy those of them that were created. */
int events_create(struct device *dev, struct event **events, int count, struct error *err);
void events_destroy(struct device *dev, struct event **events, int count);
