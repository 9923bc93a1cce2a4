/* Raw chunks: any bytes through any filters.  The first bytes say which: how many filters, a kind
 * and an element size each, their mask, the bytes of a chunk. */
#include <libdeflate.h>
#include <string.h>

#include "chunk.h"
#include "fuzz_input.h"

enum { CHUNK_MAX = 4096 };

static unsigned take(const uint8_t **data, size_t *bytes)
{
    if (*bytes == 0)
        return 0;
    --*bytes;
    return *(*data)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const enum chunk_filter_kind kinds[] = {CHUNK_DEFLATE, CHUNK_SHUFFLE, CHUNK_FLETCHER32};
    struct chunk_pipeline pipeline = {.count =
                                          (int)(take(&data, &bytes) % (CHUNK_FILTERS_MAX + 1))};
    for (int i = 0; i < pipeline.count; i++) {
        pipeline.filters[i].kind = kinds[take(&data, &bytes) % 3];
        pipeline.filters[i].element = 1 + take(&data, &bytes);
    }
    uint32_t mask = take(&data, &bytes);
    size_t chunk_bytes = 8 * take(&data, &bytes), room = chunk_room(chunk_bytes);
    if (bytes > room || bytes > CHUNK_MAX)
        return -1;
    /* Two allocations, so that either's end is watched. */
    unsigned char *first = malloc(room), *second = malloc(room);
    if (bytes > 0)
        memcpy(first, data, bytes);
    struct chunk_work work = {.inflater = libdeflate_alloc_decompressor(),
                              .data = first,
                              .spare = second,
                              .bytes = bytes};
    if (!chunk_decode(&pipeline, mask, &work, chunk_bytes) && work.bytes != chunk_bytes)
        abort();
    libdeflate_free_decompressor(work.inflater);
    free(first);
    free(second);
    return 0;
}
