/* combine and the CPU device, against the contracts of vector.h and device.h.
 *
 * Method: combine is compared with fma; the device runs chains of work over all streams that only
 * events order, repeated until queues are full and threads race. */
#include <stdio.h>

#include "cpu_fixture.h"
#include "cpu_kernel.h"
#include "device.h"
#include "error.h"

enum { THREADS = 3, SIDE = 16, ROUNDS = 400, SLOTS = 2 };

static struct error err;
static struct device *dev;

static void ok(int rc)
{
    if (rc != 0)
        fail_msg("%s", err.text);
}

/* combine */

static double combined(enum scalar type, double alpha, double acc, double beta, double c0)
{
    if (type == SCALAR_FLOAT) {
        float a = (float)alpha, b = (float)beta;
        if (a == 0)
            return b == 0 ? 0 : b * (float)c0;
        return b == 0 ? a * (float)acc : fmaf(a, (float)acc, b * (float)c0);
    }
    if (alpha == 0)
        return beta == 0 ? 0 : beta * c0;
    return beta == 0 ? alpha * acc : fma(alpha, acc, beta * c0);
}

static void check_combine(enum scalar type, double alpha, double beta, int64_t rows, int64_t cols)
{
    struct array acc = matrix_make(type, cols, rows, guard),
                 c0 = matrix_make(type, cols, rows, NAN);
    if (beta != 0)
        matrix_fill(&c0, random_real);
    matrix_fill(&acc, random_real);
    if (alpha == 0)
        for (int64_t at = 0; at < rows * cols; at++)
            set(&acc, at % cols, at / cols, NAN);
    struct array before = matrix_copy(&acc);
    struct combine c = {type,    rows,   cols,  alpha, beta, acc.data,
                        c0.data, acc.ld, c0.ld, false, 0,    0};
    combine_cpu(&c, THREADS);
    for (int64_t j = 0; j < rows; j++)
        for (int64_t i = 0; i < cols; i++) {
            double expected = combined(type, alpha, get(&before, i, j), beta, get(&c0, i, j));
            assert_true(get(&acc, i, j) == expected);
        }
    assert_gaps_are(&acc, guard);
    free(acc.data);
    free(c0.data);
    free(before.data);
}

static void combine_is_one_fma(void **state)
{
    (void)state;
    const double factors[][2] = {{1, 0}, {0.3, 0}, {0.3, 0.7}, {-1.5, 1}, {0, 0.3}, {0, 0}};
    const int64_t cols[] = {0, 1, 7, 16, 33, 100};
    for (int trial = 0; trial < 6 * 6 * 2; trial++)
        check_combine((enum scalar)(trial / 36), factors[trial % 6][0], factors[trial % 6][1], 5,
                      cols[trial / 6 % 6]);
}

/* Matrices are column-major here: what combine and mirror call rows are their columns. */
static void check_mirror(enum scalar type, double alpha, double beta, int64_t rows, int64_t cols)
{
    struct array acc = matrix_make(type, cols, rows, guard),
                 c0 = matrix_make(type, rows, cols, NAN), to = matrix_make(type, rows, cols, guard);
    if (beta != 0)
        matrix_fill(&c0, random_real);
    matrix_fill(&acc, random_real);
    struct mirror m = {.type = type,
                       .rows = rows,
                       .cols = cols,
                       .alpha = alpha,
                       .beta = beta,
                       .acc = acc.data,
                       .c0 = c0.data,
                       .to = to.data,
                       .ld_acc = acc.ld,
                       .ld_c0 = c0.ld,
                       .ld_to = to.ld};
    mirror_cpu(&m, THREADS);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double expected = combined(type, alpha, get(&acc, j, i), beta, get(&c0, i, j));
            assert_true(get(&to, i, j) == expected);
        }
    assert_gaps_are(&to, guard);
    free(acc.data);
    free(c0.data);
    free(to.data);
}

static void mirror_is_the_transpose_of_combine(void **state)
{
    (void)state;
    const double factors[][2] = {{1, 0}, {0.3, 0}, {0.3, 0.7}, {-1.5, 1}, {0, 0.3}, {0, 0}};
    const int64_t cols[] = {0, 1, 7, 32, 33, 100}, rows[] = {1, 31, 70};
    for (int trial = 0; trial < 6 * 6 * 2; trial++)
        for (int i = 0; i < 3; i++)
            check_mirror((enum scalar)(trial / 36), factors[trial % 6][0], factors[trial % 6][1],
                         rows[i], cols[trial / 6 % 6]);
}

