/* Elements that were never written read as the fill value, or zero, by every I/O method, even if
 * the buffer held other data before. */
#include "store_fixture.h"

#include <hdf5.h>
#include <math.h>

enum { ROWS = 10, COLS = 12, CHUNK = 4, POISON = 0xA5 };

enum layout { CONTIGUOUS, CHUNKED, CHUNKED_GZIP, COMPACT, EXTERNAL, VIRTUAL, LAYOUTS };

struct kind {
    enum layout layout;
    hid_t stored;
    H5D_fill_value_t fill; /* as in the property list */
    H5D_fill_time_t when;
    bool half; /* whether the first rows are written */
};

static const double user_fill = 7;

static hid_t creation(const struct kind *kind)
{
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    if (kind->layout == COMPACT)
        H5Pset_layout(plist, H5D_COMPACT);
    if (kind->layout == CHUNKED || kind->layout == CHUNKED_GZIP)
        H5Pset_chunk(plist, 2, (hsize_t[]){CHUNK, CHUNK});
    if (kind->layout == CHUNKED_GZIP)
        H5Pset_deflate(plist, 1);
    if (kind->layout == EXTERNAL)
        H5Pset_external(plist, "external.raw", 0, H5F_UNLIMITED);
    if (kind->fill != H5D_FILL_VALUE_DEFAULT)
        H5Pset_fill_value(plist, H5T_NATIVE_DOUBLE,
                          kind->fill == H5D_FILL_VALUE_UNDEFINED ? NULL : &user_fill);
    H5Pset_fill_time(plist, kind->when);
    return plist;
}

/* The first rows of a virtual dataset map to another dataset, to which nothing was written. */
static void draw_on_another(hid_t file, const struct kind *kind, hid_t plist, hid_t space)
{
    struct kind other = *kind;
    other.layout = CHUNKED;
    if (other.fill == H5D_FILL_VALUE_UNDEFINED) /* the library refuses to read this */
        other.fill = H5D_FILL_VALUE_DEFAULT;
    hid_t of_other = creation(&other);
    hid_t source =
        H5Dcreate2(file, "source", kind->stored, space, H5P_DEFAULT, of_other, H5P_DEFAULT);
    hid_t some = H5Scopy(space);
    H5Sselect_hyperslab(some, H5S_SELECT_SET, (hsize_t[]){0, 0}, NULL, (hsize_t[]){CHUNK, COLS},
                        NULL);
    assert_true(H5Pset_virtual(plist, some, ".", "source", some) >= 0);
    H5Sclose(some);
    H5Dclose(source);
    H5Pclose(of_other);
}

static void write_half(hid_t dataset, hid_t space)
{
    struct block half = {.rows = CHUNK, .cols = COLS};
    double data[CHUNK * COLS];
    fill(SCALAR_DOUBLE, &half, data);
    hid_t some = H5Scopy(space);
    hid_t memory = H5Screate_simple(2, (hsize_t[]){CHUNK, COLS}, NULL);
    H5Sselect_hyperslab(some, H5S_SELECT_SET, (hsize_t[]){0, 0}, NULL, (hsize_t[]){CHUNK, COLS},
                        NULL);
    assert_true(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, some, H5P_DEFAULT, data) >= 0);
    H5Sclose(memory);
    H5Sclose(some);
}

