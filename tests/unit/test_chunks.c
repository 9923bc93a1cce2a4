/* Raw chunks, read and decoded without HDF5, compared with what HDF5 reads from the same files. */
#include "scratch.h"

#include <float.h>
#include <hdf5.h>
#include <libdeflate.h>
#include <math.h>
#include <pthread.h>

#include "chunk.h"
#include "matfile.h"
#include "store.h"

enum { ROWS = 61, COLS = 83 };

/* The properties of a file. */
struct kind {
    hsize_t chunk[2];
    hid_t type;
    const char *filters; /* in order: s shuffle, 1 or 9 gzip of that level, f fletcher32 */
    bool latest;         /* the newest format, which indexes chunks differently */
};

static void check_unshuffle(size_t element, size_t bytes)
{
    unsigned char from[1000] = {0}, to[1000], back[1000];
    size_t count = bytes / element;
    for (size_t i = 0; i < bytes; i++)
        from[i] = (unsigned char)random_below(256);
    chunk_unshuffle(element, bytes, from, to);
    memcpy(back, to, bytes);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < element; j++)
            back[j * count + i] = to[i * element + j];
    assert_memory_equal(back, from, bytes);
}

static void test_unshuffle(void **state)
{
    (void)state;
    for (size_t element = 1; element <= 17; element++)
        for (size_t bytes = 0; bytes < 700; bytes += 1 + bytes / 9)
            check_unshuffle(element, bytes);
}

static void test_fletcher32(void **state)
{
    (void)state;
    static const unsigned char text[] = "abcdefgh";
    assert_int_equal(chunk_fletcher32(text, 4), UINT32_C(0x2629c4c6)); /* words are big-endian */
    unsigned char *ones = malloc(1 << 20);
    memset(ones, 0xff, 1 << 20);
    assert_int_equal(chunk_fletcher32(ones, 1 << 20), UINT32_C(0xffffffff));
    free(ones);
}

static void add_filters(hid_t plist, const char *filters)
{
    for (; *filters; filters++)
        switch (*filters) {
        case 's': H5Pset_shuffle(plist); break;
        case 'f': H5Pset_fletcher32(plist); break;
        default: H5Pset_deflate(plist, (unsigned)(*filters - '0')); break;
        }
}

/* Whole numbers; some are infinite, or not exact in a float. */
static double random_value(void)
{
    static const double scales[] = {1, 1, 1.0 / 3, 1e35, INFINITY};
    const double sign = random_below(2) ? 1 : -1;
    return sign * (double)(1 + random_below(1000)) * scales[random_below(5)];
}

static void write_block(hid_t dataset, const struct block *b, double largest)
{
    hsize_t start[2] = {(hsize_t)b->row, (hsize_t)b->col};
    hsize_t count[2] = {(hsize_t)b->rows, (hsize_t)b->cols};
    double *data = malloc((size_t)(b->rows * b->cols) * sizeof *data + 1);
    for (int64_t i = 0; i < b->rows * b->cols; i++)
        data[i] = fmax(-largest, fmin(random_value(), largest));
    hid_t here = H5Screate_simple(2, count, NULL), there = H5Dget_space(dataset);
    H5Sselect_hyperslab(there, H5S_SELECT_SET, start, NULL, count, NULL);
    assert_true(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, here, there, H5P_DEFAULT, data) >= 0);
    H5Sclose(there);
    H5Sclose(here);
    free(data);
}

/* Encodes bytes as the filter does; returns the encoded size. */
static size_t encode(char filter, size_t element, const unsigned char *from, size_t bytes,
                     unsigned char *to, size_t room)
{
    if (filter == 's') {
        size_t count = bytes / element;
        memcpy(to, from, bytes);
        for (size_t i = 0; i < count * element; i++)
            to[i % element * count + i / element] = from[i];
        return bytes;
    }
    if (filter == 'f') {
        uint32_t sum = chunk_fletcher32(from, bytes);
        memcpy(to, from, bytes);
        for (size_t i = 0; i < 4; i++)
            to[bytes + i] = (unsigned char)(sum >> 8 * i);
        return bytes + 4;
    }
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(filter - '0');
    size_t made = libdeflate_zlib_compress(compressor, from, bytes, to, room);
    libdeflate_free_compressor(compressor);
    assert_true(made > 0);
    return made;
}

/* Stores the chunk at row 0, column 0 with some of its filters skipped; its elements are no larger
 * than a float can be. */
