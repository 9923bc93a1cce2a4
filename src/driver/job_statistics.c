/* What centred and scaled products, and those of integers that might overflow, need before anything
 * is multiplied. */
#include <inttypes.h>

#include "error.h"
#include "first_read.h"
#include "integer_problem.h"
#include "job.h"
#include "magnitude.h"
#include "notice.h"
#include "phase.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "text.h"

static const char *name_of(const struct problem *p, enum operand operand)
{
    return problem_seen_scaling(p).axis[operand] == AXIS_ROWS ? "row" : "column";
}

/* Complain of some lines of an operand, by the first of them: what they do, and what follows. */
static void warn_of(const char *name, enum operand operand, const struct line_count *lines,
                    const char *one, const char *several, const char *what)
{
    const char letter = "AB"[operand];
    if (lines->count == 1)
        notice("%s %" PRId64 " of %c, counted from 0, %s%s", name, lines->first, letter, one, what);
    else if (lines->count > 1)
        notice("%" PRId64 " %ss of %c, the first of them %s %" PRId64 ", counted from 0, %s%s",
               lines->count, name, letter, name, lines->first, several, what);
}

/* Where that is not what is expected of a covariance or correlation, say what was done. */
static void warn(const struct caller *caller, const struct job *job, enum operand operand)
{
    const struct scaling *scaling = &job->problem.scaling;
    const char *name = name_of(&job->problem, operand);
    const int64_t missing = job->statistics.found[operand].missing;
    const bool variables = scaling_lines_are_variables(&job->problem);
    if (missing > 0)
        caller_print(caller->notes,
                     "Note        %" PRId64 " element%s of %c %s NaN, replaced by %s%s\n", missing,
                     missing == 1 ? "" : "s", "AB"[operand], missing == 1 ? "is" : "are",
                     scaling->missing == MISSING_MEAN ? "the mean of the " : "0",
                     scaling->missing == MISSING_MEAN ? name : "");
    if (scaling->scales)
        warn_of(name, operand, &job->statistics.found[operand].constant, "does not vary",
                "do not vary",
                variables ? ": the deviation is 0, and C is NaN there; remove such variables, or "
                            "do not scale: --product cov or cross-cov, or --center alone"
                          : ": the deviation is 0, and nothing is divided by it");
    warn_of(name, operand, &job->statistics.found[operand].infinite, "has infinite elements",
            "have infinite elements",
            variables ? ": the mean is NaN, and so is C there" : ": the mean is NaN, and so is C");
}

static void warn_of_both(const struct caller *caller, const struct job *job)
{
    for (enum operand i = 0; i < OPERAND_C && caller->comm->rank == 0; i++)
        warn(caller, job, i);
}

/* "12 rows of A and 3 columns of B".  Valid until the next call. */
static const char *lines_text(const struct problem *p)
{
    const int64_t a = scaling_end(p, OPERAND_A), b = scaling_lines(p) - a;
    const char *const first = text_make("%" PRId64 " %ss of A", a, name_of(p, OPERAND_A));
    return b == 0 ? first
                  : text_make("%" PRId64 " %ss of A and %" PRId64 " %ss of B", a,
                              name_of(p, OPERAND_A), b, name_of(p, OPERAND_B));
}

/* Read them in a pass over A. */
static int read_all(const struct caller *caller, const struct machine *machine,
                    const struct job *job, const char *what, struct statistics *statistics,
                    struct error *err)
{
    phase_begin(what, first_read_bytes(&job->problem));
    if (statistics_open(&job->problem, machine, caller->comm, statistics, err) == 0)
        statistics_read(&job->problem, machine, caller->comm, statistics, err);
    return err->code;
}

int job_compare_statistics(const struct caller *caller, const struct machine *machine,
                           const struct job *job, struct error *err)
{
    struct statistics again = {0};
    if (!problem_scales(&job->problem))
        return 0;
    if (read_all(caller, machine, job, "means and deviations, again", &again, err) == 0 &&
        !statistics_equal(&again, &job->statistics))
        error_add(err, EXIT_VERIFY,
                  "reading them again gave other means or deviations than those used; a file, its "
                  "disk or "
                  "the memory may be faulty");
    statistics_free(&again);
    return comm_agree(caller->comm, err);
}

int job_begin_statistics(const struct caller *caller, const struct machine *machine,
                         struct job *job, struct error *err)
{
    job->output.statistics = &job->statistics;
    phase_begin("a sample", 0);
    statistics_open(&job->problem, machine, caller->comm, &job->statistics, err);
    if (job_check_operands(caller, job, err))
        return err->code;
    phase_end();
    return 0;
}

int job_read_statistics(const struct caller *caller, const struct machine *machine, struct job *job,
                        double predicted_s, struct error *err)
{
    struct statistics *found = &job->statistics;
    if (!problem_scales(&job->problem))
        return 0;
    job->output.statistics = found;
    read_all(caller, machine, job, "means and deviations", found, err);
    if (job_check_operands(caller, job, err))
        return err->code;
    phase_end();
    caller_print(caller->details,
                 "Statistics  means and deviations of %s, %s in %s (predicted %s)\n",
                 lines_text(&job->problem), quantity_bytes(found->bytes),
                 quantity_time(found->seconds), quantity_time(predicted_s));
    warn_of_both(caller, job);
    return 0;
}

void job_end_statistics(const struct caller *caller, const struct job *job, bool again)
{
    caller_print(caller->details,
                 "Statistics  means and deviations of %s, added up while they were read for the "
                 "product\n",
                 lines_text(&job->problem));
    warn_of_both(caller, job);
    if (again && caller->comm->rank == 0)
        notice("%" PRId64 " of %s have a mean or deviation that is far from that of a sample, "
               "which C was to be computed with; C is computed again without it",
               job->statistics.moved, lines_text(&job->problem));
}

int job_measure(const struct caller *caller, const struct machine *machine, const struct job *job,
                double predicted_s, struct error *err)
{
    const struct problem *p = &job->problem;
    struct magnitude found;
    const double second = problem_is_of_one_matrix(p) ? 0 : problem_bytes(p, OPERAND_B);
    phase_begin("largest elements of A and B", problem_bytes(p, OPERAND_A) + second);
    magnitude_read(p, machine, caller->comm, &found, err);
    if (job_check_operands(caller, job, err))
        return err->code;
    phase_end();
    if (caller->comm->rank == 0 && integers_check(p, found.largest, err) == 0)
        caller_print(caller->details,
                     "Largest     elements of A and B: %" PRIu64 " and %" PRIu64
                     " in magnitude, so that C fits into int64; %s in %s (predicted %s)\n",
                     found.largest[OPERAND_A], found.largest[OPERAND_B],
                     quantity_bytes(found.bytes), quantity_time(found.seconds),
                     quantity_time(predicted_s));
    return comm_agree(caller->comm, err);
}
