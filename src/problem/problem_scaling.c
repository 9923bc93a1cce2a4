#include "problem_scaling.h"

#include <inttypes.h>

#include "error.h"
#include "options.h"

const char *const axis_names[] = {"none", "rows", "cols"};
const char *const missing_names[] = {"error", "mean", "zero"};
const char *const product_names[] = {"", "cov", "cor", "gram", "cross-cov", "cross-cor", "normal"};

bool scaling_is_crossed(enum named_product product)
{
    return product == PRODUCT_CROSS_COV || product == PRODUCT_CROSS_COR;
}

bool scaling_is_statistic(enum named_product product)
{
    return product == PRODUCT_COV || product == PRODUCT_COR || scaling_is_crossed(product);
}

/* The axis of an operand's variables: of the rows of op(A), and of the columns of op(B). */
static enum axis variables(const struct problem *p, enum operand operand)
{
    return p->trans[operand] == (operand == OPERAND_A) ? AXIS_COLS : AXIS_ROWS;
}

/* Covariances: of the rows of op(A), over k observations. */
static void choose_statistic(enum named_product product, struct problem *p, struct error *err)
{
    p->scaling.axis[OPERAND_A] = variables(p, OPERAND_A);
    p->scaling.centers = true;
    p->scaling.scales = product == PRODUCT_COR || product == PRODUCT_CROSS_COR;
    p->alpha = 1 / (double)(p->k - 1);
    if (p->k < 2)
        error_add(err, EXIT_INPUT,
                  "--product %s: variables need two observations or more, and op(A) is %" PRId64
                  "x%" PRId64 "; is --transa T missing, or one too many?",
                  product_names[product], p->m, p->k);
}

/* Whether the product is of one matrix, which B is, too. */
static bool is_of_one(enum named_product product)
{
    return product == PRODUCT_COV || product == PRODUCT_COR || product == PRODUCT_GRAM;
}

/* Whether A and B are one dataset.  Then it is a mistake that op(B) is not op(A)'s transpose. */
static bool is_mistaken(const struct scaling_options *o, const struct problem *p)
{
    return !problem_is_of_one_matrix(p) &&
           (matrix_is_same(&p->matrix[OPERAND_A], &p->matrix[OPERAND_B]) || is_of_one(o->product));
}

bool scaling_is_of_any(const struct scaling_options *o, const struct problem *p)
{
    const bool changes = o->center || o->scale || o->product != PRODUCT_PLAIN;
    return !changes || o->product == PRODUCT_NORMAL || !is_mistaken(o, p);
}

/* B's lines: A's, its own, or none. */
static void choose_b(bool crosses, struct problem *p)
{
    struct scaling *s = &p->scaling;
    const bool one = problem_is_of_one_matrix(p);
    const enum axis of_b = variables(p, OPERAND_B);
    const bool along_k = s->axis[OPERAND_A] != variables(p, OPERAND_A);
    s->crossed = crosses && !one && s->axis[OPERAND_A];
    s->axis[OPERAND_B] = one          ? s->axis[OPERAND_A]
                         : s->crossed ? axis_seen(of_b, along_k)
                                      : AXIS_NONE;
}

void scaling_choose(const struct scaling_options *o, bool names_b, struct problem *p,
                    struct error *err)
{
    p->scaling = (struct scaling){.axis = {o->center ? o->center : o->scale},
                                  .centers = o->center != AXIS_NONE,
                                  .scales = o->scale != AXIS_NONE,
                                  .missing = o->missing};
    if (scaling_is_statistic(o->product))
        choose_statistic(o->product, p, err);
    if (!scaling_is_of_any(o, p))
        error_add(err, EXIT_INPUT,
                  "--center, --scale and --product need one matrix times its own transpose: %s",
                  is_of_one(o->product) && names_b
                      ? "leave -b out, or give --product cross-cov or cross-cor"
                      : "give -b the dataset that A is, and either --transa T or --transb T");
    if (p->scaling.axis[OPERAND_A] && p->complex)
        error_add(err, EXIT_INPUT,
                  "--center, --scale and --product cov and cor are for real matrices; of complex "
                  "ones there is --product gram, as of -b A --transb C");
    choose_b(scaling_is_crossed(o->product) || o->crossed, p);
    if (!problem_reads_ab(p))
        p->scaling = (struct scaling){0};
}

/* Of one operand. */
static int64_t lines_of(const struct problem *p, enum operand operand)
{
    const struct matrix *matrix = &p->matrix[operand];
    const enum axis axis = p->scaling.axis[operand];
    return axis == AXIS_NONE ? 0 : axis == AXIS_ROWS ? matrix->rows : matrix->cols;
}

int64_t scaling_first(const struct problem *p, enum operand operand)
{
    return operand == OPERAND_A || !p->scaling.crossed ? 0 : lines_of(p, OPERAND_A);
}

int64_t scaling_end(const struct problem *p, enum operand operand)
{
    return scaling_first(p, operand) + lines_of(p, operand);
}

int64_t scaling_lines(const struct problem *p)
{
    return scaling_end(p, p->scaling.crossed ? OPERAND_B : OPERAND_A);
}

enum operand scaling_operand(const struct problem *p, int64_t line)
{
    return line < lines_of(p, OPERAND_A) ? OPERAND_A : OPERAND_B;
}

struct block scaling_block(const struct problem *p, int64_t first, int64_t lines)
{
    const enum operand operand = scaling_operand(p, first);
    const struct matrix *matrix = &p->matrix[operand];
    first -= scaling_first(p, operand);
    return p->scaling.axis[operand] == AXIS_ROWS ? (struct block){first, 0, lines, matrix->cols}
                                                 : (struct block){0, first, matrix->rows, lines};
}

int64_t scaling_elements(const struct problem *p)
{
    const struct matrix *a = &p->matrix[OPERAND_A];
    return p->scaling.axis[OPERAND_A] == AXIS_ROWS ? a->cols : a->rows;
}

bool scaling_lines_are_variables(const struct problem *p)
{
    return p->scaling.axis[OPERAND_B] && p->scaling.axis[OPERAND_A] == variables(p, OPERAND_A);
}

bool scaling_shifts(const struct problem *p)
{
    return p->scaling.centers && p->scaling.missing != MISSING_MEAN &&
           scaling_lines_are_variables(p);
}

int scaling_vectors(const struct problem *p)
{
    return 3 + (scaling_shifts(p) ? 2 : 0) + (scaling_shifts(p) && p->scaling.scales ? 2 : 0);
}
