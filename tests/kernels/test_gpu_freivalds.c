/* The operations of the product check on the GPU (exit 77 without a GPU).
 *
 * Goal: the contracts of freivalds.h.  Method: each operation runs on the GPU and on the CPU; their
 * sums agree to within rounding, and their counts and verdicts are equal.  The CPU's sums are
 * compared with sums in long double. */
#include "cuda_launch.h"
#include "gpu_fixture.h"

enum { TRANS = 1, FACTOR = 2, MORE = 4, VARIANTS = 8, ALIGNED = 8 };

/* Numbers on the host, and a copy on the device. */
struct numbers {
    size_t bytes;
    void *host, *device;
};

static struct numbers numbers_make(size_t count, size_t size)
{
    struct numbers n = {count * size, calloc(count + 1, size), NULL};
    assert_non_null(n.host);
    ok(devices[0]->alloc(devices[0], n.bytes + size, &n.device, &err));
    return n;
}

static void numbers_free(struct numbers *n)
{
    free(n->host);
    devices[0]->release(devices[0], n->device);
}

static void to_device(const struct numbers *n)
{
    copy_rows(&(struct copy){n->device, n->host, n->bytes, n->bytes, n->bytes, 1}, STREAM_IN);
}

/* Returns a copy of the device's data. */
static void *from_device(const struct numbers *n)
{
    void *host = malloc(n->bytes + 1);
    assert_non_null(host);
    copy_rows(&(struct copy){host, n->device, n->bytes, n->bytes, n->bytes, 1}, STREAM_OUT);
    return host;
}

static struct numbers random_numbers(size_t count)
{
    struct numbers n = numbers_make(count, sizeof(double));
    for (size_t i = 0; i < count; i++)
        ((double *)n.host)[i] = next_value(RANDOM, SCALAR_DOUBLE);
    to_device(&n);
    return n;
}

/* A row-major matrix is the transpose of a column-major one. */
static struct array random_rows(enum scalar type, int64_t rows, int64_t cols, bool specials)
{
    struct array m = matrix_make(type, cols, rows, NAN);
    for (int64_t i = 0; i < rows * cols; i++) {
        double value = next_value(RANDOM, type);
        if (specials && rand() % 97 == 0)
            value =
                (double[]){NAN, INFINITY, -INFINITY, type == SCALAR_DOUBLE ? 1e200 : 1}[rand() % 4];
        raw_set(&m, index_of(&m, i % cols, i / cols), value);
    }
    upload(&m);
    return m;
}

static void *host_at(const struct array *m)
{
    return (char *)m->host + index_of(m, 0, 0) * scalar_size(m->type);
}

/* Compares sums of at most `terms` numbers below 2 in magnitude. */
static void assert_close(const struct numbers *cpu, const struct numbers *gpu, double terms)
{
    double *theirs = from_device(gpu), *mine = cpu->host;
    for (size_t i = 0; i < cpu->bytes / sizeof(double); i++) {
        bool same = isnan(mine[i])   ? isnan(theirs[i])
                    : isinf(mine[i]) ? theirs[i] == mine[i]
                                     : fabs(theirs[i] - mine[i]) <=
                                           4 * terms * DBL_EPSILON * fmax(1, fabs(mine[i]));
        if (!same)
            fail_msg("number %zu: %.17g on the GPU, %.17g on the CPU", i, theirs[i], mine[i]);
    }
    free(theirs);
}

static void assert_equal_ints(const struct numbers *n)
{
    void *theirs = from_device(n);
    assert_memory_equal(theirs, n->host, n->bytes);
    free(theirs);
}

