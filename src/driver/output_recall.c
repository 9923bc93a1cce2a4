/* An output that is there: how it was made, as it says. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "output.h"

enum { DIGITS = 16 }; /* of a checksum */

/* A scalar or transposition, as recorded. */
static void recall_scalar(const char *what, const struct matfile_value *value, bool given,
                          double *option, struct error *err)
{
    if (given && value->found && *option != value->number)
        error_add(err, EXIT_INPUT,
                  "C was made with --%s %.15g, not with the --%s %.15g that was given", what,
                  value->number, what, *option);
    else if (value->found)
        *option = value->number;
}

static void recall_trans(const char *what, const char *transposed,
                         const struct matfile_value *formula, bool given, bool *option,
                         struct error *err)
{
    bool trans = strstr(formula->text, transposed) != NULL;
    if (given && formula->found && *option != trans)
        error_add(err, EXIT_INPUT, "C was made with %s %c, not with the %s %c that was given", what,
                  trans ? 'T' : 'N', what, *option ? 'T' : 'N');
    else if (formula->found)
        *option = trans;
}

/* Files move, so that only the dataset's name counts; with or without its first slash. */
static void recall_operand(const char *what, const char *letter,
                           const struct matfile_value *dataset, bool given,
                           const struct operand_name *operand, struct error *err)
{
    const char *made = dataset->text + (dataset->text[0] == '/');
    const char *asked = operand->dataset + (operand->dataset[0] == '/');
    if (!given && dataset->found && strcmp(made, asked) != 0)
        error_add(err, EXIT_INPUT, "C was made from %s = \"%s\"; give -%s to say where that is now",
                  what, dataset->text, letter);
}

/* The product's type is that of C. */
static void recall_type(struct options *options, const struct matrix_info *c, struct error *err)
{
    enum scalar type = c->elements == ELEMENT_FLOAT ? SCALAR_FLOAT : SCALAR_DOUBLE;
    if (c->elements != ELEMENT_FLOAT && c->elements != ELEMENT_DOUBLE)
        error_add(err, EXIT_INPUT, "%s:%s (%s) does not hold floats or doubles", c->file,
                  c->dataset, c->layout);
    else if (options->convert && options->type != type)
        error_add(err, EXIT_INPUT, "C is %s, but --type %c is given", scalar_name(type),
                  options->type == SCALAR_DOUBLE ? 'd' : 's');
    options->type = type;
    options->convert = true;
}

static void recall_checksum(const struct matfile_value *value, struct recall *recall,
                            struct error *err)
{
    bool valid = strlen(value->text) == DIGITS && strspn(value->text, "0123456789abcdef") == DIGITS;
    recall->has_checksum = value->found;
    if (value->found && !valid)
        error_add(err, EXIT_VERIFY, "%s: the checksum that is recorded for C is damaged",
                  recall->info.file);
    else if (value->found)
        recall->checksum = strtoull(value->text, NULL, 16);
}

int output_recall(struct options *o, struct recall *recall, struct error *err)
{
    enum { ALPHA, BETA, FORMULA, A_DATASET, B_DATASET, CHECKSUM };
    struct matfile_value values[] = {
        [ALPHA] = {.name = "alpha"},
        [BETA] = {.name = "beta"},
        [FORMULA] = {.name = "formula"},
        [A_DATASET] = {.name = "A_dataset"},
        [B_DATASET] = {.name = "B_dataset"},
        [CHECKSUM] = {.name = "checksum"},
        {.name = NULL},
    };
    if (matfile_describe(o->output.file, o->output.dataset, &recall->info, err) ||
        matfile_get_attributes(&recall->info, values, err))
        return err->code;
    recall_scalar("alpha", &values[ALPHA], o->given.alpha, &o->alpha, err);
    recall_scalar("beta", &values[BETA], o->given.beta, &o->beta, err);
    recall_trans("--transa", "A^T", &values[FORMULA], o->given.trans_a, &o->trans_a, err);
    recall_trans("--transb", "B^T", &values[FORMULA], o->given.trans_b, &o->trans_b, err);
    recall_operand("A", "a", &values[A_DATASET], o->given.a, &o->a, err);
    recall_operand("B", "b", &values[B_DATASET], o->given.b, &o->b, err);
    recall_type(o, &recall->info, err);
    recall_checksum(&values[CHECKSUM], recall, err);
    return output_check_beside(o, NULL, err);
}