/* Matrices are column-major here: what standardize calls rows are their columns. */
static void check_standardize(enum scalar type, int64_t rows, int64_t cols, unsigned how)
{
    struct array m = matrix_make(type, cols, rows, guard);
    double mean[200], rest[200], deviation[200];
    matrix_fill(&m, random_real);
    for (int64_t at = 0; at < rows * cols; at += 5)
        set(&m, at % cols, at / cols, NAN);
    for (int i = 0; i < 200; i++) {
        mean[i] = random_real();
        rest[i] = 0x1p-54 * random_real();
        deviation[i] = i % 7 ? random_real() + 2 : 0;
    }
    struct array before = matrix_copy(&m);
    struct standardize s = {.type = type,
                            .rows = rows,
                            .cols = cols,
                            .matrix = m.data,
                            .ld = m.ld,
                            .by_rows = how & 1,
                            .mean = mean,
                            .rest = rest,
                            .deviation = how & 2 ? deviation : NULL,
                            .constant = how & 4 ? 1 : NAN,
                            .missing = (enum missing)(how / 8 % 3)};
    standardize_cpu(&s, THREADS);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            int64_t line = how & 1 ? i : j;
            double x = get(&before, j, i), divisor = how & 2 ? deviation[line] : 1, got;
            double y = (isnan(x) && s.missing == MISSING_ZERO ? 0 : x) - mean[line] - rest[line];
            if (isnan(x) && s.missing == MISSING_MEAN)
                y = 0;
            y /= divisor == 0 ? s.constant : divisor;
            y = type == SCALAR_FLOAT ? (float)y : y;
            got = get(&m, j, i);
            assert_true(got == y || (isnan(got) && isnan(y)));
        }
    assert_gaps_are(&m, guard);
    free(m.data);
    free(before.data);
}

static void standardize_subtracts_and_divides(void **state)
{
    const int64_t cols[] = {0, 1, 7, 33, 150};
    (void)state;
    for (unsigned how = 0; how < 24; how++)
        for (int i = 0; i < 5; i++)
            for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                check_standardize((enum scalar)type, 13, cols[i], how);
}

static void recentre_takes_products_of_offsets(void **state)
{
    enum { ROWS = 13, COLS = 37, COUNT = 1000 };
    double offset[COLS], deviation[COLS];
    (void)state;
    for (int i = 0; i < COLS; i++) {
        offset[i] = random_real();
        deviation[i] = i % 7 ? random_real() + 2 : 0;
    }
    for (int how = 0; how < 4; how++) {
        const enum scalar type = how & 1 ? SCALAR_DOUBLE : SCALAR_FLOAT;
        const double *divisors = how & 2 ? deviation : NULL;
        struct array m = matrix_make(type, COLS, ROWS, guard);
        matrix_fill(&m, random_real);
        struct array before = matrix_copy(&m);
        recentre_cpu(&(struct recentre){type, ROWS, COLS, m.data, m.ld, COUNT, offset + 1, offset,
                                        divisors ? divisors + 1 : NULL, divisors},
                     THREADS);
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t j = 0; j < COLS; j++) {
                double x = fma(-COUNT, offset[i + 1] * offset[j], get(&before, j, i));
                double by = divisors ? deviation[i + 1] * deviation[j] : 1, got = get(&m, j, i);
                x = type == SCALAR_FLOAT ? (float)(x / by) : x / by;
                assert_true(by == 0 ? isnan(got) : got == x);
            }
        assert_gaps_are(&m, guard);
        free(m.data);
        free(before.data);
    }
}

static void combine_is_the_same_in_every_instruction_set(void **state)
{
    (void)state;
    enum { N = 75 };
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++) {
        struct array x = matrix_make((enum scalar)type, N, 1, 0), y = matrix_copy(&x);
        matrix_fill(&x, random_real);
        matrix_fill(&y, random_real);
        struct array first = matrix_copy(&x), other = matrix_copy(&x);
        cpu_kernels(0)[type].combine(N, 0.3, x.data, 0.7, y.data, first.data);
        for (int rank = 1; cpu_kernels(rank); rank++) {
            cpu_kernels(rank)[type].combine(N, 0.3, x.data, 0.7, y.data, other.data);
            assert_same_bits(&first, &other);
        }
        free(x.data);
        free(y.data);
        free(first.data);
        free(other.data);
    }
}

