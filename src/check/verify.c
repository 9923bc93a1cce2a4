#include "verify_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "checksum.h"
#include "embedding.h"
#include "error.h"
#include "freivalds.h"
#include "meter.h"
#include "ozaki.h"
#include "phase.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "shared_read.h"
#include "sketch_part.h"
#include "statistics.h"

struct full_check {
    const struct problem *problem;
    struct comm *comm;
    int threads, classes;
    size_t part_memory;        /* for the parts that threads read, and what these become */
    double *numbers;           /* all that follow, carved up by allocate */
    double *weights, *scratch; /* n */
    double *scaled;            /* n: x by alpha or beta, where these are complex */
    double *t, *t_squares;     /* k x classes: op(B) x; squares of op(B), then their roots */
    double *row_squares;       /* m: of op(A) */
    double *reach;             /* m x classes: |op(A)| by these roots */
    double *y, *before, *odd0; /* m x classes: alpha op(A) t + beta C0 x; C0's squares, and ... */
    double *z, *squares, *odd; /* m x classes: of C; one behind the other, as these three are */
    double *norms, *verdicts;
    int *left_out, found;
    struct checksum table;          /* of C */
    _Atomic uint64_t summed;        /* of the part of C that this rank has read */
    uint64_t bytes;                 /* that this rank has read */
    struct standardize standardize; /* of A and B */
};

/* A matrix that is read once: each part of it is given to `sketch` or `project`, with vectors that
 * begin at its first row or column. */
struct sweep {
    struct full_check *check;
    struct shared_read read; /* over ... */
    struct block share;      /* this rank's rows */
    bool projects, is_c;
    bool lower;           /* it is symmetric, by its lower half */
    bool standardizes;    /* elements become what was multiplied, first */
    enum operand operand; /* of a factor: likewise, if it is embedded; C otherwise */
    struct sketch sketch;
    struct project project, reach;
};

/* This rank's share of the rows, in whole chunks. */
static struct block share_of(const struct matrix *matrix, const struct comm *comm)
{
    int64_t unit = max_i64(1, matrix->chunk_rows), units = ceil_div(matrix->rows, unit);
    int64_t each = units / comm->size, more = units % comm->size;
    int64_t first = each * comm->rank + min_i64(comm->rank, more);
    int64_t end = first + each + (comm->rank < more);
    int64_t row = min_i64(first * unit, matrix->rows);
    return (struct block){row, 0, min_i64(end * unit, matrix->rows) - row, matrix->cols};
}

static void project_part(struct project p, const struct block *part, const void *memory,
                         int threads)
{
    int64_t in = p.trans ? part->row : part->col, out = p.trans ? part->col : part->row;
    p.rows = part->rows;
    p.cols = p.ld = part->cols;
    p.matrix = memory;
    p.x += in * p.classes;
    p.y += out * p.classes;
    p.squares += p.squares ? out : 0;
    project_cpu(&p, threads);
}

/* Of what a thread has read: what it becomes behind it, if it does. */
static void *embed_part(const struct full_check *f, const struct sweep *s, const struct block *part,
                        char *memory)
{
    if (!embedding_needed(f->problem, s->operand))
        return memory;
    struct embed embed = embedding_make(f->problem, s->operand, part);
    embed.from = memory;
    embed.stored = s->read.type;
    embed.ld_from = part->cols;
    embed.to = memory + s->read.part_bytes;
    embed.ld_to = embedding_of_file(f->problem, s->operand, part).cols;
    embed_cpu(&embed, 1);
    return embed.to;
}

/* `stored`: of the file. */
static void add_part(const struct full_check *f, const struct sweep *s, const struct block *stored,
                     char *memory, int threads)
{
    const struct block becomes = embedding_of_file(f->problem, s->operand, stored),
                       *part = &becomes;
    const struct lower_half half = {s->share.cols, problem_width(f->problem),
                                    problem_is_hermitian(f->problem)};
    void *numbers = embed_part(f, s, stored, memory);
    if (s->projects) {
        project_part(s->project, part, numbers, threads);
        project_part(s->reach, part, numbers, threads);
    } else if (s->lower)
        sketch_lower_part(&s->sketch, &half, part, numbers, threads);
    else
        sketch_part(&s->sketch, part, numbers, threads);
}

