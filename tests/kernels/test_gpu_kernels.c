/* The GEMM kernels of the GPU, through the device interface (exit 77 without a GPU).
 *
 * Goal: every algorithm, type, transposition and ragged size satisfies the contract of gemm.h.
 * Method: each product is compared with the running sum of the contract (bit for bit, if the
 * algorithm promises it) and with a long double product (exactly for integers, within k eps |A||B|
 * otherwise).  A C that must not be read is NaN. */
#include "gpu_fixture.h"

struct sums {
    double from_zero, from_c;       /* the running sums of gemm.h */
    long double product, magnitude; /* of A B and of |A||B| */
};

/* A product and its reference result. */
struct trial {
    enum scalar type;
    enum data data;
    int64_t m, n, k;
    double *a, *b, *c; /* op(A), op(B) and C, column-major without gaps */
    struct sums *sums; /* for each element of C */
};

static double *values(int64_t count, enum data data, enum scalar type)
{
    double *v = malloc((size_t)(count + 1) * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < count; i++)
        v[i] = next_value(data, type);
    return v;
}

/* A trial without its reference result. */
static struct trial trial_data(enum scalar type, enum data data, const int64_t size[3])
{
    int64_t m = size[0], n = size[1], k = size[2];
    struct trial t = {.type = type, .data = data, .m = m, .n = n, .k = k};
    t.a = values(m * k, data, type);
    t.b = values(k * n, data, type);
    t.c = values(m * n, data, type);
    return t;
}

static struct trial trial_make(enum scalar type, enum data data, const int64_t size[3])
{
    int64_t m = size[0], n = size[1], k = size[2];
    struct trial t = trial_data(type, data, size);
    t.sums = calloc((size_t)(m * n + 1), sizeof *t.sums);
    assert_non_null(t.sums);
    if (data == SPECIAL && m * n * k > 0) {
        t.a[m / 2 + (k - 1) * m] = NAN;
        t.b[k / 2 + n / 2 * k] = INFINITY;
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            struct sums s = {0, t.c[i + j * m], 0, 0};
            for (int64_t p = 0; p < k; p++) {
                double a = t.a[i + p * m], b = t.b[p + j * k];
                s.from_zero = fused(type, a, b, s.from_zero);
                s.from_c = fused(type, a, b, s.from_c);
                s.product += (long double)a * b;
                s.magnitude += fabsl((long double)a * b);
            }
            t.sums[i + j * m] = s;
        }
    return t;
}

static void trial_free(struct trial *t)
{
    free(t->a);
    free(t->b);
    free(t->c);
    free(t->sums);
}

/* The arguments of one call and the matrices behind them. */
struct call {
    struct gemm g;
    struct array a, b, c;
};

static struct array operand(enum scalar type, const double *v, int64_t rows, int64_t cols,
                            bool trans)
{
    struct array m = matrix_make(type, trans ? cols : rows, trans ? rows : cols, NAN);
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++)
            raw_set(&m, trans ? index_of(&m, j, i) : index_of(&m, i, j), v[i + j * rows]);
    upload(&m);
    return m;
}

static struct call call_make(const struct trial *t, bool trans_a, bool trans_b)
{
    struct array a = operand(t->type, t->a, t->m, t->k, trans_a);
    struct array b = operand(t->type, t->b, t->k, t->n, trans_b);
    struct array c = matrix_make(t->type, t->m, t->n, guard);
    struct gemm g = gemm_of(&a, &b, &c, t->k);
    g.trans_a = trans_a;
    g.trans_b = trans_b;
    return (struct call){g, a, b, c};
}

static void call_free(struct call *call)
{
    matrix_free(&call->a);
    matrix_free(&call->b);
    matrix_free(&call->c);
}

static void set_c(struct call *call, const struct trial *t, double alpha, double beta)
{
    call->g.alpha = alpha;
    call->g.beta = beta;
    for (int64_t j = 0; j < t->n; j++)
        for (int64_t i = 0; i < t->m; i++)
            raw_set(&call->c, index_of(&call->c, i, j), beta == 0 ? NAN : t->c[i + j * t->m]);
    upload(&call->c);
}