/* The device */

static void send(enum stream stream, void *dst, const void *src, size_t bytes)
{
    struct copy copy = {dst, src, bytes, bytes, bytes, 1};
    ok(dev->copy(dev, stream, &copy, &err));
}

struct slot {
    double *in, *out; /* device memory */
    struct event *filled, *multiplied, *drained;
};

static struct slot slot_make(size_t bytes)
{
    struct slot s;
    void *memory;
    ok(dev->alloc(dev, bytes, &memory, &err));
    s.in = memory;
    ok(dev->alloc(dev, bytes, &memory, &err));
    s.out = memory;
    ok(dev->event_create(dev, &s.filled, &err));
    ok(dev->event_create(dev, &s.multiplied, &err));
    ok(dev->event_create(dev, &s.drained, &err));
    return s;
}

static void slot_free(const struct slot *s)
{
    dev->event_destroy(dev, s->filled);
    dev->event_destroy(dev, s->multiplied);
    dev->event_destroy(dev, s->drained);
    dev->release(dev, s->in);
    dev->release(dev, s->out);
}

/* Copies in, multiplies by two, and copies out. */
static void submit_round(const struct slot *s, const double *two, const double *from, double *to)
{
    const size_t bytes = SIDE * SIDE * sizeof(double);
    struct gemm gemm = {.type = SCALAR_DOUBLE,
                        .m = SIDE,
                        .n = SIDE,
                        .k = SIDE,
                        .alpha = 1,
                        .a = s->in,
                        .b = two,
                        .c = s->out,
                        .lda = SIDE,
                        .ldb = SIDE,
                        .ldc = SIDE};
    ok(dev->wait(dev, STREAM_IN, s->multiplied, &err));
    send(STREAM_IN, s->in, from, bytes);
    ok(dev->record(dev, s->filled, STREAM_IN, &err));
    ok(dev->wait(dev, STREAM_COMPUTE, s->filled, &err));
    ok(dev->wait(dev, STREAM_COMPUTE, s->drained, &err));
    ok(dev->gemm(dev, &gemm, &err));
    ok(dev->record(dev, s->multiplied, STREAM_COMPUTE, &err));
    ok(dev->wait(dev, STREAM_OUT, s->multiplied, &err));
    send(STREAM_OUT, to, s->out, bytes);
    ok(dev->record(dev, s->drained, STREAM_OUT, &err));
}

static void streams_are_ordered_by_events(void **state)
{
    (void)state;
    const int64_t count = SIDE * SIDE;
    double *from = malloc((size_t)(ROUNDS * count) * sizeof *from), two[SIDE * SIDE] = {0};
    double *to = malloc((size_t)(ROUNDS * count) * sizeof *to);
    struct slot slots[SLOTS];
    for (int64_t at = 0; at < ROUNDS * count; at++)
        from[at] = (double)at;
    for (int i = 0; i < SIDE; i++)
        two[i + i * SIDE] = 2;
    for (int s = 0; s < SLOTS; s++)
        slots[s] = slot_make((size_t)count * sizeof(double));
    for (int64_t r = 0; r < ROUNDS; r++)
        submit_round(&slots[r % SLOTS], two, from + r * count, to + r * count);
    for (int s = 0; s < SLOTS; s++)
        ok(dev->sync(dev, slots[s].drained, &err));
    for (int64_t at = 0; at < ROUNDS * count; at++)
        assert_true(to[at] == 2 * (double)at);
    assert_true(dev->elapsed(dev, slots[0].filled, slots[0].drained) >= 0);
    for (int s = 0; s < SLOTS; s++)
        slot_free(&slots[s]);
    free(from);
    free(to);
}

static void an_event_never_recorded_counts_as_reached(void **state)
{
    (void)state;
    struct event *never, *once;
    ok(dev->event_create(dev, &never, &err));
    ok(dev->event_create(dev, &once, &err));
    ok(dev->sync(dev, never, &err));
    ok(dev->wait(dev, STREAM_COMPUTE, never, &err));
    ok(dev->record(dev, once, STREAM_COMPUTE, &err));
    ok(dev->sync(dev, once, &err));
    assert_true(dev->elapsed(dev, never, once) == 0);
    assert_true(dev->elapsed(dev, once, once) == 0);
    dev->event_destroy(dev, never);
    dev->event_destroy(dev, once);
    dev->event_destroy(dev, NULL);
}

