/* The GPU as a device, and its combine, mirror, reflect, standardize, recentre, embed and fold
 * (exit 77 without a GPU).
 *
 * Goal: the contracts of device.h and vector.h.  Method: all are compared bit for bit with the
 * CPU's; combine and mirror, but of pairs, with their formula, too.  Data that must not be read is
 * NaN. */
#include "cuda_launch.h"
#include "gpu_fixture.h"

/* A row-major matrix is the transpose of a column-major one. */
static struct array random_rows(enum scalar type, int64_t rows, int64_t cols, double gaps)
{
    struct array m = matrix_make(type, cols, rows, gaps);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            raw_set(&m, index_of(&m, j, i), next_value(RANDOM, type));
    return m;
}

static void fill(struct array *m, double value)
{
    for (int64_t j = 0; j < m->cols; j++)
        for (int64_t i = 0; i < m->rows; i++)
            raw_set(m, index_of(m, i, j), value);
}

static double *host_copy(const struct array *m)
{
    double *v = malloc(m->count * sizeof *v);
    assert_non_null(v);
    for (size_t at = 0; at < m->count; at++)
        v[at] = raw_get(m, at);
    return v;
}

/* The device has what the host has, which this overwrites. */
static void assert_same(struct array *m)
{
    double *want = host_copy(m);
    download(m);
    for (size_t at = 0; at < m->count; at++)
        assert_true(same_bits(raw_get(m, at), want[at]));
    free(want);
}

static double combined(enum scalar type, double alpha, double acc, double beta, double c0)
{
    if (alpha == 0)
        return beta == 0 ? 0 : times(type, beta, c0);
    return beta == 0 ? times(type, alpha, acc) : fused(type, alpha, acc, times(type, beta, c0));
}

static void *host_at(const struct array *m, int64_t i, int64_t j)
{
    return (char *)m->host + index_of(m, i, j) * scalar_size(m->type);
}

/* On the device; where the factor of the matrix is 0, no element of it may be read. */
static struct array random_operand(enum scalar type, int64_t rows, int64_t cols, double gaps,
                                   const double factor[2])
{
    struct array m = random_rows(type, rows, cols, gaps);
    if (factor[0] == 0 && factor[1] == 0)
        fill(&m, NAN);
    upload(&m);
    return m;
}

/* s: alpha, its imaginary part, beta and its; the imaginary parts count where there are pairs. */
static void try_combine(enum scalar type, int64_t rows, int64_t cols, const double s[4], bool pairs)
{
    struct array acc = random_operand(type, rows, pairs ? 2 * cols : cols, guard, s);
    struct array c0 = random_operand(type, rows, pairs ? 2 * cols : cols, NAN, s + 2);
    double *before = host_copy(&acc);
    struct combine c = {.type = type,
                        .rows = rows,
                        .cols = pairs ? 2 * cols : cols,
                        .alpha = s[0],
                        .alpha_i = s[1],
                        .beta = s[2],
                        .beta_i = s[3],
                        .acc = device_at(&acc, 0, 0),
                        .c0 = device_at(&c0, 0, 0),
                        .ld_acc = acc.ld,
                        .ld_c0 = c0.ld};
    ok(devices[0]->combine(devices[0], &c, &err));
    finish(devices[0], STREAM_OUT);
    c.acc = host_at(&acc, 0, 0);
    c.c0 = host_at(&c0, 0, 0);
    combine_cpu(&c, 1);
    assert_same(&acc);
    for (int64_t i = 0; i < rows && !pairs; i++)
        for (int64_t j = 0; j < cols; j++) {
            const size_t at = index_of(&acc, j, i);
            const double addend = raw_get(&c0, index_of(&c0, j, i));
            const double want = combined(type, s[0], before[at], s[2], addend);
            assert_true(same_bits(raw_get(&acc, at), want));
        }
    free(before);
    matrix_free(&acc);
    matrix_free(&c0);
}

