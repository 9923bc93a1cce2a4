/* The index maps of the kernels without tensor cores, in all cases.
 *
 * Goal: for every shape of a kernel, the threads cover C, and the loads cover A and B, without gaps
 * or overlaps, and warps have no bank conflicts.  Method: enumerate threads, elements and turns as
 * the kernels do; count how often each element or bank is accessed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gemm_simt_maps.h"
#include "kernel.h"

enum { SIDE_MAX = 256, STEP_MAX = 16, WARP = 32, BANKS = 32, VECTOR = 16 };

/* The block shape of a kernel for elements of `size` bytes. */
struct shape {
    struct simt_shape s;
    int size, run; /* run: adjacent elements of C, and of a row of a piece, per access */
    bool warps;    /* with compact warp tiles */
};

static void each_kernel(void (*check)(const struct shape *k))
{
    for (int algorithm = 0; algorithm < SIMT_ALGORITHMS; algorithm++)
        for (int shape = 0; shape < simt_shape_count(algorithm); shape++)
            for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++) {
                const int size = (int)scalar_size((enum scalar)type);
                const int run = algorithm < ALGORITHM_VECTOR ? 1 : VECTOR / size;
                const bool exists = algorithm == ALGORITHM_ASYNC    ? shape == type
                                    : algorithm == ALGORITHM_TENSOR ? type == SCALAR_FLOAT
                                                                    : true;
                const struct shape k = {simt_shapes[algorithm][shape], size, run,
                                        algorithm > ALGORITHM_VECTOR};
                if (exists)
                    check(&k);
            }
}

/* The first element of a thread. */
static struct simt_place first_of(const struct shape *k, int thread)
{
    const struct simt_shape s = k->s;
    if (!k->warps)
        return simt_corner(thread, s.tile_m / s.each_m, k->run, k->run);
    const int rows = SIMT_LANES_M * s.each_m, columns = SIMT_LANES_N * s.each_n;
    struct simt_place at = simt_corner(thread / WARP, s.tile_m / rows, rows, columns);
    const struct simt_place lane = simt_lane(thread % WARP, k->run);
    at.x += lane.x;
    at.y += lane.y;
    return at;
}

/* Each element of the tile is owned by one thread, and runs begin at multiples of their length. */
static void check_share(const struct shape *k)
{
    static char owned[SIDE_MAX][SIDE_MAX];
    const struct simt_shape s = k->s;
    const int across_m = k->warps ? SIMT_LANES_M : s.tile_m / s.each_m;
    const int across_n = k->warps ? SIMT_LANES_N : s.tile_n / s.each_n;
    memset(owned, 0, sizeof owned);
    for (int thread = 0; thread < simt_threads(s); thread++)
        for (int v = 0; v < s.each_n; v++)
            for (int u = 0; u < s.each_m; u++) {
                const struct simt_place first = first_of(k, thread);
                const int x = first.x + simt_offset(u, k->run, across_m);
                const int y = first.y + simt_offset(v, k->run, across_n);
                assert_in_range(x, 0, s.tile_m - 1);
                assert_in_range(y, 0, s.tile_n - 1);
                assert_int_equal(owned[x][y]++, 0);
                assert_int_equal((x - u) % k->run, 0);
                assert_int_equal((y - v) % k->run, 0);
            }
    /* There are as many owners as elements, so all are covered. */
    assert_int_equal(simt_threads(s) * s.each_m * s.each_n, s.tile_m * s.tile_n);
    assert_int_equal(simt_threads(s) % WARP, 0);
    assert_in_range(simt_threads(s), WARP, 1024);
}

static void test_shares(void **state)
{
    (void)state;
    each_kernel(check_share);
}

/* How a block loads a piece of an operand: in runs of `run`, with `depth` steps of k per turn. */
struct loader {
    int threads, side, step, depth, run;
    bool k_major;
};

/* `wide`: kernels with warp tiles copy 16 bytes at once if k is not contiguous. */
static struct loader loader_of(const struct shape *k, int side, bool k_major, bool wide)
{
    struct loader l = {simt_threads(k->s), side, k->s.step, k->s.step, k->run, k_major};
    if (k->warps && k_major)
        l.depth = 8; /* lanes along k */
    if (k->warps && (k_major || !wide))
        l.run = 1;
    return l;
}

static int turns_of(const struct loader *l)
{
    const int each = l->side * l->depth / l->run;
    return (each + l->threads - 1) / l->threads * (l->step / l->depth);
}

/* Returns false if the thread is idle in this turn. */
static bool place_of(const struct loader *l, int thread, int turn, struct piece_place *place)
{
    const int a_depth = turns_of(l) / (l->step / l->depth);
    const int at = turn % a_depth * l->threads + thread;
    *place = simt_piece(l->k_major, l->side, l->depth, l->run, at);
    place->p += turn / a_depth * l->depth;
    return at < l->side * l->depth / l->run;
}

