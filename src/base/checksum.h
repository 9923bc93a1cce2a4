/* A checksum of a matrix which is the sum of those of its blocks, in any order, so that it does not
 * depend on ranks, threads and tiles.
 *
 * An element is one 32-bit word (float) or two (double).  Each word is multiplied by an odd 32-bit
 * weight of its place in the row, no two of which are equal in rows of less than 2^31 words; these
 * products are added up, and the sum of each row is multiplied by an odd 64-bit number of the row,
 * all modulo 2^64.
 *
 * One wrong word, however many of its bits are flipped, changes its product by less than 2^64 and
 * not by 0, and then odd factors keep it from vanishing: it is always found, and so are two flipped
 * bits of one row.  Errors in more places, rows or blocks that are exchanged, lost or written twice
 * are missed only when their differences happen to cancel, once in about 2^32.  (Products of whole
 * 64-bit words would not do: two signs that are flipped would cancel always.) */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "block.h"
#include "scalar.h"

struct error;

struct checksum {
    int64_t words;     /* of an element */
    uint32_t *weights; /* of the words of a row */
};

/* The table for a matrix with so many columns, and its size in bytes.  A closed table has null
 * weights. */
size_t checksum_bytes(enum scalar type, int64_t cols);
int checksum_open(struct checksum *checksum, enum scalar type, int64_t cols, struct error *err);
void checksum_close(struct checksum *checksum);

/* The table's use for a matrix of as many columns and of elements that are as large or smaller. */
struct checksum checksum_of(const struct checksum *checksum, enum scalar type);

/* The checksum of a block, which is packed row-major as stores have it.  Any thread. */
uint64_t checksum_block(const struct checksum *checksum, const struct block *block,
                        const void *memory);
