#include "chunk.h"

#include <libdeflate.h>
#include <string.h>

enum { VECTOR = 16 };

typedef uint8_t vector __attribute__((vector_size(VECTOR)));

/* Clang has only the first of these built-ins. */
#ifdef __clang__
#define ZIP(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define ZIP(x, y, ...) __builtin_shuffle(x, y, (vector){__VA_ARGS__})
#endif

/* Interleave the first half of the vectors with the second half, byte by byte.  A shuffle is a
 * transposition, and r such steps transpose 2^r rows. */
static inline void zip(const vector *x, vector *y, int count)
{
    for (int i = 0; i < count / 2; i++) {
        vector a = x[i], b = x[i + count / 2];
        y[2 * i] = ZIP(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        y[2 * i + 1] = ZIP(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
}

/* Unshuffle all whole vectors of elements of 4 or 8 bytes.  Returns the number of elements done. */
static inline size_t unshuffle_vectors(int element, size_t count, const unsigned char *from,
                                       unsigned char *to)
{
    size_t i = 0;
    for (; i + VECTOR <= count; i += VECTOR) {
        vector x[8], y[8];
        for (int byte = 0; byte < element; byte++)
            memcpy(&x[byte], from + (size_t)byte * count + i, VECTOR);
        zip(x, y, element);
        zip(y, x, element);
        if (element == 8)
            zip(x, y, element);
        memcpy(to + i * (size_t)element, element == 8 ? y : x, (size_t)element * VECTOR);
    }
    return i;
}

void chunk_unshuffle(size_t element, size_t bytes, const unsigned char *from, unsigned char *to)
{
    size_t count = bytes / element, first = 0;
    if (count == 0)
        element = 0;
    if (element == 8)
        first = unshuffle_vectors(8, count, from, to);
    else if (element == 4)
        first = unshuffle_vectors(4, count, from, to);
    for (size_t byte = 0; byte < element; byte++)
        for (size_t i = first; i < count; i++)
            to[i * element + byte] = from[byte * count + i];
    memcpy(to + count * element, from + count * element, bytes - count * element);
}

/* HDF5's variant: over big-endian 16-bit words; an odd byte at the end is the high byte of a
 * word. */
uint32_t chunk_fletcher32(const unsigned char *data, size_t bytes)
{
    enum { WORDS_MAX = 360 }; /* words whose sums do not overflow 32 bits */
    uint32_t sum = 0, sums = 0;
    size_t words = bytes / 2;
    while (words > 0) {
        size_t count = words < WORDS_MAX ? words : WORDS_MAX;
        words -= count;
        for (; count > 0; count--, data += 2) {
            sum += (uint32_t)(data[0] << 8 | data[1]);
            sums += sum;
        }
        sum = (sum & 0xffff) + (sum >> 16);
        sums = (sums & 0xffff) + (sums >> 16);
    }
    if (bytes % 2) {
        sum += (uint32_t)data[0] << 8;
        sums += sum;
        sum = (sum & 0xffff) + (sum >> 16);
        sums = (sums & 0xffff) + (sums >> 16);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sums = (sums & 0xffff) + (sums >> 16);
    return sums << 16 | sum;
}

/* Leaves room for the overhead of incompressible data, and for a few checksums. */
size_t chunk_room(size_t chunk_bytes)
{
    return chunk_bytes + chunk_bytes / 64 + 4096;
}

static void swap_buffers(struct chunk_work *work)
{
    unsigned char *data = work->data;
    work->data = work->spare;
    work->spare = data;
}

static const char *inflate(struct chunk_work *work, size_t room)
{
    size_t bytes;
    enum libdeflate_result result = libdeflate_zlib_decompress(
        work->inflater, work->data, work->bytes, work->spare, room, &bytes);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
        return "it inflates to more than a chunk";
    if (result != LIBDEFLATE_SUCCESS)
        return "its compressed data is damaged";
    swap_buffers(work);
    work->bytes = bytes;
    return NULL;
}

static const char *check_fletcher32(struct chunk_work *work)
{
    enum { SUM = 4 };
    if (work->bytes < SUM)
        return "it is too short for its checksum";
    work->bytes -= SUM;
    const unsigned char *end = work->data + work->bytes;
    uint32_t stored =
        (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24;
    uint32_t sum = chunk_fletcher32(work->data, work->bytes);
    uint32_t swapped = (sum & 0xff00ff) << 8 | (sum >> 8 & 0xff00ff); /* by old HDF5 versions */
    return stored == sum || stored == swapped ? NULL : "its checksum (fletcher32) is wrong";
}

const char *chunk_decode(const struct chunk_pipeline *pipeline, uint32_t mask,
                         struct chunk_work *work, size_t chunk_bytes)
{
    const char *problem = NULL;
    for (int i = pipeline->count - 1; i >= 0 && !problem; i--) {
        const struct chunk_filter *filter = &pipeline->filters[i];
        if (mask >> i & 1)
            continue;
        switch (filter->kind) {
        case CHUNK_DEFLATE: problem = inflate(work, chunk_room(chunk_bytes)); break;
        case CHUNK_FLETCHER32: problem = check_fletcher32(work); break;
        case CHUNK_SHUFFLE:
            chunk_unshuffle(filter->element, work->bytes, work->data, work->spare);
            swap_buffers(work);
            break;
        }
    }
    if (!problem && work->bytes != chunk_bytes)
        problem = "its decoded size is not that of a chunk";
    return problem;
}

bool chunk_is_plain(const struct chunk_pipeline *pipeline, uint32_t mask)
{
    uint32_t all = (UINT32_C(1) << pipeline->count) - 1;
    return (mask & all) == all;
}
