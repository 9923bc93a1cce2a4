#include "standard_time.h"

#include "machine.h"
#include "problem.h"
#include "standard_problem.h"

static const double addition_s = 2.6e-9; /* an element to exact sums, a thread of many; measured */

double standard_bytes(const struct problem *p)
{
    return p->standard.axis == AXIS_NONE
               ? 0
               : (double)standard_lines(p) * (double)standard_elements(p) *
                     (double)scalar_size(p->type);
}

/* Each thread adds up what it has read. */
double standard_seconds(const struct problem *p, const struct machine *m)
{
    const double bytes = standard_bytes(p), elements = bytes / (double)scalar_size(p->type);
    return bytes / m->disk_read_bytes_per_s +
           elements * addition_s / ((double)m->ranks * m->threads);
}