/* Likewise. */
static void try_mirror(enum scalar type, int64_t rows, int64_t cols, const double s[4], bool pairs,
                       bool conjugate)
{
    struct array acc = random_operand(type, rows, pairs ? 2 * cols : cols, guard, s);
    struct array c0 = random_operand(type, cols, pairs ? 2 * rows : rows, NAN, s + 2);
    struct array to = random_rows(type, cols, pairs ? 2 * rows : rows, guard);
    upload(&to);
    struct mirror m = {.type = type,
                       .rows = rows,
                       .cols = cols,
                       .alpha = s[0],
                       .alpha_i = s[1],
                       .beta = s[2],
                       .beta_i = s[3],
                       .acc = device_at(&acc, 0, 0),
                       .c0 = device_at(&c0, 0, 0),
                       .to = device_at(&to, 0, 0),
                       .ld_acc = acc.ld,
                       .ld_c0 = c0.ld,
                       .ld_to = to.ld,
                       .pairs = pairs,
                       .conjugate = conjugate};
    ok(devices[0]->mirror(devices[0], &m, &err));
    finish(devices[0], STREAM_OUT);
    m.acc = host_at(&acc, 0, 0);
    m.c0 = host_at(&c0, 0, 0);
    m.to = host_at(&to, 0, 0);
    mirror_cpu(&m, 1);
    assert_same(&to);
    for (int64_t i = 0; i < rows && !pairs; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double sum = raw_get(&acc, index_of(&acc, j, i));
            const double addend = raw_get(&c0, index_of(&c0, i, j));
            const double want = combined(type, s[0], sum, s[2], addend);
            assert_true(same_bits(raw_get(&to, index_of(&to, i, j)), want));
        }
    matrix_free(&acc);
    matrix_free(&c0);
    matrix_free(&to);
}

static void try_standardize(enum scalar type, int64_t rows, int64_t cols, unsigned how)
{
    struct array m = random_rows(type, rows, cols, guard);
    struct array lines = random_rows(SCALAR_DOUBLE, 3, rows > cols ? rows : cols, guard);
    raw_set(&lines, index_of(&lines, 0, 1), 0);
    for (int64_t j = 0; j < cols && rows > 1; j += 3)
        raw_set(&m, index_of(&m, j, 1), NAN);
    upload(&m);
    upload(&lines);
    struct standardize s = {.type = type,
                            .rows = rows,
                            .cols = cols,
                            .matrix = device_at(&m, 0, 0),
                            .ld = m.ld,
                            .by_rows = how & 1,
                            .mean = device_at(&lines, 0, 0),
                            .rest = device_at(&lines, 0, 2),
                            .deviation = how & 2 ? device_at(&lines, 0, 1) : NULL,
                            .constant = how & 4 ? 1 : NAN,
                            .missing = (enum missing)(how / 8 % 3)};
    ok(devices[0]->standardize(devices[0], &s, &err));
    finish(devices[0], STREAM_COMPUTE);
    s.matrix = host_at(&m, 0, 0);
    s.mean = host_at(&lines, 0, 0);
    s.rest = host_at(&lines, 0, 2);
    s.deviation = how & 2 ? host_at(&lines, 0, 1) : NULL;
    standardize_cpu(&s, 1);
    assert_same(&m);
    matrix_free(&m);
    matrix_free(&lines);
}

static void try_recentre(enum scalar type, int64_t rows, int64_t cols, bool divides)
{
    struct array m = random_rows(type, rows, cols, guard);
    struct array lines = random_rows(SCALAR_DOUBLE, 4, rows > cols ? rows : cols, guard);
    raw_set(&lines, index_of(&lines, 0, 3), 0);
    upload(&m);
    upload(&lines);
    struct recentre r = {.type = type,
                         .rows = rows,
                         .cols = cols,
                         .acc = device_at(&m, 0, 0),
                         .ld = m.ld,
                         .count = 1e6,
                         .row_offset = device_at(&lines, 0, 0),
                         .col_offset = device_at(&lines, 0, 1),
                         .row_deviation = divides ? device_at(&lines, 0, 2) : NULL,
                         .col_deviation = divides ? device_at(&lines, 0, 3) : NULL};
    ok(devices[0]->recentre(devices[0], &r, &err));
    finish(devices[0], STREAM_OUT);
    r.acc = host_at(&m, 0, 0);
    r.row_offset = host_at(&lines, 0, 0);
    r.col_offset = host_at(&lines, 0, 1);
    r.row_deviation = divides ? host_at(&lines, 0, 2) : NULL;
    r.col_deviation = divides ? host_at(&lines, 0, 3) : NULL;
    recentre_cpu(&r, 1);
    assert_same(&m);
    matrix_free(&m);
    matrix_free(&lines);
}