static void try_sketch(enum scalar type, int64_t rows, int64_t cols, int classes, int deal,
                       int variant)
{
    bool trans = variant & TRANS, factor = variant & FACTOR;
    int64_t lines = trans ? cols : rows, length = trans ? rows : cols;
    size_t sums = (size_t)(lines * classes);
    aligned = variant & ALIGNED;
    struct array m = random_rows(type, rows, cols, true);
    struct numbers weights = random_numbers((size_t)length);
    struct numbers left_out = numbers_make((size_t)length, sizeof(int));
    struct numbers found = numbers_make(1, sizeof(int));
    struct numbers outputs[3] = {random_numbers(sums), random_numbers(sums), random_numbers(sums)};
    for (int64_t j = 0; j < length && !factor; j++)
        if (rand() % 5 == 0) {
            ((int *)left_out.host)[j] = LEFT_OUT_NOT_FINITE;
            ((double *)weights.host)[j] = 0;
        }
    to_device(&weights);
    to_device(&left_out);
    to_device(&found);
    struct sketch s = {.type = type,
                       .trans = trans,
                       .accumulate = variant & MORE,
                       .rows = rows,
                       .cols = cols,
                       .matrix = host_at(&m),
                       .ld = m.ld,
                       .classes = classes,
                       .deal = deal,
                       .first = variant & MORE ? 3 * deal : 0,
                       .weights = weights.host,
                       .left_out = left_out.host,
                       .sums = outputs[0].host,
                       .squares = outputs[1].host,
                       .odd = factor ? NULL : outputs[2].host,
                       .found = found.host,
                       .tag = 7};
    struct sketch gpu = s;
    gpu.matrix = device_at(&m, 0, 0);
    gpu.weights = weights.device;
    gpu.left_out = left_out.device;
    gpu.sums = outputs[0].device;
    gpu.squares = outputs[1].device;
    gpu.odd = factor ? NULL : outputs[2].device;
    gpu.found = found.device;
    sketch_cpu(&s, 2);
    ok(devices[0]->sketch(devices[0], &gpu, &err));
    finish(devices[0], STREAM_COMPUTE);
    for (int i = 0; i < 3; i++)
        assert_close(&outputs[i], &outputs[i], (double)length + 2);
    assert_equal_ints(&left_out);
    assert_equal_ints(&found);
    for (int i = 0; i < 3; i++)
        numbers_free(&outputs[i]);
    numbers_free(&weights);
    numbers_free(&left_out);
    numbers_free(&found);
    matrix_free(&m);
}

static void test_sketch(void **state)
{
    static const int64_t sizes[][2] = {{1, 1},      {31, 17},   {128, 1025}, {1000, 300},
                                       {300, 1026}, {2049, 64}, {5, 700}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int variant = 0; variant < VARIANTS + ALIGNED; variant++)
            for (int classes = 1; classes <= CLASSES_MAX; classes *= 4)
                for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                    for (int deal = 1; deal <= PEAK_ROWS; deal *= 8)
                        if (chosen())
                            try_sketch((enum scalar)type, sizes[i][0], sizes[i][1], classes, deal,
                                       variant);
    aligned = false;
}

static void try_project(enum scalar type, int64_t rows, int64_t cols, int classes, int variant)
{
    bool trans = variant & TRANS, begin = variant & FACTOR, absolute = rows % 2 == 1;
    int64_t lines = trans ? cols : rows, steps = trans ? rows : cols;
    struct array m = random_rows(type, rows, cols, variant & MORE);
    struct numbers x = random_numbers((size_t)(steps * classes));
    struct numbers y = random_numbers((size_t)(lines * classes));
    struct numbers squares = random_numbers((size_t)lines);
    struct numbers partial = random_numbers(project_partials(lines, steps, classes));
    struct project p = {.type = type,
                        .trans = trans,
                        .from_zero = begin,
                        .begin = begin,
                        .absolute = absolute,
                        .rows = rows,
                        .cols = cols,
                        .matrix = host_at(&m),
                        .ld = m.ld,
                        .classes = classes,
                        .x = x.host,
                        .y = y.host,
                        .squares = absolute ? NULL : squares.host};
    struct project gpu = p;
    gpu.matrix = device_at(&m, 0, 0);
    gpu.x = x.device;
    gpu.y = y.device;
    gpu.squares = absolute ? NULL : squares.device;
    gpu.partial = partial.device;
    project_cpu(&p, 2);
    ok(devices[0]->project(devices[0], &gpu, &err));
    finish(devices[0], STREAM_COMPUTE);
    if (!(variant & MORE)) /* if Inf and NaN meet, the result may differ */
        assert_close(&y, &y, (double)steps + 2);
    assert_close(&squares, &squares, (double)steps + 2);
    numbers_free(&x);
    numbers_free(&y);
    numbers_free(&squares);
    numbers_free(&partial);
    matrix_free(&m);
}

