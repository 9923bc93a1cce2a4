#include "verify.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "checksum.h"
#include "error.h"
#include "meter.h"
#include "quantity.h"
#include "stop.h"
#include "store.h"
#include "vector.h"

/* Bytes that a thread reads at a time: more where chunks are larger, and then decoded once. */
enum { PART_MIN = 64 << 10, PART_MAX = 4 << 20, PART_CHUNK_MAX = 16 << 20, PAGE = 4096 };

struct full_check {
    const struct problem *problem;
    struct comm *comm;
    int threads;
    size_t part_bytes;
    char *parts;             /* a part for each thread */
    double *x;               /* n signs, scaled */
    double *t, *t_abs;       /* k: op(B) x and |op(B)| |x|; the second behind the first */
    double *y, *y_abs;       /* m, likewise: what C x is compared with; the sum of all ranks' */
    struct checksum table;   /* of C */
    _Atomic uint64_t summed; /* of what this rank has read of C */
    uint64_t bytes;          /* that this rank has read */
};

/* One matrix, to be read once: `project` says what to do with each part of it, with vectors that
 * begin where the matrix does. */
struct sweep {
    struct store *store;
    struct block share; /* this rank's rows */
    struct block_cut cut;
    struct project project;
    bool is_c;
};

static size_t vector_bytes(const struct problem *p)
{
    return (size_t)(p->n + 2 * p->k + 2 * p->m) * sizeof(double) + checksum_bytes(p->type, p->n);
}

/* What all of it takes but for the parts; C is a contiguous file. */
static size_t fixed_bytes(const struct problem *p, int threads)
{
    struct matrix_info c = {.rows = p->m, .cols = p->n, .by_offset = true};
    c.elements = p->type == SCALAR_FLOAT ? ELEMENT_FLOAT : ELEMENT_DOUBLE;
    size_t most = store_overhead_bytes(&c, p->type, STORE_READ, p->io, threads);
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, (enum operand)operand)) {
            size_t bytes =
                store_overhead_bytes(&p->matrix[operand], p->type, STORE_READ, p->io, threads);
            most = bytes > most ? bytes : most;
        }
    return vector_bytes(p) + most;
}

int verify_fits(const struct problem *p, const struct machine *machine, struct error *err)
{
    size_t needed = fixed_bytes(p, machine->threads) + (size_t)machine->threads * PART_MIN;
    if (needed <= machine->host_memory)
        return 0;
    return error_add(
        err, EXIT_RESOURCES,
        "the full check needs at least --host-memory %" PRIu64 "K, there are %s; or do without it",
        (uint64_t)(needed + 1023) / 1024, quantity_bytes((double)machine->host_memory));
}

/* This rank's part of the rows, of whole chunks. */
static struct block share_of(const struct matrix_info *info, const struct comm *comm)
{
    int64_t unit = max_i64(1, info->chunk_rows), units = ceil_div(info->rows, unit);
    int64_t each = units / comm->size, more = units % comm->size;
    int64_t first = each * comm->rank + min_i64(comm->rank, more);
    int64_t end = first + each + (comm->rank < more);
    int64_t row = min_i64(first * unit, info->rows);
    return (struct block){row, 0, min_i64(end * unit, info->rows) - row, info->cols};
}

static void project_part(const struct sweep *s, const struct block *part, const void *memory,
                         int threads)
{
    struct project p = s->project;
    int64_t in = p.trans ? part->row : part->col, out = p.trans ? part->col : part->row;
    p.accumulate = true;
    p.rows = part->rows;
    p.cols = p.ld = part->cols;
    p.matrix = memory;
    p.x += in;
    p.x_abs = p.x_abs ? p.x_abs + in : NULL;
    p.y += out;
    p.y_abs = p.y_abs ? p.y_abs + out : NULL;
    project_cpu(&p, threads);
}

/* Parts of whole rows, not transposed, have rows of the result to themselves: each thread goes on
 * with what it has read. */
static bool is_apart(const struct sweep *s, const struct block *part)
{
    return !s->project.trans && part->cols == s->share.cols;
}

