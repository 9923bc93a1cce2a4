#include "sample.h"

#include <math.h>
#include <stdlib.h>

#include "comm.h"
#include "error.h"
#include "lines.h"
#include "machine.h"
#include "problem.h"
#include "problem_scaling.h"
#include "shared_read.h"

/* Elements of a line, of all lines together at most; and next to each other. */
enum { MOST = 64, LEAST = 16, NUMBERS = 4 << 20, RUN = 4 };

/* Runs are so far from each other that reading them takes little beside all of the matrix, also
 * where lines are rows, and a disk reads on from one run to the next. */
enum { APART = 1 << 14 };

struct line_sample {
    const struct problem *problem;
    enum operand operand;
    int64_t lines, runs, length; /* of a run */
    int64_t count;               /* of the elements of a line: of all runs */
    double *elements;            /* lines x count */
    int64_t first, number;       /* of the run that is read: in the lines, among the elements */
};

/* Of the lines of an operand. */
static struct line_sample make_sample(const struct problem *p, enum operand operand)
{
    const int64_t lines = scaling_end(p, operand) - scaling_first(p, operand);
    const int64_t all = scaling_elements(p);
    const int64_t most = max_i64(LEAST, min_i64(MOST, NUMBERS / max_i64(1, lines)));
    const int64_t count = min_i64(all, most);
    const int64_t runs = max_i64(1, min_i64(all / APART, count / RUN));
    return (struct line_sample){.problem = p,
                                .operand = operand,
                                .lines = lines,
                                .runs = runs,
                                .length = count / runs,
                                .count = runs * (count / runs)};
}

static void take(void *context, const struct block *part, void *memory)
{
    struct line_sample *s = context;
    const bool rows = s->problem->scaling.axis[s->operand] == AXIS_ROWS;
    for (int64_t i = 0; i < part->rows; i++)
        for (int64_t j = 0; j < part->cols; j++) {
            const int64_t line = rows ? part->row + i : part->col + j;
            const int64_t at = (rows ? part->col + j : part->row + i) - s->first + s->number;
            s->elements[line * s->count + at] =
                scalar_get(s->problem->type, memory, i * part->cols + j);
        }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median, the lower one of two and never -0, and the scale of the others minus that. */
static void set_line(const struct line_sample *s, int64_t index, struct statistics *to)
{
    const int64_t line = scaling_first(s->problem, s->operand) + index;
    double *elements = &s->elements[index * s->count], largest = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++)
        if (isfinite(elements[i]))
            elements[count++] = elements[i];
    qsort(elements, (size_t)count, sizeof *elements, compare);
    const double shift = count > 0 ? elements[(count - 1) / 2] + 0.0 : 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(elements[i] - shift));
    to->shift[line] = shift;
    if (to->scale)
        to->scale[line] = largest > 0 && isfinite(largest) ? lines_scale(largest) : 1;
}

/* Runs are in the middles of equal parts of the lines. */
static int read_runs(struct line_sample *s, struct shared_read *read, struct error *err)
{
    const int64_t part = scaling_elements(s->problem) / s->runs;
    for (int64_t run = 0; run < s->runs; run++) {
        s->number = run * s->length;
        s->first = part * run + (part - s->length) / 2;
        const struct block block = s->problem->scaling.axis[s->operand] == AXIS_ROWS
                                       ? (struct block){0, s->first, s->lines, s->length}
                                       : (struct block){s->first, 0, s->length, s->lines};
        if (shared_read_block(read, &block, err))
            return err->code;
    }
    return 0;
}

static int sample_operand(const struct problem *p, enum operand operand,
                          const struct machine *machine, struct comm *comm,
                          struct statistics *statistics, struct error *err)
{
    const int threads = (int)comm_min(comm, (uint64_t)machine->threads);
    const size_t memory = comm_min(comm, machine->host_memory);
    struct line_sample s = make_sample(p, operand);
    struct shared_read read = {.source = &p->sources[operand],
                               .type = p->type,
                               .way = p->io,
                               .comm = comm,
                               .threads = threads,
                               .context = &s,
                               .add = take};
    s.elements = calloc((size_t)(s.lines * s.count), sizeof *s.elements);
    if (!s.elements)
        error_no_memory(err, "a sample");
    else
        shared_read_open(&read, memory / 4, err);
    if (comm_agree(comm, err) == 0 && read_runs(&s, &read, err) == 0) {
        comm_sum_vector(comm, s.elements, s.lines * s.count);
#pragma omp parallel for num_threads(threads)
        for (int64_t line = 0; line < s.lines; line++)
            set_line(&s, line, statistics);
    }
    shared_read_close(&read);
    free(s.elements);
    return err->code;
}

int sample_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                struct statistics *statistics, struct error *err)
{
    if (sample_operand(p, OPERAND_A, machine, comm, statistics, err) == 0 && p->scaling.crossed)
        sample_operand(p, OPERAND_B, machine, comm, statistics, err);
    return err->code;
}
