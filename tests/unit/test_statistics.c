/* Means and deviations of a file are those of its lines, with the same bits whatever memory and
 * threads there are; and a NaN that is refused is found. */
#include "store_fixture.h"

#include "comm_fixture.h"

#include <math.h>

#include "census.h"
#include "machine.h"
#include "moments.h"
#include "phase.h"
#include "problem.h"
#include "problem_scaling.h"
#include "statistics.h"

enum { ROWS = 301, COLS = 1003 };

static double data[ROWS][COLS];

static struct problem make_problem(const struct format_layout *layout, enum axis axis)
{
    struct error err = {0};
    void *file;
    struct block all = {.rows = ROWS, .cols = COLS};
    struct problem p = {
        .scaling = {.axis = {axis, axis}, .centers = true, .missing = MISSING_MEAN}};
    problem_set_type(&p, SCALAR_DOUBLE);
    static struct source a;
    a = matrix("a.h5", ROWS, COLS, SCALAR_DOUBLE);
    unlink("a.h5");
    succeed(matfile_create(&a, true, layout, NULL, &err), &err);
    succeed(matfile_open(&a, true, &file, &err), &err);
    succeed(matfile_write(file, SCALAR_DOUBLE, &all, data, &err), &err);
    matfile_close(file);
    succeed(format_describe("a.h5", "/g/A", &a, &err), &err);
    p.matrix[OPERAND_A] = a.matrix;
    p.sources = &a;
    return p;
}

static void check_lines(const struct problem *p, const struct statistics *s)
{
    bool rows = p->scaling.axis[OPERAND_A] == AXIS_ROWS;
    int64_t missing = 0;
    assert_int_equal(s->lines, rows ? ROWS : COLS);
    for (int64_t line = 0; line < s->lines; line++) {
        struct moments m = {0};
        double deviation;
        for (int64_t i = 0; i < (rows ? COLS : ROWS); i++)
            moments_add(&m, rows ? data[line][i] : data[i][line]);
        struct mean mean = moments_finish(&m, rows ? COLS : ROWS, true, &deviation);
        missing += m.missing;
        assert_true(s->mean[line] == mean.mean && s->rest[line] == mean.rest);
        assert_true(s->deviation[line] == deviation);
    }
    assert_int_equal(s->found[OPERAND_A].missing, missing);
    assert_true(s->bytes == sizeof data);
}

/* A bit of any vector makes a difference. */
static void check_equal(const struct statistics *s)
{
    double copy[3 * (ROWS + COLS)];
    struct statistics other = *s;
    other.mean = copy;
    memcpy(copy, s->mean, 3 * (size_t)s->lines * sizeof *copy);
    assert_true(statistics_equal(s, &other));
    for (int i = 1; i <= 3; i++) {
        unsigned char *last = (unsigned char *)&copy[i * s->lines - 1];
        *last ^= 1;
        assert_false(statistics_equal(s, &other));
        *last ^= 1;
    }
}

static void test_memory_and_threads_make_no_difference(void **state)
{
    const struct format_layout layouts[] = {{0}, {.chunk_rows = 50, .chunk_cols = 70}};
    const size_t memories[] = {64 << 10, 500 << 10, 1 << 20, 64 << 20};
    (void)state;
    for (int i = 0; i < ROWS * COLS; i++)
        (&data[0][0])[i] = random_below(50) ? 1e6 + (double)random_below(1 << 30) : NAN;
    for (int i = 0; i < 2 * 2 * 4 * 3; i++) {
        struct problem p = make_problem(&layouts[i % 2], i / 2 % 2 ? AXIS_ROWS : AXIS_COLS);
        struct machine machine = {.threads = 1 + i / 16, .host_memory = memories[i / 4 % 4]};
        struct statistics s;
        struct error err = {0};
        struct ear ear = ear_open();
        phases_open(true);
        phase_begin("means", sizeof data);
        statistics_open(&p, &machine, &comm, &s, &err);
        statistics_read(&p, &machine, &comm, &s, &err);
        phases_close();
        const char *said = ear_close(&ear);
        succeed(err.code, &err);
        assert_non_null(strstr(said, "means 100.0%  "));
        check_lines(&p, &s);
        check_equal(&s);
        statistics_free(&s);
    }
}

