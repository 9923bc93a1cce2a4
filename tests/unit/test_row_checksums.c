/* The checksum of a matrix by groups of rows: the sums of blocks add up to it, and the group of a
 * damaged element is identified. */
#include "scratch.h"

#include "row_checksums.h"

enum { COLS = 7, ROWS_MAX = 300 };

static double data[ROWS_MAX * COLS];

static void add(_Atomic uint64_t sums[ROW_GROUPS], const struct checksum *c, int64_t rows,
                const struct block *block)
{
    double packed[ROWS_MAX * COLS];
    for (int64_t i = 0; i < block->rows; i++)
        memcpy(packed + i * block->cols, data + (block->row + i) * COLS + block->col,
               (size_t)block->cols * sizeof *data);
    row_checksums_add(sums, c, rows, block, packed);
}

static void open_table(struct checksum *c)
{
    struct error err = {0};
    succeed(checksum_open(c, SCALAR_DOUBLE, COLS, &err), &err);
    for (int i = 0; i < ROWS_MAX * COLS; i++)
        data[i] = (double)random_below(1 << 30);
}

static struct row_checksums row_checksums_of(const struct checksum *c, int64_t rows,
                                             int64_t cut_row, int64_t cut_col)
{
    const struct block parts[] = {{0, 0, cut_row, cut_col},
                                  {0, cut_col, cut_row, COLS - cut_col},
                                  {cut_row, 0, rows - cut_row, cut_col},
                                  {cut_row, cut_col, rows - cut_row, COLS - cut_col}};
    _Atomic uint64_t sums[ROW_GROUPS] = {0};
    struct row_checksums checksums;
    for (int i = 0; i < 4; i++)
        add(sums, c, rows, &parts[i]);
    for (int i = 0; i < ROW_GROUPS; i++)
        checksums.sums[i] = sums[i];
    return checksums;
}

static const int64_t heights[] = {1, 2, 63, 64, 65, 127, 128, 129, 300};
enum { HEIGHTS = sizeof heights / sizeof *heights };

static void test_blocks_add_up(void **state)
{
    (void)state;
    struct checksum c;
    open_table(&c);
    for (int trial = 0; trial < 200 * HEIGHTS; trial++) {
        int64_t rows = heights[trial % HEIGHTS];
        struct row_checksums whole = row_checksums_of(&c, rows, 0, 0);
        struct row_checksums parts =
            row_checksums_of(&c, rows, random_below(rows + 1), random_below(COLS + 1));
        assert_memory_equal(&whole, &parts, sizeof whole);
        const struct block all = {0, 0, rows, COLS};
        assert_true(row_checksums_total(&whole) == checksum_block(&c, &all, data));
    }
    checksum_close(&c);
}

/* Only the group of the damaged row differs, as row_group_block locates it. */
static void test_damage_is_found_where_it_is(void **state)
{
    (void)state;
    struct checksum c;
    open_table(&c);
    for (int trial = 0; trial < 200 * HEIGHTS; trial++) {
        int64_t rows = heights[trial % HEIGHTS], row = random_below(rows);
        struct row_checksums before = row_checksums_of(&c, rows, 0, 0);
        data[row * COLS + random_below(COLS)] += 1;
        struct row_checksums after = row_checksums_of(&c, rows, 0, 0);
        for (int i = 0; i < ROW_GROUPS; i++) {
            struct block group = row_group_block(rows, COLS, i, i + 1);
            bool within = row >= group.row && row < group.row + group.rows;
            assert_int_equal(before.sums[i] != after.sums[i], within);
        }
    }
    checksum_close(&c);
}

static void test_groups_are_all_of_it(void **state)
{
    (void)state;
    for (int i = 0; i < HEIGHTS; i++) {
        int64_t row = 0;
        for (int first = 0; first < ROW_GROUPS; first++) {
            struct block group = row_group_block(heights[i], COLS, first, first + 1);
            assert_int_equal(group.row, row);
            row += group.rows;
        }
        assert_int_equal(row, heights[i]);
        assert_int_equal(row_group_block(heights[i], COLS, 0, ROW_GROUPS).rows, heights[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_add_up),
        cmocka_unit_test(test_damage_is_found_where_it_is),
        cmocka_unit_test(test_groups_are_all_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
