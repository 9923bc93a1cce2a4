/* The GPU as a device, with its combine, project, norm and fill (exit 77 without a GPU).
 *
 * Goal: the contracts of device.h and vector.h.  Method: combine is compared bit for bit with its
 * formula, project and norm with long double sums within an error bound and with themselves bit for
 * bit; norm and fill also on the CPU.  What must not be read is NaN. */
#include "cuda_launch.h"
#include "gpu_fixture.h"

/* A row-major matrix is the transpose of a column-major one. */
static struct matrix random_rows(enum scalar type, int64_t rows, int64_t cols, double gaps)
{
    struct matrix m = matrix_make(type, cols, rows, gaps);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            raw_set(&m, index_of(&m, j, i), next_value(RANDOM, type));
    return m;
}

static void fill(struct matrix *m, double value)
{
    for (int64_t j = 0; j < m->cols; j++)
        for (int64_t i = 0; i < m->rows; i++)
            raw_set(m, index_of(m, i, j), value);
}

static double *host_copy(const struct matrix *m)
{
    double *v = malloc(m->count * sizeof *v);
    assert_non_null(v);
    for (size_t at = 0; at < m->count; at++)
        v[at] = raw_get(m, at);
    return v;
}

static double combined(enum scalar type, double alpha, double acc, double beta, double c0)
{
    if (alpha == 0)
        return beta == 0 ? 0 : times(type, beta, c0);
    return beta == 0 ? times(type, alpha, acc) : fused(type, alpha, acc, times(type, beta, c0));
}

static void try_combine(enum scalar type, int64_t rows, int64_t cols, double alpha, double beta)
{
    struct matrix acc = random_rows(type, rows, cols, guard);
    struct matrix c0 = random_rows(type, rows, cols, NAN);
    if (alpha == 0)
        fill(&acc, NAN);
    if (beta == 0)
        fill(&c0, NAN);
    double *before = host_copy(&acc);
    upload(&acc);
    upload(&c0);
    struct combine c = {.type = type,
                        .rows = rows,
                        .cols = cols,
                        .alpha = alpha,
                        .beta = beta,
                        .acc = device_at(&acc, 0, 0),
                        .c0 = device_at(&c0, 0, 0),
                        .ld_acc = acc.ld,
                        .ld_c0 = c0.ld};
    ok(devices[0]->combine(devices[0], &c, &err));
    finish(devices[0], STREAM_OUT);
    download(&acc);
    check_guards(&acc);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            size_t at = index_of(&acc, j, i);
            double addend = raw_get(&c0, index_of(&c0, j, i));
            double want = combined(type, alpha, before[at], beta, addend);
            assert_true(same_bits(raw_get(&acc, at), want));
        }
    free(before);
    matrix_free(&acc);
    matrix_free(&c0);
}

