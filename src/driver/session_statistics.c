/* What centred and scaled products, and those of integers that might overflow, need before anything
 * is multiplied. */
#include <inttypes.h>
#include <stdio.h>

#include "error.h"
#include "integer_problem.h"
#include "magnitude.h"
#include "phase.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "session.h"

static const char *name_of(const struct scaling *scaling)
{
    return scaling->axis == AXIS_ROWS ? "row" : "column";
}

/* Complain of some lines of A, by the first of them: what they do, and what follows from that. */
static void warn_of(const struct session *s, const struct line_count *lines, const char *one,
                    const char *several, const char *what)
{
    const char *name = name_of(&s->problem.scaling);
    if (lines->count == 1)
        fprintf(stderr, "dgemm_ooc: %s %" PRId64 " of A, counted from 0, %s%s\n", name,
                lines->first, one, what);
    else if (lines->count > 1)
        fprintf(stderr,
                "dgemm_ooc: %" PRId64 " %ss of A, the first of them %s %" PRId64
                ", counted from 0, %s%s\n",
                lines->count, name, name, lines->first, several, what);
}

/* Where that is not what is expected of a covariance or correlation, say what was done. */
static void warn(const struct session *s)
{
    const struct scaling *scaling = &s->problem.scaling;
    const struct statistics *found = &s->statistics;
    const bool variables = scaling_lines_are_variables(&s->problem);
    if (found->missing > 0 && !s->options.quiet)
        fprintf(s->out, "Note        %" PRId64 " element%s of A %s NaN, replaced by %s%s\n",
                found->missing, found->missing == 1 ? "" : "s", found->missing == 1 ? "is" : "are",
                scaling->missing == MISSING_MEAN ? "the mean of the " : "0",
                scaling->missing == MISSING_MEAN ? name_of(scaling) : "");
    if (scaling->scales)
        warn_of(s, &found->constant, "does not vary", "do not vary",
                variables ? ": the deviation is 0, and C is NaN there; remove such variables from "
                            "A, or do not scale: --product cov, or --center alone"
                          : ": the deviation is 0, and nothing is divided by it");
    warn_of(s, &found->infinite, "has infinite elements", "have infinite elements",
            variables ? ": the mean is NaN, and so is C there" : ": the mean is NaN, and so is C");
}

/* Begin to read them from A. */
static void begin_reading(const struct session *s, const char *what)
{
    phase_begin(what, problem_bytes(&s->problem, OPERAND_A));
}

int session_compare_statistics(struct session *s)
{
    struct statistics again = {0};
    if (s->problem.scaling.axis == AXIS_NONE)
        return 0;
    begin_reading(s, "means and deviations, again");
    if (statistics_read(&s->problem, &s->hardware.machine, &s->comm, &again, &s->err) == 0 &&
        !statistics_equal(&again, &s->statistics))
        error_add(&s->err, EXIT_VERIFY,
                  "reading A again gave other means or deviations than those used; A, its disk or "
                  "the memory may be faulty");
    statistics_free(&again);
    return comm_agree(&s->comm, &s->err);
}

int session_read_statistics(struct session *s)
{
    struct statistics *found = &s->statistics;
    if (s->problem.scaling.axis == AXIS_NONE)
        return 0;
    s->output.statistics = found;
    begin_reading(s, "means and deviations of A");
    statistics_read(&s->problem, &s->hardware.machine, &s->comm, found, &s->err);
    if (session_check_operands(s))
        return s->err.code;
    phase_end();
    if (s->comm.rank == 0 && s->options.verbose)
        fprintf(s->out,
                "Statistics  means and deviations of %" PRId64
                " %ss of A, %s in %s (predicted %s)\n",
                found->lines, name_of(&s->problem.scaling), quantity_bytes(found->bytes),
                quantity_time(found->seconds), quantity_time(s->record.predicted.before_s));
    if (s->comm.rank == 0)
        warn(s);
    return 0;
}

int session_measure(struct session *s)
{
    struct magnitude found;
    const double second =
        problem_is_of_one_matrix(&s->problem) ? 0 : problem_bytes(&s->problem, OPERAND_B);
    phase_begin("largest elements of A and B", problem_bytes(&s->problem, OPERAND_A) + second);
    magnitude_read(&s->problem, &s->hardware.machine, &s->comm, &found, &s->err);
    if (session_check_operands(s))
        return s->err.code;
    phase_end();
    if (s->comm.rank == 0 && integers_check(&s->problem, found.largest, &s->err) == 0 &&
        s->options.verbose)
        fprintf(s->out,
                "Largest     elements of A and B: %" PRIu64 " and %" PRIu64
                " in magnitude, so that C fits into int64; %s in %s (predicted %s)\n",
                found.largest[OPERAND_A], found.largest[OPERAND_B], quantity_bytes(found.bytes),
                quantity_time(found.seconds), quantity_time(s->record.predicted.before_s));
    return comm_agree(&s->comm, &s->err);
}