static void check_c(struct call *call, const struct trial *t, const struct kernel *kernel)
{
    const double alpha = call->g.alpha, beta = call->g.beta;
    download(&call->c);
    check_guards(&call->c);
    for (int64_t at = 0; at < t->m * t->n; at++) {
        struct sums s = alpha == 0 ? (struct sums){0, 0, 0, 0} : t->sums[at];
        double c = beta == 0 ? 0 : t->c[at];
        double got = raw_get(&call->c, index_of(&call->c, at % t->m, at / t->m));
        double promised = alpha == 1 && beta == 1 ? s.from_c
                          : beta == 0             ? times(t->type, alpha, s.from_zero)
                                      : fused(t->type, alpha, s.from_zero, times(t->type, beta, c));
        long double exact = alpha * s.product + beta * (long double)c;
        long double size = fabs(alpha) * s.magnitude + fabsl(beta * (long double)c);
        long double steps = t->data == RANDOM ? (long double)(t->k + 3) : 0;
        long double bound = steps == 0 ? 0 : steps * epsilon(t->type) * size;
        if (!close_to(got, exact, bound) || (kernel->same_bits && !same_bits(got, promised)))
            fail_msg("%s/%d %s %c%c %lldx%lldx%lld alpha %g beta %g element %lld: %.17g, not %.17g",
                     kernel->name, call->g.shape, scalar_name(t->type), call->g.trans_a ? 'T' : 'N',
                     call->g.trans_b ? 'T' : 'N', (long long)t->m, (long long)t->n, (long long)t->k,
                     alpha, beta, (long long)at, got, promised);
    }
}

static void run(int algorithm, const struct gemm *g)
{
    ok(devices[algorithm]->gemm(devices[algorithm], g, &err));
    finish(devices[algorithm], STREAM_COMPUTE);
}

static const double scalars[][2] = {{1, 0}, {1, 1}, {2, 0}, {-1.5, 0.5}, {0, 2}, {0, 0}};
enum { SCALARS = sizeof scalars / sizeof *scalars, REPEATS = 200 };

/* Runs every algorithm with every block shape. */
static void try_all(const struct trial *t, bool trans_a, bool trans_b)
{
    struct call call = call_make(t, trans_a, trans_b);
    for (int algorithm = 0; algorithm < algorithms; algorithm++) {
        const int calls = devices[algorithm] ? SCALARS * kernel_at(algorithm)->shapes : 0;
        for (int i = 0; i < calls; i++) {
            if (!chosen())
                continue;
            call.g.shape = i / SCALARS;
            set_c(&call, t, scalars[i % SCALARS][0], scalars[i % SCALARS][1]);
            run(algorithm, &call.g);
            check_c(&call, t, kernel_at(algorithm));
        }
    }
    call_free(&call);
}

/* Runs all transpositions. */
static void try_size(const int64_t size[3], enum scalar type, enum data data)
{
    if (!affordable(size[0] * size[1] * size[2]))
        return;
    struct trial t = trial_make(type, data, size);
    for (int trans = 0; trans < 4; trans++)
        try_all(&t, trans & 1, trans & 2);
    trial_free(&t);
}

static void test_gemm(void **state)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},       {1, 1, 200},   {1, 200, 1},   {200, 1, 1},    {3, 1, 15},
        {1, 3, 17},      {3, 3, 3},     {15, 16, 17},  {16, 17, 15},   {17, 15, 16},
        {16, 16, 16},    {31, 32, 33},  {32, 33, 31},  {33, 31, 32},   {32, 32, 32},
        {31, 31, 16},    {33, 33, 48},  {63, 64, 65},  {64, 65, 63},   {65, 63, 64},
        {64, 64, 64},    {64, 64, 15},  {65, 65, 17},  {127, 129, 33}, {129, 127, 1},
        {128, 64, 16},   {64, 128, 32}, {127, 1, 129}, {1, 129, 127},  {129, 3, 65},
        {3, 127, 64},    {200, 31, 16}, {33, 200, 63}, {200, 65, 129}, {63, 129, 200},
        {129, 129, 127}, {200, 15, 3},  {17, 200, 31}, {200, 200, 65}, {65, 64, 0},
        {0, 33, 16},     {17, 0, 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
            for (int data = 0; data < DATA_COUNT; data++)
                try_size(sizes[i], (enum scalar)type, (enum data)data);
}

/* Every size around every edge of a tile, including primes, in m, n and k: with unaligned pointers
 * and leading dimensions, and with aligned ones, which kernels load in wider words. */
