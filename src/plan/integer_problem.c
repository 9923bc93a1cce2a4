/* Sums of products are kept in doubles, which hold all integers up to 2^53: what the types and k
 * allow to be larger is no product of integers here. */
#include "integer_problem.h"

#include <math.h>
#include <stdio.h>

#include "error.h"
#include "options.h"

static const double most = 0x1p53; /* below which doubles, and sums of them, are exact */
static const double most_of_c = 0x1p63;

const char *problem_exact_text(const struct problem *p)
{
    static char text[64];
    text[0] = '\0';
    if (p->exact)
        snprintf(text, sizeof text, "exact integers: %s x %s -> %s",
                 scalar_name(p->matrix[OPERAND_A].integers),
                 scalar_name(p->matrix[OPERAND_B].integers),
                 scalar_name(problem_held(p, OPERAND_C)));
    return text;
}

static bool holds_integers(const struct matrix_info *info)
{
    return info->elements == ELEMENT_INTEGER && scalar_is_integer(info->integers);
}

static bool has_bytes(const struct matrix_info *info)
{
    return holds_integers(info) && scalar_size(info->integers) <= 2;
}

/* The largest sum of k products that the types allow. */
static double largest_sum(const struct problem *p)
{
    return (double)p->k * scalar_largest(p->matrix[OPERAND_A].integers) *
           scalar_largest(p->matrix[OPERAND_B].integers);
}

/* alpha and beta of a C of integers, and what they make of the largest sum and the largest C0; that
 * of an int64 C0 is found where C is written. */
static void check_scalars(const struct problem *p, struct error *err)
{
    const struct matrix_info *c = &p->matrix[OPERAND_C];
    const double scalars[] = {p->alpha, p->beta};
    const char *const names[] = {"alpha", "beta"};
    bool whole = true;
    for (int i = 0; i < 2; i++)
        if (scalars[i] != trunc(scalars[i]) || !(fabs(scalars[i]) <= most)) {
            error_add(err, EXIT_USAGE,
                      "--%s %.15g is not an integer of up to 53 bits, as an int64 C needs; give "
                      "--type d for a C of doubles",
                      names[i], scalars[i]);
            whole = false;
        }
    double largest = fabs(p->alpha) * largest_sum(p);
    if (p->beta != 0 && c->integers != SCALAR_INT64)
        largest += fabs(p->beta) * scalar_largest(c->integers);
    if (whole && largest >= most_of_c)
        error_add(
            err, EXIT_INPUT,
            "elements of C could be as large as %.3g, and int64 holds no more than 2^63; give "
            "--type d for a C of doubles",
            largest);
}

/* Whether the options name kernels of other products, or change A to what is no integers. */
static bool names_kernels(const struct options *o)
{
    return o->algorithm != ALGORITHM_AUTO && o->algorithm != ALGORITHM_CPU;
}

static bool changes_a(const struct options *o)
{
    return o->center || o->scale || o->product == PRODUCT_COV || o->product == PRODUCT_COR;
}

/* Whether sums are exact, by the types and k. */
static bool is_exact(const struct problem *p)
{
    return has_bytes(&p->matrix[OPERAND_A]) && has_bytes(&p->matrix[OPERAND_B]) &&
           largest_sum(p) <= most;
}

/* Whether a C of integers is asked for and there is none; complains. */
static bool refuse(const struct problem *p, const struct options *o, enum operand end,
                   struct error *err)
{
    const struct matrix_info *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    if (names_kernels(o))
        error_add(
            err, EXIT_USAGE,
            "A and B are integers, which --algo auto multiplies exactly; leave --algo out, or "
            "give --type d to multiply doubles");
    else if (changes_a(o))
        error_add(err, EXIT_INPUT,
                  "A is %s, and centred or scaled it is not integers; give --type d",
                  scalar_name(a->integers));
    else if (!is_exact(p))
        error_add(err, EXIT_INPUT,
                  "sums of products of %s and %s over k = %.15g could be as large as %.3g, and are "
                  "exact up to 2^53; give --type d to multiply doubles, with rounding, or store "
                  "narrower integers",
                  scalar_name(a->integers), scalar_name(b->integers), (double)p->k, largest_sum(p));
    else if (end > OPERAND_C && !holds_integers(&p->matrix[OPERAND_C]))
        error_add(err, EXIT_INPUT,
                  "A and B are integers and C is not, but would be added to; give --type d for a C "
                  "of doubles");
    else
        return false;
    return true;
}

bool integers_choose(const struct options *o, struct problem *p, enum operand end,
                     struct error *err)
{
    const struct matrix_info *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    if (!holds_integers(a) || !holds_integers(b) || a->integers == SCALAR_INT64 ||
        b->integers == SCALAR_INT64 || (o->convert && o->type == SCALAR_FLOAT))
        return false;
    p->type = SCALAR_DOUBLE;
    if (o->convert ? names_kernels(o) || changes_a(o) || !is_exact(p) : refuse(p, o, end, err))
        return !o->convert;
    p->held[OPERAND_A] = a->integers;
    p->held[OPERAND_B] = b->integers;
    p->held[OPERAND_C] = o->convert ? SCALAR_DOUBLE : SCALAR_INT64;
    p->exact = true;
    if (!o->convert)
        check_scalars(p, err);
    return true;
}
