#include "statistics.h"

#include <float.h>
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
#include "quantity.h"
#include "standard_problem.h"
#include "stop.h"
#include "store.h"

enum {
    PAGE = 4096,
    PART_LEAST = 64 << 10, /* bytes that a thread reads at a time, */
    PART_MOST = 4 << 20,   /* or a whole chunk of at most ... */
    CHUNK_MOST = 16 << 20,
    LINES_LEAST = 64,      /* of a group */
    LINES_ADDED = 256,     /* of which ranks add up the sums at a time */
    MEMORY_RUN = 32 << 10, /* bytes of a row that are read at a time from files in memory */
};

struct census {
    const struct problem *problem;
    const struct matrix_info *info;
    struct comm *comm;
    const struct statistics_watch *watch;
    struct store *store;
    int threads;
    struct block group; /* of the matrix: all of its lines that are added up now */
    struct block_cut cut;
    size_t part_bytes;
    char *parts;             /* a part for each thread */
    struct block *blocks;    /* what these hold */
    struct moments *moments; /* of each line of the group */
    double *sums;            /* of LINES_ADDED lines, over all ranks */
    int64_t missing;         /* elements that are NaN, of what was read */
    uint64_t nan; /* of those that were found where none may be, the first; INT64_MAX: none */
    double bytes;
};

static bool by_rows(const struct census *s)
{
    return s->problem->standard.axis == AXIS_ROWS;
}

static const char *address(const struct census *s, const void *memory, int64_t at)
{
    return (const char *)memory + (size_t)at * scalar_size(s->problem->type);
}

static double element(const struct census *s, const void *memory, int64_t at)
{
    return s->problem->type == SCALAR_FLOAT ? (double)((const float *)memory)[at]
                                            : ((const double *)memory)[at];
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
    bool whole = part->cols == s->info->cols;
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
    const struct block *b = &s->blocks[part];
    const void *memory = s->parts + (size_t)part * s->part_bytes;
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
    const struct block *part = &s->blocks[index];
    const void *memory = s->parts + (size_t)index * s->part_bytes;
    for (int64_t at = 0; at < part->rows * part->cols; at++) {
        double x = element(s, memory, at);
        if (x == x)
            continue;
        int64_t row = part->row + at / part->cols, col = part->col + at % part->cols;
        s->nan = min_u64(s->nan, (uint64_t)(row * s->info->cols + col));
        return;
    }
}

/* Parts [first, first + count) of the group, a thread each; then columns are shared anew. */
static int read_parts(struct census *s, int64_t first, int count, struct error *err)
{
#pragma omp parallel for num_threads(s->threads) schedule(static, 1) if (count > 1)
    for (int i = 0; i < count; i++) {
        struct error mine = {0};
        char *memory = s->parts + (size_t)i * s->part_bytes;
        s->blocks[i] = block_cut_part(&s->group, &s->cut, first + i);
        if (store_read(s->store, &s->blocks[i], memory, &mine)) {
#pragma omp critical(statistics)
            *err = mine;
            continue;
        }
        if (by_rows(s))
            add_rows(s, &s->blocks[i], memory);
    }
    if (err->code)
        return err->code;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (int64_t col = 0; col < (by_rows(s) ? 0 : s->group.cols); col += SUM_LANES)
        for (int i = 0; i < count; i++)
            add_columns(s, i, col, min_i64(col + SUM_LANES, s->group.cols));
    for (int i = 0; i < count; i++) {
        s->bytes +=
            (double)(s->blocks[i].rows * s->blocks[i].cols) * (double)scalar_size(s->problem->type);
        if (s->missing > 0 && s->problem->standard.missing == MISSING_ERROR)
            find_nan(s, i);
    }
    return 0;
}

/* So many of the group's parts have been read, by all ranks together. */
static void tell(const struct census *s, int64_t read, int64_t parts)
{
    int64_t first = by_rows(s) ? s->group.row : s->group.col;
    int64_t lines = by_rows(s) ? s->group.rows : s->group.cols;
    double of_group = (double)min_i64(read, parts) / (double)parts;
    double done = (double)first + of_group * (double)lines;
    if (s->comm->rank == 0)
        s->watch->tell(s->watch->context, done / (double)standard_lines(s->problem));
}

/* Add up what this rank reads of the group: as many parts as it has threads, then those of the next
 * ranks follow.  After a NaN that is refused it reads no more. */
