/* What centred and scaled products need before anything is multiplied. */
#include <inttypes.h>
#include <stdio.h>

#include "error.h"
#include "quantity.h"
#include "session.h"

static const char *name_of(const struct standard *standard)
{
    return standard->axis == AXIS_ROWS ? "row" : "column";
}

/* Where that is not what is expected of a covariance or correlation, say what was done. */
static void warn(const struct session *s)
{
    const struct standard *standard = &s->problem.standard;
    const struct statistics *found = &s->statistics;
    const bool one = found->constant == 1;
    const char *name = name_of(standard), *many = one ? "" : "s";
    if (found->missing > 0 && !s->options.quiet)
        printf("            %" PRId64 " element%s NaN, taken for %s\n", found->missing,
               found->missing == 1 ? " is" : "s are",
               standard->missing == MISSING_MEAN ? "the mean" : "0");
    if (found->constant > 0 && standard->scales && standard_lines_are_variables(&s->problem))
        fprintf(stderr,
                "dgemm_ooc: %" PRId64
                " %s%s of A %s not vary: the deviation is 0, and C is NaN there\n",
                found->constant, name, many, one ? "does" : "do");
    else if (found->constant > 0 && standard->scales)
        fprintf(stderr,
                "dgemm_ooc: %" PRId64 " %s%s of A %s not vary: the deviation is 0, and nothing is "
                "divided by it\n",
                found->constant, name, many, one ? "does" : "do");
}

static void tell(void *context, double done)
{
    ticker_tell_other(context, "of A is read, for means and deviations", done);
}

static void say_nothing(void *context, double done)
{
    (void)context;
    (void)done;
}

int session_compare_statistics(struct session *s)
{
    const struct statistics_watch nobody = {say_nothing, NULL};
    struct statistics again = {0};
    if (s->problem.standard.axis == AXIS_NONE)
        return 0;
    if (statistics_read(&s->problem, &s->hardware.machine, &s->comm, &nobody, &again, &s->err) ==
            0 &&
        !statistics_equal(&again, &s->statistics))
        error_add(&s->err, EXIT_VERIFY,
                  "the means or deviations of A that a second reading gives are not those that "
                  "were used");
    statistics_free(&again);
    return comm_agree(&s->comm, &s->err);
}

int session_read_statistics(struct session *s)
{
    struct statistics *found = &s->statistics;
    if (s->problem.standard.axis == AXIS_NONE)
        return 0;
    struct ticker *ticker = &s->record.ticker; /* of the product, later */
    const struct statistics_watch watch = {tell, ticker};
    ticker_open(ticker, s->options.progress, s->options.quiet, 1, 0);
    s->output.statistics = found;
    statistics_read(&s->problem, &s->hardware.machine, &s->comm, &watch, found, &s->err);
    ticker_hide(ticker);
    if (session_check_operands(s))
        return s->err.code;
    if (s->comm.rank == 0 && !s->options.quiet)
        printf("Statistics  means and deviations of %" PRId64 " %ss of A, %s in %s\n", found->lines,
               name_of(&s->problem.standard), quantity_bytes(found->bytes),
               quantity_time(found->seconds));
    if (s->comm.rank == 0)
        warn(s);
    return 0;
}
