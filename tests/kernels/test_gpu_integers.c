/* Products of integers on the GPU and the CPU (integers.h), through the device interface (exit 77
 * without a GPU).
 *
 * Goal: every kernel, with every pair of types, transposition, ragged size, workspace and
 * alignment, gives the sums modulo 2^64, also of the extreme values of the types, and of several
 * blocks of k.  Method: sums in 64 bits. */
#include "gpu_fixture.h"
#include "quantity.h"

enum { THREADS = 2, WORK = 16000000, CPU_BYTES = 256 << 10, TYPES = 6 };

/* The operands of a trial, on the device and here. */
struct integer_product {
    struct gemm g; /* on the device */
    struct array a, b, c;
};

static int64_t get(const struct array *m, int64_t i, int64_t j)
{
    const size_t at = index_of(m, i, j);
    switch (m->type) {
    case SCALAR_INT8: return ((const int8_t *)m->host)[at];
    case SCALAR_UINT8: return ((const uint8_t *)m->host)[at];
    case SCALAR_INT16: return ((const int16_t *)m->host)[at];
    case SCALAR_UINT16: return ((const uint16_t *)m->host)[at];
    case SCALAR_INT32: return ((const int32_t *)m->host)[at];
    default: return ((const uint32_t *)m->host)[at];
    }
}

/* Any integers of the type or, `extreme`, the least and the largest. */
static void fill(struct array *m, bool extreme)
{
    const int bits = 8 * (int)scalar_size(m->type);
    const int64_t least = scalar_is_signed(m->type) ? -(INT64_C(1) << (bits - 1)) : 0;
    const int64_t largest = least + (INT64_C(1) << bits) - 1;
    for (int64_t j = 0; j < m->cols; j++)
        for (int64_t i = 0; i < m->rows; i++) {
            const uint64_t drawn = (uint64_t)rand() << 16 ^ (uint64_t)rand();
            const int64_t any = least + (int64_t)(drawn % (UINT64_C(1) << bits));
            const int64_t value = !extreme ? any : rand() % 8 ? largest : least;
            scalar_put_integer(m->type, value, m->host, (int64_t)index_of(m, i, j));
        }
    upload(m);
}

static struct integer_product product_make(enum scalar a, enum scalar b, int trans,
                                           const int64_t size[3], bool extreme)
{
    const bool trans_a = trans & 1, trans_b = trans & 2;
    const int64_t m = size[0], n = size[1], k = size[2];
    struct integer_product p = {.a = matrix_make(a, trans_a ? k : m, trans_a ? m : k, 99),
                                .b = matrix_make(b, trans_b ? n : k, trans_b ? k : n, 99),
                                .c = matrix_make(SCALAR_INT64, m, n, guard)};
    fill(&p.a, extreme);
    fill(&p.b, extreme);
    p.g = gemm_of(&p.a, &p.b, &p.c, k);
    p.g.trans_a = trans_a;
    p.g.trans_b = trans_b;
    p.g.beta = trans < 2;
    return p;
}

static void product_free(struct integer_product *p)
{
    matrix_free(&p->a);
    matrix_free(&p->b);
    matrix_free(&p->c);
}

static void fill_c(struct array *c)
{
    for (int64_t j = 0; j < c->cols; j++)
        for (int64_t i = 0; i < c->rows; i++)
            raw_set(c, index_of(c, i, j), (double)(1000 * i - j));
    upload(c);
}

static void compare(const struct integer_product *p, const char *what)
{
    const struct gemm *g = &p->g;
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++) {
            const int64_t found = ((const int64_t *)p->c.host)[index_of(&p->c, i, j)];
            uint64_t sum = g->beta == 0 ? 0 : (uint64_t)(1000 * i - j);
            for (int64_t h = 0; h < g->k; h++)
                sum += (uint64_t)(g->trans_a ? get(&p->a, h, i) : get(&p->a, i, h)) *
                       (uint64_t)(g->trans_b ? get(&p->b, j, h) : get(&p->b, h, j));
            if (found != (int64_t)sum)
                fail_msg("%s, %s x %s %d%d %lldx%lldx%lld: C[%lld,%lld] is %lld instead of %lld",
                         what, scalar_name(p->a.type), scalar_name(p->b.type), g->trans_a,
                         g->trans_b, (long long)g->m, (long long)g->n, (long long)g->k,
                         (long long)i, (long long)j, (long long)found, (long long)sum);
        }
    check_guards(&p->c);
}

static void try_cpu(struct integer_product *p, struct integers how)
{
    struct gemm g = p->g;
    how.bytes = integers_cpu_workspace(how.a, how.b, CPU_BYTES);
    how.workspace = aligned_alloc(64, how.bytes);
    assert_non_null(how.workspace);
    g.a = (char *)p->a.host + index_of(&p->a, 0, 0) * scalar_size(p->a.type);
    g.b = (char *)p->b.host + index_of(&p->b, 0, 0) * scalar_size(p->b.type);
    g.c = (char *)p->c.host + index_of(&p->c, 0, 0) * sizeof(int64_t);
    fill_c(&p->c);
    integers_cpu(&g, &how, THREADS);
    compare(p, "CPU");
    free(how.workspace);
}