static int read_group(struct census *s, struct error *err)
{
    int64_t parts = block_cut_parts(&s->group, &s->cut), each = s->threads;
    for (int64_t i = s->comm->rank * each; i < parts && !err->code && !comm_raised(s->comm);
         i += s->comm->size * each)
        if (stop_level(s->comm->rank == 0) == STOP_END)
            err->code = EXIT_STOPPED;
        else if (s->nan == INT64_MAX && read_parts(s, i, (int)min_i64(each, parts - i), err) == 0)
            tell(s, i + s->comm->size * each, parts);
    if (err->code)
        comm_raise(s->comm);
    return comm_agree(s->comm, err);
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
    comm_most_vector(span, MOMENT_SPAN + lines);
    int64_t each = 0;
    for (int64_t i = 0; i < lines; i++)
        each = moments_to_parts(&m[i], span, parts + i * each);
    comm_sum_vector(missing, (1 + each) * lines);
    for (int64_t i = 0; i < lines; i++) {
        moments_from_parts(&m[i], span, parts + i * each);
        m[i].largest = largest[i];
        m[i].missing = (int64_t)missing[i];
    }
}

static const char *line_name(const struct problem *p)
{
    return p->standard.axis == AXIS_ROWS ? "row" : "column";
}

/* Rank 0: a NaN was found where none may be. */
static void complain_nan(const struct census *s, struct error *err)
{
    error_add(err, EXIT_INPUT,
              "%s:%s is NaN in row %" PRId64 ", column %" PRId64
              ", counted from 0; give --nan mean to take the mean of the others for what "
              "is missing, or --nan zero",
              s->info->file, s->info->dataset, (int64_t)s->nan / s->info->cols,
              (int64_t)s->nan % s->info->cols);
}

/* What is half of the largest number at most has differences that are numbers, too. */
static bool is_too_large(const struct problem *p, const struct moments *m)
{
    return m->largest > (p->type == SCALAR_FLOAT ? (double)FLT_MAX : DBL_MAX) / 2 &&
           isfinite(m->largest);
}

/* Rank 0: a line whose elements are so large that their differences may not be numbers. */
static void complain_large(const struct census *s, int64_t line, double largest, struct error *err)
{
    error_add(err, EXIT_INPUT,
              "%s:%s has an element of size %g in %s %" PRId64
              ", counted from 0, which is so large that its difference from the mean may "
              "overflow; divide the matrix by 4 or more",
              s->info->file, s->info->dataset, largest, line_name(s->problem), line);
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
    bool apart = p->standard.missing == MISSING_MEAN;
    int64_t first = by_rows(s) ? s->group.row : s->group.col;
    int64_t lines = by_rows(s) ? s->group.rows : s->group.cols;
    struct error found = {0};
    s->nan = comm_min(s->nan);
    if (s->nan < INT64_MAX)
        complain_nan(s, &found);
    for (int64_t i = 0; i < lines && s->comm->size > 1 && !found.code; i += LINES_ADDED)
        add_ranks(s, &s->moments[i], min_i64(LINES_ADDED, lines - i));
#pragma omp parallel for num_threads(s->threads)
    for (int64_t i = 0; i < lines; i++) {
        struct mean mean =
            moments_finish(&s->moments[i], standard_elements(p), apart, &to->deviation[first + i]);
        to->mean[first + i] = mean.mean;
        to->rest[first + i] = mean.rest;
    }
    look_at_lines(s, first, lines, to, &found);
    if (s->comm->rank == 0 && found.code)
        *err = found;
    return comm_agree(s->comm, err);
}

/* Parts of at least a chunk, which is then decoded once, and groups of as many lines as what is
 * left of the memory has sums for. */
static int allocate(struct census *s, size_t memory, int64_t *lines, struct error *err)
{
    const struct problem *p = s->problem;
    const size_t threads = (size_t)s->threads,
                 sums = (2 + MOMENT_SPAN + MOMENT_PARTS) * sizeof(double);
    size_t fixed = store_overhead_bytes(s->info, p->type, STORE_READ, p->io, s->threads) +
                   store_shared_bytes(s->info, p->type, STORE_READ, p->io) +
                   3 * sizeof(double) * (size_t)standard_lines(p) + LINES_ADDED * sums;
    size_t half = memory > fixed ? (memory - fixed) / 2 : 0;
    size_t best = s->info->chunk_bytes <= CHUNK_MOST && s->info->chunk_bytes > PART_MOST
                      ? (size_t)round_up((int64_t)s->info->chunk_bytes, PAGE)
                      : PART_MOST;
    size_t each = half / threads / PAGE * PAGE;
    s->part_bytes = each < PART_LEAST ? PART_LEAST : each < best ? each : best;
    *lines = max_i64(LINES_LEAST, (int64_t)(half / sizeof *s->moments));
    *lines = min_i64(*lines, standard_lines(p));
    s->parts = aligned_alloc(PAGE, threads * s->part_bytes);
    s->blocks = calloc(threads, sizeof *s->blocks);
    s->moments = calloc((size_t)*lines, sizeof *s->moments);
    s->sums = malloc(LINES_ADDED * sums);
    if (!s->parts || !s->blocks || !s->moments || !s->sums)
        return error_add(err, EXIT_RESOURCES, "no memory for means and deviations");
    return store_open(s->info, p->type, STORE_READ, p->io, &s->store, err);
}