static void test_project(void **state)
{
    static const int64_t sizes[][2] = {{1, 1},     {31, 17},   {128, 1025},
                                       {300, 526}, {2049, 64}, {5, 700}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int variant = 0; variant < VARIANTS; variant++)
            for (int classes = 1; classes <= CLASSES_MAX; classes *= 2)
                for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                    if (chosen())
                        try_project((enum scalar)type, sizes[i][0], sizes[i][1], classes, variant);
}

static void try_retire(enum scalar type, int64_t rows, int64_t cols, int classes, bool with_acc)
{
    struct array acc = random_rows(type, rows, cols, true);
    struct numbers weights = random_numbers((size_t)cols);
    struct numbers left_out = numbers_make((size_t)cols, sizeof(int));
    struct numbers y = random_numbers((size_t)(rows * classes));
    struct numbers carried = random_numbers((size_t)(rows * classes));
    struct numbers found = numbers_make(1, sizeof(int));
    for (int tag = 4; tag >= 3; tag--) { /* nothing is found the first time */
        *(int *)found.host = 3;
        for (int64_t j = 0; j < cols; j += 7)
            ((int *)left_out.host)[j] = LEFT_OUT_LARGE;
        to_device(&found);
        to_device(&left_out);
        struct retire r = {.type = type,
                           .rows = rows,
                           .cols = cols,
                           .acc = with_acc ? host_at(&acc) : NULL,
                           .waiting = {host_at(&acc), host_at(&acc)},
                           .count = classes > 1 ? 2 : 0,
                           .carried = carried.host,
                           .ld = acc.ld,
                           .classes = classes,
                           .deal = with_acc ? 1 : 8,
                           .weights = weights.host,
                           .left_out = left_out.host,
                           .y = y.host,
                           .found = found.host,
                           .tag = tag};
        struct retire gpu = r;
        gpu.acc = with_acc ? device_at(&acc, 0, 0) : NULL;
        gpu.waiting[0] = gpu.waiting[1] = device_at(&acc, 0, 0);
        gpu.carried = carried.device;
        gpu.weights = weights.device;
        gpu.left_out = left_out.device;
        gpu.y = y.device;
        gpu.found = found.device;
        retire_cpu(&r, 2);
        ok(devices[0]->retire(devices[0], &gpu, &err));
        finish(devices[0], STREAM_COMPUTE);
        assert_close(&y, &y, (double)cols);
        assert_close(&carried, &carried, 2 * (double)cols);
        assert_close(&weights, &weights, 0);
        assert_true((((double *)weights.host)[0] == 0) == (tag == 3));
    }
    numbers_free(&weights);
    numbers_free(&left_out);
    numbers_free(&y);
    numbers_free(&carried);
    numbers_free(&found);
    matrix_free(&acc);
}

static void test_retire(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        try_retire(i & 1 ? SCALAR_FLOAT : SCALAR_DOUBLE, 131, 77, i & 2 ? 4 : 1, i & 4);
}

static void test_norms(void **state)
{
    (void)state;
    for (int classes = 1; classes <= CLASSES_MAX; classes *= 2)
        for (int begin = 0; begin < 2; begin++) {
            struct numbers squares = random_numbers((size_t)(333 * classes));
            struct numbers norms = random_numbers((size_t)classes);
            struct numbers roots = random_numbers((size_t)(333 * classes));
            for (int i = 0; i < 333 * classes; i++)
                ((double *)squares.host)[i] = fabs(((double *)squares.host)[i]);
            to_device(&squares);
            struct norms n = {333, classes, 7, squares.host, norms.host, roots.host, begin};
            struct norms gpu = {333, classes, 7, squares.device, norms.device, roots.device, begin};
            norms_cpu(&n);
            ok(devices[0]->norms(devices[0], &gpu, &err));
            finish(devices[0], STREAM_COMPUTE);
            assert_close(&norms, &norms, 333);
            assert_close(&roots, &roots, 1);
            numbers_free(&roots);
            numbers_free(&squares);
            numbers_free(&norms);
        }
}

