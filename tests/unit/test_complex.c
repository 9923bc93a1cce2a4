/* Complex products as real ones: the operations of vector.h on the CPU, and how blocks of files and
 * of the real matrices belong together. */
#include <math.h>
#include <string.h>

#include "cpu_fixture.h"
#include "embedding.h"
#include "schedule.h"

enum { THREADS = 3, ROWS = 5, COLS = 9 };

/* Matrices are column-major here: their columns are rows. */

static double rounded(enum scalar type, double x)
{
    return type == SCALAR_FLOAT ? (float)x : x;
}

static double fused(enum scalar type, double x, double y, double z)
{
    return type == SCALAR_FLOAT ? fmaf((float)x, (float)y, (float)z) : fma(x, y, z);
}

/* alpha = a + bi, beta = c + di, of element j in row i. */
static void check_pair(enum scalar type, const double s[4], const struct array *before,
                       const struct array *c0, const struct array *acc, int64_t i, int64_t j)
{
    double x = get(before, 2 * j, i), y = get(before, 2 * j + 1, i), r = 0, t = 0;
    if (s[2] != 0 || s[3] != 0) {
        double u = get(c0, 2 * j, i), v = get(c0, 2 * j + 1, i);
        r = fused(type, s[2], u, -rounded(type, s[3] * v));
        t = fused(type, s[2], v, rounded(type, s[3] * u));
    }
    if (s[0] != 0 || s[1] != 0) {
        r = fused(type, s[0], x, fused(type, -s[1], y, r));
        t = fused(type, s[0], y, fused(type, s[1], x, t));
    }
    assert_true(get(acc, 2 * j, i) == r && get(acc, 2 * j + 1, i) == t);
}

static void combine_of_pairs_is_as_documented(void **state)
{
    static const double factors[][4] = {{1, 2, 0, 0},      {0, -1, 0.5, 0}, {0.25, 0, 0, 1},
                                        {1.5, -2, 3, 0.5}, {0, 0, 2, -1},   {-1, 0.125, 0, 0}};
    (void)state;
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
            const double *s = factors[f];
            bool reads_acc = s[0] != 0 || s[1] != 0, reads_c0 = s[2] != 0 || s[3] != 0;
            struct array acc = matrix_make((enum scalar)type, 2 * COLS, ROWS, guard),
                         c0 = matrix_make((enum scalar)type, 2 * COLS, ROWS, NAN);
            if (reads_c0)
                matrix_fill(&c0, random_real);
            matrix_fill(&acc, random_real);
            for (int64_t j = 0; j < 2 * COLS && !reads_acc; j++)
                set(&acc, j, ROWS - 1, NAN);
            struct array before = matrix_copy(&acc);
            struct combine c = {.type = (enum scalar)type,
                                .rows = ROWS,
                                .cols = 2 * COLS,
                                .alpha = s[0],
                                .beta = s[2],
                                .acc = acc.data,
                                .c0 = c0.data,
                                .ld_acc = acc.ld,
                                .ld_c0 = c0.ld,
                                .alpha_i = s[1],
                                .beta_i = s[3]};
            combine_cpu(&c, THREADS);
            for (int64_t i = 0; i < ROWS; i++)
                for (int64_t j = 0; j < COLS; j++)
                    check_pair((enum scalar)type, s, &before, &c0, &acc, i, j);
            assert_gaps_are(&acc, guard);
            free(acc.data);
            free(c0.data);
            free(before.data);
        }
}

/* Of integers, whose sums need not be rounded. */
static void check_mirror(enum scalar type, const double s[4], bool conjugate)
{
    struct array acc = matrix_make(type, 2 * COLS, ROWS, guard),
                 c0 = matrix_make(type, 2 * ROWS, COLS, guard),
                 to = matrix_make(type, 2 * ROWS, COLS, guard);
    matrix_fill(&acc, random_integer);
    matrix_fill(&c0, random_integer);
    struct mirror m = {.type = type,
                       .rows = ROWS,
                       .cols = COLS,
                       .alpha = s[0],
                       .beta = s[2],
                       .acc = acc.data,
                       .c0 = c0.data,
                       .to = to.data,
                       .ld_acc = acc.ld,
                       .ld_c0 = c0.ld,
                       .ld_to = to.ld,
                       .pairs = true,
                       .conjugate = conjugate,
                       .alpha_i = s[1],
                       .beta_i = s[3]};
    mirror_cpu(&m, THREADS);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < COLS; j++) {
            double x = get(&acc, 2 * j, i), y = get(&acc, 2 * j + 1, i) * (conjugate ? -1 : 1);
            double u = get(&c0, 2 * i, j), v = get(&c0, 2 * i + 1, j);
            double re = s[0] * x - s[1] * y + s[2] * u - s[3] * v;
            double im = s[0] * y + s[1] * x + s[2] * v + s[3] * u;
            assert_true(get(&to, 2 * i, j) == re && get(&to, 2 * i + 1, j) == im);
        }
    assert_gaps_are(&to, guard);
    free(acc.data);
    free(c0.data);
    free(to.data);
}

static void mirrors_of_pairs_are_as_documented(void **state)
{
    static const double factors[][4] = {{1, 0, 0, 0}, {-2, 0, 0, 0}, {3, 0, 2, 0},
                                        {1, 2, 0, 0}, {1, 0, 0, 1},  {2, -1, 3, 4}};
    (void)state;
    for (int how = 0; how < 4; how++)
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++)
            check_mirror(how & 1 ? SCALAR_FLOAT : SCALAR_DOUBLE, factors[f], how & 2);
}