static void test_combine(void **state)
{
    static const int64_t sizes[][2] = {{1, 1},    {3, 200},    {64, 64}, {65, 63},
                                       {5, 1000}, {300001, 2}, {0, 5},   {5, 0}};
    static const double scalars[][2] = {{1, 0}, {1, 1}, {2, 0}, {-1.5, 0.3}, {0, 2}, {0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t s = 0; s < sizeof scalars / sizeof *scalars; s++)
            for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                if (affordable(sizes[i][0] * sizes[i][1]))
                    try_combine((enum scalar)type, sizes[i][0], sizes[i][1], scalars[s][0],
                                scalars[s][1]);
}

/* One call of project with the matrices and vectors behind it. */
struct projection {
    struct project p;
    struct matrix m, x, x_abs, y, y_abs;
};

enum { TRANS = 1, ACCUMULATE = 2, WEIGHTS = 4, MAGNITUDES = 8, VARIANTS = 16 };

static struct projection projection_make(enum scalar type, int64_t rows, int64_t cols, int variant)
{
    int64_t in = variant & TRANS ? rows : cols, out = variant & TRANS ? cols : rows;
    struct projection r = {.m = random_rows(type, rows, cols, NAN),
                           .x = random_rows(SCALAR_DOUBLE, 1, in, NAN),
                           .x_abs = random_rows(SCALAR_DOUBLE, 1, in, NAN),
                           .y = random_rows(SCALAR_DOUBLE, 1, out, guard),
                           .y_abs = random_rows(SCALAR_DOUBLE, 1, out, guard)};
    if (!(variant & ACCUMULATE)) {
        fill(&r.y, NAN);
        fill(&r.y_abs, NAN);
    }
    r.p = (struct project){.type = type,
                           .trans = variant & TRANS,
                           .accumulate = variant & ACCUMULATE,
                           .rows = rows,
                           .cols = cols,
                           .matrix = device_at(&r.m, 0, 0),
                           .ld = r.m.ld,
                           .x = device_at(&r.x, 0, 0),
                           .x_abs = variant & WEIGHTS ? device_at(&r.x_abs, 0, 0) : NULL,
                           .y = device_at(&r.y, 0, 0),
                           .y_abs = variant & MAGNITUDES ? device_at(&r.y_abs, 0, 0) : NULL};
    upload(&r.m);
    upload(&r.x);
    upload(&r.x_abs);
    return r;
}

static void projection_free(struct projection *r)
{
    matrix_free(&r->m);
    matrix_free(&r->x);
    matrix_free(&r->x_abs);
    matrix_free(&r->y);
    matrix_free(&r->y_abs);
}

/* Run from the host's y and y_abs, and leave the results in `y` and `y_abs`, as allocated. */
static void project_once(const struct projection *r, double **y, double **y_abs)
{
    struct matrix out = r->y, out_abs = r->y_abs;
    out.host = host_copy(&r->y);
    out_abs.host = host_copy(&r->y_abs);
    upload(&out);
    upload(&out_abs);
    ok(devices[0]->project(devices[0], &r->p, &err));
    finish(devices[0], STREAM_COMPUTE);
    download(&out);
    download(&out_abs);
    check_guards(&out);
    check_guards(&out_abs);
    *y = out.host;
    *y_abs = out_abs.host;
}

static void check_line(const struct projection *r, int64_t line, const double *y,
                       const double *y_abs)
{
    const struct project *p = &r->p;
    int64_t length = p->trans ? p->rows : p->cols;
    size_t at = index_of(&r->y, line, 0);
    long double sum = 0, weighed = 0, size = 0;
    for (int64_t e = 0; e < length; e++) {
        double m = raw_get(&r->m, p->trans ? index_of(&r->m, line, e) : index_of(&r->m, e, line));
        double x = raw_get(&r->x, index_of(&r->x, e, 0));
        double weight = p->x_abs ? raw_get(&r->x_abs, index_of(&r->x_abs, e, 0)) : fabs(x);
        sum += (long double)m * x;
        weighed += fabsl((long double)m) * weight;
        size += fabsl((long double)m) * (fabs(x) + fabs(weight));
    }
    if (p->accumulate) {
        sum += raw_get(&r->y, at);
        weighed += raw_get(&r->y_abs, at);
        size += 2;
    }
    long double bound = (long double)(length + 3) * DBL_EPSILON * size;
    assert_true(close_to(y[at], sum, bound));
    if (p->y_abs)
        assert_true(close_to(y_abs[at], weighed, bound));
    else
        assert_true(same_bits(y_abs[at], raw_get(&r->y_abs, at)));
}

static void try_project(enum scalar type, int64_t rows, int64_t cols, int variant)
{
    struct projection r = projection_make(type, rows, cols, variant);
    double *y[2], *y_abs[2];
    project_once(&r, &y[0], &y_abs[0]);
    project_once(&r, &y[1], &y_abs[1]);
    for (int64_t line = 0; line < r.y.rows; line++) {
        size_t at = index_of(&r.y, line, 0);
        check_line(&r, line, y[0], y_abs[0]);
        assert_true(same_bits(y[0][at], y[1][at]) && same_bits(y_abs[0][at], y_abs[1][at]));
    }
    for (int i = 0; i < 2; i++) {
        free(y[i]);
        free(y_abs[i]);
    }
    projection_free(&r);
}

static void test_project(void **state)
{
    static const int64_t sizes[][2] = {{1, 1},      {31, 17},   {128, 1025}, {1000, 300},
                                       {300, 1026}, {2049, 64}, {64, 2049},  {513, 512},
                                       {0, 5},      {5, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int variant = 0; variant < VARIANTS; variant++)
            for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                if (chosen())
                    try_project((enum scalar)type, sizes[i][0], sizes[i][1], variant);
}

static void wait_default_stream(void)
{
    cudaEvent_t event;
    assert_int_equal(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), cudaSuccess);
    assert_int_equal(cudaEventRecord(event, NULL), cudaSuccess);
    assert_int_equal(cudaEventSynchronize(event), cudaSuccess);
    assert_int_equal(cudaEventDestroy(event), cudaSuccess);
}

/* The norms of m's elements: two runs on the GPU, and two on the CPU with 1 and 2 threads. */
static void norm_all(const struct matrix *m, double norms[4][2])
{
    double shares[2 * NORM_SHARES];
    struct matrix out = matrix_make(SCALAR_DOUBLE, 2 * NORM_SHARES + 2, 1, guard);
    for (int run = 0; run < 4; run++) {
        bool gpu = run < 2;
        struct norm p = {m->type,
                         m->cols,
                         m->rows,
                         gpu ? device_at(m, 0, 0)
                             : (char *)m->host + index_of(m, 0, 0) * scalar_size(m->type),
                         m->ld,
                         gpu ? device_at(&out, 2, 0) : shares,
                         gpu ? device_at(&out, 0, 0) : &norms[run][0],
                         gpu ? device_at(&out, 1, 0) : &norms[run][1]};
        if (!gpu) {
            norm_cpu(&p, run - 1);
            continue;
        }
        upload(&out);
        assert_int_equal(norm_cuda(&p, NULL), cudaSuccess);
        wait_default_stream();
        download(&out);
        check_guards(&out);
        for (int i = 0; i < 2; i++)
            norms[run][i] = raw_get(&out, index_of(&out, i, 0));
    }
    matrix_free(&out);
}

static void try_norm(enum scalar type, int64_t rows, int64_t cols, double special)
{
    struct matrix m = random_rows(type, rows, cols, NAN);
    long double squares = 0, max = 0;
    double norms[4][2];
    if (special != 0)
        raw_set(&m, index_of(&m, cols / 2, rows / 2), special);
    for (int64_t at = 0; at < rows * cols; at++) {
        long double x = raw_get(&m, index_of(&m, at % cols, at / cols));
        squares += x * x;
        max = fabsl(x) > max || isnan(x) ? fabsl(x) : max;
    }
    upload(&m);
    norm_all(&m, norms);
    for (int run = 0; run < 4; run++) {
        long double bound = (long double)(rows * cols + 1) * DBL_EPSILON * squares;
        assert_true(close_to(norms[run][0], squares, bound));
        assert_true(close_to(norms[run][1], isnan(special) ? NAN : max, 0));
        assert_true(same_bits(norms[run][0], norms[run / 2 * 2][0]));
    }
    matrix_free(&m);
}

static void test_norm(void **state)
{
    static const int64_t sizes[][2] = {{1, 1},    {3, 200},    {1100, 70}, {2, 4097},
                                       {5, 8192}, {100000, 1}, {0, 5},     {5, 0}};
    static const double specials[] = {0, INFINITY, NAN};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int special = 0; special < 3; special++)
            for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                if (chosen() && (special == 0 || sizes[i][0] * sizes[i][1] > 0))
                    try_norm((enum scalar)type, sizes[i][0], sizes[i][1], specials[special]);
}

