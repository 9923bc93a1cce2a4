#include "first_read.h"

#include "machine.h"
#include "problem.h"
#include "problem_scaling.h"

static const double addition_s = 2.6e-9; /* an element to exact sums, a thread of many; measured */

/* Numbers that are added up. */
static double added(const struct problem *p)
{
    return p->scaling.axis == AXIS_NONE ? 0
                                        : (double)scaling_lines(p) * (double)scaling_elements(p);
}

double first_read_bytes(const struct problem *p)
{
    if (!p->measures)
        return added(p) * (double)scalar_size(p->type);
    return problem_bytes(p, OPERAND_A) +
           (problem_is_of_one_matrix(p) ? 0 : problem_bytes(p, OPERAND_B));
}

/* Each thread adds up what it has read. */
double first_read_seconds(const struct problem *p, const struct machine *m)
{
    return first_read_bytes(p) / m->disk_read_bytes_per_s +
           added(p) * addition_s / ((double)m->ranks * m->threads);
}