/* Imaginary parts on the diagonal become 0 of the sign that is asked for, but for NaN. */
static void reflections_are_as_documented(void **state)
{
    (void)state;
    for (int how = 0; how < 8; how++) {
        const enum scalar type = how & 1 ? SCALAR_FLOAT : SCALAR_DOUBLE;
        const bool conjugate = how & 2, negative = how & 4;
        struct array square = matrix_make(type, 2 * COLS, COLS, guard);
        matrix_fill(&square, random_integer);
        set(&square, 2, 1, NAN);
        set(&square, 5, 2, NAN);
        struct array before = matrix_copy(&square);
        reflect_cpu(
            &(struct reflect){type, COLS, square.data, square.ld, conjugate, negative ? -0.0 : 0.0},
            THREADS);
        for (int64_t i = 0; i < COLS; i++)
            for (int64_t j = 0; j < COLS; j++) {
                const int64_t low = i > j ? i : j, left = i > j ? j : i;
                double x = get(&before, 2 * left, low), y = get(&before, 2 * left + 1, low);
                double re = get(&square, 2 * j, i), im = get(&square, 2 * j + 1, i);
                assert_true(re == x || (isnan(re) && isnan(x)));
                if (isnan(y))
                    assert_true(isnan(im));
                else if (conjugate && i == j)
                    assert_true(im == 0 && (bool)signbit(im) == negative);
                else
                    assert_true(im == (conjugate && j > i ? -y : y));
            }
        assert_gaps_are(&square, guard);
        free(square.data);
        free(before.data);
    }
}

static struct problem make_problem(int trans, int conjugate, bool a_complex, bool b_complex)
{
    struct problem p = {.complex = true};
    problem_set_type(&p, SCALAR_DOUBLE);
    for (int i = 0; i < 2; i++) {
        p.trans[i] = trans >> i & 1;
        p.conjugate[i] = conjugate >> i & 1;
    }
    p.matrix[OPERAND_A].complex = a_complex;
    p.matrix[OPERAND_B].complex = b_complex;
    return p;
}

/* What the real matrices have for element (i, l) of op(A), r + si, and for (l, j) of op(B). */
static double of_a(int64_t row, int64_t col, double r, double s)
{
    (void)row;
    return col % 2 ? s : r;
}

static double of_b(int64_t row, int64_t col, double r, double s)
{
    return row % 2 == col % 2 ? r : row % 2 ? -s : s;
}

/* The operand as its file has it, ROWS x COLS elements, and what is multiplied. */
static void check_embedding(const struct problem *p, enum operand operand)
{
    const bool complex = p->matrix[operand].complex, trans = p->trans[operand];
    const struct block stored = {0, 0, ROWS, COLS * (complex ? 2 : 1)};
    const struct block whole = embedding_of_file(p, operand, &stored);
    const struct block again = embedding_in_file(p, operand, &whole);
    struct array from = matrix_make(SCALAR_DOUBLE, stored.cols, stored.rows, guard),
                 to = matrix_make(SCALAR_DOUBLE, whole.cols, whole.rows, guard);
    matrix_fill(&from, random_real);
    assert_memory_equal(&again, &stored, sizeof again);
    if (embedding_needed(p, operand)) {
        struct embed e = embedding_make(p, operand, &stored);
        e.from = from.data;
        e.to = to.data;
        e.ld_from = from.ld;
        e.ld_to = to.ld;
        embed_cpu(&e, THREADS);
        double elements = (double)(stored.rows * stored.cols);
        assert_true(embedding_stored(p, operand) * (double)(whole.rows * whole.cols) == elements);
    } else
        to = from;
    for (int64_t i = 0; i < whole.rows; i++)
        for (int64_t j = 0; j < whole.cols; j++) {
            int64_t row = trans ? j : i, col = trans ? i : j; /* of op(A) or op(B) */
            int64_t down = whole.rows / ROWS, across = whole.cols / COLS;
            double r = get(&from, j / across * (complex ? 2 : 1), i / down);
            double s = complex ? get(&from, j / across * 2 + 1, i / down) : 0;
            s = p->conjugate[operand] ? -s : s;
            double want = operand == OPERAND_A ? of_a(row, col, r, s) : of_b(row, col, r, s);
            assert_true(get(&to, j, i) == want);
        }
    assert_gaps_are(&to, guard);
    if (to.data != from.data)
        free(to.data);
    free(from.data);
}

static void embeddings_are_the_documented_matrices(void **state)
{
    (void)state;
    for (int how = 0; how < 64; how++) {
        struct problem p = make_problem(how & 3, how >> 2 & 3, how & 16, how & 32);
        if ((p.conjugate[0] && !p.trans[0]) || (p.conjugate[1] && !p.trans[1]))
            continue; /* op(A) is A, its transpose, or the conjugate of that */
        check_embedding(&p, OPERAND_A);
        check_embedding(&p, OPERAND_B);
    }
}

static void real_matrices_stay_as_they_are(void **state)
{
    const struct problem p = {.trans = {true, true}};
    const struct block block = {3, 5, 7, 11};
    (void)state;
    for (enum operand i = OPERAND_A; i <= OPERAND_C; i++) {
        struct block stored = embedding_in_file(&p, i, &block),
                     whole = embedding_of_file(&p, i, &block);
        assert_false(embedding_needed(&p, i));
        assert_true(embedding_stored(&p, i) == 1);
        assert_true(block_equal(&stored, &block) && block_equal(&whole, &block));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combine_of_pairs_is_as_documented),
        cmocka_unit_test(mirrors_of_pairs_are_as_documented),
        cmocka_unit_test(reflections_are_as_documented),
        cmocka_unit_test(embeddings_are_the_documented_matrices),
        cmocka_unit_test(real_matrices_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