static void test_fill(void **state)
{
    static const int64_t sizes[][2] = {{1, 1}, {65, 63}, {5, 1000}, {0, 5}, {5, 0}};
    (void)state;
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        enum scalar type = i % 2 ? SCALAR_FLOAT : SCALAR_DOUBLE;
        bool gpu = i / 2 % 2;
        struct matrix m = random_rows(type, sizes[i / 4][0], sizes[i / 4][1], guard);
        void *host = (char *)m.host + index_of(&m, 0, 0) * scalar_size(type);
        struct fill p = {type, m.cols, m.rows, gpu ? device_at(&m, 0, 0) : host, m.ld, 0.1};
        upload(&m);
        if (gpu) {
            assert_int_equal(fill_cuda(&p, NULL), cudaSuccess);
            wait_default_stream();
            download(&m);
        } else {
            fill_cpu(&p, 2);
        }
        check_guards(&m);
        for (int64_t at = 0; at < m.rows * m.cols; at++)
            assert_true(raw_get(&m, index_of(&m, at % m.rows, at / m.rows)) ==
                        (type == SCALAR_FLOAT ? 0.1f : 0.1));
        matrix_free(&m);
    }
}

/* Copies of any pitch; those of nothing do nothing. */
static void test_copy(void **state)
{
    char from[6][10], to[6][7];
    void *memory;
    (void)state;
    for (int i = 0; i < 60; i++)
        from[i / 10][i % 10] = (char)i;
    memset(to, -1, sizeof to);
    ok(devices[0]->alloc(devices[0], 6 * 9, &memory, &err));
    copy_rows(&(struct copy){memory, from, 9, 10, 5, 6}, STREAM_IN);
    copy_rows(&(struct copy){to, memory, 7, 9, 5, 6}, STREAM_OUT);
    copy_rows(&(struct copy){to, memory, 7, 9, 0, 6}, STREAM_OUT);
    copy_rows(&(struct copy){to, memory, 7, 9, 5, 0}, STREAM_OUT);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 7; j++)
            assert_int_equal(to[i][j], j < 5 ? from[i][j] : -1);
    devices[0]->release(devices[0], memory);
}

