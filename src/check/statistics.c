#include "statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "census.h"
#include "comm.h"
#include "error.h"
#include "machine.h"
#include "meter.h"
#include "problem.h"
#include "problem_scaling.h"
#include "sample.h"
#include "shared_read.h"

enum {
    LINES_LEAST = 64,      /* of a group */
    MEMORY_RUN = 32 << 10, /* bytes of a row that are read at a time from files in memory */
};

/* The sums of an operand's lines, while its file is read for nothing else. */
struct pass {
    enum operand operand;
    struct shared_read read;
    struct census *census;
};

static void add_part(void *context, const struct block *part, void *memory)
{
    const struct pass *pass = context;
    census_add(pass->census, pass->operand, part, memory);
}

/* After a NaN that is refused this rank reads no more. */
static bool add_round(void *context, int count)
{
    const struct pass *pass = context;
    (void)count;
    return census_goes_on(pass->census);
}

/* Columns of files in memory go in narrow groups, whose parts have so many rows that the exact sums
 * of a part are few beside its elements.  A disk is read in whole rows. */
static int64_t narrow(const struct problem *p, enum operand operand, bool in_memory, int64_t lines)
{
    if (p->scaling.axis[operand] == AXIS_ROWS || p->matrix[operand].chunk_rows > 0 || !in_memory)
        return lines;
    return min_i64(lines, MEMORY_RUN / (int64_t)scalar_size(p->type));
}

/* Half of the memory is for parts, the other for groups of as many lines as it has sums for, and
 * for copies of these.  Returns the lines of a group. */
static int64_t open_pass(const struct problem *p, struct pass *pass, const struct machine *machine,
                         struct error *err)
{
    struct shared_read *read = &pass->read;
    const size_t memory =
        comm_min(read->comm, machine->host_memory); /* all ranks cut the matrix in the same way */
    const bool in_memory = comm_min(read->comm, machine->files_in_memory);
    const size_t each = census_bytes(1, 1) - census_bytes(0, 1);
    const size_t fixed =
        shared_read_overhead(&p->matrix[pass->operand], p->type, p->io, read->threads) +
        (size_t)(scaling_vectors(p) * scaling_lines(p)) * sizeof(double) + census_bytes(0, 1);
    const size_t half = memory > fixed ? (memory - fixed) / 2 : 0;
    const int64_t most = max_i64(LINES_LEAST, (int64_t)(half / each));
    const int64_t lines = narrow(p, pass->operand, in_memory, min_i64(most, scaling_lines(p)));
    const int64_t copies = min_i64(most / lines, min_i64(1 + read->threads, CENSUS_COPIES));
    shared_read_open(read, half, err);
    pass->census = census_open(p, read->comm, read->threads, lines, (int)max_i64(1, copies), err);
    return lines;
}

static void read_groups(const struct problem *p, struct pass *pass, int64_t lines,
                        struct statistics *to, struct error *err)
{
    const int64_t end = scaling_end(p, pass->operand);
    for (int64_t first = scaling_first(p, pass->operand); first < end && !err->code;
         first += lines) {
        const int64_t count = min_i64(lines, end - first);
        const struct block group = scaling_block(p, first, count);
        census_begin(pass->census, first, count);
        if (shared_read_block(&pass->read, &group, err) == 0)
            census_finish(pass->census, to, err);
    }
}

static int read_operand(const struct problem *p, enum operand operand,
                        const struct machine *machine, struct comm *comm, struct statistics *to,
                        struct error *err)
{
    struct pass pass = {.operand = operand};
    pass.read = (struct shared_read){.source = &p->sources[operand],
                                     .type = p->type,
                                     .way = p->io,
                                     .comm = comm,
                                     .threads = (int)comm_min(comm, (uint64_t)machine->threads),
                                     .context = &pass,
                                     .add = add_part,
                                     .add_round = add_round};
    const int64_t lines = open_pass(p, &pass, machine, err);
    if (comm_agree(comm, err) == 0)
        read_groups(p, &pass, lines, to, err);
    to->bytes += (double)comm_sum(comm, pass.read.bytes);
    shared_read_close(&pass.read);
    census_close(pass.census);
    return err->code;
}

int statistics_open(const struct problem *p, const struct machine *machine, struct comm *comm,
                    struct statistics *to, struct error *err)
{
    *to = (struct statistics){.lines = scaling_lines(p)};
    double **const vectors[] = {&to->mean,   &to->rest,  &to->deviation, &to->shift,
                                &to->offset, &to->scale, &to->spread};
    to->mean = calloc((size_t)(scaling_vectors(p) * to->lines), sizeof *to->mean);
    for (int i = 1; i < scaling_vectors(p) && to->mean; i++)
        *vectors[i] = to->mean + i * to->lines;
    for (int64_t i = 0; i < 3 * to->lines && to->mean; i++)
        to->mean[i] = NAN;
    if (!to->mean)
        error_no_memory(err, "means and deviations");
    if (comm_agree(comm, err) == 0 && scaling_shifts(p))
        sample_read(p, machine, comm, to, err);
    return err->code;
}

int statistics_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                    struct statistics *to, struct error *err)
{
    const double begin = clock_now();
    if (read_operand(p, OPERAND_A, machine, comm, to, err) == 0 && p->scaling.crossed)
        read_operand(p, OPERAND_B, machine, comm, to, err);
    to->known = !err->code;
    to->seconds = clock_now() - begin;
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
    statistics->shift = statistics->offset = statistics->scale = statistics->spread = NULL;
}

/* Variables that are constant have no correlation; other lines, of one of many observations, are
 * not divided. */
struct standardize statistics_standardize(const struct problem *p,
                                          const struct statistics *statistics)
{
    const struct scaling *scaling = &p->scaling;
    return (struct standardize){.type = p->type,
                                .mean = scaling->centers ? statistics->mean : NULL,
                                .rest = scaling->centers ? statistics->rest : NULL,
                                .deviation = scaling->scales ? statistics->deviation : NULL,
                                .constant = scaling_lines_are_variables(p) ? NAN : 1,
                                .missing = scaling->missing};
}

struct standardize statistics_shifted(const struct problem *p, const struct statistics *statistics)
{
    struct standardize s = statistics_standardize(p, statistics);
    if (!scaling_shifts(p))
        return s;
    s.mean = statistics->shift;
    s.rest = NULL;
    s.deviation = statistics->scale;
    return s;
}

struct standardize statistics_part(const struct problem *p, const struct standardize *all,
                                   enum operand operand, const struct block *block)
{
    struct standardize part = *all;
    part.by_rows = p->scaling.axis[operand] == AXIS_ROWS;
    const int64_t first = scaling_first(p, operand) + (part.by_rows ? block->row : block->col);
    part.rows = block->rows;
    part.cols = part.ld = block->cols;
    part.mean += all->mean ? first : 0;
    part.rest += all->rest ? first : 0;
    part.deviation += all->deviation ? first : 0;
    return part;
}
