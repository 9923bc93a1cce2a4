#include "census.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "error.h"
#include "lane_sums.h"
#include "lines.h"
#include "moments.h"
#include "problem.h"
#include "problem_scaling.h"

enum {
    LINES_ADDED = 256, /* of which ranks add up the sums at a time */
    LOCKS = 64,        /* of lines */
    NONE = 0,          /* of the copies: the first one is for all threads */
};

/* The mean is at most so many deviations from the shift: of the digits of products of shifted
 * elements two are lost. */
static const double most_deviations = 10;

/* The largest deviation of what is scaled, and the inverse of the smallest: squares of floats that
 * are a thousand times larger or smaller are still numbers. */
static const double most_scale = 1 << 20;

struct census {
    const struct problem *problem;
    struct comm *comm;
    int threads;
    int64_t first, lines;    /* that are added up now */
    struct moments *moments; /* of each of these lines; and again in each copy, ... */
    int copies;              /* ... which one thread at a time adds columns to */
    pthread_mutex_t taken[CENSUS_COPIES];
    pthread_mutex_t locks[LOCKS]; /* of lines, where no copy is free */
    double *sums;                 /* of LINES_ADDED lines, over all ranks */
    _Atomic uint64_t elements;    /* that were added since these lines began */
    _Atomic int64_t missing;      /* elements that are NaN, of all that were added */
    _Atomic uint64_t nan;         /* the first that was found where none may be; INT64_MAX: none */
};

static const uint64_t nan_of_b = UINT64_C(1) << 62; /* added to where it is */

static bool by_rows(const struct census *s, enum operand operand)
{
    return s->problem->scaling.axis[operand] == AXIS_ROWS;
}

/* The line that a row or column of the operand's matrix is, of those that are added up now. */
static int64_t line_of(const struct census *s, enum operand operand, int64_t at)
{
    return scaling_first(s->problem, operand) + at - s->first;
}

static pthread_mutex_t *lock_of(struct census *s, int64_t line)
{
    return &s->locks[line % LOCKS];
}

static struct moments *moments_of(const struct census *s, int copy)
{
    return s->moments + copy * s->lines;
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
        s->missing += m->missing - before;
}

/* Add the rows of a part, of which other parts may have elements, too. */
static void add_rows(struct census *s, enum operand operand, const struct block *part,
                     const void *memory)
{
    for (int64_t i = 0; i < part->rows; i++) {
        const int64_t line = line_of(s, operand, part->row + i);
        struct moments row = {0};
        for (int64_t j = 0; j < part->cols; j += LANE_ELEMENTS) {
            struct lane_sums sums = {.from = address(s, memory, i * part->cols + j),
                                     .count = min_i64(LANE_ELEMENTS, part->cols - j)};
            lane_sums_cpu(s->problem->type, &sums);
            add_line(s, &sums, 0, &row);
        }
        pthread_mutex_lock(lock_of(s, line));
        moments_merge(&s->moments[line], &row);
        pthread_mutex_unlock(lock_of(s, line));
    }
}

/* Add SUM_LANES columns, the first of which is `line`, from `col` of the part on, as far as there
 * are, of at most LANE_ELEMENTS rows. */
static void add_columns(struct census *s, int copy, int64_t line, const struct block *part,
                        const void *memory, int64_t col)
{
    struct lane_sums sums = {.from = address(s, memory, col),
                             .count = part->rows,
                             .ld = part->cols,
                             .lanes = (int)min_i64(SUM_LANES, part->cols - col)};
    lane_sums_cpu(s->problem->type, &sums);
    for (int lane = 0; lane < sums.lanes; lane++) {
        if (copy == NONE)
            pthread_mutex_lock(lock_of(s, line + lane));
        add_line(s, &sums, lane, &moments_of(s, copy)[line + lane]);
        if (copy == NONE)
            pthread_mutex_unlock(lock_of(s, line + lane));
    }
}

/* A copy for this thread alone, if one is free. */
static int take_copy(struct census *s)
{
    for (int copy = NONE + 1; copy < s->copies; copy++)
        if (pthread_mutex_trylock(&s->taken[copy]) == 0)
            return copy;
    return NONE;
}

/* Add the copies to the first one. */
static void join_copies(struct census *s, int64_t lines)
{
#pragma omp parallel for num_threads(s->threads) if (s->copies > 1)
    for (int64_t line = 0; line < lines; line++)
        for (int copy = NONE + 1; copy < s->copies; copy++)
            moments_merge(&s->moments[line], &moments_of(s, copy)[line]);
}