static void write_masked(hid_t dataset, const struct kind *kind)
{
    size_t element = H5Tget_size(kind->type), bytes = kind->chunk[0] * kind->chunk[1] * element;
    size_t room = 2 * bytes + 1000;
    unsigned char *data = calloc(1, room), *other = malloc(room), *swap;
    uint32_t mask = (uint32_t)random_below(1 << strlen(kind->filters));
    for (size_t i = 0; i < bytes / 2; i += element)
        data[i] = data[i + 1] = (unsigned char)random_below(0x48);
    for (size_t i = 0; kind->filters[i]; i++) {
        if (mask >> i & 1)
            continue;
        bytes = encode(kind->filters[i], element, data, bytes, other, room);
        swap = data;
        data = other;
        other = swap;
    }
    static const hsize_t first[2] = {0, 0};
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, mask, first, bytes, data) >= 0);
    free(data);
    free(other);
}

static hid_t create(const char *name, bool latest)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (latest)
        H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    assert_true(file >= 0);
    H5Pclose(access);
    return file;
}

/* A matrix with some chunks partly written and some never written. */
static struct source make(const char *name, const struct kind *kind, const hsize_t *most)
{
    struct error err = {0};
    struct source source;
    double fill = -7.25;
    static const hsize_t extents[2] = {ROWS, COLS};
    hid_t file = create(name, kind->latest);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, extents, most);
    H5Pset_chunk(plist, 2, kind->chunk);
    H5Pset_fill_value(plist, H5T_NATIVE_DOUBLE, &fill);
    add_filters(plist, kind->filters);
    hid_t dataset = H5Dcreate2(file, "A", kind->type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(dataset >= 0);
    for (int i = 0; i < 2; i++) {
        struct block b = random_block(ROWS, COLS);
        write_block(dataset, &b, INFINITY);
    }
    if (!most || most[0] >= kind->chunk[0])
        write_masked(dataset, kind);
    H5Dclose(dataset);
    H5Pclose(plist);
    H5Sclose(space);
    H5Fclose(file);
    succeed(format_describe(name, "A", &source, &err), &err);
    return source;
}

static void *read_whole(const struct source *source, enum scalar type, enum store_way way)
{
    struct error err = {0};
    struct store *store;
    struct block whole = {0, 0, source->matrix.rows, source->matrix.cols};
    void *data =
        malloc((size_t)(source->matrix.rows * source->matrix.cols) * scalar_size(type) + 1);
    succeed(store_open(source, type, STORE_READ, way, &store, &err), &err);
    succeed(store_read(store, &whole, data, &err), &err);
    store_close(store);
    return data;
}

/* Compares blocks of all sizes with what H5Dread returns. */
static void compare(const struct source *source, enum scalar type)
{
    struct error err = {0};
    struct store *store;
    size_t element = scalar_size(type);
    char *expected = read_whole(source, type, STORE_LIBRARY),
         *got = read_whole(source, type, STORE_AUTO);
    assert_memory_equal(got, expected, (size_t)(ROWS * COLS) * element);
    succeed(store_open(source, type, STORE_READ, STORE_AUTO, &store, &err), &err);
    for (int i = 0; i < 30; i++) {
        struct block b = random_block(ROWS, COLS);
        succeed(store_read(store, &b, got, &err), &err);
        for (int64_t row = 0; row < b.rows; row++)
            assert_memory_equal(got + (size_t)(row * b.cols) * element,
                                expected + (size_t)((b.row + row) * COLS + b.col) * element,
                                (size_t)b.cols * element);
    }
    store_close(store);
    free(expected);
    free(got);
}

static void test_every_kind(void **state)
{
    (void)state;
    static const hsize_t chunks[][2] = {{7, 5}, {16, 32}, {1, COLS}, {ROWS, 1}, {ROWS, COLS}};
    static const char *const filters[] = {"",   "1",  "9",   "s",   "f",   "s1", "s9",
                                          "1f", "sf", "s1f", "fs9", "f1s", "1s", "19f"};
    const hid_t types[] = {H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_IEEE_F32LE, H5T_IEEE_F32BE};
    for (size_t f = 0; f < sizeof filters / sizeof *filters; f += brief() ? 2 : 1)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
                struct kind kind = {
                    {chunks[c][0], chunks[c][1]}, types[t], filters[f], (f + c + t) % 2};
                struct source source = make("kind.h5", &kind, NULL);
                assert_true(source.matrix.by_chunks &&
                            strstr(source.layout, ": read as raw chunks"));
                assert_int_equal(!!strstr(source.layout, "decoded here"), filters[f][0] != '\0');
                assert_int_equal(source.matrix.swapped, t % 2);
                assert_false(store_through_library(&source.matrix, SCALAR_DOUBLE, false));
                compare(&source, SCALAR_DOUBLE);
                compare(&source, SCALAR_FLOAT);
            }
}

