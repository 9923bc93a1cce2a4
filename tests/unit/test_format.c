/* The table of formats, with a second one: a file is one matrix of doubles, and the end of its name
 * says how many columns it has.  Nothing else has to know it. */
#include "store_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#undef FORMATS
#define FORMATS(FORMAT) FORMAT(hdf5) FORMAT(plain)
static const struct format format_plain;
#include "format.c"

enum { ROWS = 30, COLS = 20 };

static int plain_describe(struct source *source, struct error *err)
{
    struct stat status;
    struct matrix *m = &source->matrix;
    const int fd = source_open_file(source->file, false, err);
    if (fd < 0)
        return err->code;
    assert_int_equal(fstat(fd, &status), 0);
    close(fd);
    matrix_set_type(m, SCALAR_DOUBLE);
    m->element_bytes = sizeof(double);
    m->cols = COLS;
    m->rows = status.st_size / COLS / (int64_t)sizeof(double);
    m->by_offset = true;
    source->file_bytes = (uint64_t)status.st_size;
    strcpy(source->layout, "rows of 20");
    return 0;
}

static const struct format format_plain = {
    .name = "plain", .endings = ".20 .20.part", .describe = plain_describe};

static void make_plain(const char *file)
{
    double data[ROWS * COLS];
    const struct block all = {.rows = ROWS, .cols = COLS};
    fill(SCALAR_DOUBLE, &all, data);
    FILE *out = fopen(file, "w");
    assert_int_equal(fwrite(data, sizeof data, 1, out), 1);
    fclose(out);
}

static void test_names(void **state)
{
    (void)state;
    assert_ptr_equal(format_of("a.20"), &format_plain);
    assert_ptr_equal(format_of("dir.h5/a.20.PART"), &format_plain);
    const char *const others[] = {"a.h5", "a", "a.20.h5", "20", "a.120", ".2", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_ptr_equal(format_of(others[i]), &format_hdf5);
}

static void test_is_read_by_offset(void **state)
{
    (void)state;
    struct error err = {0};
    struct source source;
    struct store *store;
    make_plain("a.20");
    succeed(format_describe("a.20", "any", &source, &err), &err);
    assert_ptr_equal(format_of_matrix(&source.matrix), &format_plain);
    assert_string_equal(source.dataset, "any");
    assert_int_equal(source.matrix.rows, ROWS);
    read_blocks(&source, SCALAR_DOUBLE, STORE_AUTO);
    read_blocks(&source, SCALAR_DOUBLE, STORE_LIBRARY); /* there is none */
    assert_false(store_through_library(&source.matrix, SCALAR_DOUBLE, STORE_LIBRARY));
    assert_int_equal(store_open(&source, SCALAR_FLOAT, STORE_READ, STORE_AUTO, &store, &err),
                     EXIT_INPUT);
    complained(&err, EXIT_INPUT, "a.20 (rows of 20) is not converted to float");
    err = (struct error){0};
    assert_int_equal(format_describe("none.20", "A", &source, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "none.20: no such file");
}

static void count(const struct source *source, const struct error *problem, void *context)
{
    assert_int_equal(problem->code, 0);
    assert_int_equal(source->matrix.cols, COLS);
    ++*(int *)context;
}

static void note(const char *file, void *context)
{
    assert_string_equal(file, "a.20");
    ++*(int *)context;
}

/* What every format that has only one matrix a file need not say. */
static void test_what_is_not_in_the_record(void **state)
{
    (void)state;
    int matrices = 0, files = 0;
    struct error err = {0};
    struct source source;
    struct format_found found;
    struct format_value values[] = {{.name = FORMAT_MARK}, {.name = NULL}};
    make_plain("a.20");
    make_plain("b.20");
    succeed(format_each("a.20", count, &matrices, &err), &err);
    succeed(format_describe("a.20", "A", &source, &err), &err);
    succeed(format_each_file(&source, note, &files, &err), &err);
    assert_int_equal(matrices, 1);
    assert_int_equal(files, 1);
    assert_true(format_draws_on(&source, "a.20", &err));
    assert_false(format_draws_on(&source, "b.20", &err));
    succeed(format_lookup("a.20", "A", &found, &err), &err);
    assert_int_equal(found.object, FORMAT_DATASET);
    succeed(format_get_attributes(&source, values, &err), &err);
    assert_false(values[0].found);
    succeed(format_replace_text(&source, FORMAT_MARK, FORMAT_MARK_YES, &err), &err);
    make("c.h5", 4, 5, SCALAR_DOUBLE, &contiguous); /* the other one goes on as it was */
    succeed(format_describe("c.h5", "/g/A", &source, &err), &err);
    assert_ptr_equal(format_of_matrix(&source.matrix), &format_hdf5);
    read_blocks(&source, SCALAR_DOUBLE, STORE_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_is_read_by_offset),
        cmocka_unit_test(test_what_is_not_in_the_record),
    };
    return cmocka_run_group_tests(tests, enter_scratch, remove_scratch);
}
