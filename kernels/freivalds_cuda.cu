/* The operations of the product check on the GPU, except project (freivalds_project.cu).  A sketch
 * reads its matrix once and is limited by memory bandwidth, so what matters is coalesced loads and
 * enough of them in flight, even with few lines. */
#include "freivalds_judge.h"
#include "gemm_common.cuh"

/* The sums over the elements of one class of a line, or over some of them. */
struct class_sums {
    double sum, square, odd;
};

__device__ __forceinline__ void add(class_sums &to, const class_sums &other)
{
    to.sum += other.sum;
    to.square += other.square;
    to.odd += other.odd;
}

/* Add element j of a line, with the weight w: the general case. */
template <typename T>
__device__ __forceinline__ void sketch_element(const sketch &s, int64_t j, T element, double w,
                                               class_sums &to)
{
    const double m = element, size = fabs(m);
    const bool product = s.odd != nullptr;
    const double largest = product ? DBL_MAX : FREIVALDS_LARGEST;
    if (size <= largest && w != 0) {
        to.sum = fma(m, w, to.sum);
        to.square = fma(m, m, to.square);
    } else if (product && w != 0) {
        to.odd += 1;
    } else if (product && size <= DBL_MAX && s.left_out[j] == LEFT_OUT_NOT_FINITE) {
        to.odd += s.partial ? 0 : FREIVALDS_WRONG;
    } else if (!product && !(size <= largest)) {
        const int why = size <= DBL_MAX ? LEFT_OUT_LARGE : LEFT_OUT_NOT_FINITE;
        if (s.left_out[j] < why)
            atomicMax(&s.left_out[j], why);
        if (w != 0)
            *s.found = s.tag;
    }
}

/* The lines are the rows of M, or its columns when transposed.  A block processes ACROSS * EACH
 * lines and distributes each over SPLIT threads, equally many per class, so that a thread's
 * elements are all of one class.  For rows, a thread works on EACH of them at once, with the same
 * weights.  It loads AHEAD runs of RUN consecutive elements before it adds them.  16 columns of
 * doubles are a full cache line. */
template <typename T, bool TRANS, int RUN_OF_ROW>
struct sketch_shape {
    static constexpr int ACROSS = TRANS ? 16 : 1, EACH = TRANS ? 1 : 2, SPLIT = TRANS ? 64 : 256;
    static constexpr int RUN = TRANS ? 1 : RUN_OF_ROW, AHEAD = TRANS ? 8 : RUN == 1 ? 4 : 2;
    static constexpr int BLOCKS = TRANS ? 1 : RUN == 1 ? 4 : 3; /* per SM */
};

/* The runs of a thread: those of class `label` with the numbers first, first + each, ... */
template <int RUN>
struct class_runs {
    int label, classes, shift, first, each;

    __device__ __forceinline__ class_runs(const sketch &s, int thread, int split)
        : classes(s.classes), shift(0), each(split / s.classes)
    {
        while (RUN << shift < s.deal)
            shift++;
        label = shift == 0 ? thread % classes : thread / each;
        first = shift == 0 ? thread / classes : thread % each;
    }

    /* The first column of run q of the class; ascending in q. */
    __device__ __forceinline__ int64_t column(int64_t q) const
    {
        return ((((q >> shift) * classes + label) << shift) + (q & ((1 << shift) - 1))) * RUN;
    }
};

/* One thread's share of EACH lines. */
template <typename T, bool TRANS, class SHAPE>
struct sketch_lines {
    static constexpr int EACH = SHAPE::EACH, AHEAD = SHAPE::AHEAD, RUN = SHAPE::RUN;
    using runs = class_runs<RUN>;

    const sketch &s;
    const int64_t line, lines, length;
    const T largest; /* magnitude of an element that is included */
    class_sums mine[EACH];

    __device__ __forceinline__ sketch_lines(const sketch &s, int64_t line)
        : s(s), line(line), lines(TRANS ? s.cols : s.rows), length(TRANS ? s.rows : s.cols),
          largest(sizeof(T) == sizeof(float) ? (T)FLT_MAX
                                             : (T)(s.odd ? DBL_MAX : FREIVALDS_LARGEST)),
          mine()
    {
    }

    __device__ __forceinline__ const T *at(int d, int64_t j) const
    {
        return static_cast<const T *>(s.matrix) +
               (TRANS ? j * s.ld + line + d : (line + d) * s.ld + j);
    }

