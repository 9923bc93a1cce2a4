/* Reads and writes of any dataset through the HDF5 library. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "matfile_impl.h"
#include "quantity.h"
#include "text.h"

enum {
    CACHE_MIN = 1 << 20, /* bytes of a dataset's chunk cache */
    CACHE_MAX = 64 << 20,
    CALL_MAX = 512 << 20, /* bytes per call, far below the limits of 2 GiB */
    CALL_CHUNKS = 1024,   /* chunks per call, unless one row of chunks is more */
    SLOTS = 100003,       /* hash slots of a chunk cache; a prime, as HDF5 recommends */
};

/* Memory that the library uses: measured values, rounded up generously. */
enum {
    BASE_BYTES = 8 << 20,       /* metadata, conversion and sieve buffers */
    CALL_CHUNK_BYTES = 8 << 10, /* for each chunk of one call's selection */
    SLOT_BYTES = 8,
    ENTRY_BYTES = 512,        /* for each chunk in the cache */
    CHUNK_COPIES = 3,         /* of one chunk, while its filters are undone */
    FILE_BYTES = 640 << 10,   /* for each file that a virtual dataset is drawn from, */
    SOURCE_BYTES = 112 << 10, /* and each dataset */
    SOURCE_SLOTS = 521,       /* of the table of its cache */
    RECORD_BYTES = 128,       /* for each chunk in the file, up to ... */
    RECORDS_MAX = 32 << 20,
};

struct matfile {
    hid_t file, dataset;
    struct source source;
    bool gaps, nothing; /* gaps: parts may have no storage; nothing: all of it has none */
    struct fill {       /* what is read there, by type: converted by HDF5, of both parts */
        double numbers[2];
        bool marked; /* it is too large for the type */
    } fills[SCALAR_COUNT];
};

static uint64_t chunks_per_row(const struct matrix *matrix)
{
    return (uint64_t)ceil_div(matrix_file_cols(matrix), matrix->chunk_cols);
}

/* The chunk cache holds a whole row of chunks if that fits, so that blocks that share chunks decode
 * them once; of a longer row it holds what a narrow panel uses. */
static size_t cache_bytes(const struct matrix *matrix)
{
    uint64_t row = chunks_per_row(matrix) * matrix->chunk_bytes;
    if (matrix->chunk_bytes > CACHE_MAX)
        return CACHE_MIN;
    return max_u64(min_u64(row, CACHE_MAX), CACHE_MIN);
}

/* The most chunks that one call may touch. */
static uint64_t call_chunks(const struct matrix *matrix)
{
    return max_u64(CALL_CHUNKS, 2 * (chunks_per_row(matrix) + 1));
}

/* Bytes of the library's index records of chunks, as far as it caches them. */
static uint64_t records_bytes(const struct matrix *matrix)
{
    return min_u64((uint64_t)matrix_chunks(matrix), RECORDS_MAX / RECORD_BYTES) * RECORD_BYTES;
}

size_t matfile_list_overhead(const struct matrix *matrix)
{
    return BASE_BYTES + records_bytes(matrix);
}

/* The sources of a virtual dataset share the size of one cache. */
static size_t source_cache_bytes(const struct virtual_sources *sources)
{
    return min_u64(sources->row_bytes, CACHE_MAX / max_u64((uint64_t)sources->datasets, 1));
}

static size_t sources_overhead(const struct virtual_sources *s)
{
    uint64_t cache = source_cache_bytes(s), chunks = (uint64_t)s->chunks;
    return (size_t)s->files * FILE_BYTES +
           (size_t)s->datasets * (SOURCE_BYTES + cache + cache / 2 /* fragmentation */) +
           CHUNK_COPIES * s->chunk_bytes + min_u64(chunks, CALL_CHUNKS) * CALL_CHUNK_BYTES +
           min_u64(chunks, (uint64_t)(s->files + 1) * (RECORDS_MAX / RECORD_BYTES)) * RECORD_BYTES;
}

size_t matfile_read_overhead(const struct matrix *matrix)
{
    if (matrix->chunk_bytes == 0 || matrix->rows == 0 || matrix->cols == 0)
        return BASE_BYTES + sources_overhead(&matrix->sources);
    size_t cache = cache_bytes(matrix);
    uint64_t entries = min_u64(SLOTS, cache / matrix->chunk_bytes + 1);
    return BASE_BYTES + cache + cache / 2 /* fragmentation */ + CHUNK_COPIES * matrix->chunk_bytes +
           SLOTS * SLOT_BYTES + entries * ENTRY_BYTES + call_chunks(matrix) * CALL_CHUNK_BYTES +
           records_bytes(matrix);
}