/* Some columns of C, and some rows, as in a triangle: the second strip has more rows, of which the
 * first ones are in the workspace. */
static void multiply_strips(const struct gemm *whole, struct integers *how)
{
    struct device *dev = devices[0];
    const int64_t cols = (whole->n + 1) / 2, rows = (whole->m + 1) / 2;
    const int64_t size_b = (int64_t)scalar_size(how->b);
    struct gemm strip = *whole;
    strip.n = cols;
    strip.m = rows;
    ok(dev->integers(dev, &strip, how, &err));
    struct gemm rest = *whole;
    rest.n = whole->n - cols;
    rest.b = (const char *)whole->b + cols * (whole->trans_b ? 1 : whole->ldb) * size_b;
    rest.c = (int64_t *)whole->c + cols * whole->ldc;
    how->held = rows;
    ok(dev->integers(dev, &rest, how, &err));
    how->held = 0; /* what is left of the first columns */
    strip.a = (const char *)whole->a +
              rows * (whole->trans_a ? whole->lda : 1) * (int64_t)scalar_size(how->a);
    strip.c = (int64_t *)whole->c + rows;
    strip.m = whole->m - rows;
    if (strip.m > 0)
        ok(dev->integers(dev, &strip, how, &err));
}

/* Uses a workspace for parts of rows x cols. */
static void try_kernel(struct integer_product *p, const struct kernel *kernel, int64_t rows,
                       int64_t cols)
{
    struct device *dev = devices[0];
    struct integers how = {.a = p->a.type, .b = p->b.type, .kernel = kernel, .cols = p->g.n};
    char what[64];
    const bool blocks = rows == 1; /* of k, one by one */
    const int64_t steps = blocks && p->g.k > INTEGERS_BLOCK ? INTEGERS_BLOCK : p->g.k;
    how.bytes = integers_workspace(how.a, how.b, rows, cols, steps) + 256;
    ok(dev->alloc(dev, how.bytes, &how.workspace, &err));
    fill_c(&p->c);
    multiply_strips(&p->g, &how);
    finish(dev, STREAM_COMPUTE);
    download(&p->c);
    snprintf(what, sizeof what, "%s, parts of %d x %d",
             kernel ? kernel->name : "the fastest kernel", (int)rows, (int)cols);
    compare(p, what);
    dev->release(dev, how.workspace);
}

static void try_product(enum scalar a, enum scalar b, int trans, const int64_t size[3],
                        bool extreme, bool small)
{
    struct integer_product p = product_make(a, b, trans, size, extreme);
    const int64_t work = round_up(size[0], OZAKI_TILE) * round_up(size[1], OZAKI_TILE) *
                         round_up(size[2], OZAKI_TILE) * integers_planes(a) * integers_planes(b);
    const int64_t rows = small ? 1 : size[0], cols = small ? 1 : size[1];
    try_cpu(&p, (struct integers){.a = a, .b = b});
    for (int id = 0; id < ALGORITHM_COUNT; id++)
        if (is_of_bytes(kernels[id]) && (!emulated || work < WORK || chosen()))
            try_kernel(&p, kernels[id], rows, cols);
    if (!emulated)
        try_kernel(&p, NULL, rows, cols);
    product_free(&p);
}

static void try_types(const int64_t size[3], bool extreme, bool small)
{
    for (int pair = 0; pair < TYPES * TYPES; pair++)
        for (int trans = 0; trans < 4; trans++) {
            aligned = !aligned;
            if (!emulated || size[0] * size[1] * size[2] < 1000 || chosen())
                try_product((enum scalar)(SCALAR_INT8 + pair % TYPES),
                            (enum scalar)(SCALAR_INT8 + pair / TYPES), trans, size, extreme, small);
        }
    aligned = false;
}

static void test_exact(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1},       {5, 3, 7},     {4, 6, 0},
                                       {130, 2, 33},    {3, 129, 65},  {127, 60, 64},
                                       {128, 129, 200}, {33, 300, 140}};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        try_types(sizes[s], false, false);
}

static void test_extreme_values(void **state)
{
    static const int64_t size[] = {17, 9, 333};
    (void)state;
    try_types(size, true, false);
}

static void test_parts(void **state)
{
    static const int64_t size[] = {257, 130, 20};
    (void)state;
    try_types(size, false, true);
}

/* Sums that 32 bits do not hold. */
static void test_blocks(void **state)
{
    static const int64_t size[] = {3, 2, 2 * INTEGERS_BLOCK + 40};
    (void)state;
    try_product(SCALAR_UINT8, SCALAR_UINT8, 1, size, true, false);
    try_product(SCALAR_UINT8, SCALAR_INT16, 1, size, true, true);
    try_product(SCALAR_INT8, SCALAR_UINT16, 2, size, true, false);
    try_product(SCALAR_INT32, SCALAR_UINT32, 2, size, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_extreme_values),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_blocks),
    };
    if (!fixture_open())
        return EXIT_SKIPPED;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close();
    return failures != 0;
}
