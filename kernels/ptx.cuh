/* Wrappers of PTX instructions without a CUDA C++ equivalent: loads by shared-memory address, a
 * named block barrier, asynchronous copies to shared memory, the FP64 matrix multiply-add, and
 * mbarriers, TMA and register reallocation on Hopper.  Before sm_80, plain copies replace
 * asynchronous ones, and plain multiply-adds the matrix instruction; functions that do nothing on
 * older GPUs are used only by kernels that are not launched there.
 *
 * Kernels contain no inline assembly themselves: without nvcc, the emulation of a thread block
 * (tests/kernels/emulation) defines the same functions, except those of Hopper. */
#pragma once

#ifdef __CUDACC__

__device__ __forceinline__ unsigned shared_address(const void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

__device__ __forceinline__ void load_shared(double &x, unsigned at)
{
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(at) : "memory");
}

/* Two consecutive doubles; `at` is a multiple of 16. */
__device__ __forceinline__ void load_shared(double &x, double &y, unsigned at)
{
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(at) : "memory");
}

/* Hide the value of x from the optimiser, which would otherwise rematerialise it, or keep parts of
 * its expression in registers. */
__device__ __forceinline__ void opaque(unsigned &x)
{
    asm("" : "+r"(x));
}

/* A barrier for all THREADS of a block in divergent code: unlike __syncthreads, warps may execute
 * it at different places in the kernel. */
template <int THREADS>
__device__ __forceinline__ void block_barrier()
{
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define SM_80(...) __VA_ARGS__
#else
#define SM_80(...) ;
#endif

/* Start an asynchronous copy of BYTES (4, 8 or 16) to shared memory; both addresses are multiples
 * of BYTES.  Only the first `bytes` are read, the rest is filled with zeros; with 0 nothing is
 * read, and `global` may be any aligned address.  The copy is visible to this thread after
 * cp_async_wait, to others after a barrier that follows it. */
template <int BYTES>
__device__ __forceinline__ void cp_async(unsigned shared, const void *global, int bytes)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what cp.async copies");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    for (int at = 0; at < BYTES; at += 4) {
        const char *from = static_cast<const char *>(global) + at;
        const unsigned word = at < bytes ? *reinterpret_cast<const unsigned *>(from) : 0;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared + at), "r"(word) : "memory");
    }
#else
    if (BYTES == 16) /* bypasses L1 */
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared),
                     "l"(__cvta_generic_to_global(global)), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared),
                     "l"(__cvta_generic_to_global(global)), "n"(BYTES), "r"(bytes)
                     : "memory");
#endif
}

template <int BYTES>
__device__ __forceinline__ void cp_async(void *shared, const void *global, int bytes = BYTES)
{
    cp_async<BYTES>(shared_address(shared), global, bytes);
}

/* Start a copy of BYTES if `wanted`; otherwise shared memory is unchanged.  The instruction is
 * predicated, so that the code around it stays free of branches. */
template <int BYTES>
__device__ __forceinline__ void cp_async_if(void *shared, const void *global, bool wanted)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what cp.async copies");
    if (BYTES == 16)
        SM_80(asm volatile(
                  "{ .reg .pred p; setp.ne.b32 p, %2, 0;\n"
                  "@p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(shared_address(shared)),
                  "l"(__cvta_generic_to_global(global)), "r"((int)wanted)
                  : "memory");)
    else
        SM_80(asm volatile(
                  "{ .reg .pred p; setp.ne.b32 p, %2, 0;\n"
                  "@p cp.async.ca.shared.global [%0], [%1], %3; }" ::"r"(shared_address(shared)),
                  "l"(__cvta_generic_to_global(global)), "r"((int)wanted), "n"(BYTES)
                  : "memory");)
}

/* Commit the copies that this thread started since the last commit, perhaps none, as a group. */
__device__ __forceinline__ void cp_async_commit()
{
    SM_80(asm volatile("cp.async.commit_group;" ::: "memory");)
}

/* Wait until at most the PENDING newest groups of this thread are in flight. */
template <int PENDING>
__device__ __forceinline__ void cp_async_wait()
{
    SM_80(asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");)
}

/* Wait for all of this thread's copies. */
__device__ __forceinline__ void cp_async_wait_all()
{
    SM_80(asm volatile("cp.async.wait_all;" ::: "memory");)
}

/* D += A B by a whole warp.  With g = lane / 4 and t = lane % 4, a lane holds
 *     m8n8k4:    A(g,t)   B(t,g)   D(g,2t) D(g,2t+1)
 *     m16n8k8:   A(g,t) A(g+8,t) A(g,t+4) A(g+8,t+4)   B(t,g) B(t+4,g)
 *                D(g,2t) D(g,2t+1) D(g+8,2t) D(g+8,2t+1) */
__device__ __forceinline__ void mma_m8n8k4(double d[2], double a, double b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    const int lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;
    for (int k = 0; k < 4; k++)
        for (int e = 0; e < 2; e++)
            d[e] = fma(__shfl_sync(~0u, a, row + k), __shfl_sync(~0u, b, column + 4 * e + k), d[e]);
#else
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(d[0]), "+d"(d[1])
        : "d"(a), "d"(b));
#endif
}