static hid_t dataset_access(const struct matrix *matrix, bool write)
{
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    if (matrix->sources.chunks > 0) /* the sources inherit it */
        H5Pset_chunk_cache(access, SOURCE_SLOTS, source_cache_bytes(&matrix->sources), 1.0);
    if (matrix->chunk_bytes == 0 || matrix->rows == 0 || matrix->cols == 0)
        return access;
    /* No cache when writing, so that a full disk is reported by the call that filled it. */
    if (write)
        H5Pset_chunk_cache(access, 1, 0, 1.0);
    else
        H5Pset_chunk_cache(access, SLOTS, cache_bytes(matrix), 1.0);
    return access;
}

/* The value of elements that were never written, as `type`. */
static void find_fill(hid_t plist, const struct source *source, enum scalar type, struct fill *fill)
{
    double doubles[2];
    h5_fill_value(plist, source, SCALAR_DOUBLE, doubles);
    h5_fill_value(plist, source, type, fill->numbers);
    for (int64_t i = 0; i < 2; i++)
        if (isinf(scalar_get(type, fill->numbers, i)) && !isinf(doubles[i])) {
            h5_put_mark(type, (char *)fill->numbers + (size_t)i * scalar_size(type));
            fill->marked = true;
        }
}

/* Find out whether parts have no storage: there the library may leave the buffer of a read
 * unset. */
static void find_gaps(struct matfile *m)
{
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    hid_t plist = H5Dget_create_plist(m->dataset);
    H5D_layout_t layout = H5Pget_layout(plist);
    H5Pfill_value_defined(plist, &defined);
    m->gaps = layout == H5D_CHUNKED || layout == H5D_VIRTUAL;
    for (enum scalar type = 0; type < SCALAR_COUNT; type++)
        if (scalar_is_real(type) &&
            (scalar_factor(type) == type || matrix_holds(&m->source.matrix, type)))
            find_fill(plist, &m->source, type, &m->fills[type]);
    if (layout == H5D_CONTIGUOUS || (layout == H5D_CHUNKED && defined == H5D_FILL_VALUE_UNDEFINED))
        m->nothing = H5Pget_external_count(plist) == 0 && H5Dget_storage_size(m->dataset) == 0;
    h5_close(plist);
}

static void fill(const struct matfile *m, enum scalar type, void *to, int64_t elements)
{
    const size_t size = scalar_size(type);
    for (int64_t i = 0; i < elements; i++)
        if (scalar_is_integer(type))
            scalar_put_integer(type, m->source.fill_integer, to, i);
        else
            memcpy((char *)to + (size_t)i * size,
                   (const char *)m->fills[type].numbers + (size_t)(i % 2) * size, size);
}

/* The sources that a read of a virtual dataset needs are there, for this process too: from now on a
 * name that leads nowhere is an error where it has led to a file. */
static int check_sources(const struct matfile *m, struct error *err)
{
    struct virtual_sources found;
    if (h5_check_sources(m->dataset, &m->source, &found, err) == 0 &&
        memcmp(&found, &m->source.matrix.sources, sizeof found) != 0)
        error_add(err, EXIT_INPUT, "%s: dataset \"%s\" has other source datasets than before",
                  m->source.file, m->source.dataset);
    return err->code;
}

static int open_dataset(struct matfile *m, bool write, struct error *err)
{
    m->file = h5_open_file(m->source.file, write ? H5_WRITE : H5_READ, err);
    if (m->file < 0)
        return err->code;
    int rc = 0;
    hid_t access = dataset_access(&m->source.matrix, write);
    m->dataset = h5_open_dataset(m->file, &m->source, access);
    if (m->dataset < 0)
        rc = error_add(err, EXIT_INPUT, "%s: dataset \"%s\" cannot be opened: %s", m->source.file,
                       m->source.dataset, h5_why());
    else if (!write)
        find_gaps(m);
    if (!rc && m->source.matrix.sources.datasets > 0)
        rc = check_sources(m, err);
    h5_close(access);
    return h5_settle(rc, m->source.file, err);
}

