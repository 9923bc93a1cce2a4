/* One chunk of a chunked dataset: undoing the filters that HDF5 put it through.  Knows nothing of
 * files. */
#ifndef DGEMM_OOC_CHUNK_H
#define DGEMM_OOC_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chunk_filter_kind { CHUNK_SHUFFLE, CHUNK_DEFLATE, CHUNK_FLETCHER32 };

struct chunk_filter {
    enum chunk_filter_kind kind;
    uint32_t element; /* bytes of one, as SHUFFLE knows it */
};

/* In the order in which they were applied.  Plain data. */
enum { CHUNK_FILTERS_MAX = 6 };
struct chunk_pipeline {
    int count;
    struct chunk_filter filters[CHUNK_FILTERS_MAX];
};

/* A place to decode in: two ping-pong buffers of chunk_room bytes. */
struct chunk_work {
    unsigned char *data, *spare;
    size_t bytes; /* of data */
    struct libdeflate_decompressor *inflater;
};

/* What the stored form of a chunk of so many bytes may take, and every form between. */
size_t chunk_room(size_t chunk_bytes);

/* Undo the filters but those in `mask` (bit i: filter i was left out).  work->data holds the
 * stored form and then the chunk.  Null, or what is wrong with it. */
const char *chunk_decode(const struct chunk_pipeline *pipeline, uint32_t mask,
                         struct chunk_work *work, size_t chunk_bytes);

/* Whether a chunk with this mask is stored as it is. */
bool chunk_is_plain(const struct chunk_pipeline *pipeline, uint32_t mask);

/* The parts of that.  Shuffled: byte 0 of all elements, then byte 1 of all, ...; what does not make
 * up an element stands behind them as it is. */
void chunk_unshuffle(size_t element, size_t bytes, const unsigned char *from, unsigned char *to);
uint32_t chunk_fletcher32(const unsigned char *data, size_t bytes);

#endif
