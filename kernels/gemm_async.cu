/* Algorithm 4, async: copies that bypass the registers, several steps ahead; warp tiles.
 *
 * The idea: a ring of STAGES pairs of pieces in shared memory.  While the block multiplies one
 * pair, the copies of the next STAGES - 1 are under way, without a register or a waiting thread.
 * The 32 threads of a warp compute a compact part of the tile, so that they read few different
 * numbers of each row. */
#include "gemm_async.cuh"

template <typename T>
struct async_shape {
    static constexpr int TILE = 128, STEP = 64 / sizeof(T), STAGES = 4, THREADS = 256;
    static constexpr int EACH = 8, RUN = 16 / sizeof(T); /* of rows and columns, a thread */
    static constexpr int LANES_M = 8, LANES_N = 4;       /* of a warp */
    static constexpr int WARPS_M = TILE / (LANES_M * EACH);
    struct pieces {
        staged_wide<T, TILE, STEP> a, b;
    };
};

template <typename T, bool TRANS_A, bool TRANS_B>
__global__ void __launch_bounds__(async_shape<T>::THREADS, 8 / sizeof(T)) async(const product<T> g)
{
    using s = async_shape<T>;
    auto *ring = dynamic_shared<typename s::pieces>();
    const origin tile = tile_origin<s::TILE, s::TILE>(g.m);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int x = (warp % s::WARPS_M * s::LANES_M * s::EACH) + lane_m(lane) * s::RUN;
    const int y = (warp / s::WARPS_M * s::LANES_N * s::EACH) + lane_n(lane) * s::RUN;
    courier<T, s::THREADS, s::TILE, s::STEP, TRANS_A> a(operand_a<TRANS_A>(g), tile.i);
    courier<T, s::THREADS, s::TILE, s::STEP, !TRANS_B> b(operand_b<TRANS_B>(g), tile.j);
    share<T, s::EACH, s::LANES_M, s::EACH, s::LANES_N, s::RUN> c;

    for (int stage = 0; stage < s::STAGES - 1; stage++) {
        if (stage * s::STEP < g.k) {
            a.send(ring[stage].a, g.k - stage * s::STEP);
            b.send(ring[stage].b, g.k - stage * s::STEP);
        }
        copy_commit();
    }
    c.start(g, tile.i + x, tile.j + y);

    int stage = 0, free = s::STAGES - 1;
    for (int64_t left = g.k; left > 0; left -= s::STEP) {
        copy_wait<s::STAGES - 2>();
        __syncthreads();
        /* All have left the stage before this one: it is free for the step that comes last. */
        const int64_t beyond = left - (s::STAGES - 1) * s::STEP;
        if (beyond > 0) {
            a.send(ring[free].a, beyond);
            b.send(ring[free].b, beyond);
        }
        copy_commit();
        multiply_pieces(c, ring[stage].a, ring[stage].b, x, y, left);
        free = stage;
        stage = stage + 1 == s::STAGES ? 0 : stage + 1;
    }
    c.finish(g, tile.i + x, tile.j + y);
}

template <typename SUM>
struct async_family {
    static constexpr int TILE_M = async_shape<SUM>::TILE, TILE_N = async_shape<SUM>::TILE;
    static constexpr int THREADS = async_shape<SUM>::THREADS;
    static constexpr int shared =
        async_shape<SUM>::STAGES * (int)sizeof(typename async_shape<SUM>::pieces);
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return async<T, TRANS_A, TRANS_B>;
    }
};

cudaError_t gemm_async(const struct gemm *gemm, cudaStream_t stream)
{
    return gemm->type == SCALAR_FLOAT
               ? launch_async<float, async_family<float>>(gemm, stream)
               : launch_async<double, async_family<double>>(gemm, stream);
}
