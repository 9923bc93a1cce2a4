/* Blocks are cut along the chunks of their matrix. */
#include "scratch.h"

/* The parts cover the block once, are small enough, and share no chunk that would fit into one
 * part. */
static void check_cut(const struct block *b, const struct block_cut *cut)
{
    static char seen[40][60], part_of[40][60];
    memset(seen, 0, sizeof seen);
    int64_t parts = block_cut_parts(b, cut), total = 0;
    for (int64_t i = 0; i < parts; i++) {
        struct block p = block_cut_part(b, cut, i);
        assert_true(p.rows > 0 && p.cols > 0 && p.rows * p.cols <= cut->elements);
        assert_int_equal(block_cut_before(b, cut, i), total);
        total += p.rows * p.cols;
        for (int64_t row = p.row; row < p.row + p.rows; row++)
            for (int64_t col = p.col; col < p.col + p.cols; col++) {
                assert_true(row >= b->row && row < b->row + b->rows);
                assert_true(col >= b->col && col < b->col + b->cols);
                assert_int_equal(seen[row][col]++, 0);
                part_of[row][col] = (char)(i % 127);
            }
    }
    assert_int_equal(total, b->rows * b->cols);
    if (cut->chunk_rows * cut->chunk_cols > cut->elements)
        return;
    for (int64_t row = b->row; row < b->row + b->rows; row++)
        for (int64_t col = b->col; col < b->col + b->cols; col++) {
            int64_t up = row - row % cut->chunk_rows, left = col - col % cut->chunk_cols;
            up = up < b->row ? b->row : up;
            left = left < b->col ? b->col : left;
            assert_int_equal(part_of[row][col], part_of[up][left]);
        }
}

/* The rest begins with the first row and the first column of any part that is left. */
static void check_rest(const struct block *b, const struct block_cut *cut)
{
    int64_t top = b->row + b->rows, left = b->col + b->cols;
    for (int64_t i = block_cut_parts(b, cut) - 1; i >= 0; i--) {
        struct block p = block_cut_part(b, cut, i), rest = block_cut_rest(b, cut, i);
        top = p.row < top ? p.row : top;
        left = p.col < left ? p.col : left;
        assert_true(rest.row == top && rest.row + rest.rows == b->row + b->rows);
        assert_true(rest.col == left && rest.col + rest.cols == b->col + b->cols);
    }
}

static void test_cut(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct block b = random_block(40, 60);
        struct block_cut cut = {1 + random_below(i % 2 ? 80 : 3000), 1 + random_below(50),
                                1 + random_below(70)};
        check_cut(&b, &cut);
        check_rest(&b, &cut);
    }
}

/* Two blocks become one where that has their elements alone, and where the second one follows. */
static void test_join(void **state)
{
    (void)state;
    int joined = 0;
    for (int i = 0; i < 20000; i++) {
        struct block a = random_block(4, 4), b = random_block(4, 4), both = a;
        int64_t bottom = a.row + a.rows, right = a.col + a.cols;
        bool joins = block_join(&both, &b);
        joined += joins;
        if (!joins) {
            assert_memory_equal(&both, &a, sizeof a);
            assert_false(b.row == bottom && b.col == a.col && b.cols == a.cols);
            assert_false(b.col == right && b.row == a.row && b.rows == a.rows);
            continue;
        }
        assert_int_equal(both.rows * both.cols, a.rows * a.cols + b.rows * b.cols);
        assert_true(both.row == a.row && both.col == a.col && (b.row == bottom || b.col == right));
        assert_int_equal(both.row + both.rows, b.row + b.rows);
        assert_int_equal(both.col + both.cols, b.col + b.cols);
    }
    assert_true(joined > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut), cmocka_unit_test(test_join)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
