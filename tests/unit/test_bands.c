/* The checksum of a matrix by bands of rows: the sums of blocks add up to it, and the band of a
 * damaged element is identified. */
#include "scratch.h"

#include "bands.h"

enum { COLS = 7, ROWS_MAX = 300 };

static double data[ROWS_MAX * COLS];

static void add(_Atomic uint64_t sums[BANDS], const struct checksum *c, int64_t rows,
                const struct block *block)
{
    double packed[ROWS_MAX * COLS];
    for (int64_t i = 0; i < block->rows; i++)
        memcpy(packed + i * block->cols, data + (block->row + i) * COLS + block->col,
               (size_t)block->cols * sizeof *data);
    bands_add(sums, c, rows, block, packed);
}

static void open_table(struct checksum *c)
{
    struct error err = {0};
    succeed(checksum_open(c, SCALAR_DOUBLE, COLS, &err), &err);
    for (int i = 0; i < ROWS_MAX * COLS; i++)
        data[i] = (double)random_below(1 << 30);
}

static struct bands bands_of(const struct checksum *c, int64_t rows, int64_t cut_row,
                             int64_t cut_col)
{
    const struct block parts[] = {{0, 0, cut_row, cut_col},
                                  {0, cut_col, cut_row, COLS - cut_col},
                                  {cut_row, 0, rows - cut_row, cut_col},
                                  {cut_row, cut_col, rows - cut_row, COLS - cut_col}};
    _Atomic uint64_t sums[BANDS] = {0};
    struct bands bands;
    for (int i = 0; i < 4; i++)
        add(sums, c, rows, &parts[i]);
    for (int i = 0; i < BANDS; i++)
        bands.sums[i] = sums[i];
    return bands;
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
        struct bands whole = bands_of(&c, rows, 0, 0);
        struct bands parts = bands_of(&c, rows, random_below(rows + 1), random_below(COLS + 1));
        assert_memory_equal(&whole, &parts, sizeof whole);
        const struct block all = {0, 0, rows, COLS};
        assert_true(bands_total(&whole) == checksum_block(&c, &all, data));
    }
    checksum_close(&c);
}

/* Only the band of the damaged row differs, as bands_block locates it. */
static void test_damage_is_found_where_it_is(void **state)
{
    (void)state;
    struct checksum c;
    open_table(&c);
    for (int trial = 0; trial < 200 * HEIGHTS; trial++) {
        int64_t rows = heights[trial % HEIGHTS], row = random_below(rows);
        struct bands before = bands_of(&c, rows, 0, 0);
        data[row * COLS + random_below(COLS)] += 1;
        struct bands after = bands_of(&c, rows, 0, 0);
        for (int i = 0; i < BANDS; i++) {
            struct block band = bands_block(rows, COLS, i, i + 1);
            bool within = row >= band.row && row < band.row + band.rows;
            assert_int_equal(before.sums[i] != after.sums[i], within);
        }
    }
    checksum_close(&c);
}

static void test_bands_are_all_of_it(void **state)
{
    (void)state;
    for (int i = 0; i < HEIGHTS; i++) {
        int64_t row = 0;
        for (int first = 0; first < BANDS; first++) {
            struct block band = bands_block(heights[i], COLS, first, first + 1);
            assert_int_equal(band.row, row);
            row += band.rows;
        }
        assert_int_equal(row, heights[i]);
        assert_int_equal(bands_block(heights[i], COLS, 0, BANDS).rows, heights[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_add_up),
        cmocka_unit_test(test_damage_is_found_where_it_is),
        cmocka_unit_test(test_bands_are_all_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