static void make_dataset(const struct kind *kind)
{
    unlink("never.h5");
    close(open("external.raw", O_CREAT | O_TRUNC | O_WRONLY, 0600));
    hid_t file = H5Fcreate("never.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, (hsize_t[]){ROWS, COLS}, NULL), plist = creation(kind);
    if (kind->layout == VIRTUAL)
        draw_on_another(file, kind, plist, space);
    hid_t dataset = H5Dcreate2(file, "A", kind->stored, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(dataset >= 0);
    if (kind->half)
        write_half(dataset, space);
    H5Dclose(dataset);
    H5Pclose(plist);
    H5Sclose(space);
    H5Fclose(file);
}

/* External and compact storage exists from the start, filled with zeros or with the fill value. */
static double expected(const struct kind *kind)
{
    if (kind->fill != H5D_FILL_VALUE_USER_DEFINED || kind->layout == EXTERNAL)
        return 0;
    return kind->layout == COMPACT && kind->when == H5D_FILL_TIME_NEVER ? 0 : user_fill;
}

static void reads_fill(const struct kind *kind, enum scalar type, enum store_way way)
{
    struct error err = {0};
    struct source source;
    struct store *store;
    unsigned char memory[ROWS * COLS * sizeof(double)];
    succeed(format_describe("never.h5", "/A", &source, &err), &err);
    succeed(store_open(&source, type, STORE_READ, way, &store, &err), &err);
    for (int i = 0; i < 20; i++) {
        struct block b = {.rows = ROWS, .cols = COLS};
        b = i ? random_block(ROWS, COLS) : b;
        memset(memory, POISON, sizeof memory);
        succeed(store_read(store, &b, memory, &err), &err);
        for (int64_t j = 0; j < b.rows * b.cols; j++) {
            int64_t row = b.row + j / b.cols, col = b.col + j % b.cols;
            bool written = kind->half && row < CHUNK;
            double value = written ? value_at(row, col) : expected(kind);
            if (written && H5Tget_class(kind->stored) == H5T_INTEGER)
                value = trunc(value);
            if (get(type, memory, j) != value)
                fail_msg("layout %d, fill %d, time %d, half %d, type %d, way %d: %g, not %g",
                         kind->layout, kind->fill, kind->when, kind->half, type, way,
                         get(type, memory, j), value);
        }
    }
    store_close(store);
}

/* The library supports neither an undefined fill value to be filled in, nor writes to virtual
 * data. */
static bool is_possible(const struct kind *kind)
{
    if (kind->fill == H5D_FILL_VALUE_UNDEFINED && kind->when == H5D_FILL_TIME_ALLOC)
        return false;
    return !kind->half || kind->layout == CHUNKED || kind->layout == CHUNKED_GZIP;
}

static void test_layout(enum layout layout)
{
    static const H5D_fill_time_t times[] = {H5D_FILL_TIME_NEVER, H5D_FILL_TIME_IFSET,
                                            H5D_FILL_TIME_ALLOC};
    static const H5D_fill_value_t fills[] = {H5D_FILL_VALUE_DEFAULT, H5D_FILL_VALUE_UNDEFINED,
                                             H5D_FILL_VALUE_USER_DEFINED};
    const hid_t stored[] = {H5T_NATIVE_DOUBLE, H5T_NATIVE_FLOAT, H5T_STD_I32LE, H5T_IEEE_F64BE};
    for (int i = 0; i < 3 * 3 * 4 * 2; i++) {
        struct kind kind = {layout, stored[i / 2 % 4], fills[i / 8 % 3], times[i / 24], i % 2};
        if (!is_possible(&kind))
            continue;
        make_dataset(&kind);
        for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++) {
            reads_fill(&kind, (enum scalar)type, STORE_AUTO);
            reads_fill(&kind, (enum scalar)type, STORE_LIBRARY);
        }
    }
}

static void test_contiguous(void **state)
{
    (void)state;
    test_layout(CONTIGUOUS);
}

static void test_chunked(void **state)
{
    (void)state;
    test_layout(CHUNKED);
    test_layout(CHUNKED_GZIP);
}

static void test_compact(void **state)
{
    (void)state;
    test_layout(COMPACT);
}

static void test_external(void **state)
{
    (void)state;
    test_layout(EXTERNAL);
}

static void test_virtual(void **state)
{
    (void)state;
    test_layout(VIRTUAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contiguous), cmocka_unit_test(test_chunked),
        cmocka_unit_test(test_compact),    cmocka_unit_test(test_external),
        cmocka_unit_test(test_virtual),
    };
    return cmocka_run_group_tests(tests, enter_scratch, remove_scratch);
}
