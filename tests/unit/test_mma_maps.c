/* The index maps of the tensor-core kernels, in all cases.
 *
 * Goal: the contracts of gemm_mma_maps.h.  Method: enumerate pieces, lanes and halves; count how
 * often each element is held and how often each bank is accessed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gemm_mma_maps.h"

enum { SIDE = 128, LANES = 32, BANKS = 32 };

/* The map of a piece is one-to-one; 16 bytes along the contiguous dimension stay adjacent, so that
 * one copy can move them. */
static void test_place(void **state)
{
    (void)state;
    for (int k_major = 0; k_major < 2; k_major++) {
        char used[SIDE * MMA_STEP] = {0};
        for (int x = 0; x < SIDE; x++)
            for (int p = 0; p < MMA_STEP; p++) {
                int at = mma_place(k_major, x, p);
                assert_int_equal(at % 8, 0);
                assert_in_range(at, 0, sizeof used * 8 - 8);
                assert_int_equal(used[at / 8]++, 0);
                assert_int_equal(mma_place(k_major, x + 16, p), at + MMA_BLOCK);
                if ((k_major ? p : x) % 2 == 0) {
                    assert_int_equal(at % 16, 0);
                    assert_int_equal(mma_place(k_major, x + !k_major, p + k_major), at + 8);
                }
            }
    }
}

/* x of a lane for both operands: the rows of A, the columns of B. */
typedef int lane_map(int lane, int h);
static lane_map *const maps[] = {mma_row, mma_column};

/* All combinations of h, s and i, encoded in one number. */
enum { VARIANTS = 8 };
#define H(v) ((v)&1)
#define S(v) ((v) >> 1 & 1)
#define I(v) ((v) >> 2)

static int held_at(int operand, int k_major, int lane, int v)
{
    return mma_place(k_major, maps[operand](lane, H(v)), mma_p(lane, S(v), I(v)));
}

/* The three parts of a lane's address add up, wherever a block begins. */
static void test_address(void **state)
{
    (void)state;
    for (int operand = 0; operand < 2; operand++)
        for (int k_major = 0; k_major < 2; k_major++)
            for (int lane = 0; lane < LANES; lane++)
                for (int v = 0; v < VARIANTS; v++) {
                    int base = mma_place(k_major, maps[operand](lane, 0), lane % 4);
                    int flip = mma_flip(k_major, H(v), S(v), I(v)),
                        skip = mma_skip(k_major, S(v), I(v));
                    assert_int_equal((base ^ flip) + skip, held_at(operand, k_major, lane, v));
                    assert_in_range(flip, 0, 255);
                    assert_int_equal(((base + 5 * 256) ^ flip) + skip,
                                     held_at(operand, k_major, lane, v) + 5 * 256);
                }
}

/* The lanes of a warp hold each element of a block once, in the instruction's fragment layout: x is
 * given by the lane's group, p by its position in the group. */
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

/* The most accesses to one bank, when `lanes` lanes from `first` on load `bytes` each. */
static int conflicts(int operand, int k_major, int first, int lanes, int bytes, int v)
{
    int met[BANKS] = {0}, most = 0;
    for (int lane = first; lane < first + lanes; lane++) {
        int at = held_at(operand, k_major, lane, v);
        assert_int_equal(at % bytes, 0);
        for (int word = at / 4; word < (at + bytes) / 4; word++) {
            int count = ++met[word % BANKS];
            most = count > most ? count : most;
        }
    }
    return most;
}

/* An x-major piece of A is loaded 16 bytes at a time, two rows at once; all others 8 bytes at a
 * time. */
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

/* Lane 4 g + t has the accumulators of the instruction's rows g and g + 8 and columns 2 t and 2 t +
 * 1.  Their rows and columns of C are those of the elements of A and B that the lanes of these
 * groups hold.  Each element of C has one owner. */
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

/* Each warp tile has one warp, and no two with i0 <= i < i1 and j0 <= j < j1 are on one
 * sub-partition of the SM. */
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

/* The warp layouts of tensor (2 x 2) and tma (2 x 4): whole rows, and half rows. */
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

