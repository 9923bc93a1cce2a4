/* The index maps of the tensor-core kernels, every case of them.
 *
 * Goal: what gemm_mma_maps.h says of them.  Method: enumerate pieces, lanes and halves; count how
 * often each element is held and how often each bank is met. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gemm_mma_maps.h"

enum { SIDE = 128, LANES = 32, BANKS = 32 };

/* A piece has a place for each element and no place for two; 16 bytes along the contiguous index
 * stay together, so that they can be copied as one. */
static void test_place(void **state)
{
    (void)state;
    for (int deep = 0; deep < 2; deep++) {
        char used[SIDE * MMA_STEP] = {0};
        for (int x = 0; x < SIDE; x++)
            for (int p = 0; p < MMA_STEP; p++) {
                int at = mma_place(deep, x, p);
                assert_int_equal(at % 8, 0);
                assert_in_range(at, 0, sizeof used * 8 - 8);
                assert_int_equal(used[at / 8]++, 0);
                assert_int_equal(mma_place(deep, x + 16, p), at + MMA_BLOCK);
                if ((deep ? p : x) % 2 == 0) {
                    assert_int_equal(at % 16, 0);
                    assert_int_equal(mma_place(deep, x + !deep, p + deep), at + 8);
                }
            }
    }
}

/* x of a lane for both operands: the rows of A, the columns of B. */
typedef int lane_map(int lane, int h);
static lane_map *const maps[] = {mma_row, mma_column};

/* All h, s and i, from one number. */
enum { VARIANTS = 8 };
#define H(v) ((v)&1)
#define S(v) ((v) >> 1 & 1)
#define I(v) ((v) >> 2)

static int held_at(int operand, int deep, int lane, int v)
{
    return mma_place(deep, maps[operand](lane, H(v)), mma_p(lane, S(v), I(v)));
}

/* The three parts of a lane's address add up, wherever a block begins. */
static void test_address(void **state)
{
    (void)state;
    for (int operand = 0; operand < 2; operand++)
        for (int deep = 0; deep < 2; deep++)
            for (int lane = 0; lane < LANES; lane++)
                for (int v = 0; v < VARIANTS; v++) {
                    int base = mma_place(deep, maps[operand](lane, 0), lane % 4);
                    int flip = mma_flip(deep, H(v), S(v), I(v)), skip = mma_skip(deep, S(v), I(v));
                    assert_int_equal((base ^ flip) + skip, held_at(operand, deep, lane, v));
                    assert_in_range(flip, 0, 255);
                    assert_int_equal(((base + 5 * 256) ^ flip) + skip,
                                     held_at(operand, deep, lane, v) + 5 * 256);
                }
}

/* The lanes of a warp hold each element of a block once, in the places that the instruction knows:
 * x by the lane's group, p by its place in the group. */
static void test_fragments(void **state)
{
    (void)state;
    for (int operand = 0; operand < 2; operand++) {
        char held[16][MMA_STEP] = {{0}};
        for (int lane = 0; lane < LANES; lane++)
            for (int v = 0; v < VARIANTS; v++) {
                int x = maps[operand](lane, H(v)), p = mma_p(lane, S(v), I(v));
                assert_int_equal(held[x][p]++, 0);
                assert_int_equal(x, maps[operand](lane / 4 * 4, H(v)));
                assert_int_equal(p, 8 * S(v) + 4 * I(v) + lane % 4);
            }
    }
}

/* How often the busiest bank is met by `lanes` lanes from `first` that load `bytes` each. */
static int conflicts(int operand, int deep, int first, int lanes, int bytes, int v)
{
    int met[BANKS] = {0}, most = 0;
    for (int lane = first; lane < first + lanes; lane++) {
        int at = held_at(operand, deep, lane, v);
        assert_int_equal(at % bytes, 0);
        for (int word = at / 4; word < (at + bytes) / 4; word++) {
            int count = ++met[word % BANKS];
            most = count > most ? count : most;
        }
    }
    return most;
}

/* A wide piece of A is loaded by 16 bytes, two rows at once, everything else by 8. */
static void test_banks(void **state)
{
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        for (int first = 0; first < LANES; first += 16) {
            assert_int_equal(conflicts(0, 1, first, 16, 8, v), 1);
            assert_int_equal(conflicts(1, 1, first, 16, 8, v), 1);
            assert_int_equal(conflicts(1, 0, first, 16, 8, v), 1);
        }
        for (int first = 0; first < LANES && H(v) == 0; first += 8)
            assert_int_equal(conflicts(0, 0, first, 8, 16, v), 1);
        for (int lane = 0; lane < LANES && H(v) == 0; lane++)
            assert_int_equal(held_at(0, 0, lane, v + 1), held_at(0, 0, lane, v) + 8);
    }
}

/* Lane 4 g + t has the sums of the instruction's rows g and g + 8 in its columns 2 t and 2 t + 1;
 * what stands behind these is what the lanes of those groups hold of A and B.  Each element of C
 * has one owner. */
static void test_sums(void **state)
{
    char owned[16][16] = {{0}};
    (void)state;
    for (int lane = 0; lane < LANES; lane++)
        for (int h = 0; h < 2; h++)
            for (int e = 0; e < 4; e++) {
                int row = mma_row(lane, e / 2), column = mma_sum_column(lane, h, e);
                assert_int_equal(owned[row][column]++, 0);
                assert_int_equal(column, mma_column((2 * (lane % 4) + e % 2) * 4, h));
            }
}

/* Each part has its warp, and of those with i0 <= i < i1 and j0 <= j < j1 no two have theirs on
 * one quarter of a multiprocessor. */
static void check_quarters(int warps_m, int warps_n, int i0, int i1, int j0, int j1)
{
    int warps[4] = {0}, parts[2][4] = {{0}};
    for (int warp = 0; warp < warps_m * warps_n; warp++) {
        struct mma_part part = mma_warp(warp, warps_m);
        assert_int_equal(parts[part.i][part.j]++, 0);
        if (part.i >= i0 && part.i < i1 && part.j >= j0 && part.j < j1)
            assert_int_equal(warps[warp % 4]++, 0);
    }
}

/* The warps of tensor (2 x 2) and tma (2 x 4): each row, and each half. */
static void test_quarters(void **state)
{
    (void)state;
    for (int warps_n = 2; warps_n <= 4; warps_n += 2) {
        for (int i = 0; i < 2; i++)
            check_quarters(2, warps_n, i, i + 1, 0, warps_n);
        for (int j = 0; j < warps_n; j += 2)
            check_quarters(2, warps_n, 0, 2, j, j + 2);
    }
}

/* Each tile has its turn, once. */
static void test_order(void **state)
{
    (void)state;
    for (unsigned tiles_m = 1; tiles_m < 35; tiles_m++)
        for (unsigned tiles_n = 1; tiles_n < 20; tiles_n++) {
            char done[35][20] = {{0}};
            for (unsigned tile = 0; tile < tiles_m * tiles_n; tile++) {
                struct tile_index at = mma_order(tile, tiles_m, tiles_n);
                assert_true(at.i < tiles_m && at.j < tiles_n);
                assert_int_equal(done[at.i][at.j]++, 0);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),     cmocka_unit_test(test_address),
        cmocka_unit_test(test_fragments), cmocka_unit_test(test_banks),
        cmocka_unit_test(test_sums),      cmocka_unit_test(test_quarters),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