/* Parts of whole rows of a matrix that is neither transposed nor known by its lower half have their
 * own rows of the result, so that each thread computes with what it has read. */
static bool is_apart(const struct sweep *s, const struct block *part)
{
    bool trans = s->projects ? s->project.trans : s->sketch.trans;
    return !trans && !s->lower && part->cols == s->share.cols;
}

static void standardize_part(const struct full_check *f, enum operand operand,
                             const struct block *part, void *memory)
{
    struct standardize standardize = statistics_part(f->problem, &f->standardize, operand, part);
    standardize.matrix = memory;
    standardize_cpu(&standardize, 1);
}

/* Integers of C to doubles, in place. */
static void widen_part(const struct block *part, void *memory)
{
    const int64_t *from = memory;
    double *to = memory;
    for (int64_t i = 0; i < part->rows * part->cols; i++) {
        const double value = (double)from[i];
        memcpy(&to[i], &value, sizeof value);
    }
}

static void sweep_add(void *context, const struct block *part, void *memory)
{
    const struct sweep *s = context;
    struct full_check *f = s->check;
    if (s->standardizes)
        standardize_part(f, s->operand, part, memory);
    if (s->is_c)
        f->summed += checksum_block(&f->table, part, memory);
    if (s->read.type == SCALAR_INT64)
        widen_part(part, memory);
    if (is_apart(s, part))
        add_part(f, s, part, memory, 1);
}

static bool sweep_add_round(void *context, int count)
{
    const struct sweep *s = context;
    for (int i = 0; i < count; i++)
        if (!is_apart(s, &s->read.parts[i]))
            add_part(s->check, s, &s->read.parts[i], shared_read_memory(&s->read, i),
                     s->read.threads);
    return true;
}

/* Collective. */
static int sweep_matrix(struct full_check *f, const struct source *source, enum operand operand,
                        struct sweep *s, struct error *err)
{
    const struct problem *p = f->problem;
    const enum scalar type = s->is_c ? problem_written(p) : problem_factor(p, operand);
    s->check = f;
    s->operand = operand;
    s->share = share_of(&source->matrix, f->comm);
    s->read = (struct shared_read){.source = source,
                                   .type = type,
                                   .way = verify_way(p, s->is_c),
                                   .comm = f->comm,
                                   .threads = f->threads,
                                   .rooms = verify_rooms(p),
                                   .apart = true,
                                   .context = s,
                                   .add = sweep_add,
                                   .add_round = sweep_add_round};
    s->project.type = s->reach.type = s->sketch.type = type == SCALAR_INT64 ? SCALAR_DOUBLE : type;
    s->project.classes = s->reach.classes = s->sketch.classes = f->classes;
    s->sketch.deal = (int)problem_width(p);
    if (shared_read_open(&s->read, f->part_memory, err) == 0 && s->is_c)
        store_forget(s->read.store);
    shared_read_block(&s->read, &s->share, err);
    f->bytes += s->read.bytes;
    shared_read_close(&s->read);
    return err->code;
}

/* alpha and beta as kernels use them. */
static double rounded(const struct problem *p, double scalar)
{
    return scalar_rounded(p->type, scalar);
}

/* C x is alpha op(A) op(B) x, or op(A) op(B) x' where alpha is complex: x' has what multiplies real
 * and imaginary parts of op(A) op(B) in those of C.  Likewise for beta C0.  Returns x'; or x, and
 * the factor that is left. */
static const double *scale_weights(struct full_check *f, double real, double imaginary,
                                   double *factor)
{
    const double r = rounded(f->problem, real), s = rounded(f->problem, imaginary);
    *factor = imaginary == 0 ? r : 1;
    if (imaginary == 0)
        return f->weights;
    for (int64_t j = 0; j < f->problem->n; j += 2) {
        f->scaled[j] = r * f->weights[j] + s * f->weights[j + 1];
        f->scaled[j + 1] = r * f->weights[j + 1] - s * f->weights[j];
    }
    return f->scaled;
}