/* The inputs and outputs of a judge. */
enum { ROWS = 37, COLS = 90, STRIDE = 41 };
enum {
    Y,
    Z,
    BEFORE,
    SQUARES,
    ODD,
    CARRIED,
    CARRIED_SQUARES,
    WEIGHTS,
    LEFT_OUT,
    FOUND,
    REACH,
    ROW_SQUARES,
    NORMS,
    PEAKS,
    VERDICT,
    PARTS
};

static void judge_numbers(struct numbers n[PARTS], int classes)
{
    size_t sums = (size_t)(ROWS * classes);
    for (int i = Y; i <= CARRIED_SQUARES; i++)
        n[i] = random_numbers(sums);
    n[REACH] = random_numbers(sums);
    n[WEIGHTS] = random_numbers(COLS);
    n[LEFT_OUT] = numbers_make(COLS, sizeof(int));
    n[FOUND] = numbers_make(1, sizeof(int));
    n[ROW_SQUARES] = random_numbers(ROWS);
    n[NORMS] = random_numbers((size_t)classes);
    n[PEAKS] = numbers_make(2 * ROWS, sizeof(float));
    n[VERDICT] = random_numbers(VERDICTS * STRIDE + 2);
}

/* Draws classes that are as expected, a little off, far off, and not finite. */
static void draw_judged(struct numbers n[PARTS], int classes)
{
    double *y = n[Y].host, *z = n[Z].host, *before = n[BEFORE].host, *squares = n[SQUARES].host;
    double *odd = n[ODD].host, *rows = n[ROW_SQUARES].host, *norms = n[NORMS].host;
    double *states = (double *)n[VERDICT].host + VERDICT_STATE * STRIDE;
    double *broken = (double *)n[VERDICT].host + VERDICT_BROKEN * STRIDE;
    for (int i = 0; i < ROWS * classes; i++) {
        z[i] = y[i] + (double[]){0, 1e-13, 1}[rand() % 3] * next_value(RANDOM, SCALAR_DOUBLE);
        before[i] = fabs(before[i]);
        squares[i] = fabs(squares[i]);
        ((double *)n[CARRIED_SQUARES].host)[i] = rand() % 9;
        ((double *)n[REACH].host)[i] = rand() % 9;
        odd[i] = rand() % 9 ? 0 : rand() % 9 ? 1 : FREIVALDS_WRONG;
    }
    for (int i = 0; i < ROWS; i++) {
        rows[i] = rand() % 9 ? 1.0 + i : (double)NAN;
        states[i] = rand() % 3;
        broken[i] = rand() % 3;
    }
    for (int i = 0; i < 2 * ROWS; i++)
        ((float *)n[PEAKS].host)[i] = (float)(rand() % 9) * 0x1p-18f;
    for (int c = 0; c < classes; c++)
        norms[c] = 1 + c;
    for (int j = 0; j < COLS; j++)
        ((int *)n[LEFT_OUT].host)[j] = rand() % 3;
    *(int *)n[FOUND].host = 5;
    for (int i = 0; i < PARTS; i++)
        to_device(&n[i]);
}

