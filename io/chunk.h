/* Decoding of one chunk of a chunked dataset: undoes the filters that HDF5 has applied, in memory.
 * All functions may be called from any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chunk_filter_kind { CHUNK_SHUFFLE, CHUNK_DEFLATE, CHUNK_FLETCHER32 };

struct chunk_filter {
    enum chunk_filter_kind kind;
    uint32_t element; /* SHUFFLE: bytes of an element */
};

/* The filters of a dataset, in the order in which they were applied.  Plain data. */
enum { CHUNK_FILTERS_MAX = 6 };
struct chunk_pipeline {
    int count;
    struct chunk_filter filters[CHUNK_FILTERS_MAX];
};

/* The workspace of a decoder: two ping-pong buffers of chunk_room bytes, and an inflater.  All are
 * the caller's. */
struct chunk_work {
    unsigned char *data, *spare;
    size_t bytes; /* used of data */
    struct libdeflate_decompressor *inflater;
};

/* An upper bound on the bytes of a chunk of `chunk_bytes` after any of its filters.  Pure. */
size_t chunk_room(size_t chunk_bytes);

/* Decode a chunk.  On entry work->data holds its stored form, of work->bytes bytes; on success it
 * holds the chunk, of chunk_bytes bytes (the buffers may have been swapped).  Bit i of `mask`:
 * filter i was not applied.  Returns null, or a clause that says what is wrong with the chunk. */
const char *chunk_decode(const struct chunk_pipeline *pipeline, uint32_t mask,
                         struct chunk_work *work, size_t chunk_bytes);

/* Whether no filter was applied to a chunk with this mask.  Pure. */
bool chunk_is_plain(const struct chunk_pipeline *pipeline, uint32_t mask);

/* The filters of chunk_decode, for tests.  Shuffled data has byte 0 of all elements, then byte 1 of
 * all, ...; bytes behind the last whole element are stored unchanged. */
void chunk_unshuffle(size_t element, size_t bytes, const unsigned char *from, unsigned char *to);
uint32_t chunk_fletcher32(const unsigned char *data, size_t bytes);
