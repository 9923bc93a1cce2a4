#include "statistics.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "error.h"
#include "lane_sums.h"
#include "machine.h"
#include "meter.h"
#include "moments.h"
#include "problem.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "shared_read.h"

enum {
    LINES_LEAST = 64,      /* of a group */
    LINES_ADDED = 256,     /* of which ranks add up the sums at a time */
    MEMORY_RUN = 32 << 10, /* bytes of a row that are read at a time from files in memory */
};

struct census {
    const struct problem *problem;
    const struct matrix *matrix;
    struct comm *comm;
    struct shared_read read;
    struct block group;      /* of the matrix: all of its lines that are added up now */
    struct moments *moments; /* of each line of the group */
    double *sums;            /* of LINES_ADDED lines, over all ranks */
    int64_t missing;         /* elements that are NaN, of what was read */
    uint64_t nan; /* of those that were found where none may be, the first; INT64_MAX: none */
};

static bool by_rows(const struct census *s)
{
    return s->problem->scaling.axis == AXIS_ROWS;
}

static const char *address(const struct census *s, const void *memory, int64_t at)
{
    return (const char *)memory + (size_t)at * scalar_size(s->problem->type);
}

static double element(const struct census *s, const void *memory, int64_t at)
{
    return scalar_get(s->problem->type, memory, at);
}

/* Add the elements of a line: by the sums of all or, where these would be rounded, one by one. */
static void add_line(struct census *s, const struct lane_sums *sums, int lane, struct moments *m)
{
    const int64_t step = sums->lanes ? sums->ld : 1, before = m->missing;
    if (sums->exact[lane]) {
        const struct moment_sums parts = {sums->sum[lane],     sums->squares[lane],
                                          SUM_PIECES,          SQUARE_PARTS,
                                          sums->largest[lane], sums->missing[lane]};
        moments_add_sums(m, &parts);
    }
    for (int64_t i = 0; i < sums->count && !sums->exact[lane]; i++)
        moments_add(m, element(s, sums->from, i * step + lane));
    if (m->missing > before)
#pragma omp atomic
        s->missing += m->missing - before;
}

/* Add the rows of a part.  Those that other parts have elements of, too, are one thread's at a
 * time. */
static void add_rows(struct census *s, const struct block *part, const void *memory)
{
    bool whole = part->cols == s->matrix->cols;
    for (int64_t i = 0; i < part->rows; i++) {
        struct moments row, *sum = &s->moments[part->row - s->group.row + i];
        struct moments *to = whole ? sum : &row;
        memset(to, 0, sizeof *to);
        for (int64_t j = 0; j < part->cols; j += LANE_ELEMENTS) {
            struct lane_sums sums = {.from = address(s, memory, i * part->cols + j),
                                     .count = min_i64(LANE_ELEMENTS, part->cols - j)};
            lane_sums_cpu(s->problem->type, &sums);
            add_line(s, &sums, 0, to);
        }
        if (!whole)
#pragma omp critical(statistics)
            moments_merge(sum, &row);
    }
}

/* Add the elements of a part in at most SUM_LANES columns of the group. */
static void add_columns(struct census *s, int part, int64_t first, int64_t end)
{
    const struct block *b = &s->read.parts[part];
    const void *memory = shared_read_memory(&s->read, part);
    int64_t skip = b->col - s->group.col;
    first = max_i64(first, skip);
    end = min_i64(end, skip + b->cols);
    for (int64_t i = 0; i < b->rows && first < end; i += LANE_ELEMENTS) {
        struct lane_sums sums = {.from = address(s, memory, i * b->cols + first - skip),
                                 .count = min_i64(LANE_ELEMENTS, b->rows - i),
                                 .ld = b->cols,
                                 .lanes = (int)(end - first)};
        lane_sums_cpu(s->problem->type, &sums);
        for (int lane = 0; lane < sums.lanes; lane++)
            add_line(s, &sums, lane, &s->moments[first + lane]);
    }
}

/* The first NaN of a part, where there may be none. */
static void find_nan(struct census *s, int index)
{
    const struct block *part = &s->read.parts[index];
    const void *memory = shared_read_memory(&s->read, index);
    for (int64_t at = 0; at < part->rows * part->cols; at++) {
        double x = element(s, memory, at);
        if (x == x)
            continue;
        int64_t row = part->row + at / part->cols, col = part->col + at % part->cols;
        s->nan = min_u64(s->nan, (uint64_t)(row * s->matrix->cols + col));
        return;
    }
}

static void add_part(void *context, const struct block *part, void *memory)
{
    if (by_rows(context))
        add_rows(context, part, memory);
}