/* So many parts as there are threads, each read by one of them. */
static int sweep_parts(struct full_check *f, const struct sweep *s, int64_t first, int64_t end,
                       struct error *err)
{
#pragma omp parallel for num_threads(f->threads) schedule(static, 1) if (f->threads > 1)
    for (int64_t i = first; i < end; i++) {
        struct error mine = {0};
        struct block part = block_cut_part(&s->share, &s->cut, i);
        char *memory = f->parts + (size_t)(i - first) * f->part_bytes;
        if (store_read(s->store, &part, memory, &mine)) {
#pragma omp critical
            *err = mine;
            continue;
        }
        if (s->is_c)
            f->summed += checksum_block(&f->table, &part, memory);
        if (is_apart(s, &part))
            project_part(s, &part, memory, 1);
    }
    for (int64_t i = first; i < end && !err->code; i++) {
        struct block part = block_cut_part(&s->share, &s->cut, i);
        if (!is_apart(s, &part))
            project_part(s, &part, f->parts + (size_t)(i - first) * f->part_bytes, f->threads);
        f->bytes += (uint64_t)(part.rows * part.cols) * scalar_size(f->problem->type);
    }
    return err->code;
}

/* Collective. */
static int sweep_matrix(struct full_check *f, const struct matrix_info *info, struct sweep *s,
                        struct error *err)
{
    const struct problem *p = f->problem;
    s->share = share_of(info, f->comm);
    s->cut = (struct block_cut){(int64_t)(f->part_bytes / scalar_size(p->type)), info->chunk_rows,
                                info->chunk_cols};
    s->project.type = p->type;
    /* As when it is written: by offset, and while the run holds the lock that HDF5 would take. */
    enum store_way way = s->is_c && p->io == STORE_HDF5 ? STORE_AUTO : p->io;
    if (store_open(info, p->type, STORE_READ, way, &s->store, err) == 0 && s->is_c)
        store_forget(s->store);
    int64_t parts = err->code ? 0 : block_cut_parts(&s->share, &s->cut);
    for (int64_t i = 0; i < parts && !err->code && !comm_raised(f->comm); i += f->threads)
        if (stop_level(f->comm->rank == 0) == STOP_END)
            err->code = EXIT_STOPPED;
        else
            sweep_parts(f, s, i, min_i64(i + f->threads, parts), err);
    store_close(s->store);
    if (err->code)
        comm_raise(f->comm);
    return comm_agree(f->comm, err);
}

static void set_x(struct full_check *f, double scale)
{
    for (int64_t j = 0; j < f->problem->n; j++)
        f->x[j] = scale * check_sign(j);
}

/* alpha and beta as kernels use them. */
static double rounded(const struct problem *p, double scalar)
{
    return p->type == SCALAR_FLOAT ? (float)scalar : scalar;
}

static double largest_finite(const struct problem *p)
{
    return p->type == SCALAR_FLOAT ? FLT_MAX : DBL_MAX;
}

/* y := alpha op(A) (op(B) x), all of it on rank 0. */
static int multiply(struct full_check *f, struct error *err)
{
    const struct problem *p = f->problem;
    double alpha = rounded(p, p->alpha);
    struct sweep inner = {
        .project = {.trans = p->trans[1], .x = f->x, .y = f->t, .y_abs = f->t_abs}};
    struct sweep outer = {
        .project = {
            .trans = p->trans[0], .x = f->t, .x_abs = f->t_abs, .y = f->y, .y_abs = f->y_abs}};
    set_x(f, 1);
    if (sweep_matrix(f, &p->matrix[OPERAND_B], &inner, err))
        return err->code;
    comm_sum_vector(f->t, 2 * p->k);
    if (sweep_matrix(f, &p->matrix[OPERAND_A], &outer, err))
        return err->code;
    comm_sum_vector(f->y, 2 * p->m);
    bool keeps = f->comm->rank == 0;
    for (int64_t i = 0; i < p->m; i++) {
        bool overflows = !(f->y_abs[i] <= largest_finite(p)); /* and so may sums of the product */
        f->y[i] = keeps ? alpha * f->y[i] : 0;
        f->y_abs[i] = !keeps ? 0 : overflows ? INFINITY : fabs(alpha) * f->y_abs[i];
    }
    return 0;
}

