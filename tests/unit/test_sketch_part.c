/* The sketch of a matrix in parts, also of a symmetric one by its lower half, is the whole one. */
#include "scratch.h"

#include <math.h>

#include "sketch_part.h"

enum { SIDE = 37, CLASSES = 4, SUMS = SIDE * CLASSES };

/* Sums, squares and odd of a matrix. */
struct sums {
    double sums[SUMS], squares[SUMS], odd[SUMS];
};

static double weights[SIDE];
static int left_out[SIDE], found;

static struct sketch sketch_into(struct sums *to)
{
    memset(to, 0, sizeof *to);
    return (struct sketch){.type = SCALAR_DOUBLE,
                           .classes = CLASSES,
                           .deal = 1,
                           .weights = weights,
                           .left_out = left_out,
                           .sums = to->sums,
                           .squares = to->squares,
                           .odd = to->odd,
                           .found = &found,
                           .tag = 1};
}

/* All parts of a matrix; a whole symmetric one, or what of it is below the diagonal. */
static void sketch_all(struct sums *to, const double *matrix, const struct block_cut *cut,
                       bool lower)
{
    const struct block all = {0, 0, SIDE, SIDE};
    const struct sketch sketch = sketch_into(to);
    for (int64_t i = 0; i < block_cut_parts(&all, cut); i++) {
        struct block part = block_cut_part(&all, cut, i);
        double memory[SIDE * SIDE];
        for (int64_t r = 0; r < part.rows; r++)
            for (int64_t c = 0; c < part.cols; c++) {
                bool above = part.col + c > part.row + r;
                memory[r * part.cols + c] =
                    lower && above ? -77 : matrix[(part.row + r) * SIDE + part.col + c];
            }
        if (lower)
            sketch_lower_part(&sketch, SIDE, &part, memory, 2);
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
            sketch_all(&expected, matrix, &cuts[0], false);
            sketch_all(&whole, matrix, &cuts[i], false);
            sketch_all(&lower, matrix, &cuts[i], true);
            assert_alike(whole.sums, expected.sums);
            assert_alike(lower.sums, expected.sums);
            assert_alike(lower.squares, expected.squares);
            assert_memory_equal(lower.odd, expected.odd, sizeof lower.odd);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
