/* HDF5 files: whatever the bytes, a dataset that can be described is a matrix, and its corners can
 * be read through every back end, or there is a complaint. */
#include <string.h>

#include "error.h"
#include "fuzz_input.h"
#include "store.h"

enum { FOUND_MAX = 8, SIDE = 10 };

struct found {
    int count;
    struct matrix_info infos[FOUND_MAX];
};

static void collect(const struct matrix_info *info, const struct error *problem, void *context)
{
    struct found *found = context;
    if (!problem->code && found->count < FOUND_MAX)
        found->infos[found->count++] = *info;
    else if (problem->code && !problem->text[0])
        abort();
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks at two corners, into memory of just their size. */
static void read_corners(const struct matrix_info *info, enum store_way way)
{
    struct error err = {0};
    struct store *store;
    if (store_open(info, SCALAR_DOUBLE, STORE_READ, way, &store, &err))
        return;
    struct block b = {.rows = min(info->rows, SIDE), .cols = min(info->cols, SIDE)};
    double *to = malloc((size_t)(b.rows * b.cols) * sizeof *to);
    store_read(store, &b, to, &err);
    b.row = info->rows - b.rows;
    b.col = info->cols - b.cols;
    store_read(store, &b, to, &err);
    free(to);
    store_close(store);
}

static void check(const struct matrix_info *info)
{
    enum { READABLE = 64 << 20 }; /* more overhead than this is not worth the time */
    uint64_t size = info->element_bytes;
    if (info->rows < 0 || info->cols < 0 || size == 0 || info->chunk_rows < 0)
        abort();
    if (info->by_offset &&
        info->offset + (uint64_t)(info->rows * info->cols) * size > info->file_bytes)
        abort();
    if (matfile_chunk_count(info) > 1 << 12)
        return;
    if (store_overhead_bytes(info, SCALAR_DOUBLE, STORE_READ, STORE_BUFFERED, 1) < READABLE)
        read_corners(info, STORE_BUFFERED);
    if (store_overhead_bytes(info, SCALAR_DOUBLE, STORE_READ, STORE_HDF5, 1) < READABLE)
        read_corners(info, STORE_HDF5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct found found;
    struct error err = {0};
    struct matrix_info info;
    const char *file = fuzz_file(data, bytes);
    found.count = 0;
    if (matfile_each(file, collect, &found, &err) && !err.text[0])
        abort();
    for (int i = 0; i < found.count; i++)
        check(&found.infos[i]);
    if (matfile_describe(file, "A", &info, &err) == 0)
        check(&info);
    return 0;
}