static void test_edges(void **state)
{
    static const int64_t others[][2] = {{5, 20}, {70, 33}};
    (void)state;
    for (int64_t edge = 4; edge <= 256; edge *= 2)
        for (int64_t at = edge - 1; at <= edge + 1; at++)
            for (int i = 0; i < 12; i++) {
                const int64_t other = others[i % 2][0], last = others[i % 2][1];
                const int64_t sizes[][3] = {
                    {at, other, last}, {other, at, last}, {last, other, at}};
                aligned = i / 6;
                for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
                    try_size(sizes[i / 2 % 3], (enum scalar)type, RANDOM);
            }
    static const int64_t primes[][3] = {
        {97, 101, 103}, {131, 67, 37}, {61, 257, 29}, {263, 59, 19}};
    for (int i = 0; i < 8; i++) {
        aligned = i % 2;
        for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
            try_size(primes[i / 2], (enum scalar)type, RANDOM);
    }
    aligned = false;
}

/* Calls over slabs of k continue the sum. */
static void test_slabs(void **state)
{
    static const int64_t size[3] = {70, 45, 200}, edges[] = {0, 16, 64, 96, 176, 200};
    (void)state;
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        for (int trans = 0; trans < 4; trans++)
            for (int algorithm = 0; algorithm < algorithms; algorithm++) {
                struct trial t = trial_make((enum scalar)type, RANDOM, size);
                struct call call = call_make(&t, trans & 1, trans & 2);
                set_c(&call, &t, 1, 1);
                for (int s = 0; s < 5 && devices[algorithm]; s++) {
                    struct gemm g = call.g;
                    g.a = device_at(&call.a, trans & 1 ? edges[s] : 0, trans & 1 ? 0 : edges[s]);
                    g.b = device_at(&call.b, trans & 2 ? 0 : edges[s], trans & 2 ? edges[s] : 0);
                    g.k = edges[s + 1] - edges[s];
                    run(algorithm, &g);
                }
                if (devices[algorithm])
                    check_c(&call, &t, kernel_at(algorithm));
                call_free(&call);
                trial_free(&t);
            }
}

/* A sum of -0 stays -0, even if a kernel's k step extends beyond k. */
static void test_negative_zero(void **state)
{
    static const int64_t size[3] = {40, 70, 19};
    (void)state;
    struct trial t = trial_make(SCALAR_DOUBLE, INTEGER, size);
    for (int64_t i = 0; i < 40 * 19; i++)
        t.a[i] = -0.0;
    for (int64_t i = 0; i < 19 * 70; i++)
        t.b[i] = 1;
    for (int64_t i = 0; i < 40 * 70; i++) {
        t.c[i] = -0.0;
        t.sums[i] = (struct sums){0.0, -0.0, 0, 0};
    }
    for (int trans = 0; trans < 4; trans++)
        try_all(&t, trans & 1, trans & 2);
    trial_free(&t);
}

/* All ones must give exactly k, which reveals a missing remainder or an extra tile at any size. */
static void test_ones(void **state)
{
    static const int64_t sizes[][3] = {
        {33, 17, 5000}, {128, 64, 20001}, {4200001, 1, 2}, {1, 4200001, 2}, {2100, 2100, 17}};
    (void)state;
    for (int i = 0; i < algorithms * (int)(sizeof sizes / sizeof *sizes); i++) {
        const int64_t *size = sizes[i / algorithms], m = size[0], n = size[1], k = size[2];
        int algorithm = i % algorithms;
        if (!devices[algorithm] || !affordable(m * n * k / 10))
            continue;
        struct array a = matrix_make(SCALAR_FLOAT, m, k, 1);
        struct array b = matrix_make(SCALAR_FLOAT, k, n, 1);
        struct array c = matrix_make(SCALAR_FLOAT, m, n, guard);
        upload(&a);
        upload(&b);
        upload(&c);
        struct gemm g = gemm_of(&a, &b, &c, k);
        g.beta = 0;
        run(algorithm, &g);
        download(&c);
        check_guards(&c);
        for (int64_t at = 0; at < m * n; at++)
            assert_true(raw_get(&c, index_of(&c, at % m, at / m)) == (double)k);
        matrix_free(&a);
        matrix_free(&b);
        matrix_free(&c);
    }
}

/* C := A B - C exactly turns zeros into the product, and the product into zeros: after an even
 * number of calls, a call with different bits is still visible. */
