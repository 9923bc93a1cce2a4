#include "statistics.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "error.h"
#include "machine.h"
#include "meter.h"
#include "moments.h"
#include "problem.h"
#include "quantity.h"
#include "stop.h"
#include "store.h"

enum {
    PAGE = 4096,
    PART_LEAST = 64 << 10, /* bytes that a thread reads at a time, */
    PART_MOST = 4 << 20,   /* or a whole chunk of at most ... */
    CHUNK_MOST = 16 << 20,
    LINES_LEAST = 64,   /* of a group */
    LINES_ADDED = 1024, /* of which ranks add up the sums at a time */
    COLUMNS = 8         /* that a thread adds up together: a line of its cache */
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
    uint64_t nan; /* of the elements that were found to be NaN, the first; INT64_MAX: none */
    double bytes;
};

static bool by_rows(const struct census *s)
{
    return s->problem->standard.axis == AXIS_ROWS;
}

static double element(const struct census *s, const void *memory, int64_t at)
{
    return s->problem->type == SCALAR_FLOAT ? (double)((const float *)memory)[at]
                                            : ((const double *)memory)[at];
}

/* Add the rows of a part.  Those that other parts have elements of, too, are one thread's at a
 * time. */
static void add_rows(struct census *s, const struct block *part, const void *memory)
{
    bool whole = part->cols == s->info->cols;
    for (int64_t i = 0; i < part->rows; i++) {
        struct moments row = {0}, *sum = &s->moments[part->row - s->group.row + i];
        for (int64_t j = 0; j < part->cols; j++)
            moments_add(&row, element(s, memory, i * part->cols + j));
        if (whole)
            *sum = row;
        else
#pragma omp critical(statistics)
            moments_merge(sum, &row);
    }
}

/* Add the elements of a part in some columns of the group. */
static void add_columns(struct census *s, int part, int64_t first, int64_t end)
{
    const struct block *b = &s->blocks[part];
    const void *memory = s->parts + (size_t)part * s->part_bytes;
    int64_t skip = b->col - s->group.col;
    first = max_i64(first, skip);
    end = min_i64(end, skip + b->cols);
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = first; j < end; j++)
            moments_add(&s->moments[j], element(s, memory, i * b->cols + j - skip));
}

static void find_nan(struct census *s, const struct block *part, const void *memory)
{
    for (int64_t at = 0; at < part->rows * part->cols; at++) {
        double x = element(s, memory, at);
        if (x == x)
            continue;
        int64_t row = part->row + at / part->cols, col = part->col + at % part->cols;
        uint64_t index = (uint64_t)(row * s->info->cols + col);
#pragma omp critical(statistics)
        s->nan = index < s->nan ? index : s->nan;
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
        if (s->problem->standard.missing == MISSING_ERROR)
            find_nan(s, &s->blocks[i], memory);
        if (by_rows(s))
            add_rows(s, &s->blocks[i], memory);
    }
    for (int i = 0; i < count; i++)
        s->bytes +=
            (double)(s->blocks[i].rows * s->blocks[i].cols) * (double)scalar_size(s->problem->type);
    if (by_rows(s) || err->code)
        return err->code;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (int64_t col = 0; col < s->group.cols; col += COLUMNS)
        for (int i = 0; i < count; i++)
            add_columns(s, i, col, min_i64(col + COLUMNS, s->group.cols));
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
    double *tops = s->sums, *parts = s->sums + 3 * lines;
    for (int64_t i = 0; i < lines; i++) {
        tops[2 * i] = m[i].top[0];
        tops[2 * i + 1] = m[i].top[1];
        tops[2 * lines + i] = (double)m[i].missing;
    }
    comm_most_vector(tops, 2 * lines);
    comm_sum_vector(tops + 2 * lines, lines);
    for (int64_t i = 0; i < lines; i++) {
        moments_raise(&m[i], (const int32_t[]){(int32_t)tops[2 * i], (int32_t)tops[2 * i + 1]});
        moments_to_parts(&m[i], parts + MOMENT_PARTS * i);
        m[i].missing = (int64_t)tops[2 * lines + i];
    }
    comm_sum_vector(parts, MOMENT_PARTS * lines);
    for (int64_t i = 0; i < lines; i++)
        moments_from_parts(&m[i], parts + MOMENT_PARTS * i);
}

/* Collective.  The means and deviations of the group, from the sums of all ranks. */
static int finish_group(struct census *s, struct statistics *to, struct error *err)
{
    const struct problem *p = s->problem;
    bool apart = p->standard.missing == MISSING_MEAN;
    int64_t first = by_rows(s) ? s->group.row : s->group.col;
    int64_t lines = by_rows(s) ? s->group.rows : s->group.cols, missing = 0, constant = 0;
    s->nan = comm_min(s->nan);
    if (s->nan < INT64_MAX) {
        if (s->comm->rank == 0)
            error_add(err, EXIT_INPUT,
                      "%s:%s is NaN in row %" PRId64 ", column %" PRId64
                      ", counted from 0; give --nan mean to take the mean of the others for what "
                      "is missing, or --nan zero",
                      s->info->file, s->info->dataset, (int64_t)s->nan / s->info->cols,
                      (int64_t)s->nan % s->info->cols);
        return comm_agree(s->comm, err);
    }
    for (int64_t i = 0; i < lines && s->comm->size > 1; i += LINES_ADDED)
        add_ranks(s, &s->moments[i], min_i64(LINES_ADDED, lines - i));
#pragma omp parallel for num_threads(s->threads) reduction(+ : missing, constant)
    for (int64_t i = 0; i < lines; i++) {
        int64_t line = first + i;
        struct mean mean =
            moments_finish(&s->moments[i], standard_elements(p), apart, &to->deviation[line]);
        to->mean[line] = mean.mean;
        to->rest[line] = mean.rest;
        missing += s->moments[i].missing;
        constant += to->deviation[line] == 0;
    }
    to->missing += missing;
    to->constant += constant;
    return 0;
}

/* Parts of at least a chunk, which is then decoded once, and groups of as many lines as what is
 * left of the memory has sums for. */
static int allocate(struct census *s, size_t memory, int64_t *lines, struct error *err)
{
    const struct problem *p = s->problem;
    const size_t threads = (size_t)s->threads, sums = (3 + MOMENT_PARTS) * sizeof(double);
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
        read_all(&s, lines, to, err);
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