static void test_a_nan_is_refused(void **state)
{
    const struct format_layout contiguous_rows = {0};
    const struct machine machine = {.threads = 3, .host_memory = 1 << 20};
    (void)state;
    for (int i = 0; i < ROWS * COLS; i++)
        (&data[0][0])[i] = i == 200 * COLS + 17 || i == 250 * COLS ? (double)NAN : i;
    struct problem p = make_problem(&contiguous_rows, AXIS_COLS);
    p.scaling.missing = MISSING_ERROR;
    struct statistics s;
    struct error err = {0};
    assert_int_equal(statistics_open(&p, &machine, &comm, &s, &err), 0);
    assert_int_equal(statistics_read(&p, &machine, &comm, &s, &err), EXIT_INPUT);
    complained(&err, EXIT_INPUT, "is NaN in row 200, column 17, counted from 0");
    statistics_free(&s);
}

/* The problem's matrix is transposed where that makes its lines variables. */
static struct problem shifted_problem(enum axis axis)
{
    const struct format_layout plain = {0};
    struct problem p = make_problem(&plain, axis);
    p.scaling.missing = MISSING_ERROR;
    p.scaling.scales = true;
    p.trans[OPERAND_A] = axis == AXIS_COLS;
    assert_true(scaling_shifts(&p));
    return p;
}

/* Shifts are elements of their lines, and scales powers of two; the mean and the deviation of what
 * lines become are those of lines. */
static void check_shifted(const struct problem *p, const struct statistics *s)
{
    const bool rows = p->scaling.axis[OPERAND_A] == AXIS_ROWS;
    int exponent;
    for (int64_t line = 0; line < s->lines; line++) {
        bool found = false;
        for (int64_t i = 0; i < (rows ? COLS : ROWS); i++)
            found |= (rows ? data[line][i] : data[i][line]) == s->shift[line];
        assert_true(found && frexp(s->scale[line], &exponent) == 0.5);
        const double offset = s->offset[line] * s->scale[line];
        assert_true(offset == s->mean[line] - s->shift[line] + s->rest[line]);
        assert_true(s->spread[line] * s->scale[line] == s->deviation[line]);
    }
    assert_int_equal(s->moved, 0);
    assert_true(s->drift < 1);
}

/* Parts that are added by a run, whatever they are, give what a pass gives. */
static void test_parts_in_any_order_make_no_difference(void **state)
{
    const struct machine machine = {.threads = 3, .host_memory = 64 << 20};
    enum { SIDE = 97 };
    static double part[SIDE * SIDE];
    (void)state;
    for (int i = 0; i < ROWS * COLS; i++)
        (&data[0][0])[i] = 1e3 + (double)random_below(1 << 20);
    for (enum axis axis = AXIS_ROWS; axis <= AXIS_COLS; axis++) {
        struct problem p = shifted_problem(axis);
        struct statistics pass, parts;
        struct error err = {0};
        statistics_open(&p, &machine, &comm, &pass, &err);
        statistics_read(&p, &machine, &comm, &pass, &err);
        statistics_open(&p, &machine, &comm, &parts, &err);
        succeed(err.code, &err);
        check_shifted(&p, &pass);
        struct census *census = census_open(&p, &comm, 2, parts.lines, 1 + (int)axis, &err);
        census_begin(census, 0, parts.lines);
        for (int64_t row = (ROWS - 1) / SIDE * SIDE; row >= 0; row -= SIDE)
            for (int64_t col = 0; col < COLS; col += SIDE) {
                const struct block block = {row, col, min_i64(SIDE, ROWS - row),
                                            min_i64(SIDE, COLS - col)};
                for (int64_t at = 0; at < block.rows * block.cols; at++)
                    part[at] = data[row + at / block.cols][col + at % block.cols];
                assert_true(census_add(census, OPERAND_A, &block, part));
            }
        succeed(census_finish(census, &parts, &err), &err);
        assert_true(statistics_equal(&pass, &parts));
        assert_memory_equal(pass.shift, parts.shift, 4 * (size_t)pass.lines * sizeof(double));
        census_begin(census, 0, parts.lines);
        assert_int_equal(census_finish(census, &parts, &err), EXIT_RUNTIME);
        complained(&err, EXIT_RUNTIME, "not every element was added up once");
        census_close(census);
        statistics_free(&pass);
        statistics_free(&parts);
    }
}

static int enter(void **state)
{
    open_comm();
    return enter_scratch(state);
}

static int leave(void **state)
{
    close_comm();
    return remove_scratch(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_and_threads_make_no_difference),
        cmocka_unit_test(test_a_nan_is_refused),
        cmocka_unit_test(test_parts_in_any_order_make_no_difference),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
