/* Finds the file addresses of a dataset's chunks, so that they can be read without HDF5.
 *
 * H5Dget_chunk_info returns the address of a chunk by its number, but iterates over all preceding
 * chunks, which takes minutes for 10^5 chunks, and ignores the user block; H5Dchunk_iter is linear,
 * but only exists since 1.12.3 and had bugs.  Reading a raw chunk is fast in all versions, so
 * chunks are "read" through our file driver (matfile_driver.c), which then records the address
 * of a read directly into the given buffer and skips the read: about a microsecond per chunk.  The
 * buffer exists nevertheless: a library version that reads to an internal buffer first would copy
 * to ours, and the chunk would count as not found. */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "error.h"
#include "matfile_impl.h"

/* The buffer that raw chunks are "read" to: address space without memory, unless written to. */
struct raw_buffer {
    void *at;
    size_t bytes;
};

static int raw_buffer_open(struct raw_buffer *buffer, const struct matrix *matrix,
                           struct error *err)
{
    buffer->bytes = chunk_room(matrix->chunk_bytes);
    buffer->at = mmap(NULL, buffer->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (buffer->at != MAP_FAILED)
        return 0;
    return error_add(err, EXIT_RESOURCES, "no memory for chunks of %zu bytes", buffer->bytes);
}

static herr_t read_raw(hid_t dataset, const hsize_t at[2], const struct raw_buffer *buffer,
                       uint32_t *mask)
{
#if H5_VERSION_GE(2, 0, 0)
    size_t bytes = buffer->bytes;
    return H5Dread_chunk2(dataset, H5P_DEFAULT, at, mask, buffer->at, &bytes);
#else
    return H5Dread_chunk(dataset, H5P_DEFAULT, at, mask, buffer->at);
#endif
}

static int check_within(const struct source *source, const struct format_chunk *chunk,
                        struct error *err)
{
    uint64_t end = chunk->address + chunk->bytes;
    if (end >= chunk->address && end <= source->file_bytes)
        return 0;
    return error_add(
        err, EXIT_INPUT,
        "%s is cut short, copy it again: a chunk of dataset \"%s\" ends at byte %" PRIu64
        ", the file at byte %" PRIu64,
        source->file, source->dataset, end, source->file_bytes);
}

/* Whether the chunk exists (and its index record can be read).  For one that is longer than any
 * chunk can be only the size is set; its reader will complain about it. */
static bool locate(hid_t dataset, const hsize_t at[2], const struct raw_buffer *buffer,
                   struct format_chunk *chunk)
{
    hsize_t bytes = 0;
    *chunk = (struct format_chunk){0};
    if (H5Dget_chunk_storage_size(dataset, at, &bytes) < 0 || bytes == 0 || bytes > UINT32_MAX)
        return false;
    if (bytes <= buffer->bytes) {
        h5_locate(buffer->at);
        if (read_raw(dataset, at, buffer, &chunk->mask) < 0 ||
            (chunk->address = h5_located()) == HADDR_UNDEF)
            return false;
    }
    chunk->bytes = (uint32_t)bytes;
    return true;
}

static int locate_all(hid_t dataset, const struct source *source, struct format_chunk *chunks,
                      const struct raw_buffer *buffer, struct error *err)
{
    int rc = 0;
    hsize_t written = 0, found = 0;
    hid_t space = H5Dget_space(dataset);
    herr_t status = H5Dget_num_chunks(dataset, space, &written);
    h5_close(space);
    const struct matrix *m = &source->matrix;
    hsize_t rows = m->cols > 0 ? (hsize_t)matrix_file_rows(m) : 0; /* without columns: no chunks */
    hsize_t width = m->complex ? 2 : 1, cols = (hsize_t)matrix_file_cols(m) / width;
    hsize_t chunk_cols = (hsize_t)source->matrix.chunk_cols / width;
    for (hsize_t row = 0; row < rows && !rc; row += (hsize_t)source->matrix.chunk_rows)
        for (hsize_t col = 0; col < cols && !rc; col += chunk_cols)
            if (locate(dataset, (hsize_t[]){row, col}, buffer, chunks++)) {
                rc = check_within(source, chunks - 1, err);
                found++;
            }
    rc = h5_settle(rc, source->file, err);
    if (!rc && (status < 0 || found != written))
        rc = error_add(err, EXIT_INPUT,
                       "%s: dataset \"%s\" is damaged or cut short: %llu of its %llu chunks were "
                       "found",
                       source->file, source->dataset, (unsigned long long)found,
                       (unsigned long long)written);
    return rc;
}

static int open_and_locate(const struct source *source, struct format_chunk *chunks,
                           const struct raw_buffer *buffer, struct error *err)
{
    hid_t file = h5_open_file(source->file, H5_READ, err);
    if (file < 0)
        return err->code;
    hid_t dataset = h5_open_dataset(file, source, H5P_DEFAULT);
    int rc = dataset >= 0 ? locate_all(dataset, source, chunks, buffer, err)
                          : error_add(err, EXIT_INPUT, "%s: dataset \"%s\" cannot be opened: %s",
                                      source->file, source->dataset, h5_why());
    h5_close(dataset);
    h5_close(file);
    return rc;
}

int matfile_list_chunks(const struct source *source, struct format_chunk *chunks, struct error *err)
{
    struct raw_buffer buffer;
    if (raw_buffer_open(&buffer, &source->matrix, err))
        return err->code;
    h5_enter();
    int rc = open_and_locate(source, chunks, &buffer, err);
    h5_locate(NULL);
    h5_leave();
    munmap(buffer.at, buffer.bytes);
    return rc;
}

static const char *filter_name(H5Z_filter_t id)
{
    static const struct {
        H5Z_filter_t id;
        const char *name;
    } known[] = {{1, "gzip"},    {2, "shuffle"},        {3, "fletcher32"}, {4, "szip"},
                 {5, "nbit"},    {6, "scaleoffset"},    {32000, "lzf"},    {32001, "blosc"},
                 {32004, "lz4"}, {32008, "bitshuffle"}, {32013, "zfp"},    {32015, "zstd"},
                 {32017, "sz"},  {32026, "blosc2"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == id)
            return known[i].name;
    return NULL;
}

/* Append a filter to the pipeline; false unless chunk.h can undo it. */
static bool add_filter(struct chunk_pipeline *pipeline, H5Z_filter_t id, unsigned value)
{
    static const enum chunk_filter_kind kinds[] = {[H5Z_FILTER_DEFLATE] = CHUNK_DEFLATE,
                                                   [H5Z_FILTER_SHUFFLE] = CHUNK_SHUFFLE,
                                                   [H5Z_FILTER_FLETCHER32] = CHUNK_FLETCHER32};
    if (id < H5Z_FILTER_DEFLATE || id > H5Z_FILTER_FLETCHER32 ||
        pipeline->count == CHUNK_FILTERS_MAX || (id == H5Z_FILTER_SHUFFLE && value == 0))
        return false;
    pipeline->filters[pipeline->count++] = (struct chunk_filter){kinds[id], value};
    return true;
}

int h5_filters(hid_t plist, struct source *source, char *text, size_t size, const char **reason,
               struct error *err)
{
    int rc = 0, count = H5Pget_nfilters(plist);
    for (int i = 0; i < count; i++) {
        char stored[32] = "";
        unsigned flags, config, value = 0;
        size_t values = 1;
        H5Z_filter_t id = H5Pget_filter2(plist, (unsigned)i, &flags, &values, &value, sizeof stored,
                                         stored, &config);
        stored[sizeof stored - 1] = '\0';
        error_make_plain(stored);
        const char *known = filter_name(id);
        const char *name = known ? known : stored[0] ? stored : "filter";
        h5_append(text, size, "%s%s", i ? "+" : " ", name);
        if (add_filter(&source->matrix.pipeline, id, value))
            continue;
        *reason = known ? known : "filtered";
        const bool only_h5py = strcmp(name, "lzf") == 0; /* has it, built in */
        if (H5Zfilter_avail(id) <= 0)
            rc =
                error_add(err, EXIT_INPUT,
                          "%s: dataset \"%s\" uses filter %d (%s), which is not available here; "
                          "%sstore the dataset without it, as h5py does by "
                          "new.create_dataset(NAME, data=old[NAME])",
                          source->file, source->dataset, (int)id, name,
                          only_h5py ? ""
                                    : "set HDF5_PLUGIN_PATH to the folder of its plug-in (Python's "
                                      "hdf5plugin has many, in hdf5plugin.PLUGIN_PATH), or ");
    }
    return rc;
}

/* H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS stores partial edge chunks unfiltered, without marking them
 * in their masks. */
static bool has_plain_edges(hid_t plist, const struct matrix *matrix)
{
    unsigned options = 0;
    return H5Pget_chunk_opts(plist, &options) >= 0 &&
           options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS && matrix->pipeline.count > 0 &&
           (matrix->rows % matrix->chunk_rows || matrix->cols % matrix->chunk_cols);
}

const char *h5_why_not_by_chunks(hid_t plist, const struct matrix *matrix)
{
    enum { COUNT_MAX = 4 << 20 };
    if (matrix->elements == SCALAR_OTHER || (matrix->integers && matrix->swapped))
        return "converted";
    if (has_plain_edges(plist, matrix))
        return "edges not filtered";
    if (matrix->chunk_bytes > UINT32_MAX)
        return "chunks too large";
    if (matrix_chunks(matrix) > COUNT_MAX)
        return "too many chunks";
    return NULL;
}

void h5_fill_value(hid_t plist, const struct source *source, enum scalar type, void *pair)
{
    size_t size = scalar_size(type);
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    memset(pair, 0, 2 * size);
    H5Pfill_value_defined(plist, &defined);
    if (defined == H5D_FILL_VALUE_UNDEFINED)
        return;
    hid_t element = h5_memory_type(source, type);
    H5Pget_fill_value(plist, element, pair);
    h5_close(element);
    if (!source->matrix.complex)
        memcpy((char *)pair + size, pair, size);
}