__device__ __forceinline__ void mma_m16n8k8(double d[4], const double a[4], const double b[2])
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 /* one instruction from sm_90 on */
    mma_m8n8k4(d, a[0], b[0]);
    mma_m8n8k4(d + 2, a[1], b[0]);
    mma_m8n8k4(d, a[2], b[1]);
    mma_m8n8k4(d + 2, a[3], b[1]);
#else
    SM_80(asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
              "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
              : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
              : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));)
#endif
}

/* Do something with the PTX names of types of bytes that are signed or not. */
#define PTX_SIGNS(SIGNED_A, SIGNED_B, DO)                                                          \
    if constexpr (SIGNED_A && SIGNED_B) {                                                          \
        DO("s8", "s8", "s32", "s32");                                                              \
    } else if constexpr (SIGNED_A) {                                                               \
        DO("s8", "u8", "s32", "u32");                                                              \
    } else if constexpr (SIGNED_B) {                                                               \
        DO("u8", "s8", "u32", "s32");                                                              \
    } else {                                                                                       \
        DO("u8", "u8", "u32", "u32");                                                              \
    }

/* sum plus the products of four bytes each, modulo 2^32. */
template <bool SIGNED_A, bool SIGNED_B>
__device__ __forceinline__ int dp4a(int a, int b, int sum)
{
#define PTX_DP4A(x, y, a_type, b_type)                                                             \
    asm("dp4a." a_type "." b_type " %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b))
    PTX_SIGNS(SIGNED_A, SIGNED_B, PTX_DP4A);
#undef PTX_DP4A
    return sum;
}

/* D += A B of bytes by a whole warp, four neighbours along k a word.  A lane holds words that
 * begin with
 *     A(g,4t) A(g+8,4t) A(g,16+4t) A(g+8,16+4t)   B(4t,g) B(16+4t,g)   D as m16n8k8 */
template <bool SIGNED_A, bool SIGNED_B>
__device__ __forceinline__ void mma_m16n8k32(int d[4], const int a[4], const int b[2])
{
#define PTX_MMA(a_type, b_type, x, y)                                                              \
    SM_80(asm("mma.sync.aligned.m16n8k32.row.col.s32." a_type "." b_type ".s32 "                   \
              "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                              \
              : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                     \
              : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));)
    PTX_SIGNS(SIGNED_A, SIGNED_B, PTX_MMA);
#undef PTX_MMA
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define SM_90(...) __VA_ARGS__
#else
#define SM_90(...) ;
#endif

__device__ __forceinline__ void prefetch_l2(const void *global)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

/* Initialise an mbarrier, 8 bytes in shared memory; each phase completes after `arrivals`
 * arrivals. */
__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals)
{
    SM_80(asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                       : "memory");)
}

/* After barrier_init: make the barriers visible to TMA. */
__device__ __forceinline__ void barrier_init_done()
{
    SM_90(asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");)
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier)
{
    SM_80(asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");)
}

/* Arrive, and make the phase wait for so many bytes of TMA copies as well. */
__device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes)
{
    SM_90(asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                       "r"(bytes)
                       : "memory");)
}

/* Arrive once all prior cp.async copies of this thread have completed.  Does not wait. */
__device__ __forceinline__ void barrier_arrive_copied(unsigned barrier)
{
    SM_80(asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier)
                       : "memory");)
}

/* Wait until the phase with this parity has completed. */
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity)
{
    SM_90(asm volatile("{\n"
                       ".reg .pred over;\n"
                       "again:\n"
                       "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                       "@!over bra again;\n"
                       "}" ::"r"(barrier),
                       "r"(parity)
                       : "memory");)
}

/* Start a TMA copy of the box at (inner, outer) of the CUtensorMap `map` to shared memory; its
 * bytes count at the barrier. */
__device__ __forceinline__ void copy_box(unsigned to, const void *map, int inner, int outer,
                                         unsigned barrier)
{
    SM_90(
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                     "l"(map), "r"(inner), "r"(outer), "r"(barrier)
                     : "memory");)
}

