/* The checksum of a matrix: the sums of blocks add up to it, and every flipped bit changes it. */
#include "scratch.h"

#include "checksum.h"
#include "scalar.h"

enum { ROWS = 23, COLS = 37 };

static uint64_t random_word(void)
{
    return (uint64_t)random_below(1 << 16) << 48 ^ (uint64_t)random_below(1 << 30) << 20 ^
           (uint64_t)random_below(1 << 20);
}

static void fill_matrix(char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word = (uint32_t)random_word();
        memcpy(data + i, &word, sizeof word);
    }
}

/* The checksum of a block of the matrix, packed. */
static uint64_t sum_block(const struct checksum *c, enum scalar type, const char *data,
                          const struct block *b)
{
    char packed[ROWS * COLS * sizeof(double)];
    size_t size = scalar_size(type), bytes = (size_t)b->cols * size;
    for (int64_t i = 0; i < b->rows; i++)
        memcpy(packed + (size_t)i * bytes, data + (size_t)((b->row + i) * COLS + b->col) * size,
               bytes);
    return checksum_block(c, b, packed);
}

/* The sum over random cuts of the block, recursively. */
static uint64_t sum_parts(const struct checksum *c, enum scalar type, const char *data,
                          struct block b)
{
    if (b.rows * b.cols <= 1 || random_below(8) == 0)
        return sum_block(c, type, data, &b);
    struct block first = b, rest = b;
    if (b.cols == 1 || (b.rows > 1 && random_below(2))) {
        first.rows = 1 + random_below(b.rows - 1);
        rest.row += first.rows;
        rest.rows -= first.rows;
    } else {
        first.cols = 1 + random_below(b.cols - 1);
        rest.col += first.cols;
        rest.cols -= first.cols;
    }
    return sum_parts(c, type, data, rest) + sum_parts(c, type, data, first);
}

static const struct block whole = {.rows = ROWS, .cols = COLS};

static void test_blocks_add_up(void **state)
{
    (void)state;
    char data[ROWS * COLS * sizeof(double)];
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++) {
        struct checksum c;
        struct error err = {0};
        succeed(checksum_open(&c, (enum scalar)type, COLS, &err), &err);
        for (int i = 0; i < 2000; i++) {
            fill_matrix(data, sizeof data);
            assert_true(sum_parts(&c, (enum scalar)type, data, whole) ==
                        checksum_block(&c, &whole, data));
        }
        checksum_close(&c);
    }
}

/* Flips every bit alone, and with random other bits in the same row and anywhere. */
static void test_flipped_bits_are_found(void **state)
{
    (void)state;
    char data[ROWS * COLS * sizeof(double)];
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++) {
        struct checksum c;
        struct error err = {0};
        int64_t row_bits = COLS * 8 * (int64_t)scalar_size((enum scalar)type);
        succeed(checksum_open(&c, (enum scalar)type, COLS, &err), &err);
        fill_matrix(data, sizeof data);
        uint64_t right = checksum_block(&c, &whole, data);
        for (int64_t bit = 0; bit < ROWS * row_bits; bit++) {
            int64_t near = bit / row_bits * row_bits + random_below(row_bits);
            int64_t others[] = {bit, near, random_below(ROWS * row_bits)};
            for (int i = 0; i < 3; i++) {
                data[bit / 8] ^= (char)(1 << bit % 8);
                if (others[i] != bit)
                    data[others[i] / 8] ^= (char)(1 << others[i] % 8);
                assert_true(checksum_block(&c, &whole, data) != right);
                data[bit / 8] ^= (char)(1 << bit % 8);
                if (others[i] != bit)
                    data[others[i] / 8] ^= (char)(1 << others[i] % 8);
            }
        }
        assert_true(checksum_block(&c, &whole, data) == right);
        checksum_close(&c);
    }
}

/* The sign is the highest bit; weaker sums miss sign flips in pairs. */
static void test_flipped_signs_and_exchanged_places_are_found(void **state)
{
    (void)state;
    double data[ROWS][COLS], other[ROWS][COLS];
    struct checksum c;
    struct error err = {0};
    succeed(checksum_open(&c, SCALAR_DOUBLE, COLS, &err), &err);
    fill_matrix((char *)data, sizeof data);
    uint64_t right = checksum_block(&c, &whole, data);
    for (int trial = 0; trial < 2000; trial++) {
        memcpy(other, data, sizeof data);
        int64_t i = random_below(ROWS), j = random_below(COLS), to_i = random_below(ROWS),
                to_j = random_below(COLS);
        switch (trial % 3) {
        case 0: /* exchange two elements */
            other[i][j] = data[to_i][to_j];
            other[to_i][to_j] = data[i][j];
            break;
        case 1: /* exchange two rows */
            memcpy(other[i], data[to_i], sizeof data[i]);
            memcpy(other[to_i], data[i], sizeof data[i]);
            break;
        default: /* flip the signs of a row, of a column or of all */
            for (int64_t at = 0; at < ROWS * COLS; at++)
                if (trial % 2 ? at / COLS == i : to_i == 0 || at % COLS == j)
                    ((uint64_t *)other)[at] ^= UINT64_C(1) << 63;
        }
        if (memcmp(other, data, sizeof data) != 0)
            assert_true(checksum_block(&c, &whole, other) != right);
    }
    checksum_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_add_up),
        cmocka_unit_test(test_flipped_bits_are_found),
        cmocka_unit_test(test_flipped_signs_and_exchanged_places_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