/* Columns are shared anew by the threads.  After a NaN that is refused this rank reads no more. */
static bool add_round(void *context, int count)
{
    struct census *s = context;
#pragma omp parallel for num_threads(s->read.threads) if (s->read.threads > 1)
    for (int64_t col = 0; col < (by_rows(s) ? 0 : s->group.cols); col += SUM_LANES)
        for (int i = 0; i < count; i++)
            add_columns(s, i, col, min_i64(col + SUM_LANES, s->group.cols));
    for (int i = 0; i < count; i++)
        if (s->missing > 0 && s->problem->scaling.missing == MISSING_ERROR)
            find_nan(s, i);
    return s->nan == INT64_MAX;
}

/* Collective.  Make the sums of some lines those of all ranks. */
static void add_ranks(struct census *s, struct moments *m, int64_t lines)
{
    double *span = s->sums, *largest = span + MOMENT_SPAN, *missing = largest + lines;
    double *parts = missing + lines;
    memcpy(span, moment_no_span, sizeof moment_no_span);
    for (int64_t i = 0; i < lines; i++) {
        moments_widen(&m[i], span);
        largest[i] = m[i].largest;
        missing[i] = (double)m[i].missing;
    }
    comm_most_vector(s->comm, span, MOMENT_SPAN + lines);
    int64_t each = 0;
    for (int64_t i = 0; i < lines; i++)
        each = moments_to_parts(&m[i], span, parts + i * each);
    comm_sum_vector(s->comm, missing, (1 + each) * lines);
    for (int64_t i = 0; i < lines; i++) {
        moments_from_parts(&m[i], span, parts + i * each);
        m[i].largest = largest[i];
        m[i].missing = (int64_t)missing[i];
    }
}

static const char *line_name(const struct problem *p)
{
    return p->scaling.axis == AXIS_ROWS ? "row" : "column";
}

/* Rank 0: a NaN was found where none may be. */
static void complain_nan(const struct census *s, struct error *err)
{
    error_add(
        err, EXIT_INPUT,
        "%s:%s is NaN in row %" PRId64 ", column %" PRId64
        ", counted from 0; give --nan mean to replace NaN by the mean of the others, or --nan zero",
        s->read.source->file, s->read.source->dataset, (int64_t)s->nan / s->matrix->cols,
        (int64_t)s->nan % s->matrix->cols);
}

/* What is half of the largest number at most has differences that are numbers, too. */
static bool is_too_large(const struct problem *p, const struct moments *m)
{
    return m->largest > scalar_largest(p->type) / 2 && isfinite(m->largest);
}

/* Rank 0: a line whose elements are so large that their differences may not be numbers. */
static void complain_large(const struct census *s, int64_t line, double largest, struct error *err)
{
    error_add(err, EXIT_INPUT,
              "%s:%s has an element of size %g in %s %" PRId64
              ", counted from 0, which is so large that subtracting the mean may overflow; divide "
              "the matrix by 4 or more",
              s->read.source->file, s->read.source->dataset, largest, line_name(s->problem), line);
}

static void count_line(struct line_count *lines, int64_t line, bool counts)
{
    lines->first = counts && lines->count == 0 ? line : lines->first;
    lines->count += counts;
}

/* What there is to say of the lines of the group. */
static void look_at_lines(const struct census *s, int64_t first, int64_t lines,
                          struct statistics *to, struct error *err)
{
    for (int64_t i = 0; i < lines && !err->code; i++) {
        const struct moments *m = &s->moments[i];
        to->missing += m->missing;
        count_line(&to->constant, first + i, to->deviation[first + i] == 0);
        count_line(&to->infinite, first + i, isinf(m->largest));
        if (is_too_large(s->problem, m))
            complain_large(s, first + i, m->largest, err);
    }
}

/* Collective.  The means and deviations of the group, from the sums of all ranks. */
static int finish_group(struct census *s, struct statistics *to, struct error *err)
{
    const struct problem *p = s->problem;
    bool apart = p->scaling.missing == MISSING_MEAN;
    int64_t first = by_rows(s) ? s->group.row : s->group.col;
    int64_t lines = by_rows(s) ? s->group.rows : s->group.cols;
    struct error found = {0};
    s->nan = comm_min(s->comm, s->nan);
    if (s->nan < INT64_MAX)
        complain_nan(s, &found);
    for (int64_t i = 0; i < lines && s->comm->size > 1 && !found.code; i += LINES_ADDED)
        add_ranks(s, &s->moments[i], min_i64(LINES_ADDED, lines - i));
#pragma omp parallel for num_threads(s->read.threads)
    for (int64_t i = 0; i < lines; i++) {
        struct mean mean =
            moments_finish(&s->moments[i], scaling_elements(p), apart, &to->deviation[first + i]);
        to->mean[first + i] = mean.mean;
        to->rest[first + i] = mean.rest;
    }
    look_at_lines(s, first, lines, to, &found);
    if (s->comm->rank == 0 && found.code)
        *err = found;
    return comm_agree(s->comm, err);
}

