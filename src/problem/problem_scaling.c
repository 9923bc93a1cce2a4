#include "problem_scaling.h"

#include <inttypes.h>

#include "error.h"
#include "options.h"

const char *const axis_names[] = {"none", "rows", "cols"};
const char *const missing_names[] = {"error", "mean", "zero"};

/* Covariances: of the rows of op(A), over k observations. */
static void choose_named(enum named_product product, struct problem *p, struct error *err)
{
    p->scaling.axis = p->trans[OPERAND_A] ? AXIS_COLS : AXIS_ROWS;
    p->scaling.centers = true;
    p->scaling.scales = product == PRODUCT_COR;
    p->alpha = 1 / (double)(p->k - 1);
    if (p->k < 2)
        error_add(err, EXIT_INPUT,
                  "--product %s: variables need two observations or more, and op(A) is %" PRId64
                  "x%" PRId64 "; is --transa T missing, or one too many?",
                  product == PRODUCT_COR ? "cor" : "cov", p->m, p->k);
}

void scaling_choose(const struct scaling_options *o, bool names_b, struct problem *p,
                    struct error *err)
{
    bool named = o->product == PRODUCT_COV || o->product == PRODUCT_COR;
    p->scaling = (struct scaling){.axis = o->center ? o->center : o->scale,
                                  .centers = o->center != AXIS_NONE,
                                  .scales = o->scale != AXIS_NONE,
                                  .missing = o->missing};
    if (named)
        choose_named(o->product, p, err);
    if ((p->scaling.axis || o->product != PRODUCT_PLAIN) && !problem_is_of_one_matrix(p))
        error_add(err, EXIT_INPUT,
                  "--center, --scale and --product need one matrix times its own transpose: %s",
                  o->product != PRODUCT_PLAIN && names_b
                      ? "leave -b out"
                      : "give -b the dataset that A is, and either --transa T or --transb T");
    if (p->scaling.axis && p->complex)
        error_add(err, EXIT_INPUT,
                  "--center, --scale and --product cov and cor are for real matrices; of complex "
                  "ones there is --product gram, as of -b A --transb C");
    if (!problem_reads_ab(p))
        p->scaling.axis = AXIS_NONE;
}

int64_t scaling_lines(const struct problem *p)
{
    const struct matrix *a = &p->matrix[OPERAND_A];
    return p->scaling.axis == AXIS_NONE ? 0 : p->scaling.axis == AXIS_ROWS ? a->rows : a->cols;
}

int64_t scaling_elements(const struct problem *p)
{
    const struct matrix *a = &p->matrix[OPERAND_A];
    return p->scaling.axis == AXIS_ROWS ? a->cols : a->rows;
}

bool scaling_lines_are_variables(const struct problem *p)
{
    return (p->scaling.axis == AXIS_ROWS) != p->trans[OPERAND_A];
}

bool scaling_shifts(const struct problem *p)
{
    return p->scaling.centers && p->scaling.missing != MISSING_MEAN && p->scaling.axis &&
           scaling_lines_are_variables(p);
}

int scaling_vectors(const struct problem *p)
{
    return 3 + (scaling_shifts(p) ? 2 : 0) + (scaling_shifts(p) && p->scaling.scales ? 2 : 0);
}