static struct sweep sketch_of(struct full_check *f, const double *weights, bool trans, double *sums,
                              double *squares, double *odd)
{
    return (struct sweep){.sketch = {.trans = trans,
                                     .weights = weights,
                                     .left_out = f->left_out,
                                     .sums = sums,
                                     .squares = squares,
                                     .odd = odd,
                                     .found = &f->found,
                                     .tag = 1}};
}

/* All ranks leave out what any of them has found.  Returns whether there was something. */
static bool leave_columns_out(struct full_check *f)
{
    double *scratch = f->scratch;
    const double not_finite = 1 << 24; /* more ranks than there are */
    bool any = false;
    for (int64_t j = 0; j < f->problem->n; j++)
        scratch[j] = f->left_out[j] == LEFT_OUT_NOT_FINITE ? not_finite : f->left_out[j];
    comm_sum_vector(f->comm, scratch, f->problem->n);
    for (int64_t j = 0; j < f->problem->n; j++)
        if (scratch[j] > 0) {
            f->left_out[j] = scratch[j] >= not_finite ? LEFT_OUT_NOT_FINITE : LEFT_OUT_LARGE;
            f->weights[j] = 0;
            any = true;
        }
    return any;
}

/* t := op(B) x, or op(B) x' with a complex alpha.  Where columns must be left out, B is read once
 * more without them. */
static int multiply_b(struct full_check *f, struct error *err)
{
    const struct problem *p = f->problem;
    int64_t numbers = p->k * f->classes;
    double ignored;
    bool again;
    do {
        const double *weights = scale_weights(f, p->alpha, p->alpha_i, &ignored);
        struct sweep sweep = sketch_of(f, weights, p->trans[1], f->t, f->t_squares, NULL);
        sweep.standardizes = p->scaling.axis[OPERAND_B] != AXIS_NONE;
        memset(f->t, 0, 2 * (size_t)numbers * sizeof *f->t);
        f->found = 0;
        if (sweep_matrix(f, &p->sources[OPERAND_B], OPERAND_B, &sweep, err))
            return err->code;
        again = comm_sum(f->comm, (uint64_t)f->found) > 0 && leave_columns_out(f);
    } while (again);
    comm_sum_vector(f->comm, f->t, 2 * numbers);
    return 0;
}

/* y := alpha op(A) t. */
static int multiply_a(struct full_check *f, struct error *err)
{
    const struct problem *p = f->problem;
    double alpha;
    scale_weights(f, p->alpha, p->alpha_i, &alpha);
    const double width = (double)freivalds_width(p->n, (int)problem_width(p), f->classes);
    norms_cpu(&(struct norms){p->k, f->classes, width, f->t_squares, f->norms, f->t_squares, true});
    struct sweep sweep = {
        .projects = true,
        .standardizes = p->scaling.axis[OPERAND_A] != AXIS_NONE,
        .project = {.trans = p->trans[0], .x = f->t, .y = f->y, .squares = f->row_squares},
        .reach = {.trans = p->trans[0], .absolute = true, .x = f->t_squares, .y = f->reach}};
    if (sweep_matrix(f, &p->sources[OPERAND_A], OPERAND_A, &sweep, err))
        return err->code;
    comm_sum_vector(f->comm, f->y, p->m * f->classes);
    comm_sum_vector(f->comm, f->row_squares, p->m);
    comm_sum_vector(f->comm, f->reach, p->m * f->classes);
    for (int64_t i = 0; i < p->m * f->classes; i++)
        f->y[i] *= alpha;
    return 0;
}