/* Neither a full queue nor an event destroyed early loses work. */
static void queues_are_bounded(void **state)
{
    (void)state;
    double value = 0, next[2] = {1, 2};
    struct event *event;
    ok(dev->event_create(dev, &event, &err));
    for (int i = 0; i < 10 * ROUNDS; i++) {
        send(STREAM_OUT, &value, &next[i % 2], sizeof value);
        ok(dev->record(dev, event, STREAM_OUT, &err));
    }
    dev->event_destroy(dev, event);
    assert_true(value == 2);
}

static void copies_keep_to_their_rows(void **state)
{
    (void)state;
    char from[4][8], to[4][6];
    struct event *event;
    struct copy copy = {to, from, sizeof to[0], sizeof from[0], 5, 4};
    for (int i = 0; i < 32; i++)
        from[i / 8][i % 8] = (char)i;
    memset(to, -1, sizeof to);
    ok(dev->event_create(dev, &event, &err));
    ok(dev->copy(dev, STREAM_IN, &copy, &err));
    ok(dev->record(dev, event, STREAM_IN, &err));
    ok(dev->sync(dev, event, &err));
    for (int i = 0; i < 24; i++)
        assert_int_equal(to[i / 6][i % 6], i % 6 < 5 ? i / 6 * 8 + i % 6 : -1);
    dev->event_destroy(dev, event);
}

static void vectors_go_through_the_stream(void **state)
{
    (void)state;
    double acc[4] = {1, 2, 3, 4}, c0[4] = {8, 8, 8, 8}, x[2] = {1, 1}, y[2], squares[2];
    struct event *event;
    struct combine combine = {SCALAR_DOUBLE, 2, 2, 1, 0.5, acc, c0, 2, 2, false, 0, 0};
    struct project project = {.type = SCALAR_DOUBLE,
                              .from_zero = true,
                              .begin = true,
                              .rows = 2,
                              .cols = 2,
                              .matrix = acc,
                              .ld = 2,
                              .classes = 1,
                              .x = x,
                              .y = y,
                              .squares = squares};
    ok(dev->event_create(dev, &event, &err));
    ok(dev->combine(dev, &combine, &err));
    ok(dev->record(dev, event, STREAM_OUT, &err));
    ok(dev->wait(dev, STREAM_COMPUTE, event, &err));
    ok(dev->project(dev, &project, &err));
    ok(dev->record(dev, event, STREAM_COMPUTE, &err));
    ok(dev->sync(dev, event, &err));
    assert_true(y[0] == 11 && y[1] == 15 && squares[0] == 5 * 5 + 6 * 6);
    dev->event_destroy(dev, event);
}

static void the_device_describes_itself(void **state)
{
    (void)state;
    void *memory;
    assert_int_equal(dev->info.kind, DEVICE_CPU);
    assert_int_equal(dev->info.units, THREADS);
    assert_true(dev->info.name[0] != '\0');
    assert_true(0 < dev->info.memory_free && dev->info.memory_free <= dev->info.memory_total);
    assert_true(device_cpu_overhead(THREADS) >= gemm_cpu_workspace(THREADS));
    ok(dev->pin(dev, &memory, sizeof memory, &err));
    dev->unpin(dev, &memory);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* their malloc never fails */
    assert_int_equal(dev->alloc(dev, SIZE_MAX / 4, &memory, &err), EXIT_RESOURCES);
    assert_null(memory);
    assert_int_equal(err.complaints, 1);
    err = (struct error){0};
#endif
}

static int device_open(void **state)
{
    (void)state;
    return device_cpu_open(THREADS, &dev, &err);
}

static int device_close(void **state)
{
    (void)state;
    dev->close(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combine_is_one_fma),
        cmocka_unit_test(mirror_is_the_transpose_of_combine),
        cmocka_unit_test(standardize_subtracts_and_divides),
        cmocka_unit_test(recentre_takes_products_of_offsets),
        cmocka_unit_test(combine_is_the_same_in_every_instruction_set),
        cmocka_unit_test(streams_are_ordered_by_events),
        cmocka_unit_test(an_event_never_recorded_counts_as_reached),
        cmocka_unit_test(queues_are_bounded),
        cmocka_unit_test(copies_keep_to_their_rows),
        cmocka_unit_test(vectors_go_through_the_stream),
        cmocka_unit_test(the_device_describes_itself),
    };
    return cmocka_run_group_tests(tests, device_open, device_close);
}
