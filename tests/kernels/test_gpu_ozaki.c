/* Products in residues on the GPU (ozaki.h), through the device interface (exit 77 without a GPU).
 *
 * Goal: every kernel for products of bytes, with every type, transposition, ragged size and
 * workspace, gives the bits of the CPU's product of large integers, which tests/unit/test_ozaki.c
 * compares with exact products.  Method: the same operands on both, also such as stand for complex
 * ones. */
#include "gpu_fixture.h"
#include "quantity.h"

enum { THREADS = 2, ALIGNMENT = 256 };
static const int64_t emulated_steps = 80000000;

static void *host_workspace;

/* The sizes and operands of a trial; the gaps of B and C are guarded. */
struct product {
    struct gemm g; /* on the device */
    struct array a, b, c;
    bool complex;
};

static void fill(struct array *m, int64_t seed, bool special)
{
    for (int64_t j = 0; j < m->cols; j++)
        for (int64_t i = 0; i < m->rows; i++) {
            const double x = next_value(RANDOM, m->type);
            raw_set(m, index_of(m, i, j), x * exp2((double)((i * 7 + j * 5 + seed) % 23)));
        }
    if (special && m->rows * m->cols > 0) {
        raw_set(m, index_of(m, m->rows / 2, m->cols / 3), INFINITY);
        raw_set(m, index_of(m, m->rows / 3, m->cols / 2), NAN);
        raw_set(m, index_of(m, 0, 0), 0x1p-140);
    }
}

static size_t place_in_a(const struct product *p, int64_t i, int64_t h)
{
    return p->g.trans_a ? index_of(&p->a, h, i) : index_of(&p->a, i, h);
}

/* Makes op(A) have each complex number twice, as ozaki.h says. */
static void expand(struct product *p)
{
    for (int64_t i = 0; i < p->g.m; i += 2)
        for (int64_t h = 0; h < p->g.k; h += 2) {
            const double re = raw_get(&p->a, place_in_a(p, i, h));
            const double im = raw_get(&p->a, place_in_a(p, i + 1, h));
            raw_set(&p->a, place_in_a(p, i, h + 1), -im);
            raw_set(&p->a, place_in_a(p, i + 1, h + 1), re);
        }
}

/* m and k of complex operands are rounded up to pairs. */
static struct product product_make(enum scalar type, bool complex, int trans, const int64_t size[3],
                                   bool special)
{
    const bool trans_a = trans & 1, trans_b = trans & 2;
    const int64_t pair = complex ? 2 : 1;
    const int64_t m = round_up(size[0], pair), n = size[1], k = round_up(size[2], pair);
    struct product p = {.a = matrix_make(type, trans_a ? k : m, trans_a ? m : k, NAN),
                        .b = matrix_make(type, trans_b ? n : k, trans_b ? k : n, NAN),
                        .c = matrix_make(type, m, n, guard),
                        .complex = complex};
    fill(&p.a, 1, special);
    fill(&p.b, 2, special);
    p.g = gemm_of(&p.a, &p.b, &p.c, k);
    p.g.trans_a = trans_a;
    p.g.trans_b = trans_b;
    p.g.beta = 0;
    if (complex)
        expand(&p);
    upload(&p.a);
    upload(&p.b);
    return p;
}

static void product_free(struct product *p)
{
    matrix_free(&p->a);
    matrix_free(&p->b);
    matrix_free(&p->c);
}

static void *host_at(const struct array *m)
{
    return (char *)m->host + index_of(m, 0, 0) * scalar_size(m->type);
}

/* The same product on the CPU, into `c`. */
static void expect(const struct product *p, int moduli, struct array *c)
{
    struct residues residues;
    struct ozaki ozaki = {
        .residues = &residues, .workspace = host_workspace, .bytes = ozaki_cpu_workspace()};
    struct gemm g = p->g;
    residues_make(moduli, p->complex, &residues);
    g.a = host_at(&p->a);
    g.b = host_at(&p->b);
    g.c = host_at(c);
    ozaki_cpu(&g, &ozaki, THREADS);
}

static void fill_c(struct array *c)
{
    for (int64_t j = 0; j < c->cols; j++)
        for (int64_t i = 0; i < c->rows; i++)
            raw_set(c, index_of(c, i, j), (double)(i - j) / 3);
    upload(c);
}