/* The elements are those of an external dataset of a file that is only in memory. */
static int open_flat(struct matfile *m, struct error *err)
{
    const struct matrix *matrix = &m->source.matrix;
    char path[PATH_MAX], name[64];
    const struct slice *s = &m->source.slice;
    const hsize_t element = matrix->element_bytes * (matrix->complex ? 2 : 1);
    hsize_t extents[SLICE_RANK], bytes = element;
    for (int d = 0; d < s->rank; d++)
        bytes *= extents[d] = (hsize_t)s->extents[d];
    const hsize_t before = matrix->by_offset ? (hsize_t)matrix->part[0] * element : 0;
    if (!realpath(m->source.file, path)) /* the library might look for another path elsewhere */
        return error_add(err, EXIT_INPUT, "%s: %s", m->source.file, strerror(errno));
    snprintf(name, sizeof name, "elements at %p", (void *)m);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), plist = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(s->rank, extents, NULL), type = h5_stored_type(&m->source);
    H5Pset_fapl_core(access, 1 << 16, false);
    H5Pset_external(plist, path, (off_t)(m->source.offset - before), bytes);
    m->file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    m->dataset = H5Dcreate2(m->file, "A", type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    if (m->dataset < 0)
        error_add(err, EXIT_RUNTIME, "%s cannot be converted: %s", m->source.file, h5_why());
    h5_close(type);
    h5_close(space);
    h5_close(plist);
    h5_close(access);
    return err->code;
}

static int open_new(const struct source *source, void **file, bool flat, bool write,
                    struct error *err)
{
    struct matfile *m = malloc(sizeof *m);
    if (!m)
        return error_add(err, EXIT_RESOURCES, "no memory to open %s", source->file);
    *m = (struct matfile){.file = -1, .dataset = -1, .source = *source};
    h5_enter();
    int rc = flat ? open_flat(m, err) : open_dataset(m, write, err);
    h5_leave();
    if (rc) {
        matfile_close(m);
        m = NULL;
    }
    *file = m;
    return rc;
}

int matfile_open(const struct source *source, bool write, void **file, struct error *err)
{
    return open_new(source, file, false, write, err);
}

int matfile_open_flat(const struct source *source, bool write, void **file, struct error *err)
{
    (void)write; /* what is written lies as it is in memory */
    return open_new(source, file, true, false, err);
}

void matfile_close(void *file)
{
    struct matfile *m = file;
    if (!m)
        return;
    h5_enter();
    h5_close(m->dataset);
    h5_close(m->file);
    h5_leave();
    free(m);
}

/* Select a block of the matrix in the dataset.  Returns its space in memory, which has as many
 * dimensions: between other numbers of them the library goes element by element. */
static hid_t select_block(hid_t space, const struct source *source, const struct block *b)
{
    const struct slice *s = &source->slice;
    const int64_t width = source->matrix.complex ? 2 : 1;
    const int64_t from[2] = {b->row, b->col / width}, extents[2] = {b->rows, b->cols / width};
    hsize_t start[SLICE_RANK], steps[SLICE_RANK], counts[SLICE_RANK];
    for (int d = 0; d < s->rank; d++) {
        start[d] = (hsize_t)s->first[d];
        steps[d] = (hsize_t)s->steps[d];
        counts[d] = 1;
    }
    for (int i = 0; i < 2; i++)
        if (s->axes[i] >= 0) {
            start[s->axes[i]] += (hsize_t)(from[i] * s->steps[s->axes[i]]);
            counts[s->axes[i]] = (hsize_t)extents[i];
        }
    const herr_t status = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, steps, counts, NULL);
    return status < 0 ? -1 : H5Screate_simple(s->rank, counts, NULL);
}

/* Transfer a block by one call of the library; exactly one of `to` and `from` is not null. */
static int transfer(struct matfile *m, enum scalar type, const struct block *b, void *to,
                    const void *from, struct error *err)
{
    /* Index records are written late, so leave room for all of them. */
    uint64_t bytes = (uint64_t)(b->rows * b->cols) * scalar_size(type);
    if (from &&
        h5_check_room(m->source.file, bytes + records_bytes(&m->source.matrix) + H5_ROOM, err))
        return err->code;
    int rc = 0;
    struct h5_narrowing narrowing = {.type = type};
    hid_t how = h5_watch_narrowing(&m->source.matrix, &narrowing);
    hid_t memory = h5_memory_type(&m->source, type);
    hid_t there = H5Dget_space(m->dataset), here = select_block(there, &m->source, b);
    herr_t status = here < 0 ? -1 : 0;
    if (status >= 0)
        status = to ? H5Dread(m->dataset, memory, here, there, how, to)
                    : H5Dwrite(m->dataset, memory, here, there, H5P_DEFAULT, from);
    if (status < 0 || h5_failure()[0]) {
        const bool noted = h5_failure()[0];
        const char *why = noted ? h5_failure() : h5_why();
        rc = error_add(err, noted ? h5_failure_code(EXIT_RUNTIME) : h5_exit_code(EXIT_RUNTIME),
                       "%s: %s dataset \"%s\" at row %" PRId64 ", column %" PRId64 " failed: %s",
                       m->source.file, to ? "reading" : "writing", m->source.dataset, b->row,
                       b->col, why);
    }
    if (!rc && narrowing.marked)
        rc = h5_check_marks(&m->source, type, b, to, err);
    h5_close(here);
    h5_close(there);
    h5_close(memory);
    h5_close(how);
    return rc;
}

