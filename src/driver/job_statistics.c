/* What centred and scaled products, and those of integers that might overflow, need before anything
 * is multiplied. */
#include <inttypes.h>

#include "error.h"
#include "integer_problem.h"
#include "job.h"
#include "magnitude.h"
#include "notice.h"
#include "phase.h"
#include "problem_scaling.h"
#include "quantity.h"

static const char *name_of(const struct problem *p)
{
    return problem_seen_scaling(p).axis == AXIS_ROWS ? "row" : "column";
}

/* Complain of some lines of A, by the first of them: what they do, and what follows from that. */
static void warn_of(const char *name, const struct line_count *lines, const char *one,
                    const char *several, const char *what)
{
    if (lines->count == 1)
        notice("%s %" PRId64 " of A, counted from 0, %s%s", name, lines->first, one, what);
    else if (lines->count > 1)
        notice("%" PRId64 " %ss of A, the first of them %s %" PRId64 ", counted from 0, %s%s",
               lines->count, name, name, lines->first, several, what);
}

/* Where that is not what is expected of a covariance or correlation, say what was done. */
static void warn(const struct caller *caller, const struct job *job)
{
    const struct scaling *scaling = &job->problem.scaling;
    const struct statistics *found = &job->statistics;
    const char *name = name_of(&job->problem);
    const bool variables = scaling_lines_are_variables(&job->problem);
    if (found->missing > 0)
        caller_print(
            caller->notes, "Note        %" PRId64 " element%s of A %s NaN, replaced by %s%s\n",
            found->missing, found->missing == 1 ? "" : "s", found->missing == 1 ? "is" : "are",
            scaling->missing == MISSING_MEAN ? "the mean of the " : "0",
            scaling->missing == MISSING_MEAN ? name : "");
    if (scaling->scales)
        warn_of(name, &found->constant, "does not vary", "do not vary",
                variables ? ": the deviation is 0, and C is NaN there; remove such variables from "
                            "A, or do not scale: --product cov, or --center alone"
                          : ": the deviation is 0, and nothing is divided by it");
    warn_of(name, &found->infinite, "has infinite elements", "have infinite elements",
            variables ? ": the mean is NaN, and so is C there" : ": the mean is NaN, and so is C");
}

/* Read them in a pass over A. */
static int read_all(const struct caller *caller, const struct machine *machine,
                    const struct job *job, const char *what, struct statistics *statistics,
                    struct error *err)
{
    phase_begin(what, problem_bytes(&job->problem, OPERAND_A));
    if (statistics_open(&job->problem, machine, caller->comm, statistics, err) == 0)
        statistics_read(&job->problem, machine, caller->comm, statistics, err);
    return err->code;
}

int job_compare_statistics(const struct caller *caller, const struct machine *machine,
                           const struct job *job, struct error *err)
{
    struct statistics again = {0};
    if (job->problem.scaling.axis == AXIS_NONE)
        return 0;
    if (read_all(caller, machine, job, "means and deviations, again", &again, err) == 0 &&
        !statistics_equal(&again, &job->statistics))
        error_add(err, EXIT_VERIFY,
                  "reading A again gave other means or deviations than those used; A, its disk or "
                  "the memory may be faulty");
    statistics_free(&again);
    return comm_agree(caller->comm, err);
}

int job_begin_statistics(const struct caller *caller, const struct machine *machine,
                         struct job *job, struct error *err)
{
    job->output.statistics = &job->statistics;
    phase_begin("a sample of A", 0);
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
    if (job->problem.scaling.axis == AXIS_NONE)
        return 0;
    job->output.statistics = found;
    read_all(caller, machine, job, "means and deviations of A", found, err);
    if (job_check_operands(caller, job, err))
        return err->code;
    phase_end();
    caller_print(caller->details,
                 "Statistics  means and deviations of %" PRId64
                 " %ss of A, %s in %s (predicted %s)\n",
                 found->lines, name_of(&job->problem), quantity_bytes(found->bytes),
                 quantity_time(found->seconds), quantity_time(predicted_s));
    if (caller->comm->rank == 0)
        warn(caller, job);
    return 0;
}

void job_end_statistics(const struct caller *caller, const struct job *job, bool again)
{
    const struct statistics *found = &job->statistics;
    const char *name = name_of(&job->problem);
    caller_print(caller->details,
                 "Statistics  means and deviations of %" PRId64
                 " %ss of A, added up while it was read for the product\n",
                 found->lines, name);
    if (caller->comm->rank > 0)
        return;
    warn(caller, job);
    if (again)
        notice("%" PRId64 " %ss of A have a mean or deviation that is far from that of a "
               "sample, which C was to be computed with; C is computed again without it",
               found->moved, name);
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
