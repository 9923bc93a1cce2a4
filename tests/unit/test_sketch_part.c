/* The sketch of a matrix in parts, also of a symmetric one by its lower half, is the whole one. */
#include "scratch.h"

#include <math.h>

#include "sketch_part.h"

enum { SIDE = 37, CLASSES = 4, SUMS = SIDE * CLASSES, NUMBERS = 2 * SIDE * SIDE };

static const struct lower_half real = {SIDE, 1, false};

/* Sums, squares and odd of a matrix. */
struct sums {
    double sums[SUMS], squares[SUMS], odd[SUMS];
};

static double weights[2 * SIDE];
static int left_out[2 * SIDE], found;

static struct sketch sketch_into(struct sums *to, int deal)
{
    memset(to, 0, sizeof *to);
    return (struct sketch){.type = SCALAR_DOUBLE,
                           .classes = CLASSES,
                           .deal = deal,
                           .weights = weights,
                           .left_out = left_out,
                           .sums = to->sums,
                           .squares = to->squares,
                           .odd = to->odd,
                           .found = &found,
                           .tag = 1};
}

/* All parts of a matrix; a whole symmetric one, or what of it is below the diagonal. */
static void sketch_all(struct sums *to, const double *matrix, const struct lower_half *half,
                       const struct block_cut *cut, bool lower)
{
    const struct block all = {0, 0, SIDE, half->cols};
    const struct sketch sketch = sketch_into(to, (int)half->width);
    for (int64_t i = 0; i < block_cut_parts(&all, cut); i++) {
        struct block part = block_cut_part(&all, cut, i);
        double memory[NUMBERS];
        for (int64_t r = 0; r < part.rows; r++)
            for (int64_t c = 0; c < part.cols; c++) {
                bool above = (part.col + c) / half->width > part.row + r;
                memory[r * part.cols + c] =
                    lower && above ? -77 : matrix[(part.row + r) * half->cols + part.col + c];
            }
        if (lower)
            sketch_lower_part(&sketch, half, &part, memory, 2);
        else
            sketch_part(&sketch, &part, memory, 2);
    }
}

static void assert_alike(const double *got, const double *expected)
{
    for (int i = 0; i < SUMS; i++)
        assert_true(fabs(got[i] - expected[i]) <= 1e-12 * (1 + fabs(expected[i])));
}

/* NaN in row and column 5, whose column has no weight, and in element (9, 3). */
static void make_matrix(double *matrix, bool odd)
{
    for (int64_t i = 0; i < SIDE; i++) {
        weights[i] = odd && i == 5 ? 0 : (double)random_below(1000) / 1000 - 0.5;
        left_out[i] = odd && i == 5 ? LEFT_OUT_NOT_FINITE : LEFT_OUT_NOT;
        for (int64_t j = 0; j <= i; j++) {
            bool is_odd = odd && (i == 5 || j == 5 || (i == 9 && j == 3));
            matrix[i * SIDE + j] = matrix[j * SIDE + i] =
                is_odd ? NAN : (double)random_below(100) - 50;
        }
    }
}

static void test_parts(void **state)
{
    (void)state;
    const struct block_cut cuts[] = {
        {SIDE * SIDE, 0, 0}, {SIDE * 5, 0, 0}, {SIDE, 0, 0},     {10, 0, 0},
        {1, 0, 0},           {64, 8, 8},       {SIDE * 8, 8, 8}, {40, 5, 8},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        for (int odd = 0; odd < 2; odd++) {
            double matrix[SIDE * SIDE];
            struct sums expected, whole, lower;
            make_matrix(matrix, odd);
            sketch_all(&expected, matrix, &real, &cuts[0], false);
            sketch_all(&whole, matrix, &real, &cuts[i], false);
            sketch_all(&lower, matrix, &real, &cuts[i], true);
            assert_alike(whole.sums, expected.sums);
            assert_alike(lower.sums, expected.sums);
            assert_alike(lower.squares, expected.squares);
            assert_memory_equal(lower.odd, expected.odd, sizeof lower.odd);
        }
}

/* Complex elements: of a Hermitian matrix, or a symmetric one. */
static void make_pairs(double *matrix, bool conjugate)
{
    for (int64_t i = 0; i < 2 * SIDE; i++) {
        weights[i] = (double)random_below(1000) / 1000 - 0.5;
        left_out[i] = LEFT_OUT_NOT;
    }
    for (int64_t i = 0; i < SIDE; i++)
        for (int64_t j = 0; j <= i; j++) {
            double *x = &matrix[2 * (i * SIDE + j)], *mirror = &matrix[2 * (j * SIDE + i)];
            x[0] = mirror[0] = (double)random_below(100) - 50;
            x[1] = mirror[1] = (double)random_below(100) - 50;
            if (conjugate && i != j)
                mirror[1] = -x[1];
        }
}

static void test_pairs(void **state)
{
    (void)state;
    const struct block_cut cuts[] = {
        {NUMBERS, 0, 0}, {SIDE * 10, 0, 0}, {2 * SIDE, 0, 0},      {10, 0, 0},
        {2, 0, 0},       {128, 8, 16},      {2 * SIDE * 8, 8, 16}, {80, 5, 16},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        for (int conjugate = 0; conjugate < 2; conjugate++) {
            const struct lower_half half = {2 * SIDE, 2, conjugate};
            double matrix[NUMBERS];
            struct sums expected, lower;
            make_pairs(matrix, conjugate);
            sketch_all(&expected, matrix, &half, &cuts[0], false);
            sketch_all(&lower, matrix, &half, &cuts[i], true);
            assert_alike(lower.sums, expected.sums);
            assert_alike(lower.squares, expected.squares);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
