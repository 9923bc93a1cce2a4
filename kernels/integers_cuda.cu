/* Exact products of integers on the GPU (integers.h): operands to planes of bytes, a line of which
 * has its steps of k one behind the other, and each pair of planes to C.  Operands of bytes that
 * lie so in memory are multiplied where they are. */
#include "bytes_product.cuh"
#include "launch.cuh"

constexpr int THREADS = 256, LINES = 32, STEPS = 128, PACK = 16; /* of a tile; bytes a store */

/* op(A) or op(B) as lines: `count` of them, of `steps` elements. */
template <typename T>
struct element_lines {
    const T *memory;
    int64_t across, along; /* elements from one line to the next, and from one step to the next */
    int64_t count, steps;
};

struct alignas(PACK) packed_bytes {
    uint32_t words[PACK / 4];
};

/* A tile of lines and steps, through shared memory: it is read along what is contiguous, and
 * written along k. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    split(const element_lines<T> from, int8_t *planes, int64_t pitch, int64_t plane)
{
    __shared__ T tile[LINES][STEPS + 4];
    const int64_t x0 = (int64_t)blockIdx.x * LINES, p0 = (int64_t)blockIdx.y * STEPS;
    const bool along = from.along == 1;
    for (int n = threadIdx.x; n < LINES * STEPS; n += THREADS) {
        const int x = along ? n / STEPS : n % LINES, p = along ? n % STEPS : n / LINES;
        const bool inside = x0 + x < from.count && p0 + p < from.steps;
        tile[x][p] = inside ? from.memory[(x0 + x) * from.across + (p0 + p) * from.along] : T(0);
    }
    __syncthreads();
    const int x = threadIdx.x / (STEPS / PACK), p = threadIdx.x % (STEPS / PACK) * PACK;
    static_assert(THREADS * PACK == LINES * STEPS, "one store each");
    for (int byte = 0; byte < (int)sizeof(T); byte++) {
        packed_bytes packed = {};
#pragma unroll
        for (int e = 0; e < PACK; e++)
            packed.words[e / 4] |= (uint32_t)((unsigned)tile[x][p + e] >> 8 * byte & 255)
                                   << e % 4 * 8;
        *reinterpret_cast<packed_bytes *>(planes + byte * plane + (x0 + x) * pitch + p0 + p) =
            packed;
    }
}

/* One operand of a part of C and a block of k: where its planes are. */
struct operand_planes {
    const int8_t *planes;
    int64_t pitch, plane; /* bytes from one line to the next, from one plane to the next */
};

static int64_t whole_tiles(int64_t count)
{
    return (count + OZAKI_TILE - 1) / OZAKI_TILE * OZAKI_TILE;
}

template <typename T>
static cudaError_t split_lines(const element_lines<T> &all, int64_t held, int8_t *to, int64_t pitch,
                               int64_t plane, cudaStream_t stream)
{
    element_lines<T> from = all;
    const int64_t first = held / LINES * LINES; /* those before are there */
    from.memory += first * from.across;
    from.count -= first;
    const dim3 grid((unsigned)((whole_tiles(all.count) - first) / LINES),
                    (unsigned)(whole_tiles(all.steps) / STEPS));
    return grid.x == 0 ? cudaSuccess
                       : start_kernel(split<T>, grid, THREADS, 0, stream, from, to + first * pitch,
                                      pitch, plane);
}

/* The lines of one operand, of any type. */
struct typed_lines {
    enum scalar type;
    const void *memory;
    int64_t across, along, count, steps;
};

template <typename T>
static element_lines<T> lines_of(const typed_lines &l)
{
    return {static_cast<const T *>(l.memory), l.across, l.along, l.count, l.steps};
}

/* Whether the operand is planes as it is, for kernels that read lines of any number and length. */
static bool is_plane(const typed_lines &l, const kernel_code &kernel)
{
    return !kernel.whole_tiles && scalar_size(l.type) == 1 && l.along == 1 &&
           ((uintptr_t)l.memory | (uintptr_t)l.across) % 16 == 0;
}

/* Make planes at `to`, those of a line one behind the other, so that more lines change none of
 * them.  Those of the first `held` lines are there.  An operand that is a plane remains where it
 * is. */
static cudaError_t prepare(const typed_lines &l, const kernel_code &kernel, int64_t held,
                           int8_t *to, operand_planes *out, cudaStream_t stream)
{
    if (is_plane(l, kernel)) {
        *out = {static_cast<const int8_t *>(l.memory), l.across, 0};
        return cudaSuccess;
    }
    const int64_t plane = whole_tiles(l.steps), pitch = integers_planes(l.type) * plane;
    *out = {to, pitch, plane};
    switch (l.type) {
    case SCALAR_INT8: return split_lines(lines_of<int8_t>(l), held, to, pitch, plane, stream);
    case SCALAR_UINT8: return split_lines(lines_of<uint8_t>(l), held, to, pitch, plane, stream);
    case SCALAR_INT16: return split_lines(lines_of<int16_t>(l), held, to, pitch, plane, stream);
    case SCALAR_UINT16: return split_lines(lines_of<uint16_t>(l), held, to, pitch, plane, stream);
    default: /* of 32 bits, signed or not */
        return split_lines(lines_of<uint32_t>(l), held, to, pitch, plane, stream);
    }
}