/* Columns of files in memory go in narrow groups, whose parts have so many rows that the exact sums
 * of a part are few beside its elements.  A disk is read in whole rows. */
static int64_t narrow(const struct census *s, const struct machine *machine, int64_t lines)
{
    const bool in_memory = comm_min(machine->files_in_memory);
    if (by_rows(s) || s->info->chunk_rows > 0 || !in_memory)
        return lines;
    return min_i64(lines, MEMORY_RUN / (int64_t)scalar_size(s->problem->type));
}

static int read_all(struct census *s, int64_t lines, struct statistics *to, struct error *err)
{
    const struct matrix_info *info = s->info;
    for (int64_t first = 0; first < to->lines; first += lines) {
        int64_t count = min_i64(lines, to->lines - first);
        s->group = by_rows(s) ? (struct block){first, 0, count, info->cols}
                              : (struct block){0, first, info->rows, count};
        memset(s->moments, 0, (size_t)lines * sizeof *s->moments);
        if (read_group(s, err) || finish_group(s, to, err))
            return err->code;
    }
    return 0;
}

int statistics_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                    const struct statistics_watch *watch, struct statistics *to, struct error *err)
{
    double begin = clock_now();
    int64_t lines = 0;
    size_t memory = comm_min(machine->host_memory); /* all ranks cut the matrix in the same way */
    struct census s = {.problem = p,
                       .info = &p->matrix[OPERAND_A],
                       .comm = comm,
                       .watch = watch,
                       .threads = (int)comm_min((uint64_t)machine->threads),
                       .nan = INT64_MAX};
    *to = (struct statistics){.lines = standard_lines(p)};
    to->mean = malloc((size_t)to->lines * sizeof *to->mean);
    to->rest = malloc((size_t)to->lines * sizeof *to->rest);
    to->deviation = malloc((size_t)to->lines * sizeof *to->deviation);
    if (!to->mean || !to->rest || !to->deviation)
        error_add(err, EXIT_RESOURCES, "no memory for means and deviations");
    else
        allocate(&s, memory, &lines, err);
    s.cut = (struct block_cut){(int64_t)(s.part_bytes / scalar_size(p->type)), s.info->chunk_rows,
                               s.info->chunk_cols};
    if (comm_agree(comm, err) == 0)
        read_all(&s, narrow(&s, machine, lines), to, err);
    to->bytes = (double)comm_sum((uint64_t)s.bytes);
    to->seconds = clock_now() - begin;
    store_close(s.store);
    free(s.parts);
    free(s.blocks);
    free(s.moments);
    free(s.sums);
    return err->code;
}

bool statistics_equal(const struct statistics *a, const struct statistics *b)
{
    const size_t bytes = (size_t)a->lines * sizeof *a->mean;
    return a->lines == b->lines && memcmp(a->mean, b->mean, bytes) == 0 &&
           memcmp(a->rest, b->rest, bytes) == 0 && memcmp(a->deviation, b->deviation, bytes) == 0;
}

void statistics_free(struct statistics *statistics)
{
    free(statistics->mean);
    free(statistics->rest);
    free(statistics->deviation);
    statistics->mean = statistics->rest = statistics->deviation = NULL;
}

/* Variables that are constant have no correlation; other lines, of one of many observations, are
 * not divided. */
struct standardize statistics_standardize(const struct problem *p,
                                          const struct statistics *statistics)
{
    const struct standard *standard = &p->standard;
    return (struct standardize){.type = p->type,
                                .by_rows = standard->axis == AXIS_ROWS,
                                .mean = standard->centers ? statistics->mean : NULL,
                                .rest = standard->centers ? statistics->rest : NULL,
                                .deviation = standard->scales ? statistics->deviation : NULL,
                                .constant = standard_lines_are_variables(p) ? NAN : 1,
                                .missing = standard->missing};
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