static void repeat(const struct trial *t, int trans, int algorithm)
{
    const int calls = emulated ? 2 : REPEATS;
    struct call call = call_make(t, trans & 1, trans & 2);
    set_c(&call, t, 1, -1);
    for (int i = 0; i < calls; i++)
        ok(devices[algorithm]->gemm(devices[algorithm], &call.g, &err));
    finish(devices[algorithm], STREAM_COMPUTE);
    download(&call.c);
    check_guards(&call.c);
    for (int64_t at = 0; at < t->m * t->n; at++)
        if (raw_get(&call.c, index_of(&call.c, at % t->m, at / t->m)) != 0)
            fail_msg("%s %s %d %lldx%lldx%lld: element %lld is not always the same",
                     kernel_at(algorithm)->name, scalar_name(t->type), trans, (long long)t->m,
                     (long long)t->n, (long long)t->k, (long long)at);
    call_free(&call);
}

/* The algorithms with asynchronous copies have no races, over many consecutive calls. */
static void test_repeats(void **state)
{
    static const int64_t sizes[][3] = {
        {129, 65, 35}, {517, 1300, 259}, {1111, 259, 777}, {2048, 1024, 512}};
    (void)state;
    for (int i = 0; i < 4 * 4; i++) {
        const int64_t *size = sizes[i / 4];
        if (!affordable(size[0] * size[1] * size[2]))
            continue;
        aligned = i & 1;
        struct trial t = trial_data(i & 2 ? SCALAR_FLOAT : SCALAR_DOUBLE, RANDOM, size);
        memset(t.c, 0, (size_t)(t.m * t.n) * sizeof *t.c);
        for (int algorithm = 0; algorithm < algorithms; algorithm++)
            for (int trans = 0; trans < 4 && devices[algorithm]; trans++)
                if (ids[algorithm] >= ALGORITHM_ASYNC && kernel_at(algorithm)->same_bits)
                    repeat(&t, trans, algorithm);
        trial_free(&t);
    }
    aligned = false;
}

/* Columns are so far apart that offsets exceed 2^31, in each operand in turn. */
static void far_call(const struct trial *t, void *far, int64_t far_ld, int role, int trans,
                     int algorithm)
{
    struct call call = call_make(t, trans & 1, trans & 2);
    struct array *m = role == 0 ? &call.a : role == 1 ? &call.b : &call.c;
    size_t size = scalar_size(t->type), width = (size_t)m->rows * size, cols = (size_t)m->cols;
    size_t near_pitch = (size_t)m->ld * size, far_pitch = (size_t)far_ld * size;

    set_c(&call, t, 1, 1);
    copy_rows(&(struct copy){far, device_at(m, 0, 0), far_pitch, near_pitch, width, cols},
              STREAM_IN);
    *(role == 0 ? &call.g.lda : role == 1 ? &call.g.ldb : &call.g.ldc) = far_ld;
    if (role == 2)
        call.g.c = far;
    else
        *(role == 0 ? &call.g.a : &call.g.b) = far;
    run(algorithm, &call.g);
    if (role == 2)
        copy_rows(&(struct copy){device_at(m, 0, 0), far, near_pitch, far_pitch, width, cols},
                  STREAM_OUT);
    check_c(&call, t, kernel_at(algorithm));
    call_free(&call);
}

static void far_type(enum scalar type, int64_t far_ld)
{
    static const int64_t size[3] = {18, 18, 18};
    const size_t bytes = (size_t)(17 * far_ld + 18) * scalar_size(type);
    void *far = NULL;
    if (devices[0]->info.memory_free < bytes + (1 << 28))
        skip();
    ok(devices[0]->alloc(devices[0], bytes, &far, &err));
    struct trial t = trial_make(type, INTEGER, size);
    for (int role = 0; role < 3; role++)
        for (int trans = 0; trans < 4; trans++)
            for (int algorithm = 0; algorithm < algorithms; algorithm++)
                if (devices[algorithm])
                    far_call(&t, far, far_ld, role, trans, algorithm);
    trial_free(&t);
    devices[0]->release(devices[0], far);
}

/* Doubles, in columns that TMA can address. */
static void test_far(void **state)
{
    (void)state;
    far_type(SCALAR_FLOAT, (1 << 27) + 1);
    aligned = true;
    far_type(SCALAR_DOUBLE, (1 << 27) + 2);
    aligned = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),  cmocka_unit_test(test_edges),
        cmocka_unit_test(test_slabs), cmocka_unit_test(test_negative_zero),
        cmocka_unit_test(test_ones),  cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_far),
    };
    if (!fixture_open())
        return EXIT_SKIPPED;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close();
    return failures != 0;
}