/* Every chunk index of the library. */
static void test_indices(void **state)
{
    (void)state;
    static const hsize_t most[][2] = {
        {ROWS, COLS}, {2 * ROWS, COLS}, {H5S_UNLIMITED, COLS}, {H5S_UNLIMITED, H5S_UNLIMITED}};
    static const char *const filters[] = {"", "s1f"};
    for (int latest = 0; latest < 2; latest++)
        for (int f = 0; f < 2; f++)
            for (int i = 0; i < 4; i++) {
                struct kind kind = {{10, 13}, H5T_IEEE_F64LE, filters[f], latest};
                struct source source = make("index.h5", &kind, most[i]);
                assert_true(source.matrix.by_chunks);
                compare(&source, SCALAR_DOUBLE);
            }
}

/* HDF5 reads what the pipeline cannot decode: other filters, and edge chunks stored unfiltered. */
static void test_other_filters(void **state)
{
    (void)state;
    struct error err = {0};
    struct source source;
    static const hsize_t extents[2] = {ROWS, COLS}, chunk[2] = {16, 32};
    hid_t file = create("other.h5", true), space = H5Screate_simple(2, extents, NULL);
    static const struct block whole = {0, 0, ROWS, COLS};
    for (int i = 0; i < 2; i++) {
        hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_chunk(plist, 2, chunk);
        if (i == 0)
            H5Pset_scaleoffset(plist, H5Z_SO_FLOAT_DSCALE, 3);
        else
            H5Pset_chunk_opts(plist, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
        H5Pset_deflate(plist, 1);
        hid_t dataset = H5Dcreate2(file, i ? "edges" : "scaled", H5T_NATIVE_DOUBLE, space,
                                   H5P_DEFAULT, plist, H5P_DEFAULT);
        /* HDF5 1.14.5 cannot read back what scaleoffset keeps as it is, since it is too large. */
        write_block(dataset, &whole, i == 0 ? 1e9 : INFINITY);
        H5Dclose(dataset);
        H5Pclose(plist);
    }
    H5Sclose(space);
    H5Fclose(file);
    succeed(format_describe("other.h5", "scaled", &source, &err), &err);
    assert_string_equal(source.layout,
                        "chunked 16x32 scaleoffset+gzip f64: read by HDF5 (scaleoffset)");
    compare(&source, SCALAR_DOUBLE);
    succeed(format_describe("other.h5", "edges", &source, &err), &err);
    assert_string_equal(source.layout, "chunked 16x32 gzip f64: read by HDF5 (edges not filtered)");
    compare(&source, SCALAR_DOUBLE);
}

static int64_t largest_chunk(const struct source *source, struct format_chunk *chunk)
{
    struct error err = {0};
    int64_t count = matrix_chunks(&source->matrix), found = 0;
    struct format_chunk *chunks = malloc((size_t)count * sizeof *chunks);
    succeed(matfile_list_chunks(source, chunks, &err), &err);
    for (int64_t i = 0; i < count; i++)
        if (chunks[i].bytes > chunks[found].bytes)
            found = i;
    *chunk = chunks[found];
    free(chunks);
    return found;
}

static void overwrite(const char *name, uint64_t at, const void *bytes, size_t count)
{
    FILE *file = fopen(name, "r+b");
    fseek(file, (long)at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

/* Reads everything and returns whether that succeeded.  A failure must name the dataset and the
 * chunk. */
static bool is_readable(const struct source *source, const char *words)
{
    struct error err = {0};
    struct store *store;
    static double data[ROWS * COLS];
    struct block whole = {0, 0, ROWS, COLS};
    succeed(store_open(source, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, &store, &err), &err);
    int rc = store_read(store, &whole, data, &err);
    store_close(store);
    if (rc) {
        complained(&err, EXIT_INPUT, "damaged.h5: dataset \"A\": the chunk at row ");
        complained(&err, EXIT_INPUT, words);
    }
    return rc == 0;
}

static void test_damage(void **state)
{
    (void)state;
    struct format_chunk chunk;
    static const char *const filters[] = {"f", "s1", "9f", "1"};
    for (int i = 0; i < 400; i++) {
        struct kind kind = {{16, 32}, H5T_IEEE_F64LE, filters[i % 4], false};
        struct source source = make("damaged.h5", &kind, NULL);
        if (largest_chunk(&source, &chunk) == 0)
            continue; /* its filters may be skipped */
        unsigned char noise[8];
        for (int j = 0; j < 8; j++)
            noise[j] = (unsigned char)random_below(256);
        assert_true(is_readable(&source, ""));
        overwrite("damaged.h5", chunk.address + (uint64_t)random_below(chunk.bytes - 8), noise, 8);
        assert_false(
            is_readable(&source, i % 4 == 0 ? "its checksum (fletcher32) is wrong" : "its "));
    }
}

/* Chunks of the wrong length; without filters no length is recorded. */
static void test_lengths(void **state)
{
    (void)state;
    static const char *const filters[] = {"f", "1", "s"};
    static const hsize_t at[2] = {16, 32};
    static const unsigned char zeros[16 * 32 * 8 * 2];
    static const size_t lengths[] = {1, 3, 200, 16 * 32 * 8 - 1, sizeof zeros};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 5; j++) {
            struct kind kind = {{16, 32}, H5T_IEEE_F64LE, filters[i], false};
            struct source source = make("damaged.h5", &kind, NULL);
            hid_t file = H5Fopen("damaged.h5", H5F_ACC_RDWR, H5P_DEFAULT);
            hid_t dataset = H5Dopen2(file, "A", H5P_DEFAULT);
            assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, lengths[j], zeros) >= 0);
            H5Dclose(dataset);
            H5Fclose(file);
            struct error err = {0};
            succeed(format_describe("damaged.h5", "A", &source, &err), &err);
            assert_false(is_readable(&source, "at row 16, column 32 is damaged: it"));
        }
}