/* The first NaN of a part, where there may be none. */
static void find_nan(struct census *s, enum operand operand, const struct block *part,
                     const void *memory)
{
    const uint64_t cols = (uint64_t)s->problem->matrix[operand].cols;
    for (int64_t at = 0; at < part->rows * part->cols; at++) {
        double x = element(s, memory, at);
        if (x == x)
            continue;
        const uint64_t row = (uint64_t)(part->row + at / part->cols),
                       col = (uint64_t)(part->col + at % part->cols);
        pthread_mutex_lock(&s->locks[0]);
        s->nan = min_u64(s->nan, row * cols + col + (operand == OPERAND_B ? nan_of_b : 0));
        pthread_mutex_unlock(&s->locks[0]);
        return;
    }
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

static const char *line_name(const struct problem *p, enum operand operand)
{
    return problem_seen_scaling(p).axis[operand] == AXIS_ROWS ? "row" : "column";
}

void census_complain(const struct census *s, struct error *err)
{
    const uint64_t nan = s->nan;
    const enum operand operand = nan >= nan_of_b ? OPERAND_B : OPERAND_A;
    const struct matrix *matrix = &s->problem->matrix[operand];
    const struct source *source = &s->problem->sources[operand];
    const int64_t at = (int64_t)(operand == OPERAND_B ? nan - nan_of_b : nan);
    const int64_t row = at / matrix->cols, col = at % matrix->cols;
    error_add(
        err, EXIT_INPUT,
        "%s:%s is NaN in row %" PRId64 ", column %" PRId64
        ", counted from 0; give --nan mean to replace NaN by the mean of the others, or --nan zero",
        source->file, source->dataset, matrix->turned ? col : row, matrix->turned ? row : col);
}

/* What is half of the largest number at most has differences that are numbers, too. */
static bool is_too_large(const struct problem *p, const struct moments *m)
{
    return m->largest > scalar_largest(p->type) / 2 && isfinite(m->largest);
}

/* Rank 0: a line whose elements are so large that their differences may not be numbers. */
static void complain_large(const struct census *s, int64_t line, double largest, struct error *err)
{
    const struct problem *p = s->problem;
    const enum operand operand = scaling_operand(p, line);
    const struct source *source = &p->sources[operand];
    error_add(err, EXIT_INPUT,
              "%s:%s has an element of size %g in %s %" PRId64
              ", counted from 0, which is so large that subtracting the mean may overflow; divide "
              "the matrix by 4 or more",
              source->file, source->dataset, largest, line_name(p, operand),
              line - scaling_first(p, operand));
}

static void count_line(struct line_count *lines, int64_t line, bool counts)
{
    lines->first = counts && lines->count == 0 ? line : lines->first;
    lines->count += counts;
}

/* A scale that is far from the deviation becomes that.  Returns whether it was. */
static bool set_scale(struct statistics *to, int64_t line)
{
    const double deviation = to->deviation[line], scale = to->scale[line];
    const bool far =
        deviation > most_scale * scale || (deviation > 0 && deviation < scale / most_scale);
    if (far)
        to->scale[line] = lines_scale(deviation);
    to->offset[line] /= to->scale[line];
    to->spread[line] = deviation / to->scale[line];
    return far;
}

/* What the line becomes.  A shift that is too far from the mean becomes that. */
static void set_shifted(struct statistics *to, int64_t line)
{
    const double deviation = to->deviation[line];
    double offset = to->mean[line] - to->shift[line] + to->rest[line];
    const double deviations = offset / deviation;
    bool far = fabs(offset) > most_deviations * deviation;
    if (far) {
        to->shift[line] = to->mean[line];
        offset = to->rest[line];
    } else if (deviation > 0)
        to->drift = fmax(to->drift, deviations * deviations);
    to->offset[line] = offset;
    far |= to->scale && set_scale(to, line);
    to->moved += far;
}

/* What there is to say of the lines. */
static void look_at_lines(const struct census *s, struct statistics *to, struct error *err)
{
    const struct problem *p = s->problem;
    for (int64_t i = 0; i < s->lines && !err->code; i++) {
        const struct moments *m = &s->moments[i];
        const int64_t line = s->first + i;
        const enum operand operand = scaling_operand(p, line);
        const int64_t number = line - scaling_first(p, operand);
        to->found[operand].missing += m->missing;
        count_line(&to->found[operand].constant, number, to->deviation[line] == 0);
        count_line(&to->found[operand].infinite, number, isinf(m->largest));
        if (scaling_shifts(p))
            set_shifted(to, line);
        if (is_too_large(p, m))
            complain_large(s, line, m->largest, err);
    }
}

int census_finish(struct census *s, struct statistics *to, struct error *err)
{
    const struct problem *p = s->problem;
    const bool apart = p->scaling.missing == MISSING_MEAN;
    const int64_t first = s->first, lines = s->lines;
    struct error found = {0};
    if (comm_agree(s->comm, err))
        return err->code;
    s->nan = comm_min(s->comm, s->nan);
    const uint64_t elements = comm_sum(s->comm, s->elements);
    if (s->nan < INT64_MAX)
        census_complain(s, &found);
    else if (elements != (uint64_t)(lines * scaling_elements(p)))
        error_add(&found, EXIT_RUNTIME, "not every element was added up once for its mean");
    join_copies(s, lines);
    for (int64_t i = 0; i < lines && s->comm->size > 1 && !found.code; i += LINES_ADDED)
        add_ranks(s, &s->moments[i], min_i64(LINES_ADDED, lines - i));
#pragma omp parallel for num_threads(s->threads)
    for (int64_t i = 0; i < lines; i++) {
        struct mean mean =
            moments_finish(&s->moments[i], scaling_elements(p), apart, &to->deviation[first + i]);
        to->mean[first + i] = mean.mean;
        to->rest[first + i] = mean.rest;
    }
    look_at_lines(s, to, &found);
    if (s->comm->rank == 0 && found.code)
        *err = found;
    return comm_agree(s->comm, err);
}

/* Of sums that ranks add up together. */
static size_t added_bytes(void)
{
    return LINES_ADDED * (2 + MOMENT_SPAN + MOMENT_PARTS) * sizeof(double);
}

size_t census_bytes(int64_t lines, int copies)
{
    return (size_t)(lines * copies) * sizeof(struct moments) + added_bytes();
}

struct census *census_open(const struct problem *p, struct comm *comm, int threads, int64_t lines,
                           int copies, struct error *err)
{
    struct census *s = calloc(1, sizeof *s);
    if (s) {
        *s = (struct census){.problem = p,
                             .comm = comm,
                             .threads = threads,
                             .moments = malloc(census_bytes(lines, copies)),
                             .copies = copies,
                             .sums = malloc(added_bytes()),
                             .nan = INT64_MAX};
        for (int i = 0; i < LOCKS; i++)
            pthread_mutex_init(&s->locks[i], NULL);
        for (int i = 0; i < CENSUS_COPIES; i++)
            pthread_mutex_init(&s->taken[i], NULL);
    }
    if (s && s->moments && s->sums)
        return s;
    error_no_memory(err, "means and deviations");
    census_close(s);
    return NULL;
}

void census_close(struct census *s)
{
    if (!s)
        return;
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&s->locks[i]);
    for (int i = 0; i < CENSUS_COPIES; i++)
        pthread_mutex_destroy(&s->taken[i]);
    free(s->moments);
    free(s->sums);
    free(s);
}

