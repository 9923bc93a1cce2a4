/* The instructions of ptx.cuh, and the shuffles and votes of a warp, for one fiber or a warp of
 * them. */
#include <cstring>

#include "emulated_ptx.h"

/* One lane's part of D += A B: rows of the fragments of A and D lie 8 apart, steps of k 4 apart. */
struct fragment {
    double *d;
    const double *a, *b;
};

/* D is ROWS x 8 and sums over 4 STEPS values of k, in ascending order. */
template <int ROWS, int STEPS>
static void multiply_add(void *const lanes[WARP])
{
    constexpr int HALVES = ROWS / 8;
    const auto of = [&](int lane) { return static_cast<const fragment *>(lanes[lane]); };
    double b[4 * STEPS][8];
    for (int p = 0; p < 4 * STEPS; p++)
        for (int j = 0; j < 8; j++)
            b[p][j] = of(j * 4 + p % 4)->b[p / 4];
    for (int i = 0; i < ROWS; i++) {
        double sums[8];
        for (int j = 0; j < 8; j++)
            sums[j] = of(i % 8 * 4 + j / 2)->d[i / 8 * 2 + j % 2];
        for (int p = 0; p < 4 * STEPS; p++) {
            const double a = of(i % 8 * 4 + p % 4)->a[p / 4 * HALVES + i / 8];
            for (int j = 0; j < 8; j++)
                sums[j] = std::fma(a, b[p][j], sums[j]);
        }
        for (int j = 0; j < 8; j++)
            of(i % 8 * 4 + j / 2)->d[i / 8 * 2 + j % 2] = sums[j];
    }
}

void mma_m8n8k4(double d[2], double a, double b)
{
    fragment mine = {d, &a, &b};
    emulated_warp_meet(&mine, multiply_add<8, 1>);
}

void mma_m16n8k8(double d[4], const double a[4], const double b[2])
{
    fragment mine = {d, a, b};
    emulated_warp_meet(&mine, multiply_add<16, 2>);
}

/* One lane's part of D += A B of bytes. */
struct fragment_of_bytes {
    int *d;
    const int *a, *b;
};

template <bool SIGNED_A, bool SIGNED_B>
static void multiply_add_bytes(void *const lanes[WARP])
{
    const auto of = [&](int lane) { return static_cast<fragment_of_bytes *>(lanes[lane]); };
    typedef unsigned row __attribute__((vector_size(8 * sizeof(unsigned))));
    row b[32];
    for (int word = 0; word < 8; word++)
        for (int j = 0; j < 8; j++)
            for (int byte = 0; byte < 4; byte++)
                b[word * 4 + byte][j] =
                    (unsigned)byte_of<SIGNED_B>(of(j * 4 + word % 4)->b[word / 4], byte);
    for (int i = 0; i < 16; i++) {
        row sums;
        for (int j = 0; j < 8; j++)
            sums[j] = (unsigned)of(i % 8 * 4 + j / 2)->d[i / 8 * 2 + j % 2];
        for (int word = 0; word < 8; word++) {
            const int four = of(i % 8 * 4 + word % 4)->a[word / 4 * 2 + i / 8];
            for (int byte = 0; byte < 4; byte++)
                sums += (unsigned)byte_of<SIGNED_A>(four, byte) * b[word * 4 + byte];
        }
        for (int j = 0; j < 8; j++)
            of(i % 8 * 4 + j / 2)->d[i / 8 * 2 + j % 2] = (int)sums[j];
    }
}

template <bool SIGNED_A, bool SIGNED_B>
void mma_m16n8k32(int d[4], const int a[4], const int b[2])
{
    fragment_of_bytes mine = {d, a, b};
    emulated_warp_meet(&mine, multiply_add_bytes<SIGNED_A, SIGNED_B>);
}

template void mma_m16n8k32<true, true>(int d[4], const int a[4], const int b[2]);
template void mma_m16n8k32<true, false>(int d[4], const int a[4], const int b[2]);
template void mma_m16n8k32<false, true>(int d[4], const int a[4], const int b[2]);
template void mma_m16n8k32<false, false>(int d[4], const int a[4], const int b[2]);

struct shuffled {
    float value, taken;
    int from;
};

static void exchange(void *const lanes[WARP])
{
    const auto of = [&](int lane) { return static_cast<shuffled *>(lanes[lane]); };
    for (int lane = 0; lane < WARP; lane++)
        of(lane)->taken = of(lane ^ of(lane)->from)->value;
}

float __shfl_xor_sync(unsigned, float value, int lanes)
{
    shuffled mine = {value, 0, lanes};
    emulated_warp_meet(&mine, exchange);
    return mine.taken;
}

static void agree(void *const lanes[WARP])
{
    int all = 1;
    for (int lane = 0; lane < WARP; lane++)
        all &= *static_cast<int *>(lanes[lane]);
    for (int lane = 0; lane < WARP; lane++)
        *static_cast<int *>(lanes[lane]) = all;
}

int __all_sync(unsigned, int predicate)
{
    int mine = predicate != 0;
    emulated_warp_meet(&mine, agree);
    return mine;
}

static void add_up(void *const lanes[WARP])
{
    int sum = 0;
    for (int lane = 0; lane < WARP; lane++)
        sum += *static_cast<int *>(lanes[lane]);
    for (int lane = 0; lane < WARP; lane++)
        *static_cast<int *>(lanes[lane]) = sum;
}

int __reduce_add_sync(unsigned, int value)
{
    emulated_warp_meet(&value, add_up);
    return value;
}
