#include "first_read.h"

#include "machine.h"
#include "moments.h"
#include "problem.h"
#include "problem_scaling.h"
#include "schedule.h"

enum {
    LINES_MOST = 20000,      /* that are added up beside a product: 16 MiB */
    LINES_ADDED = 600,       /* as much as adding the sums of ranks takes */
    COPIES_BYTES = 64 << 20, /* of sums, each of which a reader has for itself */
};

static const double addition_s = 2.6e-9; /* an element to exact sums, a thread of many; measured */

static bool may_be_product(const struct problem *p)
{
    const bool whole = p->scaling.crossed
                           ? p->m + p->n == scaling_lines(p) && p->held[OPERAND_A] == p->type
                           : problem_is_triangle(p) && p->n == p->n_whole;
    return scaling_shifts(p) && scaling_lines(p) <= LINES_MOST && p->held[OPERAND_B] == p->type &&
           whole;
}

bool first_read_is_product(const struct problem *p, const struct plan *plan)
{
    return may_be_product(p) && !p->continues && schedule_supers(plan) == 1;
}

int first_read_copies(const struct problem *p, int readers)
{
    const size_t one = (size_t)scaling_lines(p) * sizeof(struct moments);
    const bool are_rows =
        p->scaling.axis[OPERAND_A] == AXIS_ROWS && p->scaling.axis[OPERAND_B] == AXIS_ROWS;
    return are_rows ? 1 : 1 + (int)min_i64(readers, COPIES_BYTES / (int64_t)one);
}

size_t first_read_product_bytes(const struct problem *p, int readers)
{
    if (!may_be_product(p))
        return 0;
    const int64_t lines = scaling_lines(p) * first_read_copies(p, readers) + LINES_ADDED;
    return (size_t)lines * sizeof(struct moments);
}

/* Numbers that are added up. */
static double added(const struct problem *p)
{
    return (double)scaling_lines(p) * (double)scaling_elements(p);
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

double first_read_needless(const struct problem *p, const struct plan *plan,
                           const struct machine *m)
{
    const bool could = may_be_product(p) && !p->continues;
    return could && !first_read_is_product(p, plan) ? first_read_seconds(p, m) : 0;
}

double first_read_addition(const struct problem *p)
{
    return addition_s / (double)scalar_size(p->type);
}