    /* Add AHEAD runs from run q on: the fast path.  False, with nothing added, unless all elements
     * are inside of M, not too large, and have a weight. */
    __device__ __forceinline__ bool add_regular(const runs &own, int64_t q)
    {
        neighbours<T, RUN> m[EACH][AHEAD];
        neighbours<double, RUN> w[AHEAD];
        bool regular = true;
        if (own.column(q + (AHEAD - 1) * own.each) + RUN > length || line + EACH > lines)
            return false;
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int64_t j = own.column(q + u * own.each);
            w[u] = *reinterpret_cast<const neighbours<double, RUN> *>(&s.weights[j]);
#pragma unroll
            for (int d = 0; d < EACH; d++)
                m[d][u] = *reinterpret_cast<const neighbours<T, RUN> *>(at(d, j));
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int r = 0; r < RUN; r++) {
                regular &= w[u].at[r] != 0;
#pragma unroll
                for (int d = 0; d < EACH; d++)
                    regular &= fabs(m[d][u].at[r]) <= largest;
            }
        if (!regular)
            return false;
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int r = 0; r < RUN; r++)
#pragma unroll
                for (int d = 0; d < EACH; d++) {
                    const double element = m[d][u].at[r];
                    mine[d].sum = fma(element, w[u].at[r], mine[d].sum);
                    mine[d].square = fma(element, element, mine[d].square);
                }
        return true;
    }

    /* Add the same runs, element by element: the slow path. */
    __device__ __forceinline__ void add_any(const runs &own, int64_t q)
    {
#pragma unroll 1
        for (int e = 0; e < AHEAD * RUN; e++) {
            const int64_t j = own.column(q + e / RUN * own.each) + e % RUN;
#pragma unroll
            for (int d = 0; d < EACH; d++)
                if (j < length && line + d < lines)
                    sketch_element(s, j, *at(d, j), s.weights[j], mine[d]);
        }
    }
};

template <typename T, bool TRANS, int RUN_OF_ROW>
__global__ void __launch_bounds__(
    sketch_shape<T, TRANS, RUN_OF_ROW>::ACROSS *sketch_shape<T, TRANS, RUN_OF_ROW>::SPLIT,
    sketch_shape<T, TRANS, RUN_OF_ROW>::BLOCKS) sketch_kernel(const sketch s)
{
    using shape = sketch_shape<T, TRANS, RUN_OF_ROW>;
    constexpr int SPLIT = shape::SPLIT, EACH = shape::EACH;
    __shared__ class_sums part[SPLIT][shape::ACROSS];
    if (s.only_found && *s.found != s.tag)
        return;
    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t line = ((int64_t)blockIdx.x * shape::ACROSS + x) * EACH;
    const class_runs<shape::RUN> own(s, y, SPLIT);
    sketch_lines<T, TRANS, shape> at(s, line);

    for (int64_t q = own.first; own.column(q) < at.length; q += shape::AHEAD * own.each)
        if (!at.add_regular(own, q))
            at.add_any(own, q);

#pragma unroll
    for (int d = 0; d < EACH; d++) {
        __syncthreads();
        part[own.first * s.classes + own.label][x] = at.mine[d];
        for (int half = SPLIT / 2; half >= s.classes; half /= 2) {
            __syncthreads();
            if (y < half)
                add(part[y][x], part[y + half][x]);
        }
        if (y >= s.classes || line + d >= at.lines)
            continue;
        const int64_t to = (line + d) * s.classes + (s.first / s.deal + y) % s.classes;
        const class_sums &all = part[y][x];
        s.sums[to] = all.sum + (s.accumulate ? s.sums[to] : 0);
        s.squares[to] = all.square + (s.accumulate ? s.squares[to] : 0);
        if (s.odd)
            s.odd[to] = all.odd + (s.accumulate ? s.odd[to] : 0);
    }
}

template <typename T, bool TRANS, int RUN_OF_ROW>
static cudaError_t sketch_launch(const struct sketch *s, cudaStream_t stream)
{
    using shape = sketch_shape<T, TRANS, RUN_OF_ROW>;
    const int64_t lines = TRANS ? s->cols : s->rows, each = shape::ACROSS * shape::EACH;
    const unsigned blocks = (unsigned)((lines + each - 1) / each);
    return start_kernel(sketch_kernel<T, TRANS, RUN_OF_ROW>, blocks,
                        dim3(shape::ACROSS, shape::SPLIT), 0, stream, *s);
}

/* Whether consecutive elements of a class can be loaded four at a time, aligned. */
static bool has_runs_of_four(const struct sketch *s)
{
    const uintptr_t matrix = (uintptr_t)s->matrix, weights = (uintptr_t)s->weights;
    return s->deal % 4 == 0 && s->ld % 4 == 0 && matrix % sizeof(neighbours<float, 4>) == 0 &&
           weights % sizeof(neighbours<double, 4>) == 0;
}

cudaError_t sketch_cuda(const struct sketch *s, cudaStream_t stream)
{
    if (s->exact) {
        const exact_lines lines = exact_sketch(s);
        return exact_lines_cuda(&lines, stream);
    }
    if ((s->trans ? s->cols : s->rows) == 0)
        return cudaSuccess;
    if (s->type == SCALAR_FLOAT && !s->trans && has_runs_of_four(s))
        return sketch_launch<float, false, 4>(s, stream);
    return for_real(s->type, [&](auto x) {
        return s->trans ? sketch_launch<decltype(x), true, 1>(s, stream)
                        : sketch_launch<decltype(x), false, 1>(s, stream);
    });
}

