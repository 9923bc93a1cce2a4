/* Sums are made modulo 2^64, so what counts is whether C fits into int64: by the types of A and B
 * and k, or else by the largest elements that A and B have. */
#include "integer_problem.h"

#include <inttypes.h>
#include <math.h>

#include "error.h"
#include "options.h"
#include "problem_scaling.h"
#include "text.h"

static const double most_of_double = 0x1p53; /* up to which all integers are doubles */

typedef unsigned __int128 wide;

const char *problem_exact_text(const struct problem *p)
{
    return problem_is_exact(p) ? text_make("exact integers: %s x %s -> %s",
                                           scalar_name(p->matrix[OPERAND_A].elements),
                                           scalar_name(p->matrix[OPERAND_B].elements),
                                           scalar_name(problem_written(p)))
                               : "";
}

static bool holds_integers(const struct matrix *matrix)
{
    return scalar_is_integer(matrix->elements);
}

/* The largest sum of k products of elements of such magnitudes. */
static wide largest_sum(const struct problem *p, const uint64_t largest[2])
{
    return problem_reads_ab(p) ? (wide)p->k * largest[0] * largest[1] : 0;
}

static wide largest_of_types(const struct problem *p)
{
    const uint64_t largest[] = {(uint64_t)scalar_largest(p->matrix[OPERAND_A].elements),
                                (uint64_t)scalar_largest(p->matrix[OPERAND_B].elements)};
    return largest_sum(p, largest);
}

/* Whether alpha times that sum plus beta times the largest C0 fits into int64, as that of an int64
 * C0 is found to do where C is written.  alpha and beta are integers of up to 53 bits. */
static bool fits(const struct problem *p, wide sum)
{
    const struct matrix *c = &p->matrix[OPERAND_C];
    const bool adds = p->beta != 0 && c->elements != SCALAR_INT64;
    const wide other = adds ? (wide)fabs(p->beta) * (wide)scalar_largest(c->elements) : 0;
    return sum <= INT64_MAX && (wide)fabs(p->alpha) * sum + other <= INT64_MAX;
}

static bool check_scalars(const struct problem *p, struct error *err)
{
    const double scalars[] = {p->alpha, p->beta};
    const char *const names[] = {"alpha", "beta"};
    bool whole = true;
    for (int i = 0; i < 2; i++)
        if (scalars[i] != trunc(scalars[i]) || !(fabs(scalars[i]) < most_of_double)) {
            error_add(
                err, EXIT_USAGE,
                "--%s %.17g is not an integer below 2^53 in magnitude, as an int64 C needs; give "
                "--type d for a C of doubles",
                names[i], scalars[i]);
            whole = false;
        }
    return whole;
}

int integers_check(const struct problem *p, const uint64_t largest[2], struct error *err)
{
    const wide sum = largest_sum(p, largest);
    if (fits(p, sum))
        return 0;
    return error_add(err, EXIT_INPUT,
                     "elements of A are up to %" PRIu64 " in magnitude, of B up to %" PRIu64
                     ": with k = %" PRId64 " those of C could be as large as %.4g, and int64 holds "
                     "less than 2^63; give --type d to multiply doubles, with rounding",
                     largest[0], largest[1], p->k, fabs(p->alpha) * (double)sum);
}

/* Whether the options name kernels of other products, or change A to what is no integers. */
static bool names_kernels(const struct options *o)
{
    return o->algorithm != ALGORITHM_AUTO && o->algorithm != ALGORITHM_CPU;
}

static bool changes_a(const struct options *o)
{
    return o->scaling.center || o->scaling.scale || scaling_is_statistic(o->scaling.product);
}

/* Whether a C of integers is asked for and there is none; complains. */
static bool refuse(const struct problem *p, const struct options *o, enum operand end,
                   struct error *err)
{
    const struct matrix *a = &p->matrix[OPERAND_A];
    if (names_kernels(o))
        error_add(
            err, EXIT_USAGE,
            "A and B are integers, which --algo auto multiplies exactly; leave --algo out, or "
            "give --type d to multiply doubles");
    else if (changes_a(o))
        error_add(err, EXIT_INPUT,
                  "A is %s, but centring or scaling makes it real; give --type d, with which codes "
                  "for missing elements, such as -9, count as numbers",
                  scalar_name(a->elements));
    else if (end > OPERAND_C && !holds_integers(&p->matrix[OPERAND_C]))
        error_add(err, EXIT_INPUT,
                  "A and B are integers, but C, which is added, is neither int64 nor a smaller "
                  "integer; give --type d for a C of doubles");
    else
        return false;
    return true;
}

bool integers_choose(const struct options *o, struct problem *p, enum operand end,
                     struct error *err)
{
    const struct matrix *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    if (!holds_integers(a) || !holds_integers(b) || a->elements == SCALAR_INT64 ||
        b->elements == SCALAR_INT64 ||
        (o->convert.wanted && scalar_finer(o->convert.type) != o->convert.type))
        return false;
    problem_set_type(p, SCALAR_DOUBLE);
    const wide sum = largest_of_types(p);
    const bool rounds = names_kernels(o) || changes_a(o) || sum > (wide)most_of_double;
    if (o->convert.wanted ? rounds : refuse(p, o, end, err))
        return !o->convert.wanted;
    p->sums = SCALAR_INT64;
    p->held[OPERAND_A] = a->elements;
    p->held[OPERAND_B] = b->elements;
    p->held[OPERAND_C] = o->convert.wanted ? SCALAR_DOUBLE : SCALAR_INT64;
    p->measures = !o->convert.wanted && check_scalars(p, err) && !fits(p, sum);
    return true;
}