static cudaError_t multiply_planes(const integers &how, byte_planes planes, const sums_out &out,
                                   cudaStream_t stream)
{
    const kernel_code &kernel = *how.kernel->code;
    if (kernel.whole_tiles) {
        planes.m = whole_tiles(planes.m);
        planes.n = whole_tiles(planes.n);
        planes.k = whole_tiles(planes.k);
    }
    return kernel.to_integers(&planes, &out, how.leaves_room, stream);
}

/* All pairs of planes, in one block of k. */
static cudaError_t multiply_block(const integers &how, const typed_lines &a, const typed_lines &b,
                                  const operand_planes &of_a, const operand_planes &of_b,
                                  int64_t step, sums_out *out, cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    for (int p = 0; p < integers_planes(a.type); p++)
        for (int q = 0; q < integers_planes(b.type) && status == cudaSuccess; q++) {
            const byte_planes planes = {a.count,
                                        b.count,
                                        min((int64_t)INTEGERS_BLOCK, a.steps - step),
                                        of_a.planes + p * of_a.plane + step,
                                        of_b.planes + q * of_b.plane + step,
                                        of_a.pitch,
                                        of_b.pitch,
                                        1,
                                        integers_signed(a.type, p),
                                        integers_signed(b.type, q)};
            out->shift = 8 * (p + q);
            status = multiply_planes(how, planes, *out, stream);
            out->add = true;
        }
    return status;
}

/* A part of C and some steps of k, the planes of which are in the workspace at once. */
static cudaError_t multiply_part(const integers &how, const typed_lines &a, const typed_lines &b,
                                 int64_t held, sums_out out, cudaStream_t stream)
{
    const kernel_code &kernel = *how.kernel->code;
    int8_t *at_a = static_cast<int8_t *>(how.workspace);
    int8_t *at_b = at_a + integers_workspace(a.type, b.type, a.count, 0, a.steps);
    operand_planes of_a, of_b;
    cudaError_t status = prepare(a, kernel, held, at_a, &of_a, stream);
    if (status == cudaSuccess)
        status = prepare(b, kernel, 0, at_b, &of_b, stream);
    for (int64_t step = 0; step < a.steps && status == cudaSuccess; step += INTEGERS_BLOCK)
        status = multiply_block(how, a, b, of_a, of_b, step, &out, stream);
    return status;
}

/* Some lines and steps of an operand. */
static typed_lines part_of(typed_lines l, int64_t line, int64_t lines, int64_t step, int64_t steps)
{
    const int64_t skip = line * l.across + step * l.along;
    l.memory = static_cast<const char *>(l.memory) + skip * (int64_t)scalar_size(l.type);
    l.count = min(lines, l.count - line);
    l.steps = min(steps, l.steps - step);
    return l;
}

cudaError_t integers_cuda(const struct gemm *g, const struct integers *how, cudaStream_t stream)
{
    const typed_lines a = {how->a, g->a, g->trans_a ? g->lda : 1, g->trans_a ? 1 : g->lda,
                           g->m,   g->k};
    const typed_lines b = {how->b, g->b, g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1,
                           g->n,   g->k};
    const auto [rows, cols, steps] =
        integers_part(how->a, how->b, how->bytes, g->m, how->cols, g->k);
    const int64_t held = rows >= g->m && steps >= g->k ? how->held : 0;
    uint64_t *const c = static_cast<uint64_t *>(g->c);
    if (g->k == 0 && g->beta == 0) {
        combine zeros = {};
        zeros.type = SCALAR_INT64;
        zeros.rows = g->n;
        zeros.cols = g->m;
        zeros.acc = c;
        zeros.ld_acc = g->ldc;
        return combine_cuda(&zeros, stream);
    }
    for (int64_t p = 0; p < g->k; p += steps)
        for (int64_t i = 0; i < g->m; i += rows)
            for (int64_t j = 0; j < g->n; j += cols) {
                const typed_lines of_a = part_of(a, i, rows, p, steps);
                const typed_lines of_b = part_of(b, j, cols, p, steps);
                const sums_out out = {c + i + j * g->ldc, g->ldc, of_a.count,
                                      of_b.count,         0,      p > 0 || g->beta != 0};
                const cudaError_t status =
                    multiply_part(*how, of_a, of_b, j > 0 ? of_a.count : held, out, stream);
                if (status != cudaSuccess)
                    return status;
            }
    return cudaSuccess;
}
