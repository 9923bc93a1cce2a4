/* Matrix files and their I/O, on real files in a scratch directory. */
#include "store_fixture.h"

#include <hdf5.h>
#include <math.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "matname.h"

static const struct format_layout chunked = {.chunk_rows = 7, .chunk_cols = 5};
static const struct format_layout compressed = {
    .chunk_rows = 16, .chunk_cols = 9, .gzip_level = 4, .shuffle = true};

static void check_parts(const struct block *b, int64_t elements)
{
    int64_t seen = 0, parts = block_parts(b, elements);
    for (int64_t i = 0; i < parts; i++) {
        struct block p = block_part(b, elements, i);
        assert_true(p.rows > 0 && p.cols > 0 && p.rows * p.cols <= elements);
        assert_true(p.rows == 1 || p.cols == b->cols);
        assert_int_equal(p.row - b->row, seen / b->cols);
        assert_int_equal(p.col - b->col, seen % b->cols);
        seen += p.rows * p.cols;
    }
    assert_int_equal(seen, b->rows * b->cols);
}

static void test_parts(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct block b = random_block(40, 60);
        check_parts(&b, 1 + random_below(i % 2 ? 80 : 3000));
    }
    struct block huge = {.row = 5, .rows = INT64_C(1) << 31, .cols = INT64_C(1) << 31};
    int64_t parts = block_parts(&huge, INT64_C(1) << 33);
    struct block last = block_part(&huge, INT64_C(1) << 33, parts - 1);
    assert_int_equal(last.row + last.rows, 5 + huge.rows);
}

static void test_round_trips(void **state)
{
    (void)state;
    static const struct format_layout *const layouts[] = {&contiguous, &chunked, &compressed};
    static const int64_t extents[][2] = {{1, 1}, {1, 50}, {50, 1}, {33, 47}, {0, 5}, {5, 0}};
    for (int l = 0; l < 3; l++)
        for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
            for (int t = 0; t < 2; t++) {
                enum scalar type = (enum scalar)t;
                struct source source =
                    make("trip.h5", extents[e][0], extents[e][1], type, layouts[l]);
                bool empty = source.matrix.rows == 0 || source.matrix.cols == 0;
                assert_int_equal(source.matrix.by_offset, l == 0 || empty);
                read_blocks(&source, type, STORE_AUTO);
                read_blocks(&source, type, STORE_LIBRARY);
                read_blocks(&source, SCALAR_DOUBLE, STORE_AUTO);
            }
}