static void try_reflect(enum scalar type, int64_t side, bool conjugate, double zero)
{
    struct array square = random_rows(type, side, 2 * side, guard);
    if (side > 2)
        raw_set(&square, index_of(&square, 5, 2), NAN); /* on the diagonal */
    upload(&square);
    struct reflect r = {.type = type,
                        .side = side,
                        .matrix = device_at(&square, 0, 0),
                        .ld = square.ld,
                        .conjugate = conjugate,
                        .zero = zero};
    ok(devices[0]->reflect(devices[0], &r, &err));
    finish(devices[0], STREAM_OUT);
    r.matrix = host_at(&square, 0, 0);
    reflect_cpu(&r, 1);
    assert_same(&square);
    matrix_free(&square);
}

static void try_embed(enum scalar stored, int64_t rows, int64_t cols, unsigned how)
{
    const bool complex = how & 1, high = how & 4, wide = how & 8;
    const enum scalar type = scalar_factor(stored);
    struct array from = random_rows(stored, rows, cols * (complex ? 2 : 1), guard);
    struct array to = random_rows(type, rows * (high ? 2 : 1), cols * (wide ? 2 : 1), guard);
    upload(&from);
    upload(&to);
    struct embed e = {.type = type,
                      .stored = stored,
                      .rows = rows,
                      .cols = cols,
                      .from = device_at(&from, 0, 0),
                      .to = device_at(&to, 0, 0),
                      .ld_from = from.ld,
                      .ld_to = to.ld,
                      .complex = complex,
                      .conjugate = how & 2,
                      .high = high,
                      .wide = wide};
    ok(devices[0]->embed(devices[0], &e, &err));
    finish(devices[0], STREAM_COMPUTE);
    e.from = host_at(&from, 0, 0);
    e.to = host_at(&to, 0, 0);
    embed_cpu(&e, 1);
    assert_same(&to);
    matrix_free(&from);
    matrix_free(&to);
}

static const int64_t sizes[][2] = {{1, 1},    {3, 200},    {64, 64}, {65, 63},
                                   {5, 1000}, {300001, 2}, {0, 5},   {5, 0}};
static const double scalars[][4] = {{1, 0, 0},      {1, 0, 1}, {2, 0, 0},
                                    {-1.5, 0, 0.3}, {0, 0, 2}, {0, 0, 0}};

static void test_complex(void **state)
{
    static const double factors[][4] = {
        {1, 2, 0, 0}, {0, -1, 0.5, 0}, {1.5, -2, 3, 0.5}, {0, 0, 2, -1}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned how = 0; how < 32; how++) {
            enum scalar type = how & 16 ? SCALAR_FLOAT : SCALAR_DOUBLE;
            if (!affordable(4 * sizes[i][0] * sizes[i][1]))
                continue;
            if (how & 12) /* something becomes more */
                try_embed(type, sizes[i][0], sizes[i][1], how & 15);
            if (how % 16 < 4)
                try_combine(type, sizes[i][0], sizes[i][1], factors[how % 16], true);
            if (how % 16 < 8)
                try_mirror(type, sizes[i][0], sizes[i][1], factors[how % 4], true, how & 4);
        }
}

/* Elements that become floats: of real matrices, and of complex ones in two shapes. */
static void test_widened(void **state)
{
    static const unsigned hows[] = {0, 9, 15};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++)
            if (affordable(4 * sizes[i][0] * sizes[i][1])) {
                try_embed(SCALAR_FLOAT16, sizes[i][0], sizes[i][1], hows[h]);
                try_embed(SCALAR_BFLOAT16, sizes[i][0], sizes[i][1], hows[h]);
            }
}

/* Real factors of pairs; squares of all sides. */
static void test_mirrors_of_pairs(void **state)
{
    static const int64_t sides[] = {0, 1, 2, 3, 31, 32, 33, 64, 65, 130};
    (void)state;
    for (unsigned how = 0; how < 4; how++) {
        enum scalar type = how & 1 ? SCALAR_FLOAT : SCALAR_DOUBLE;
        for (size_t s = 0; s < sizeof scalars / sizeof *scalars; s++)
            try_mirror(type, 65, 63, scalars[s], true, how & 2);
        for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
            try_reflect(type, sides[i], how & 2, i % 2 ? -0.0 : 0.0);
    }
}