/* The row with the largest residual. */
static int64_t judge(const struct full_check *f, struct verify *v)
{
    const struct problem *p = f->problem;
    double k = problem_reads_ab(p) ? (double)p->k : 0, n = (double)p->n;
    double u = check_roundoff(p->type), ratio = check_roundoff(SCALAR_DOUBLE) / u;
    double least = p->type == SCALAR_FLOAT ? 0x1p-149 : 0x1p-1074;
    double underflow = n * least * fmax(1, fabs(p->alpha));
    int64_t worst = 0;
    v->limit = 1.01 * (k + 3 + (2 * n + k + 8) * ratio);
    for (int64_t i = 0; i < p->m; i++) {
        if (!(f->y_abs[i] <= largest_finite(p))) {
            v->not_finite++;
            continue;
        }
        double residual = fabs(f->y[i]) / (u * f->y_abs[i] + underflow);
        if (isnan(residual))
            residual = INFINITY;
        if (residual > v->residual) {
            v->residual = residual;
            worst = i;
        }
    }
    return worst;
}

static int check_all(struct full_check *f, const struct matrix_info *c, struct verify *v,
                     struct error *err)
{
    const struct problem *p = f->problem;
    struct sweep of_c0 = {.project = {.x = f->x, .y = f->y, .y_abs = f->y_abs}};
    struct sweep of_c = {.project = {.x = f->x, .y = f->y}, .is_c = true};
    if (problem_reads_ab(p) && multiply(f, err))
        return err->code;
    set_x(f, rounded(p, p->beta));
    if (problem_reads_c(p) && sweep_matrix(f, &p->matrix[OPERAND_C], &of_c0, err))
        return err->code;
    set_x(f, -1);
    if (sweep_matrix(f, c, &of_c, err))
        return err->code;
    comm_sum_vector(f->y, 2 * p->m);
    v->checksum = comm_sum(f->summed);
    v->bytes = (double)comm_sum(f->bytes);
    int64_t worst = judge(f, v);
    v->judged = true;
    if (v->has_expected && v->checksum != v->expected)
        error_add(err, EXIT_VERIFY,
                  "C as it is read from %s is not what was written: its checksum is %016" PRIx64
                  ", not %016" PRIx64,
                  c->file, v->checksum, v->expected);
    if (v->residual > v->limit)
        error_add(err, EXIT_VERIFY,
                  "the full check failed: row %" PRId64 " of C in %s has residual %.3g, limit %.3g",
                  worst, c->file, v->residual, v->limit);
    return comm_agree(f->comm, err);
}

/* What a thread reads at a time when memory is no matter. */
static size_t best_part(const struct problem *p)
{
    size_t best = PART_MAX;
    for (int operand = 0; operand < OPERAND_COUNT; operand++) {
        size_t chunk =
            problem_reads(p, (enum operand)operand) ? (size_t)p->matrix[operand].chunk_bytes : 0;
        if (chunk > best && chunk <= PART_CHUNK_MAX)
            best = chunk;
    }
    return (size_t)round_up((int64_t)best, PAGE);
}

static int allocate(struct full_check *f, const struct machine *machine, struct error *err)
{
    const struct problem *p = f->problem;
    size_t threads = (size_t)f->threads, fixed = fixed_bytes(p, f->threads);
    size_t left = machine->host_memory > fixed ? machine->host_memory - fixed : 0;
    size_t each = left / threads / PAGE * PAGE, best = best_part(p);
    f->part_bytes = each < PART_MIN ? PART_MIN : each < best ? each : best;
    f->parts = aligned_alloc(PAGE, threads * f->part_bytes);
    f->x = calloc((size_t)(p->n + 2 * p->k + 2 * p->m), sizeof *f->x);
    if (!f->parts || !f->x)
        return error_add(err, EXIT_RESOURCES, "no memory for the full check");
    f->t = f->x + p->n;
    f->t_abs = f->t + p->k;
    f->y = f->t_abs + p->k;
    f->y_abs = f->y + p->m;
    return checksum_open(&f->table, p->type, p->n, err);
}

int verify_files(const struct problem *p, const struct matrix_info *c,
                 const struct machine *machine, struct comm *comm, struct verify *v,
                 struct error *err)
{
    double begin = clock_now();
    struct full_check f = {.problem = p, .comm = comm, .threads = machine->threads};
    allocate(&f, machine, err);
    if (comm_agree(comm, err) == 0)
        check_all(&f, c, v, err);
    v->seconds = clock_now() - begin;
    checksum_close(&f.table);
    free(f.x);
    free(f.parts);
    return err->code;
}