/* Each element of the piece is loaded once, in runs that begin at multiples of their length. */
static void check_loader(const struct loader *l)
{
    char brought[SIDE_MAX][STEP_MAX] = {{0}};
    int count = 0;
    for (int thread = 0; thread < l->threads; thread++)
        for (int turn = 0; turn < turns_of(l); turn++) {
            struct piece_place place;
            if (!place_of(l, thread, turn, &place))
                continue;
            assert_int_equal((l->k_major ? place.p : place.x) % l->run, 0);
            for (int e = 0; e < l->run; e++, count++) {
                const int x = place.x + (l->k_major ? 0 : e), p = place.p + (l->k_major ? e : 0);
                assert_in_range(x, 0, l->side - 1);
                assert_in_range(p, 0, l->step - 1);
                assert_int_equal(brought[x][p]++, 0);
            }
        }
    assert_int_equal(count, l->side * l->step);
}

/* The shared-memory addresses of the lanes of a warp; -1: none. */
struct request {
    int at[WARP], bytes;
};

/* Returns the most simultaneous accesses to one bank.  Shared memory serves 128 bytes at once, or
 * with `more` twice as many; lanes that read the same word share the access. */
static int conflicts(const struct request *r, bool more)
{
    const int together = (more ? 256 : 128) / r->bytes;
    int most = 0;
    for (int first = 0; first < WARP; first += together) {
        int words[BANKS][2 * WARP], met[BANKS] = {0};
        for (int w = 0; w < together * r->bytes / 4; w++) {
            const int at = r->at[first + w * 4 / r->bytes];
            const int word = at / 4 + w % (r->bytes / 4), bank = word % BANKS;
            bool known = at < 0;
            for (int i = 0; i < met[bank] && !known; i++)
                known = words[bank][i] == word;
            if (known)
                continue;
            assert_int_equal(at % r->bytes, 0);
            words[bank][met[bank]++] = word;
            most = met[bank] > most ? met[bank] : most;
        }
    }
    return most;
}

static int pitch_of(const struct shape *k, int side)
{
    return side * k->size + (k->run > 1 ? SIMT_PADDING_WIDE : SIMT_PADDING);
}

/* Stores to a piece have no bank conflicts, except if a warp stores two rows of 16 floats (the
 * padding for stores along k makes them overlap).  A run along k is stored element by element. */
static void check_stores(const struct shape *k, const struct loader *l)
{
    const int parts = l->k_major ? l->run : 1, pitch = pitch_of(k, l->side);
    const int claim = !l->k_major && l->side * k->size < 128 ? 2 : 1;
    for (int turn = 0; turn < turns_of(l) * parts; turn++)
        for (int warp = 0; warp < l->threads; warp += WARP) {
            struct request r = {.bytes = k->size * l->run / parts};
            for (int lane = 0; lane < WARP; lane++) {
                struct piece_place place;
                const bool any = place_of(l, warp + lane, turn / parts, &place);
                r.at[lane] = any ? (place.p + turn % parts) * pitch + place.x * k->size : -1;
            }
            assert_int_equal(conflicts(&r, false), r.at[0] < 0 ? 0 : claim);
        }
}

static void check_loaders(const struct shape *k)
{
    if (k->s.step == 1) /* no pieces */
        return;
    for (int variant = 0; variant < 8; variant++) {
        const int side = variant & 1 ? k->s.tile_m : k->s.tile_n;
        const struct loader l = loader_of(k, side, variant & 2, variant & 4);
        check_loader(&l);
        check_stores(k, &l);
    }
}

static void test_loaders(void **state)
{
    (void)state;
    each_kernel(check_loaders);
}

/* Loads of rows of a piece of A or B have no bank conflicts.  With compact warp tiles shared memory
 * serves twice as many lanes at once, since lanes read the same words in pairs that it can
 * combine. */
static void check_reads(const struct shape *k)
{
    for (int warp = 0; warp < simt_threads(k->s); warp += WARP) {
        struct request a = {.bytes = k->size * k->run}, b = a;
        for (int lane = 0; lane < WARP; lane++) {
            const struct simt_place first = first_of(k, warp + lane);
            a.at[lane] = first.x * k->size;
            b.at[lane] = first.y * k->size;
        }
        for (int lane = 0; lane < WARP && k->warps; lane++) {
            assert_int_equal(a.at[lane], a.at[lane ^ 1]);
            assert_int_equal(b.at[lane], b.at[lane ^ 2]);
        }
        assert_int_equal(conflicts(&a, k->warps), 1);
        assert_int_equal(conflicts(&b, k->warps), 1);
    }
}

static void test_reads(void **state)
{
    (void)state;
    each_kernel(check_reads);
}

/* Each tile is computed by one block. */
static void test_tiles(void **state)
{
    (void)state;
    for (unsigned tiles_m = 1; tiles_m < 35; tiles_m++)
        for (unsigned tiles_n = 1; tiles_n < 20; tiles_n++) {
            char done[35][20] = {{0}};
            for (unsigned block = 0; block < tiles_m * tiles_n; block++) {
                const struct tile_index at = simt_tile(block, tiles_m);
                assert_true(at.i < tiles_m && at.j < tiles_n);
                assert_int_equal(done[at.i][at.j]++, 0);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_loaders),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