static struct judge judge_of(const struct numbers n[PARTS], int classes, int variant, bool gpu)
{
    void *at[PARTS];
    for (int i = 0; i < PARTS; i++)
        at[i] = gpu ? n[i].device : n[i].host;
    return (struct judge){
        .type = variant & 1 ? SCALAR_FLOAT : SCALAR_DOUBLE,
        .rows = ROWS,
        .cols = COLS,
        .classes = classes,
        .deal = variant & 1 ? PEAK_ROWS : 1,
        .y = at[Y],
        .z = at[Z],
        .before = at[BEFORE],
        .squares = at[SQUARES],
        .odd = at[ODD],
        .weights = at[WEIGHTS],
        .left_out = at[LEFT_OUT],
        .found = at[FOUND],
        .tag = variant & 2 ? 5 : 6,
        .row_squares = variant & 4 ? at[ROW_SQUARES] : NULL,
        .reach = at[REACH],
        .norms = at[NORMS],
        .peaks = variant & 1 ? at[PEAKS] : NULL,
        .peaks_ld = ROWS,
        .verdicts = at[VERDICT],
        .counts = (double *)at[VERDICT] + VERDICTS * STRIDE,
        .stride = STRIDE,
        .scale = variant & 1 ? 1 : 2.5,
        .steps = variant & 4 ? 3000 : 3,
        .rounded = variant & 8 ? 3000 : 3,
        .inputs = variant & 2 ? 1e-12 : 0,
        .roundings = 10,
        .running = variant & 8,
        .from_zero = variant & 16,
        .unknown_rows = variant & 32,
        .begin = variant & 16,
        .whole = variant & 64,
        .waiting = variant & 128,
        .carry = {at[CARRIED], at[CARRIED_SQUARES], variant & 16, variant & 8, variant & 32}};
}

static void test_judge(void **state)
{
    (void)state;
    for (int variant = 0; variant < 256; variant++) {
        int classes = 1 << variant % 7;
        struct numbers n[PARTS];
        judge_numbers(n, classes);
        draw_judged(n, classes);
        struct judge cpu = judge_of(n, classes, variant, false);
        struct judge gpu = judge_of(n, classes, variant, true);
        judge_cpu(&cpu, 2);
        ok(devices[0]->judge(devices[0], &gpu, &err));
        finish(devices[0], STREAM_COMPUTE);
        assert_close(&n[VERDICT], &n[VERDICT], 20);
        assert_close(&n[Y], &n[Y], 0);
        assert_close(&n[BEFORE], &n[BEFORE], 0);
        assert_close(&n[CARRIED], &n[CARRIED], 0);
        assert_close(&n[CARRIED_SQUARES], &n[CARRIED_SQUARES], 0);
        for (int i = 0; i < PARTS; i++)
            numbers_free(&n[i]);
    }
}

/* The sums are compared with sums in long double. */
static void test_formula(void **state)
{
    enum { HEIGHT = 21, WIDTH = 333, CLASSES = 4, DEAL = 2 };
    (void)state;
    for (int trans = 0; trans < 2; trans++) {
        int lines = trans ? WIDTH : HEIGHT, length = trans ? HEIGHT : WIDTH, left_out[WIDTH] = {0};
        double m[HEIGHT][WIDTH], w[WIDTH], sums[WIDTH * CLASSES], squares[WIDTH * CLASSES];
        int found = 0;
        for (int i = 0; i < HEIGHT * WIDTH; i++)
            (&m[0][0])[i] = next_value(RANDOM, SCALAR_DOUBLE);
        for (int j = 0; j < WIDTH; j++)
            w[j] = next_value(RANDOM, SCALAR_DOUBLE);
        struct sketch s = {.type = SCALAR_DOUBLE,
                           .trans = trans,
                           .rows = HEIGHT,
                           .cols = WIDTH,
                           .matrix = m,
                           .ld = WIDTH,
                           .classes = CLASSES,
                           .deal = DEAL,
                           .weights = w,
                           .left_out = left_out,
                           .sums = sums,
                           .squares = squares,
                           .found = &found};
        sketch_cpu(&s, 2);
        for (int i = 0; i < lines * CLASSES; i++) {
            long double sum = 0, square = 0;
            for (int j = 0; j < length; j++) {
                if (freivalds_class(j, DEAL, CLASSES) != i % CLASSES)
                    continue;
                long double x = trans ? m[j][i / CLASSES] : m[i / CLASSES][j];
                sum += x * w[j];
                square += x * x;
            }
            assert_true(fabsl(sum - sums[i]) <= 1e-14L * length);
            assert_true(fabsl(square - squares[i]) <= 1e-14L * length);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula), cmocka_unit_test(test_sketch),
        cmocka_unit_test(test_project), cmocka_unit_test(test_retire),
        cmocka_unit_test(test_norms),   cmocka_unit_test(test_judge),
    };
    if (!fixture_open())
        return EXIT_SKIPPED;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close();
    return failed;
}