constexpr int THREADS = 128;

template <typename T>
__device__ __forceinline__ void retire_row(const retire &r, const void *matrix, double *y,
                                           int64_t i)
{
    const T *acc = static_cast<const T *>(matrix) + i * r.ld;
    for (int64_t j = 0; j < r.cols; j++)
        if (r.left_out[j] != LEFT_OUT_NOT && r.weights[j] != 0) {
            const double element = acc[j];
            double *to = &y[i * r.classes + freivalds_class(j, r.deal, r.classes)];
            *to = fma(-r.weights[j], fabs(element) <= DBL_MAX ? element : element - element, *to);
        }
}

/* One thread per row. */
template <typename T>
__global__ void __launch_bounds__(THREADS) retire_rows_kernel(const retire r)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (*r.found != r.tag || i >= r.rows)
        return;
    if (r.acc)
        retire_row<T>(r, r.acc, r.y, i);
    for (int k = 0; k < r.count; k++)
        retire_row<T>(r, r.waiting[k], r.carried, i);
}

__global__ void __launch_bounds__(THREADS) retire_weights_kernel(const retire r)
{
    const int64_t j = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (*r.found == r.tag && j < r.cols && r.left_out[j] != LEFT_OUT_NOT)
        r.weights[j] = 0;
}

static unsigned blocks_for(int64_t threads)
{
    return (unsigned)((threads + THREADS - 1) / THREADS);
}

cudaError_t retire_cuda(const struct retire *r, cudaStream_t stream)
{
    if ((r->acc || r->count > 0) && r->rows > 0) {
        cudaError_t status = for_real(r->type, [&](auto x) {
            return start_kernel(retire_rows_kernel<decltype(x)>, blocks_for(r->rows), THREADS, 0,
                                stream, *r);
        });
        if (status != cudaSuccess)
            return status;
    }
    if (r->cols == 0)
        return cudaSuccess;
    return start_kernel(retire_weights_kernel, blocks_for(r->cols), THREADS, 0, stream, *r);
}

/* One block per class, wide enough that each thread has few dependent loads. */
constexpr int NORM_THREADS = 512;

__global__ void __launch_bounds__(NORM_THREADS) norms_kernel(const norms n)
{
    __shared__ double part[NORM_THREADS];
    const int t = threadIdx.x, c = blockIdx.x;
    double sum = 0;
#pragma unroll 8
    for (int64_t k = t; k < n.steps; k += NORM_THREADS) {
        const double squares = n.squares[k * n.classes + c];
        n.roots[k * n.classes + c] = freivalds_norm(squares, n.width);
        sum += squares;
    }
    part[t] = sum;
    for (int half = NORM_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            part[t] += part[t + half];
    }
    if (t == 0)
        n.norms[c] = part[0] + (n.begin ? 0 : n.norms[c]);
}

cudaError_t norms_cuda(const struct norms *n, cudaStream_t stream)
{
    return start_kernel(norms_kernel, (unsigned)n->classes, NORM_THREADS, 0, stream, *n);
}

/* One warp per row; its lanes share the classes. */
constexpr int LANES = 32, ROWS_JUDGED = 4;

__device__ __forceinline__ void merge(row_verdict &to, const row_verdict &other)
{
    to.ratio = fmax(to.ratio, other.ratio);
    to.size = fmax(to.size, other.size);
    to.rounded = fmax(to.rounded, other.rounded);
    to.norm = hypot(to.norm, other.norm);
    to.before = hypot(to.before, other.before);
    to.reach = hypot(to.reach, other.reach);
    to.classes += other.classes;
    to.state = row_state_of_both(to.state, other.state);
}

__global__ void __launch_bounds__(LANES *ROWS_JUDGED) judge_kernel(const judge j)
{
    __shared__ row_verdict part[ROWS_JUDGED][LANES];
    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t i = (int64_t)blockIdx.x * ROWS_JUDGED + y;
    row_verdict mine = {};
    if (i < j.rows) {
        mine = row_before(&j, i);
        for (int c = x; c < j.classes; c += LANES)
            judge_one(&j, i, c, &mine);
    }
    part[y][x] = mine;
    for (int half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half) {
            merge(mine, part[y][x + half]);
            part[y][x] = mine;
        }
    }
    if (x > 0 || i >= j.rows)
        return;
    row_keep(&j, i, &mine);
    if (i == 0)
        keep_left_out(&j);
}

cudaError_t judge_cuda(const struct judge *j, cudaStream_t stream)
{
    if (j->rows == 0)
        return cudaSuccess;
    const unsigned blocks = (unsigned)((j->rows + ROWS_JUDGED - 1) / ROWS_JUDGED);
    return start_kernel(judge_kernel, blocks, dim3(LANES, ROWS_JUDGED), 0, stream, *j);
}