/* y += beta C0 x.  An element that is not finite excludes its class of the row from the check. */
static int add_c0(struct full_check *f, struct error *err)
{
    const struct problem *p = f->problem;
    int64_t numbers = p->m * f->classes;
    double beta, size = hypot(rounded(p, p->beta), rounded(p, p->beta_i));
    const double *weights = scale_weights(f, p->beta, p->beta_i, &beta);
    struct sweep sweep = sketch_of(f, weights, false, f->z, f->before, f->odd0);
    sweep.lower = p->lower;
    if (sweep_matrix(f, &p->sources[OPERAND_C], OPERAND_C, &sweep, err))
        return err->code;
    comm_sum_vector(f->comm, f->z, numbers);
    comm_sum_vector(f->comm, f->before, 2 * numbers);
    for (int64_t i = 0; i < numbers; i++) {
        f->y[i] += beta * f->z[i];
        f->before[i] =
            fmod(f->odd0[i], FREIVALDS_WRONG) > 0 ? INFINITY : size * size * f->before[i];
        f->z[i] = 0;
    }
    return 0;
}

static int read_c(struct full_check *f, const struct source *c, struct error *err)
{
    struct sweep sweep = sketch_of(f, f->weights, false, f->z, f->squares, f->odd);
    sweep.is_c = true;
    sweep.lower = f->problem->lower;
    if (sweep_matrix(f, c, OPERAND_C, &sweep, err))
        return err->code;
    comm_sum_vector(f->comm, f->z, 3 * f->problem->m * f->classes);
    return 0;
}

/* So many roundings of sums, in roundings of C's type. */
static double as_written(const struct problem *p, double rounded)
{
    const double u = scalar_roundoff(problem_written(p));
    return p->narrows ? 1 + rounded * scalar_roundoff(p->type) / u * (1 + u) : rounded;
}

/* The first row that is wrong for certain; -1: none.  The error of sums of k products in any order,
 * scaled and added to beta C0, is at most (k + 4) u (|alpha| |op(A)| |op(B)| + |beta| |C0|), and 4
 * more where alpha and beta are complex, which turn the two errors of an element; terms of second
 * order are covered for k u < 2.  Of products in residues their blocks are added, and then blocks
 * of k (sums.h), each of which has one of them or more.
 *
 * Of shifted elements (scaling_shifts) an element's error is bounded by the norms of its row and
 * column, as that of residues is.  Their squares are 1 + drift k / (k - 1) times those of z at
 * most, and 16 more roundings are those of both ways to z.
 *
 * Where C is floats of such doubles, all this counts in roundings of floats, and there is one more
 * of these, of the sums with their errors. */
static int64_t judge_rows(struct full_check *f, struct verify *v)
{
    const struct problem *p = f->problem;
    int64_t k = problem_reads_ab(p) ? p->k : 0;
    int64_t blocks = 2 * ceil_div(k, OZAKI_BLOCK);
    const double drift =
        scaling_shifts(p) ? v->statistics->drift * (double)k / fmax(1, (double)(k - 1)) : 0;
    const double shifted =
        scaling_shifts(p) ? ((double)k + 16) * scalar_roundoff(p->type) * (1 + drift) : 0;
    struct residues residues;
    if (p->moduli > 0)
        residues_make(p->moduli, p->complex, &residues);
    struct judge judge = {
        .type = p->narrows ? problem_written(p) : p->type,
        .rows = p->m,
        .cols = p->n,
        .classes = f->classes,
        .deal = (int)problem_width(p),
        .y = f->y,
        .z = f->z,
        .before = f->before,
        .squares = f->squares,
        .odd = f->odd,
        .weights = f->weights,
        .left_out = f->left_out,
        .found = &(int){1},
        .tag = 1,
        .row_squares = f->row_squares,
        .reach = f->reach,
        .norms = f->norms,
        .verdicts = f->verdicts,
        .counts = f->verdicts + VERDICTS * p->m,
        .stride = p->m,
        .scale = hypot(rounded(p, p->alpha), rounded(p, p->alpha_i)),
        .steps = (double)k,
        .rounded = as_written(p, (double)(p->moduli > 0 ? blocks : k) + (p->complex ? 8 : 4)),
        .inputs = shifted + (p->moduli > 0 ? (1 + drift) * ozaki_error(&residues) : 0),
        .roundings = 2 * (double)p->n + (double)k + f->comm->size + 8 + (p->complex ? 4 : 0),
        .begin = true};
    judge_cpu(&judge, f->threads);
    const struct judged judged = {.rows = p->m, .cols = p->n, .classes = f->classes};
    return findings_collect(&v->findings, f->verdicts, &judged);
}