static void test_cut_short(void **state)
{
    (void)state;
    struct error err = {0};
    struct store *store;
    struct format_chunk chunk;
    struct kind kind = {{16, 32}, H5T_IEEE_F64LE, "1", false};
    struct source source = make("short.h5", &kind, NULL);
    static double data[ROWS * COLS];
    struct block whole = {0, 0, ROWS, COLS};
    largest_chunk(&source, &chunk);
    succeed(store_open(&source, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, &store, &err), &err);
    assert_int_equal(truncate("short.h5", (off_t)chunk.address + 5), 0);
    assert_int_equal(store_read(store, &whole, data, &err), EXIT_RUNTIME);
    complained(&err, EXIT_RUNTIME, "short.h5: reading at byte");
    store_close(store);

    err = (struct error){0};
    assert_int_equal(store_open(&source, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, &store, &err),
                     EXIT_INPUT);
    complained(&err, EXIT_INPUT, "where it was examined");
}

struct reading {
    struct store *store;
    const double *expected;
    int64_t elements;
};

static void *read_parts(void *context)
{
    const struct reading *r = context;
    struct error err = {0};
    struct block whole = {0, 0, ROWS, COLS};
    struct block_cut cut = {r->elements, 16, 32};
    double *data = malloc(ROWS * COLS * sizeof *data);
    for (int round = 0; round < 40; round++)
        for (int64_t i = 0; i < block_cut_parts(&whole, &cut); i++) {
            struct block b = block_cut_part(&whole, &cut, i);
            succeed(store_read(r->store, &b, data, &err), &err);
            for (int64_t row = 0; row < b.rows; row++)
                assert_memory_equal(data + row * b.cols, r->expected + (b.row + row) * COLS + b.col,
                                    (size_t)b.cols * sizeof *data);
        }
    free(data);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct error err = {0};
    pthread_t threads[6];
    struct kind kind = {{16, 32}, H5T_IEEE_F64LE, "s1f", false};
    struct source source = make("threads.h5", &kind, NULL);
    double *expected = read_whole(&source, SCALAR_DOUBLE, STORE_LIBRARY);
    static const int64_t elements[] = {50, 16 * 32, 3000};
    for (int e = 0; e < 3; e++) {
        struct reading reading = {.expected = expected, .elements = elements[e]};
        succeed(store_open(&source, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, &reading.store, &err),
                &err);
        for (int i = 0; i < 6; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_parts, &reading), 0);
        for (int i = 0; i < 6; i++)
            pthread_join(threads[i], NULL);
        store_close(reading.store);
    }
    free(expected);
}

/* Memory is counted if chunks are decoded, for each thread that may do so. */
static void test_overhead(void **state)
{
    (void)state;
    struct kind kind = {{16, 32}, H5T_IEEE_F64LE, "", false};
    struct source source = make("overhead.h5", &kind, NULL);
    size_t plain = store_overhead_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, 8);
    size_t alone = store_overhead_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, 0);
    assert_int_equal(plain, alone + 8 * (120 << 10)); /* small chunks are read together */
    source.matrix.chunk_bytes = 256 << 11;
    assert_int_equal(
        alone, store_overhead_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, 8));
    source.matrix.chunk_bytes = 16 * 32 * 8;
    assert_true(store_overhead_bytes(&source.matrix, SCALAR_FLOAT, STORE_READ, STORE_AUTO, 8) >=
                alone + 16 * 16 * 32 * 8);
    assert_int_equal(
        store_overhead_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_LIBRARY, 8),
        matfile_read_overhead(&source.matrix));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unshuffle),     cmocka_unit_test(test_fletcher32),
        cmocka_unit_test(test_every_kind),    cmocka_unit_test(test_indices),
        cmocka_unit_test(test_other_filters), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_lengths),       cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_overhead),
    };
    return cmocka_run_group_tests(tests, enter_scratch, remove_scratch);
}