/* The same of a box of a tensor of three dimensions, to the same place in the shared memory of each
 * block of the cluster whose bit is set in `blocks`; its bytes count at the barrier of each. */
__device__ __forceinline__ void copy_box_to(unsigned to, const void *map, int inner, int middle,
                                            int outer, unsigned barrier, uint16_t blocks)
{
    SM_90(asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                       ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                       "l"(map), "r"(inner), "r"(middle), "r"(outer), "r"(barrier), "h"(blocks)
                       : "memory");)
}

/* This block's number in its cluster. */
__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank = 0;
    SM_90(asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));)
    return rank;
}

/* A barrier for all threads of the cluster. */
__device__ __forceinline__ void cluster_barrier()
{
    SM_90(asm volatile("barrier.cluster.arrive.aligned;\n"
                       "barrier.cluster.wait.aligned;" ::
                           : "memory");)
}

/* Arrive at the barrier at this address of block `rank` of the cluster. */
__device__ __forceinline__ void barrier_arrive_at(unsigned barrier, unsigned rank)
{
    SM_90(asm volatile("{ .reg .b32 there;\n"
                       "mapa.shared::cluster.u32 there, %0, %1;\n"
                       "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
                       "r"(rank)
                       : "memory");)
}

/* Order this thread's accesses to shared memory before later ones of TMA. */
__device__ __forceinline__ void copy_box_fence()
{
    SM_90(asm volatile("fence.proxy.async.shared::cta;" ::: "memory");)
}

/* sm_90a only. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* setmaxnreg: change the registers per thread of a group of four warps. */
template <int REGISTERS>
__device__ __forceinline__ void registers_decrease()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void registers_increase()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* Order a group's accesses to its sums before the products that follow. */
__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Commit the products that were started since the last commit as a batch. */
__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

#define PTX_8(x, i) x(i), x(i + 1), x(i + 2), x(i + 3), x(i + 4), x(i + 5), x(i + 6), x(i + 7)
#define PTX_64(x, i)                                                                               \
    PTX_8(x, i), PTX_8(x, i + 8), PTX_8(x, i + 16), PTX_8(x, i + 24), PTX_8(x, i + 32),            \
        PTX_8(x, i + 40), PTX_8(x, i + 48), PTX_8(x, i + 56)
#define PTX_SUM(i) "+r"(d[i])

/* Wait until at most the PENDING newest batches are in flight; the sums are the operands, so that
 * no access to them moves before this. */
template <int PENDING>
__device__ __forceinline__ void wgmma_wait(int (&d)[128])
{
    asm volatile("wgmma.wait_group.sync.aligned %128;"
                 : PTX_64(PTX_SUM, 0), PTX_64(PTX_SUM, 64)
                 : "n"(PENDING)
                 : "memory");
}

/* Start D = A B, or D += A B, by a group of four warps: A of 64 x 32 bytes and B of 256 columns of
 * 32, both in shared memory with neighbours along k, swizzled by 128 bytes (wgmma_operand).  With g
 * and t of its lane as above, warp w has in d[4 j + 2 h + e] the sum of row 16 w + 8 h + g and
 * column 8 j + 2 t + e. */
template <bool SIGNED_A, bool SIGNED_B>
__device__ __forceinline__ void wgmma_m64n256k32(int (&d)[128], uint64_t a, uint64_t b, bool add)
{
#define PTX_WGMMA(a_type, b_type, x, y)                                                            \
    asm volatile("{ .reg .pred add;\n"                                                             \
                 "setp.ne.b32 add, %130, 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned.m64n256k32.s32." a_type "." b_type " {"             \
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                          \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                \
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                \
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"                \
                 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"                \
                 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"                \
                 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"    \
                 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127" \
                 "}, %128, %129, add; }"                                                           \
                 : PTX_64(PTX_SUM, 0), PTX_64(PTX_SUM, 64)                                         \
                 : "l"(a), "l"(b), "r"((int)add))
    PTX_SIGNS(SIGNED_A, SIGNED_B, PTX_WGMMA);
#undef PTX_WGMMA
}

#undef PTX_8
#undef PTX_64
#undef PTX_SUM

/* The descriptor of such an operand whose rows, of 128 bytes each, begin at a multiple of 1024
 * bytes; 32 bytes further along k are 2 more. */
__device__ __forceinline__ uint64_t wgmma_operand(unsigned shared)
{
    constexpr uint64_t GROUP_OF_8_ROWS = 1024 / 16, SWIZZLE_128_BYTES = 1;
    return shared >> 4 | (uint64_t)1 << 16 | GROUP_OF_8_ROWS << 32 | SWIZZLE_128_BYTES << 62;
}
#endif

#else
#include "emulated_ptx.h"
#endif