/* Of all matrices that are read. */
static double bytes_of(const struct problem *p, const struct source *c)
{
    double bytes =
        (double)c->matrix.rows * (double)c->matrix.cols * (double)problem_written_element(p);
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        bytes += problem_reads(p, i) ? problem_bytes(p, i) : 0;
    return bytes;
}

static int check_all(struct full_check *f, const struct source *c, struct verify *v,
                     struct error *err)
{
    const struct problem *p = f->problem;
    phase_begin("full check of the files", bytes_of(p, c));
    for (int64_t j = 0; j < p->n; j++)
        f->weights[j] = check_weight(v->seed, CHECK_FULL, j);
    if (problem_reads_ab(p) && (multiply_b(f, err) || multiply_a(f, err)))
        return err->code;
    if ((problem_reads_c(p) && add_c0(f, err)) || read_c(f, c, err))
        return err->code;
    v->checksum = comm_sum(f->comm, f->summed);
    v->bytes = (double)comm_sum(f->comm, f->bytes);
    int64_t wrong = judge_rows(f, v);
    v->judged = true;
    if (v->has_expected && v->checksum != v->expected)
        error_add(err, EXIT_VERIFY,
                  "C in %s differs from what was written: its checksum is %016" PRIx64
                  ", not %016" PRIx64,
                  c->file, v->checksum, v->expected);
    if (wrong >= 0)
        error_add(err, EXIT_VERIFY,
                  "the full check failed: row %" PRId64
                  " of %s in %s differs by %.3g times the bound of rounding errors",
                  wrong, v->inner ? "A B, beside C," : "C", c->file, v->findings.ratio);
    return comm_agree(f->comm, err);
}

static double *carve(double **numbers, int64_t count)
{
    double *part = *numbers;
    *numbers += count;
    return part;
}

static int allocate(struct full_check *f, const struct machine *machine, struct error *err)
{
    const struct problem *p = f->problem;
    int64_t sums = p->m * f->classes;
    const size_t fixed = verify_fixed_bytes(p, f->classes, f->threads);
    f->part_memory = machine->host_memory > fixed ? machine->host_memory - fixed : 0;
    f->numbers = calloc(verify_numbers(p, f->classes), sizeof *f->numbers);
    f->left_out = calloc((size_t)p->n, sizeof *f->left_out);
    if (!f->numbers || !f->left_out)
        return error_no_memory(err, "the full check");
    double *next = f->numbers;
    f->weights = carve(&next, p->n);
    f->scratch = carve(&next, p->n);
    f->scaled = carve(&next, p->n);
    f->t = carve(&next, p->k * f->classes);
    f->t_squares = carve(&next, p->k * f->classes);
    f->row_squares = carve(&next, p->m);
    double **const sums_of[] = {&f->y,       &f->before, &f->odd0, &f->z,
                                &f->squares, &f->odd,    &f->reach};
    for (int i = 0; i < 7; i++)
        *sums_of[i] = carve(&next, sums);
    f->norms = carve(&next, f->classes);
    f->verdicts = next;
    return checksum_open(&f->table, problem_written(p), p->n, err);
}

int verify_files(const struct problem *p, const struct source *c, const struct machine *machine,
                 struct comm *comm, struct verify *v, struct error *err)
{
    double begin = clock_now();
    struct full_check f = {.problem = p,
                           .comm = comm,
                           .threads = machine->threads,
                           .classes = verify_classes(p, machine)};
    if (problem_scales(p))
        f.standardize = statistics_standardize(p, v->statistics);
    allocate(&f, machine, err);
    if (comm_agree(comm, err) == 0)
        check_all(&f, c, v, err);
    v->seconds = clock_now() - begin;
    checksum_close(&f.table);
    free(f.numbers);
    free(f.left_out);
    return err->code;
}