static void test_combine_and_mirror(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t s = 0; s < sizeof scalars / sizeof *scalars; s++)
            for (enum scalar type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                if (affordable(sizes[i][0] * sizes[i][1])) {
                    try_combine(type, sizes[i][0], sizes[i][1], scalars[s], false);
                    try_mirror(type, sizes[i][0], sizes[i][1], scalars[s], false, false);
                }
}

static void test_standardize(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned how = 0; how < 24; how++)
            for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                if (affordable(sizes[i][0] * sizes[i][1]))
                    try_standardize((enum scalar)type, sizes[i][0], sizes[i][1], how);
}

static void test_recentre(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 4; how++)
            if (affordable(sizes[i][0] * sizes[i][1]))
                try_recentre(how & 1 ? SCALAR_DOUBLE : SCALAR_FLOAT, sizes[i][0], sizes[i][1],
                             how & 2);
}

/* Copies work with any pitch; empty copies do nothing. */
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

/* A failure names the GPU and the number of bytes, and does not affect the next kernel. */
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
    try_combine(SCALAR_FLOAT, 10, 10, scalars[3], false);
    assert_int_equal(device_gpu_open(device_gpu_count(), ALGORITHM_NAIVE, &none, &expected),
                     EXIT_RUNTIME);
    assert_int_equal(device_gpu_open(GPU, ALGORITHM_CPU, &none, &expected), EXIT_USAGE);
    assert_null(none);
    assert_int_equal(expected.complaints, 3);
    assert_int_equal(expected.code, EXIT_RESOURCES);
}

/* Querying a GPU that is in use does not change its memory. */
static void test_info(void **state)
{
    struct device_info info;
    struct array m = random_rows(SCALAR_DOUBLE, 20, 20, guard);
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

/* The sum of `count` addends and acc, which is where it goes if they say so; in the order of the
 * addends. */
static void try_fold(enum scalar type, int64_t rows, int64_t cols, int count, bool in_place)
{
    enum { MOST = 3 };
    struct array acc = random_rows(type, rows, cols, guard),
                 to = random_rows(type, rows, cols, guard);
    struct array addends[MOST];
    struct fold f = {.type = type, .rows = rows, .cols = cols, .count = count, .ld = acc.ld};
    struct array *out = in_place ? &acc : &to;
    upload(&acc);
    upload(&to);
    for (int i = 0; i < MOST; i++) {
        addends[i] = random_rows(type, rows, cols, guard);
        upload(&addends[i]);
        f.addends[i] = device_at(&addends[i], 0, 0);
    }
    f.acc = device_at(&acc, 0, 0);
    f.to = device_at(out, 0, 0);
    ok(devices[0]->fold(devices[0], &f, &err));
    finish(devices[0], STREAM_COMPUTE);
    for (int i = 0; i < MOST; i++)
        f.addends[i] = host_at(&addends[i], 0, 0);
    double first = raw_get(&acc, index_of(&acc, 0, 0));
    for (int i = 0; i < count; i++)
        first = fused(type, 1, first, raw_get(&addends[i], index_of(&addends[i], 0, 0)));
    f.acc = host_at(&acc, 0, 0);
    f.to = host_at(out, 0, 0);
    fold_cpu(&f, 2);
    assert_true(same_bits(raw_get(out, index_of(out, 0, 0)), first));
    assert_same(&acc);
    assert_same(&to);
    matrix_free(&acc);
    matrix_free(&to);
    for (int i = 0; i < MOST; i++)
        matrix_free(&addends[i]);
}

static void test_fold(void **state)
{
    (void)state;
    for (int count = 0; count <= 3; count++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++) {
                try_fold((enum scalar)type, 1, 1, count, in_place);
                try_fold((enum scalar)type, 67, 131, count, in_place);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_pin),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_combine_and_mirror),
        cmocka_unit_test(test_standardize),
        cmocka_unit_test(test_recentre),
        cmocka_unit_test(test_complex),
        cmocka_unit_test(test_widened),
        cmocka_unit_test(test_mirrors_of_pairs),
    };
    if (!fixture_open())
        return EXIT_SKIPPED;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close();
    return failures != 0;
}
