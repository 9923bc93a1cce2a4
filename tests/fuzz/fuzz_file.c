/* HDF5 files: whatever the bytes, a dataset that can be described is a matrix, and its corners can
 * be read through every back end, or there is a complaint. */
#include <string.h>

#include "error.h"
#include "fuzz_input.h"
#include "store.h"

enum { FOUND_MAX = 8, SIDE = 10 };

struct found {
    int count;
    struct source infos[FOUND_MAX];
};

static void collect(const struct source *source, const struct error *problem, void *context)
{
    struct found *found = context;
    if (!problem->code && found->count < FOUND_MAX)
        found->infos[found->count++] = *source;
    else if (problem->code && !problem->text[0])
        abort();
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks at two corners, into memory of just their size. */
static void read_corners(const struct source *source, enum store_way way)
{
    struct error err = {0};
    struct store *store;
    if (store_open(source, SCALAR_DOUBLE, STORE_READ, way, &store, &err))
        return;
    struct block b = {.rows = min(source->matrix.rows, SIDE),
                      .cols = min(source->matrix.cols, SIDE)};
    double *to = malloc((size_t)(b.rows * b.cols) * sizeof *to);
    store_read(store, &b, to, &err);
    b.row = source->matrix.rows - b.rows;
    b.col = source->matrix.cols - b.cols;
    store_read(store, &b, to, &err);
    free(to);
    store_close(store);
}

static void check(const struct source *source)
{
    enum { READABLE = 64 << 20 }; /* more overhead than this is not worth the time */
    uint64_t size = source->matrix.element_bytes;
    if (source->matrix.rows < 0 || source->matrix.cols < 0 || size == 0 ||
        source->matrix.chunk_rows < 0)
        abort();
    if (source->matrix.by_offset &&
        source->offset + (uint64_t)(source->matrix.rows * source->matrix.cols) * size >
            source->file_bytes)
        abort();
    if (matrix_chunks(&source->matrix) > 1 << 12)
        return;
    if (store_overhead_bytes(&source->matrix, SCALAR_DOUBLE, STORE_READ, STORE_BUFFERED, 1) <
        READABLE)
        read_corners(source, STORE_BUFFERED);
    if (store_overhead_bytes(&source->matrix, SCALAR_DOUBLE, STORE_READ, STORE_LIBRARY, 1) <
        READABLE)
        read_corners(source, STORE_LIBRARY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct found found;
    struct error err = {0};
    struct source source;
    const char *file = fuzz_file(data, bytes);
    found.count = 0;
    if (format_each(file, collect, &found, &err) && !err.text[0])
        abort();
    for (int i = 0; i < found.count; i++)
        check(&found.infos[i]);
    if (format_describe(file, "A", &source, &err) == 0)
        check(&source);
    return 0;
}