static void test_events(void **state)
{
    struct device *dev = devices[0];
    struct event *never, *later;
    (void)state;
    ok(dev->event_create(dev, &never, &err));
    ok(dev->event_create(dev, &later, &err));
    ok(dev->sync(dev, never, &err));
    ok(dev->wait(dev, STREAM_OUT, never, &err));
    finish(dev, STREAM_IN);
    assert_true(dev->elapsed(dev, never, reached) == 0);
    ok(dev->record(dev, later, STREAM_IN, &err));
    ok(dev->sync(dev, later, &err));
    assert_true(dev->elapsed(dev, reached, later) > 0);
    dev->event_destroy(dev, never);
    dev->event_destroy(dev, later);
}

/* A failure names the GPU and the bytes, and the next kernel does not trip over it. */
static void test_failures(void **state)
{
    struct device *dev = devices[0], *none;
    struct error expected = {0};
    void *memory = &memory;
    (void)state;
    assert_int_equal(dev->alloc(dev, (size_t)1 << 50, &memory, &expected), EXIT_RESOURCES);
    assert_non_null(strstr(expected.text, "GPU 0"));
    assert_non_null(strstr(expected.text, "1125899906842624"));
    assert_null(memory);
    try_combine(SCALAR_FLOAT, 10, 10, 2, 1);
    assert_int_equal(device_gpu_open(device_gpu_count(), ALGORITHM_NAIVE, &none, &expected),
                     EXIT_RUNTIME);
    assert_int_equal(device_gpu_open(GPU, ALGORITHM_CPU, &none, &expected), EXIT_USAGE);
    assert_null(none);
    assert_int_equal(expected.complaints, 3);
    assert_int_equal(expected.code, EXIT_RESOURCES);
}

/* Describing a GPU that is in use leaves its memory alone. */
static void test_info(void **state)
{
    struct device_info info;
    struct matrix m = random_rows(SCALAR_DOUBLE, 20, 20, guard);
    double *before = host_copy(&m);
    (void)state;
    upload(&m);
    ok(device_gpu_info(GPU, &info, &err));
    assert_int_equal(info.kind, DEVICE_GPU);
    assert_true(info.memory_free <= info.memory_total && info.memory_total > 0);
    assert_true(info.units > 0 && info.compute_capability >= 50 && info.name[0] != '\0');
    download(&m);
    for (size_t at = 0; at < m.count; at++)
        assert_true(raw_get(&m, at) == before[at]);
    free(before);
    matrix_free(&m);
}

static void test_pin(void **state)
{
    void *host = NULL;
    (void)state;
    assert_int_equal(posix_memalign(&host, 4096, 1 << 20), 0);
    ok(devices[0]->pin(devices[0], host, 1 << 20, &err));
    devices[0]->unpin(devices[0], host);
    ok(devices[0]->pin(devices[0], host, 1 << 20, &err));
    devices[0]->unpin(devices[0], host);
    free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),    cmocka_unit_test(test_events),
        cmocka_unit_test(test_pin),     cmocka_unit_test(test_failures),
        cmocka_unit_test(test_info),    cmocka_unit_test(test_combine),
        cmocka_unit_test(test_project), cmocka_unit_test(test_norm),
        cmocka_unit_test(test_fill),
    };
    if (!fixture_open())
        return EXIT_SKIPPED;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close();
    return failures != 0;
}