/* Half of the memory is for parts, the other for groups of as many lines as it has sums for. */
static int allocate(struct census *s, size_t memory, int64_t *lines, struct error *err)
{
    const struct problem *p = s->problem;
    const size_t sums = (2 + MOMENT_SPAN + MOMENT_PARTS) * sizeof(double);
    const size_t fixed = shared_read_overhead(s->matrix, p->type, p->io, s->read.threads) +
                         3 * sizeof(double) * (size_t)scaling_lines(p) + LINES_ADDED * sums;
    const size_t half = memory > fixed ? (memory - fixed) / 2 : 0;
    *lines = max_i64(LINES_LEAST, (int64_t)(half / sizeof *s->moments));
    *lines = min_i64(*lines, scaling_lines(p));
    s->moments = calloc((size_t)*lines, sizeof *s->moments);
    s->sums = malloc(LINES_ADDED * sums);
    if (!s->moments || !s->sums)
        return error_no_memory(err, "means and deviations");
    return shared_read_open(&s->read, half, err);
}

/* Columns of files in memory go in narrow groups, whose parts have so many rows that the exact sums
 * of a part are few beside its elements.  A disk is read in whole rows. */
static int64_t narrow(const struct census *s, const struct machine *machine, int64_t lines)
{
    const bool in_memory = comm_min(s->comm, machine->files_in_memory);
    if (by_rows(s) || s->matrix->chunk_rows > 0 || !in_memory)
        return lines;
    return min_i64(lines, MEMORY_RUN / (int64_t)scalar_size(s->problem->type));
}

static int read_all(struct census *s, int64_t lines, struct statistics *to, struct error *err)
{
    const struct matrix *matrix = s->matrix;
    for (int64_t first = 0; first < to->lines; first += lines) {
        int64_t count = min_i64(lines, to->lines - first);
        s->group = by_rows(s) ? (struct block){first, 0, count, matrix->cols}
                              : (struct block){0, first, matrix->rows, count};
        memset(s->moments, 0, (size_t)lines * sizeof *s->moments);
        if (shared_read_block(&s->read, &s->group, err) || finish_group(s, to, err))
            return err->code;
    }
    return 0;
}

int statistics_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                    struct statistics *to, struct error *err)
{
    double begin = clock_now();
    int64_t lines = 0;
    size_t memory =
        comm_min(comm, machine->host_memory); /* all ranks cut the matrix in the same way */
    struct census s = {.problem = p,
                       .matrix = &p->matrix[OPERAND_A],
                       .comm = comm,
                       .read = {.source = &p->sources[OPERAND_A],
                                .type = p->type,
                                .way = p->io,
                                .comm = comm,
                                .threads = (int)comm_min(comm, (uint64_t)machine->threads),
                                .context = &s,
                                .add = add_part,
                                .add_round = add_round},
                       .nan = INT64_MAX};
    *to = (struct statistics){.lines = scaling_lines(p)};
    to->mean = malloc(3 * (size_t)to->lines * sizeof *to->mean);
    if (to->mean) {
        to->rest = to->mean + to->lines;
        to->deviation = to->rest + to->lines;
        allocate(&s, memory, &lines, err);
    } else {
        error_no_memory(err, "means and deviations");
    }
    if (comm_agree(comm, err) == 0)
        read_all(&s, narrow(&s, machine, lines), to, err);
    to->bytes = (double)comm_sum(comm, s.read.bytes);
    to->seconds = clock_now() - begin;
    shared_read_close(&s.read);
    free(s.moments);
    free(s.sums);
    return err->code;
}

bool statistics_equal(const struct statistics *a, const struct statistics *b)
{
    return a->lines == b->lines &&
           memcmp(a->mean, b->mean, 3 * (size_t)a->lines * sizeof *a->mean) == 0;
}

void statistics_free(struct statistics *statistics)
{
    free(statistics->mean);
    statistics->mean = statistics->rest = statistics->deviation = NULL;
}

/* Variables that are constant have no correlation; other lines, of one of many observations, are
 * not divided. */
struct standardize statistics_standardize(const struct problem *p,
                                          const struct statistics *statistics)
{
    const struct scaling *scaling = &p->scaling;
    return (struct standardize){.type = p->type,
                                .by_rows = scaling->axis == AXIS_ROWS,
                                .mean = scaling->centers ? statistics->mean : NULL,
                                .rest = scaling->centers ? statistics->rest : NULL,
                                .deviation = scaling->scales ? statistics->deviation : NULL,
                                .constant = scaling_lines_are_variables(p) ? NAN : 1,
                                .missing = scaling->missing};
}

struct standardize statistics_part(const struct standardize *all, const struct block *block)
{
    struct standardize part = *all;
    int64_t first = all->by_rows ? block->row : block->col;
    part.rows = block->rows;
    part.cols = part.ld = block->cols;
    part.mean += all->mean ? first : 0;
    part.rest += all->rest ? first : 0;
    part.deviation += all->deviation ? first : 0;
    return part;
}