static void compare(const struct product *p, const struct array *expected, const char *what)
{
    for (int64_t j = 0; j < p->c.cols; j++)
        for (int64_t i = 0; i < p->c.rows; i++) {
            const double found = raw_get(&p->c, index_of(&p->c, i, j));
            const double right = raw_get(expected, index_of(expected, i, j));
            if (!same_bits(found, right))
                fail_msg("%s, %s%s %d%d %lldx%lldx%lld: C[%lld,%lld] is %a instead of %a", what,
                         p->complex ? "complex " : "", scalar_name(p->g.type), p->g.trans_a,
                         p->g.trans_b, (long long)p->g.m, (long long)p->g.n, (long long)p->g.k,
                         (long long)i, (long long)j, found, right);
        }
    check_guards(&p->c);
}

/* Copies the counter of wrong rows from or to device memory. */
static void copy_counter(unsigned long long *to, const unsigned long long *from, enum stream stream)
{
    copy_rows(&(struct copy){to, from, sizeof *to, sizeof *to, sizeof *to, 1}, stream);
}

/* Multiplies the columns of C in two strips.  The second strip reuses op(A) in the workspace if it
 * fits. */
static void multiply_strips(const struct gemm *whole, struct ozaki *ozaki)
{
    struct device *dev = devices[0];
    const int64_t first = (whole->n + 1) / 2, size = (int64_t)scalar_size(whole->type);
    struct gemm strip = *whole;
    strip.n = first;
    ok(dev->ozaki(dev, &strip, ozaki, &err));
    strip.n = whole->n - first;
    strip.b = (const char *)whole->b + first * (whole->trans_b ? 1 : whole->ldb) * size;
    strip.c = (char *)whole->c + first * whole->ldc * size;
    ozaki->same_a = true;
    if (strip.n > 0)
        ok(dev->ozaki(dev, &strip, ozaki, &err));
}

/* Uses a workspace for parts of rows x cols, with the check if that is affordable. */
static void try_kernel(struct product *p, const struct array *expected, int moduli,
                       const struct kernel *kernel, int64_t rows, int64_t cols)
{
    struct device *dev = devices[0];
    struct residues residues;
    struct ozaki ozaki = {.residues = &residues, .kernel = kernel, .cols = p->g.n};
    char what[64];
    residues_make(moduli, p->complex, &residues);
    ozaki.bytes = ozaki_workspace(moduli, p->complex, rows, cols, min_i64(p->g.k, OZAKI_BLOCK));
    ok(dev->alloc(dev, ozaki.bytes, &ozaki.workspace, &err));
    fill_c(&p->c);
    unsigned long long wrong = 0;
    if (!emulated || p->g.k < 50) {
        void *counter = NULL;
        ok(dev->alloc(dev, sizeof wrong, &counter, &err));
        ozaki.wrong = counter;
        copy_counter(ozaki.wrong, &wrong, STREAM_IN);
    }
    multiply_strips(&p->g, &ozaki);
    finish(dev, STREAM_COMPUTE);
    if (ozaki.wrong) {
        copy_counter(&wrong, ozaki.wrong, STREAM_OUT);
        dev->release(dev, ozaki.wrong);
    }
    assert_int_equal(wrong, 0);
    download(&p->c);
    snprintf(what, sizeof what, "%s, %d moduli, parts of %d x %d",
             kernel ? kernel->name : "the fastest kernel", moduli, (int)rows, (int)cols);
    compare(p, expected, what);
    dev->release(dev, ozaki.workspace);
}

/* Rounds up to whole tiles, which kernels multiply. */
static int64_t whole(int64_t count)
{
    return round_up(count, OZAKI_TILE);
}

static void try_product(enum scalar type, bool complex, int trans, const int64_t size[3],
                        int moduli, bool special, bool small)
{
    struct product p = product_make(type, complex, trans, size, special);
    struct array expected = matrix_make(type, p.g.m, p.g.n, guard);
    p.g.beta = trans < 2;
    fill_c(&expected);
    expect(&p, moduli, &expected);
    const int64_t steps = whole(size[0]) * whole(size[1]) * whole(size[2]) * moduli;
    const bool tiny = size[0] * size[1] * size[2] < 200;
    const int64_t rows = small ? 1 : p.g.m, cols = small ? 1 : p.g.n;
    for (int id = 0; id < ALGORITHM_COUNT; id++)
        if (is_of_bytes(kernels[id]) &&
            (!emulated || (steps < emulated_steps && (trans == 0 || tiny || chosen()))))
            try_kernel(&p, &expected, moduli, kernels[id], rows, cols);
    if (!emulated)
        try_kernel(&p, &expected, moduli, NULL, rows, cols);
    matrix_free(&expected);
    product_free(&p);
}