/* Matrices of up to 36 x 20 tiles of 4 x 2; edge tiles may be thin. */
enum { TILE_M = 4, TILE_N = 2, M_MAX = 36 * TILE_M, N_MAX = 20 * TILE_N };

static bool is_thin(struct tile_index at, int m, int n)
{
    return m - (int)at.i * TILE_M <= TILE_M / 2 || n - (int)at.j * TILE_N <= TILE_N / 2;
}

/* Each tile occurs once in the order: whole tiles come first, by bands and by columns within
 * them. */
static void test_order(void **state)
{
    (void)state;
    for (int m = 1; m <= M_MAX; m++)
        for (int n = 1; n <= N_MAX; n++) {
            const struct mma_tiles tiles = mma_tiles_of(m, n, TILE_M, TILE_N);
            char done[M_MAX / TILE_M][N_MAX / TILE_N] = {{0}};
            unsigned last = 0;
            for (unsigned tile = 0; tile < tiles.m * tiles.n; tile++) {
                struct tile_index at = mma_order(tile, tiles);
                assert_true((int)at.i * TILE_M < m && (int)at.j * TILE_N < n);
                assert_int_equal(done[at.i][at.j]++, 0);
                assert_int_equal(is_thin(at, m, n), tile >= tiles.whole_m * tiles.whole_n);
                unsigned place = at.i / 8 * N_MAX + at.j;
                assert_true(is_thin(at, m, n) || place >= last);
                last = place;
            }
        }
}

/* Returns the time of the slowest of `blocks`, in halves of a tile.  Each half of each tile has one
 * turn; no thin tile is halved, and none precedes a whole tile. */
static int slowest(struct mma_schedule work, int m, int n, unsigned blocks)
{
    char done[M_MAX / TILE_M][N_MAX / TILE_N][2] = {{{0}}};
    int busy[64] = {0}, most = 0;
    bool thin = false;
    for (unsigned turn = 0; turn < work.turns; turn++) {
        struct mma_turn at = mma_turn_of(turn, work);
        assert_in_range(at.half + at.halves, 1, 2);
        for (int half = at.half; half < at.half + at.halves; half++)
            assert_int_equal(done[at.tile.i][at.tile.j][half]++, 0);
        assert_true(!thin || is_thin(at.tile, m, n));
        thin = is_thin(at.tile, m, n);
        assert_true(!thin || at.halves == 2);
        busy[turn % blocks] += thin ? 1 : at.halves;
        most = busy[turn % blocks] > most ? busy[turn % blocks] : most;
    }
    for (unsigned tile = 0; tile < work.tiles.m * work.tiles.n; tile++) {
        const char *halves = done[tile / work.tiles.n][tile % work.tiles.n];
        assert_true(halves[0] == 1 && halves[1] == 1);
    }
    return most;
}

/* Tiles are halved if and only if that is faster. */
static void test_schedule(void **state)
{
    (void)state;
    for (int m = 1; m <= M_MAX; m += 2)
        for (int n = 1; n <= N_MAX; n++)
            for (unsigned blocks = 1; blocks <= 64; blocks += 7) {
                const struct mma_tiles tiles = mma_tiles_of(m, n, TILE_M, TILE_N);
                const unsigned all = tiles.m * tiles.n, whole = tiles.whole_m * tiles.whole_n;
                const unsigned rest = whole % blocks;
                const struct mma_schedule ways[] = {{tiles, whole, 0, all},
                                                    {tiles, whole - rest, 2 * rest, all + rest}};
                const struct mma_schedule work = mma_schedule_of(tiles, blocks);
                const int plain = slowest(ways[0], m, n, blocks);
                const int halved = slowest(ways[1], m, n, blocks);
                assert_int_equal(slowest(work, m, n, blocks), halved < plain ? halved : plain);
                assert_int_equal(work.halves, halved < plain ? 2 * rest : 0);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),     cmocka_unit_test(test_address),
        cmocka_unit_test(test_fragments), cmocka_unit_test(test_banks),
        cmocka_unit_test(test_sums),      cmocka_unit_test(test_quarters),
        cmocka_unit_test(test_order),     cmocka_unit_test(test_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