static void test_description(void **state)
{
    (void)state;
    struct error err = {0};
    struct source source = make("described.h5", 100, 77, SCALAR_FLOAT, &compressed);
    assert_string_equal(source.layout,
                        "chunked 16x9 shuffle+gzip f32: read as raw chunks, decoded here");
    assert_int_equal(source.matrix.chunk_bytes, 16 * 9 * 4);
    assert_true(matfile_read_overhead(&source.matrix) > 1 << 20);
    source = make("described.h5", 200, 100, SCALAR_DOUBLE, &contiguous);
    assert_string_equal(source.layout, "contiguous f64");
    assert_int_equal(source.offset % (1 << 20), 0);
    assert_true(source.file_bytes >= source.offset + 200 * 100 * 8);
    assert_int_equal(format_describe("described.h5", "A", &source, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT,
               "described.h5: no dataset \"A\"; datasets here: /g/A (f64 200x100)");
    err = (struct error){0};
    format_describe("described.h5", "g", &source, &err);
    complained(&err, EXIT_INPUT, "is a group");
    err = (struct error){0};
    format_describe("missing.h5", "A", &source, &err);
    complained(&err, EXIT_INPUT, "missing.h5: no such file");
}

static void test_attributes(void **state)
{
    (void)state;
    struct error err = {0};
    struct source source = matrix("attributes.h5", 3, 4, SCALAR_DOUBLE);
    static const struct format_attribute attributes[] = {
        {.name = "operation", .text = "C = α A B"},
        {.name = "alpha", .number = 0.1},
        {.name = NULL},
    };
    unlink(source.file);
    succeed(matfile_create(&source, true, &contiguous, attributes, &err), &err);

    char *text = NULL;
    double number = 0;
    hid_t file = H5Fopen("attributes.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t a = H5Aopen_by_name(file, "/g/A", "operation", H5P_DEFAULT, H5P_DEFAULT);
    hid_t b = H5Aopen_by_name(file, "/g/A", "alpha", H5P_DEFAULT, H5P_DEFAULT);
    hid_t type = H5Aget_type(a);
    assert_true(H5Aread(a, type, &text) >= 0);
    assert_true(H5Aread(b, H5T_NATIVE_DOUBLE, &number) >= 0);
    assert_string_equal(text, "C = α A B");
    assert_true(number == 0.1);
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(a);
    H5Aclose(b);
    H5Fclose(file);
}

static void test_attributes_are_read_and_replaced(void **state)
{
    (void)state;
    struct error err = {0};
    struct stat before, after;
    struct source source = matrix("replaced.h5", 3, 4, SCALAR_DOUBLE);
    static const struct format_attribute attributes[] = {
        {.name = "operation", .text = "C = α A B"},
        {.name = "alpha", .number = 0.1},
        {.name = "sum", .text = "----", .fixed = true},
        {.name = NULL},
    };
    struct format_value values[] = {{.name = "operation"},
                                    {.name = "alpha"},
                                    {.name = "sum"},
                                    {.name = "beta"},
                                    {.name = NULL}};
    succeed(matfile_create(&source, true, &contiguous, attributes, &err), &err);
    assert_int_equal(stat(source.file, &before), 0);
    succeed(matfile_replace_text(&source, "sum", "1a2b", &err), &err);
    assert_int_equal(stat(source.file, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    succeed(matfile_get_attributes(&source, values, &err), &err);
    assert_true(values[0].found && values[1].found && values[2].found && !values[3].found);
    assert_string_equal(values[0].text, "C = α A B");
    assert_true(values[1].number == 0.1);
    assert_string_equal(values[2].text, "1a2b");
    assert_int_equal(matfile_replace_text(&source, "sum", "too long", &err), EXIT_RUNTIME);
    complained(&err, EXIT_RUNTIME, "writing the attribute \"sum\"");
    err = (struct error){0};
    assert_int_equal(matfile_replace_text(&source, "none", "1a2b", &err), EXIT_RUNTIME);
}

static void test_vectors_are_compared_bit_by_bit(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    double values[COUNT];
    struct error err = {0};
    struct source source = matrix("vectors.h5", 3, 4, SCALAR_DOUBLE);
    struct format_vector vector = {
        .dataset = "A_mean", .statistic = "means", .values = values, .count = COUNT};
    for (int i = 0; i < COUNT; i++)
        values[i] = i == 5 ? NAN : i == 7 ? 0 : 1.0 / i;
    succeed(matfile_create(&source, true, &contiguous, NULL, &err), &err);
    assert_int_equal(matfile_compare_vector(&source, &vector, &err), EXIT_VERIFY);
    complained(&err, EXIT_VERIFY, "there is no dataset \"A_mean\"");
    err = (struct error){0};
    succeed(matfile_add_vector(&source, &vector, &err), &err);
    succeed(matfile_compare_vector(&source, &vector, &err), &err);
    for (int i = 7; i < COUNT; i += 1496) { /* in each part that is read */
        const double kept = values[i];
        values[i] = i == 7 ? -0.0 : nextafter(kept, 1);
        assert_int_equal(matfile_compare_vector(&source, &vector, &err), EXIT_VERIFY);
        complained(&err, EXIT_VERIFY, "differs from what was written: line ");
        values[i] = kept;
        err = (struct error){0};
    }
    vector.count--;
    assert_int_equal(matfile_compare_vector(&source, &vector, &err), EXIT_VERIFY);
    complained(&err, EXIT_VERIFY, "is not the means");
}

static void test_an_unfinished_matrix_is_known(void **state)
{
    (void)state;
    struct error err = {0};
    struct source source = matrix("marked.h5", 3, 4, SCALAR_DOUBLE);
    static const struct format_attribute attributes[] = {
        {.name = FORMAT_MARK, .text = FORMAT_MARK_NO, .fixed = true}, {.name = NULL}};
    succeed(matfile_create(&source, true, &contiguous, attributes, &err), &err);
    assert_int_equal(source_check_finished(&source, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "is an unfinished output");
    err = (struct error){0};
    succeed(matfile_replace_text(&source, FORMAT_MARK, FORMAT_MARK_YES, &err), &err);
    struct source now;
    succeed(format_describe(source.file, source.dataset, &now, &err), &err);
    succeed(source_check_finished(&now, &err), &err);
}

static void test_new_files(void **state)
{
    (void)state;
    struct error err = {0};
    struct stat status;
    struct source source = make("old.h5", 10, 10, SCALAR_DOUBLE, &contiguous);
    struct source again = matrix("old.h5", 2, 2, SCALAR_DOUBLE);
    assert_int_equal(matfile_create(&again, true, &contiguous, NULL, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "old.h5 cannot be created: File exists");
    err = (struct error){0};
    assert_int_equal(matfile_create(&again, false, &contiguous, NULL, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "old.h5 already holds \"/g/A\"");
    read_blocks(&source, SCALAR_DOUBLE, STORE_AUTO);

    static const char *const targets[] = {"old.h5", "nowhere.h5"};
    for (int i = 0; i < 2; i++) {
        struct source planted = matrix("link.h5", 2, 2, SCALAR_DOUBLE);
        unlink("link.h5");
        assert_int_equal(symlink(targets[i], "link.h5"), 0);
        err = (struct error){0};
        assert_int_equal(matfile_create(&planted, true, &contiguous, NULL, &err), EXIT_INPUT);
        assert_int_equal(lstat("link.h5", &status), 0);
    }
    assert_int_equal(stat("nowhere.h5", &status), -1);
    read_blocks(&source, SCALAR_DOUBLE, STORE_AUTO);

    struct store *store;
    snprintf(source.file, sizeof source.file, "link.h5");
    unlink("link.h5");
    assert_int_equal(symlink("old.h5", "link.h5"), 0);
    err = (struct error){0};
    assert_int_equal(store_open(&source, SCALAR_DOUBLE, STORE_WRITE, STORE_AUTO, &store, &err),
                     EXIT_INPUT);
    complained(&err, EXIT_INPUT, "symbolic link");
}

static void test_failed_creation(void **state)
{
    (void)state;
    struct stat status;
    struct error err = {0};
    static const struct format_attribute twice[] = {{.name = "x"}, {.name = "x"}, {.name = NULL}};
    struct source source = matrix("failed.h5", 5, 5, SCALAR_DOUBLE);
    struct format_found found;
    unlink("failed.h5");
    assert_int_equal(matfile_create(&source, true, &contiguous, twice, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "failed.h5: writing the attributes");
    assert_int_equal(stat("failed.h5", &status), -1);

    make("failed.h5", 5, 5, SCALAR_DOUBLE, &contiguous);
    snprintf(source.dataset, sizeof source.dataset, "/g/new/deeper/B");
    err = (struct error){0};
    assert_int_equal(matfile_create(&source, false, &contiguous, twice, &err), EXIT_INPUT);
    err = (struct error){0};
    succeed(matfile_lookup("failed.h5", "/g/new", &found, &err), &err);
    assert_int_equal(found.object, FORMAT_NOTHING);
}

static void test_rename(void **state)
{
    (void)state;
    struct error err = {0};
    struct format_found found;
    struct source made = make("renamed.h5", 5, 6, SCALAR_DOUBLE, &contiguous);
    struct source other = matrix("renamed.h5", 2, 2, SCALAR_FLOAT);
    snprintf(other.dataset, sizeof other.dataset, "/B");
    succeed(matfile_create(&other, false, &contiguous, NULL, &err), &err);
    assert_int_equal(matfile_rename(&made, "/B", false, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "has created \"/B\" meanwhile");
    assert_int_equal(matfile_rename(&made, "/g", true, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "has created \"/g\" meanwhile");
    err = (struct error){0};
    succeed(matfile_rename(&made, "/B", true, &err), &err);
    assert_int_equal(matfile_rename(&made, "/D", true, &err), EXIT_RUNTIME);
    complained(&err, EXIT_RUNTIME, "has removed or replaced \"/g/A\"");
    err = (struct error){0};
    succeed(matfile_retract(&made, "", &err), &err);
    succeed(format_describe("renamed.h5", "/B", &other, &err), &err);
    assert_int_equal(other.matrix.cols, 6);
    read_blocks(&other, SCALAR_DOUBLE, STORE_AUTO);
    succeed(matfile_lookup("renamed.h5", "/g/A", &found, &err), &err);
    assert_int_equal(found.object, FORMAT_NOTHING);
    succeed(matfile_lookup("renamed.h5", "/g", &found, &err), &err);
    assert_int_equal(found.object, FORMAT_OTHER);
    matfile_remove("renamed.h5", "/B");
    succeed(matfile_lookup("renamed.h5", "/B", &found, &err), &err);
    assert_int_equal(found.object, FORMAT_NOTHING);
}

static void test_other_sizes(void **state)
{
    (void)state;
    struct store *store;
    struct error err = {0};
    struct source source = make("sizes.h5", 300, 400, SCALAR_DOUBLE, &contiguous), again;
    double *data = malloc(300 * 400 * sizeof *data);
    struct block whole = {.rows = 300, .cols = 400};

    assert_int_equal(store_open(&source, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, &store, &err), 0);
    assert_int_equal(truncate("sizes.h5", (off_t)source.offset + 1000), 0);
    assert_int_equal(store_read(store, &whole, data, &err), EXIT_RUNTIME);
    complained(&err, EXIT_RUNTIME, "sizes.h5 ends at byte");
    store_close(store);
    free(data);

    for (enum store_way way = STORE_AUTO; way <= STORE_LIBRARY; way++) {
        err = (struct error){0};
        assert_int_equal(store_open(&source, SCALAR_DOUBLE, STORE_READ, way, &store, &err),
                         EXIT_INPUT);
        complained(&err, EXIT_INPUT, "where it was examined");
    }
    err = (struct error){0};
    assert_int_equal(format_describe("sizes.h5", "/g/A", &again, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "cut short");
    unlink("sizes.h5");
    err = (struct error){0};
    assert_int_equal(store_open(&source, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, &store, &err),
                     EXIT_INPUT);
}

static void test_lock(void **state)
{
    (void)state;
    struct error err = {0};
    struct source source = make("locked.h5", 3, 3, SCALAR_DOUBLE, &contiguous);
    int descriptor = open("locked.h5", O_RDWR);
    assert_int_equal(flock(descriptor, LOCK_EX), 0);
    assert_int_equal(format_describe("locked.h5", "/g/A", &source, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "locked.h5 is open for writing elsewhere: close it there");
    complained(&err, EXIT_INPUT, "HDF5_USE_FILE_LOCKING=FALSE");
    close(descriptor);
    err = (struct error){0};
    succeed(format_describe("locked.h5", "/g/A", &source, &err), &err);
}

static void *read_some(void *context)
{
    struct store *store = context;
    struct error err = {0};
    double *data = malloc(200 * 300 * sizeof *data);
    for (int64_t i = 0; i < 200; i++) {
        struct block b = {.row = i % 50, .col = i, .rows = 150, .cols = 100};
        succeed(store_read(store, &b, data, &err), &err);
        check(SCALAR_DOUBLE, &b, data);
    }
    free(data);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static const struct format_layout *const layouts[] = {&contiguous, &compressed};
    for (int l = 0; l < 2; l++) {
        struct error err = {0};
        struct store *store;
        pthread_t threads[4];
        struct source source = make("threads.h5", 200, 300, SCALAR_DOUBLE, layouts[l]);
        succeed(store_open(&source, SCALAR_DOUBLE, STORE_READ, STORE_AUTO, &store, &err), &err);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_some, store), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        store_close(store);
    }
}

static void test_names(void **state)
{
    (void)state;
    char file[PATH_MAX], dataset[DATASET_NAME_MAX];
    static const struct {
        const char *text, *file, *dataset; /* file is null: refused */
    } cases[] = {
        {"none.h5", "none.h5", "A"},
        {"none.h5:/x", "none.h5", "/x"},
        {"none.h5:/g/x:y", "none.h5", "/g/x:y"},
        {"/a/b:/c.h5:/x", "/a/b:/c.h5", "/x"},
        {"run-12:30.h5", "run-12:30.h5", "A"},
        {"run-12:30.h5:/x", "run-12:30.h5", "/x"},
        {"here.h5:x", "here.h5", "x"},
        {"with:colon.h5", "with:colon.h5", "A"},
        {"with:/x", "with", "/x"},
        {"", NULL, NULL},
        {":/x", NULL, NULL},
        {"here.h5:", NULL, NULL},
        {"here.h5:/", NULL, NULL},
        {"here.h5:/g/", NULL, NULL},
    };
    close(open("here.h5", O_CREAT | O_WRONLY, 0600));
    close(open("with:colon.h5", O_CREAT | O_WRONLY, 0600));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        int rc = matname_split(cases[i].text, "A", file, dataset, &err);
        assert_int_equal(rc, cases[i].file ? 0 : EXIT_USAGE);
        if (rc)
            continue;
        assert_string_equal(file, cases[i].file);
        assert_string_equal(dataset, cases[i].dataset);
    }
    char *text = calloc(1, 2 * PATH_MAX);
    memset(text, 'x', 2 * PATH_MAX - 1);
    struct error err = {0};
    assert_int_equal(matname_split(text, "A", file, dataset, &err), EXIT_USAGE);
    memcpy(text, "f.h5:/", 6);
    text[PATH_MAX - 1] = '\0';
    assert_int_equal(matname_split(text, "A", file, dataset, &err), EXIT_USAGE);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),       cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_description), cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_new_files),   cmocka_unit_test(test_failed_creation),
        cmocka_unit_test(test_rename),      cmocka_unit_test(test_other_sizes),
        cmocka_unit_test(test_lock),        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_names),       cmocka_unit_test(test_attributes_are_read_and_replaced),
        cmocka_unit_test(test_vectors_are_compared_bit_by_bit),
        cmocka_unit_test(test_an_unfinished_matrix_is_known),
    };
    return cmocka_run_group_tests(tests, enter_scratch, remove_scratch);
}