/* The most elements per call: limited by bytes and, since the library allocates a record per
 * selected chunk, by chunks. */
static int64_t call_elements(const struct matrix *matrix, enum scalar type, const struct block *b)
{
    uint64_t elements = CALL_MAX / scalar_size(type);
    if (matrix->chunk_bytes == 0)
        return (int64_t)elements;
    uint64_t row_of_chunks = (uint64_t)matrix->chunk_rows * (uint64_t)b->cols;
    uint64_t rows_of_chunks = call_chunks(matrix) / (chunks_per_row(matrix) + 1) - 1; /* >= 1 */
    return (int64_t)min_u64(elements, max_u64(rows_of_chunks * row_of_chunks, 1));
}

static int transfer_all(struct matfile *m, enum scalar type, const struct block *block, void *to,
                        const void *from, struct error *err)
{
    char *to_bytes = to;
    const char *from_bytes = from;
    int64_t elements = call_elements(&m->source.matrix, type, block);
    int64_t parts = block_parts(block, elements);
    int rc = 0;
    for (int64_t i = 0; i < parts && !rc; i++) {
        struct block part = block_part(block, elements, i);
        size_t bytes = (size_t)(part.rows * part.cols) * scalar_size(type);
        h5_enter();
        rc = transfer(m, type, &part, to_bytes, from_bytes, err);
        h5_leave();
        if (to_bytes)
            to_bytes += bytes;
        else
            from_bytes += bytes;
    }
    return rc;
}

int matfile_read(void *file, enum scalar type, const struct block *block, void *to,
                 struct error *err)
{
    struct matfile *m = file;
    if (m->gaps || m->nothing)
        fill(m, type, to, block->rows * block->cols);
    if (!m->nothing && transfer_all(m, type, block, to, NULL, err))
        return err->code;
    return m->fills[type].marked ? h5_check_marks(&m->source, type, block, to, err) : 0;
}

int matfile_write(void *file, enum scalar type, const struct block *block, const void *from,
                  struct error *err)
{
    return transfer_all(file, type, block, NULL, from, err);
}

int matfile_sync(void *file, struct error *err)
{
    struct matfile *m = file;
    h5_enter();
    int rc = h5_sync(m->file, m->source.file, err);
    h5_leave();
    return rc;
}

static const char *version(void)
{
    unsigned major, minor, release;
#ifdef H5_HAVE_PARALLEL
    const char *parallel = ", parallel";
#else
    const char *parallel = "";
#endif
    h5_enter();
    H5get_libversion(&major, &minor, &release);
    h5_leave();
    return text_make("HDF5 %u.%u.%u%s", major, minor, release, parallel);
}

const struct format format_hdf5 = {.name = "hdf5",
                                   .version = version,
                                   .own_process = matfile_own_process,
                                   .read_bytes_per_s = 1e9,
                                   .describe = matfile_describe,
                                   .each = matfile_each,
                                   .each_file = matfile_each_file,
                                   .lookup = matfile_lookup,
                                   .open = matfile_open,
                                   .close = matfile_close,
                                   .read = matfile_read,
                                   .write = matfile_write,
                                   .sync = matfile_sync,
                                   .list_chunks = matfile_list_chunks,
                                   .read_overhead = matfile_read_overhead,
                                   .list_overhead = matfile_list_overhead,
                                   .get_attributes = matfile_get_attributes,
                                   .replace_text = matfile_replace_text,
                                   .create = matfile_create,
                                   .add_vector = matfile_add_vector,
                                   .fill_vector = matfile_fill_vector,
                                   .compare_vector = matfile_compare_vector,
                                   .others = matfile_others,
                                   .rename = matfile_rename,
                                   .retract = matfile_retract,
                                   .remove = matfile_remove};