void census_begin(struct census *s, int64_t first, int64_t lines)
{
    s->first = first;
    s->lines = lines;
    memset(s->moments, 0, (size_t)(lines * s->copies) * sizeof *s->moments);
    s->elements = 0;
}

bool census_add(struct census *s, enum operand operand, const struct block *part,
                const void *memory)
{
    struct block rows = *part; /* few enough to stay in the caches */
    const bool are_rows = by_rows(s, operand);
    const int64_t line = line_of(s, operand, part->col);
    const int copy = are_rows ? NONE : take_copy(s);
    for (int64_t row = 0; row < part->rows; row += LANE_ELEMENTS) {
        const void *from = address(s, memory, row * part->cols);
        rows.row = part->row + row;
        rows.rows = min_i64(LANE_ELEMENTS, part->rows - row);
        for (int64_t col = 0; col < part->cols && !are_rows; col += SUM_LANES)
            add_columns(s, copy, line + col, &rows, from, col);
        if (are_rows)
            add_rows(s, operand, &rows, from);
    }
    if (copy != NONE)
        pthread_mutex_unlock(&s->taken[copy]);
    s->elements += (uint64_t)(part->rows * part->cols);
    if (s->missing > 0 && s->problem->scaling.missing == MISSING_ERROR)
        find_nan(s, operand, part, memory);
    return census_goes_on(s);
}

bool census_goes_on(const struct census *s)
{
    return s->nan == INT64_MAX;
}
