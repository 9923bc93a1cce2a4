/* The full check as a function: correct files pass, and every flipped bit of C is found. */
#include "store_fixture.h"

#include "comm_fixture.h"

#include <math.h>

#include "checksum.h"
#include "verify.h"

enum { M = 19, N = 23, K = 29, FLIPS = 1000 };

static const struct machine machine = {.threads = 2, .host_memory = 64 << 20};

static struct source make_matrix(const char *file, const double *data, int64_t rows, int64_t cols)
{
    struct error err = {0};
    struct store *store;
    struct source source = matrix(file, rows, cols, SCALAR_DOUBLE);
    struct block all = {.rows = rows, .cols = cols};
    succeed(matfile_create(&source, true, &contiguous, NULL, &err), &err);
    succeed(store_open(&source, SCALAR_DOUBLE, STORE_WRITE, STORE_BUFFERED, &store, &err), &err);
    succeed(store_write(store, &all, data, &err), &err);
    succeed(store_sync(store, &err), &err);
    store_close(store);
    return source;
}

static void flip(const struct source *source, int64_t bit)
{
    char byte;
    off_t at = (off_t)source->offset + bit / 8;
    int file = open(source->file, O_RDWR);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= (char)(1 << bit % 8);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static struct source sources[OPERAND_COUNT]; /* of A and B */

/* Writes C = A B of random numbers to files, with the checksum that the check expects. */
static void make_product(struct problem *p, struct source *c, uint64_t *sum)
{
    double a[M][K], b[K][N], product[M][N];
    struct error err = {0};
    struct checksum table;
    struct block all = {.rows = M, .cols = N};
    for (int i = 0; i < M * K; i++)
        (&a[0][0])[i] = (double)random_below(1 << 30) / (1 << 29) - 1;
    for (int i = 0; i < K * N; i++)
        (&b[0][0])[i] = (double)random_below(1 << 30) / (1 << 29) - 1;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            product[i][j] = 0;
            for (int l = 0; l < K; l++)
                product[i][j] += a[i][l] * b[l][j];
        }
    *p = (struct problem){.m = M, .n = N, .k = K, .alpha = 1};
    problem_set_type(p, SCALAR_DOUBLE);
    sources[OPERAND_A] = make_matrix("a.h5", &a[0][0], M, K);
    sources[OPERAND_B] = make_matrix("b.h5", &b[0][0], K, N);
    p->sources = sources;
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++)
        p->matrix[operand] = sources[operand].matrix;
    *c = make_matrix("c.h5", &product[0][0], M, N);
    succeed(checksum_open(&table, SCALAR_DOUBLE, N, &err), &err);
    *sum = checksum_block(&table, &all, product);
    checksum_close(&table);
}

static void test_every_flip_is_caught(void **state)
{
    (void)state;
    struct problem p;
    struct source c;
    uint64_t sum;
    make_product(&p, &c, &sum);
    for (int i = 0; i <= FLIPS; i++) {
        struct verify v = {.has_expected = true, .expected = sum};
        struct error err = {0};
        int64_t bit = random_below(M * N * 64);
        if (i > 0)
            flip(&c, bit);
        int code = verify_files(&p, &c, &machine, &comm, &v, &err);
        if (i > 0) {
            assert_int_equal(code, EXIT_VERIFY);
            complained(&err, EXIT_VERIFY, "differs from what was written");
            flip(&c, bit);
        } else {
            succeed(code, &err);
            assert_true(findings_pass(&v.findings) && v.findings.ratio < 1 && v.checksum == sum);
        }
    }
}

/* Without a checksum, the residual detects large errors. */
static void test_residual_alone(void **state)
{
    (void)state;
    struct problem p;
    struct source c, *const matrices[] = {&c, &sources[OPERAND_A], &sources[OPERAND_B]};
    uint64_t sum;
    unlink("a.h5");
    unlink("b.h5");
    unlink("c.h5");
    make_product(&p, &c, &sum);
    for (int i = 0; i < 300; i++) {
        struct verify v = {0};
        struct error err = {0};
        const struct source *victim = matrices[i % 3];
        int64_t element = random_below(victim->matrix.rows * victim->matrix.cols);
        int64_t bit = 64 * element + (i / 3 % 2 ? 63 : 50);
        flip(victim, bit);
        assert_int_equal(verify_files(&p, &c, &machine, &comm, &v, &err), EXIT_VERIFY);
        complained(&err, EXIT_VERIFY, "the bound of rounding errors");
        flip(victim, bit);
    }
    p.alpha = 1.0000001;
    struct verify v = {0};
    struct error err = {0};
    assert_int_equal(verify_files(&p, &c, &machine, &comm, &v, &err), EXIT_VERIFY);
}

static void test_too_little_memory(void **state)
{
    (void)state;
    struct problem p = {.m = 1 << 20, .n = 1, .k = 1, .alpha = 1};
    problem_set_type(&p, SCALAR_DOUBLE);
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++)
        p.matrix[operand] = (struct matrix){.elements = SCALAR_DOUBLE, .by_offset = true};
    struct machine small = {.threads = 4, .host_memory = 64 << 20};
    struct error err = {0};
    assert_int_equal(verify_fits(&p, &small, &err), EXIT_RESOURCES);
    complained(&err, EXIT_RESOURCES, "needs at least --host-memory");
    small.host_memory = 136 << 20;
    err = (struct error){0};
    succeed(verify_fits(&p, &small, &err), &err);
}

/* Chunks of integers are decoded as what they are: two a thread. */
static void test_memory_for_chunks_of_integers(void **state)
{
    (void)state;
    const struct matrix matrix = {.rows = 8192,
                                  .cols = 8192,
                                  .elements = SCALAR_INT8,
                                  .integers = true,
                                  .element_bytes = 1,
                                  .by_chunks = true,
                                  .chunk_rows = 4096,
                                  .chunk_cols = 4096,
                                  .chunk_bytes = 16 << 20,
                                  .pipeline.count = 1};
    struct problem p = {.type = SCALAR_DOUBLE,
                        .sums = SCALAR_INT64,
                        .m = 8192,
                        .n = 8192,
                        .k = 8192,
                        .alpha = 1,
                        .matrix = {matrix, matrix},
                        .held = {SCALAR_INT8, SCALAR_INT8, SCALAR_INT64}};
    struct machine small = {.threads = 4, .host_memory = 128 << 20};
    struct error err = {0};
    assert_int_equal(verify_fits(&p, &small, &err), EXIT_RESOURCES);
    small.host_memory = 160 << 20;
    err = (struct error){0};
    succeed(verify_fits(&p, &small, &err), &err);
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
        cmocka_unit_test(test_every_flip_is_caught),
        cmocka_unit_test(test_residual_alone),
        cmocka_unit_test(test_too_little_memory),
        cmocka_unit_test(test_memory_for_chunks_of_integers),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