static void test_bits(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1},       {5, 3, 7},        {4, 6, 0},
                                       {130, 2, 33},    {3, 129, 65},     {127, 128, 64},
                                       {128, 129, 200}, {2, 3, 8192},     {4, 5, 8200},
                                       {260, 140, 20},  {1000, 700, 900}, {520, 300, 4096}};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
            for (int trans = 0; trans < 4; trans++) {
                const int moduli = (int[]){7, 14, 18, 10}[(s + (size_t)trans) % 4];
                if (!emulated || sizes[s][0] < 500)
                    try_product((enum scalar)type, false, trans, sizes[s], moduli, false, false);
            }
}

/* All transpositions and numbers of moduli. */
static void test_bits_of_complex_products(void **state)
{
    static const int64_t small[3] = {6, 3, 10};
    static const int64_t sizes[][3] = {{2, 1, 2},        {4, 6, 0},       {258, 2, 34},
                                       {6, 129, 258},    {256, 3, 70},    {2, 3, 8192},
                                       {260, 140, 20},   {512, 130, 300}, {4, 5, 8200},
                                       {1000, 700, 900}, {520, 300, 4096}};
    (void)state;
    for (int moduli = RESIDUES_LEAST; moduli <= RESIDUES_MOST; moduli++)
        try_product((enum scalar)(moduli % 2), true, moduli / 2 % 4, small, moduli, false, false);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
            for (int trans = 0; trans < 4; trans++) {
                const int moduli = (int[]){8, 15, 18, 6}[(s + (size_t)trans) % 4];
                if (!emulated || sizes[s][0] < 500)
                    try_product((enum scalar)type, true, trans, sizes[s], moduli, false, false);
            }
}

static void test_parts(void **state)
{
    static const int64_t sizes[][3] = {{129, 257, 20}, {257, 129, 8300}};
    (void)state;
    for (int s = 0; s < 2; s++)
        for (int trans = 0; trans < 4; trans++)
            try_product(SCALAR_DOUBLE, false, trans, sizes[s], emulated ? 6 : 14, true, true);
}

static void test_parts_of_complex_products(void **state)
{
    static const int64_t sizes[][3] = {{258, 257, 20}, {514, 129, 8300}};
    (void)state;
    for (int s = 0; s < 2; s++)
        for (int trans = 0; trans < 4; trans++)
            try_product(SCALAR_DOUBLE, true, trans, sizes[s], emulated ? 6 : 15, true, true);
}

/* This test also runs in the emulation. */
static void test_two_blocks(void **state)
{
    static const int64_t size[3] = {5, 3, OZAKI_BLOCK + 40};
    (void)state;
    for (int complex = 0; complex <= 1; complex++) {
        struct product p = product_make(SCALAR_DOUBLE, complex, 1, size, true);
        struct array expected = matrix_make(SCALAR_DOUBLE, p.g.m, p.g.n, guard);
        expect(&p, RESIDUES_LEAST, &expected);
        try_kernel(&p, &expected, RESIDUES_LEAST, NULL, p.g.m, p.g.n);
        matrix_free(&expected);
        product_free(&p);
    }
}

static void test_what_is_not_finite(void **state)
{
    static const int64_t size[3] = {33, 20, 50};
    (void)state;
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        for (int trans = 0; trans < 8; trans++)
            try_product((enum scalar)type, trans > 3, trans % 4, size, 14, true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),       cmocka_unit_test(test_bits_of_complex_products),
        cmocka_unit_test(test_parts),      cmocka_unit_test(test_parts_of_complex_products),
        cmocka_unit_test(test_two_blocks), cmocka_unit_test(test_what_is_not_finite),
    };
    if (!fixture_open())
        return EXIT_SKIPPED;
    host_workspace =
        aligned_alloc(ALIGNMENT, (size_t)round_up((int64_t)ozaki_cpu_workspace(), ALIGNMENT));
    assert_non_null(host_workspace);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    free(host_workspace);
    fixture_close();
    return failures != 0;
}
