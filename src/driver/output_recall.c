/* What an existing output says it was made of. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "file.h"
#include "output_attributes.h"
#include "problem_scaling.h"
#include "slice.h"

/* Take alpha or beta, or an imaginary part of theirs, as recorded. */
static void recall_scalar(const char *what, const struct format_value *value, bool given,
                          double *option, struct error *err)
{
    if (given && value->found && *option != value->number)
        error_add(err, EXIT_INPUT,
                  "C was made with --%s %.15g, not with the --%s %.15g that was given", what,
                  value->number, what, *option);
    else if (value->found)
        *option = value->number;
}

/* `letter`: of the operand, as in A^T, or with conjugate elements A^H. */
static void recall_trans(char letter, const struct format_value *formula, bool given, bool *trans,
                         bool *conjugate, struct error *err)
{
    static const char words[] = {'N', 'T', 'C'};
    const char *mark = formula->found ? strchr(formula->text, letter) : NULL;
    int made = !mark || mark[1] != '^' ? 0 : mark[2] == 'H' ? 2 : 1;
    int asked = *trans + *conjugate;
    if (given && mark && asked != made && !(asked == 2 && made == 1))
        error_add(err, EXIT_INPUT,
                  "C was made with --trans%c %c, not with the --trans%c %c that was given",
                  letter - 'A' + 'a', words[made], letter - 'A' + 'a', words[asked]);
    else if (mark) {
        *trans = made > 0;
        *conjugate = made == 2;
    }
}

/* An operand as C's attributes name it, and as the options do. */
struct made_from {
    const char *what; /* A, B or C0 */
    const struct format_value *file, *dataset;
    bool given; /* by the user, so that it is not taken from C */
    struct operand_name *now;
};

/* With or without the first slash. */
static bool is_same_dataset(const char *x, const char *y)
{
    return strcmp(x + (x[0] == '/'), y + (y[0] == '/')) == 0;
}

static bool have_same_last_name(const char *x, const char *y)
{
    const char *slash_x = strrchr(x, '/'), *slash_y = strrchr(y, '/');
    return strcmp(slash_x ? slash_x + 1 : x, slash_y ? slash_y + 1 : y) == 0;
}

/* What is there, also if the dataset is a slice of it; OTHER where that cannot be told, which the
 * operand's own complaint says. */
static enum format_object look_at(const char *file, const char *dataset, struct error *err)
{
    char own[DATASET_NAME_MAX];
    struct format_found found;
    struct error ignored = {0};
    struct stat status;
    const int before = err->complaints;
    if (!file_leads(file, &status, err))
        return err->complaints > before ? FORMAT_OTHER : FORMAT_NOTHING;
    snprintf(own, sizeof own, "%.*s", (int)slice_base(dataset), dataset);
    int rc = format_lookup(file, dataset, &found, &ignored);
    if (!rc && found.object == FORMAT_NOTHING && dataset[strlen(own)])
        rc = format_lookup(file, own, &found, &ignored);
    return rc ? FORMAT_OTHER : found.object;
}

/* Another dataset of the file that has the recorded one is another matrix. */
static void compare_given(const struct made_from *made, struct error *err)
{
    const struct operand_name *now = made->now;
    const char *recorded = made->dataset->text;
    if (!is_same_dataset(recorded, now->dataset) && made->file->found &&
        have_same_last_name(made->file->text, now->file) &&
        look_at(now->file, recorded, err) == FORMAT_DATASET)
        error_add(err, EXIT_INPUT,
                  "C was made from %s = \"%s\", not from the -%c \"%s\" that was given; leave -%c "
                  "out",
                  made->what, recorded, tolower(made->what[0]), now->dataset,
                  tolower(made->what[0]));
}

/* Take an operand as recorded, unless it is given.  INPUT.h5 is where all are that were in one
 * file, which may have moved, and those that were in a file of this name. */
static void recall_operand(const struct made_from *made, const struct made_from *other,
                           struct error *err)
{
    struct operand_name *now = made->now;
    const bool one_file = strcmp(made->file->text, other->file->text) == 0;
    if (!made->dataset->found)
        return;
    if (made->given) {
        compare_given(made, err);
        return;
    }
    const bool first = made->what[0] == 'A';
    if (one_file && is_same_dataset(made->dataset->text, other->dataset->text) &&
        (other->given || !first)) { /* one matrix, which is known by now */
        *now = *other->now;
        return;
    }
    snprintf(now->dataset, sizeof now->dataset, "%s", made->dataset->text);
    if (!now->file[0] || (!one_file && !have_same_last_name(made->file->text, now->file)))
        snprintf(now->file, sizeof now->file, "%s", made->file->text);
    if (look_at(now->file, now->dataset, err) == FORMAT_NOTHING)
        error_add(
            err, EXIT_INPUT,
            "C was made from %s = \"%s\" of %s, and there is no %s:%s; give -%c FILE.h5:/path "
            "to say where that is now",
            made->what, made->dataset->text, made->file->text, now->file, now->dataset,
            tolower(made->what[0]));
}

static int recall_operands(const struct source *c, struct options *o, struct error *err)
{
    enum { A_FILE, A_DATASET, B_FILE, B_DATASET, C_FILE, C_DATASET };
    struct format_value values[] = {
        [A_FILE] = {.name = "A_file"},
        [A_DATASET] = {.name = "A_dataset"},
        [B_FILE] = {.name = "B_file"},
        [B_DATASET] = {.name = "B_dataset"},
        [C_FILE] = {.name = "C0_file"},
        [C_DATASET] = {.name = "C0_dataset"},
        {.name = NULL},
    };
    const struct made_from a = {"A", &values[A_FILE], &values[A_DATASET], o->given.a, &o->a};
    const struct made_from b = {"B", &values[B_FILE], &values[B_DATASET], o->given.b, &o->b};
    const struct made_from c0 = {"C0", &values[C_FILE], &values[C_DATASET], o->given.c, &o->c};
    if (format_get_attributes(c, values, err))
        return err->code;
    recall_operand(&a, &b, err);
    recall_operand(&b, &a, err);
    recall_operand(&c0, &a, err);
    const struct made_from *const all[] = {&a, &b, &c0};
    for (int i = 0; i < 2 + options_add_c(o); i++)
        if (!all[i]->now->file[0])
            error_add(err, EXIT_USAGE,
                      "%s:%s does not say where %s is; give INPUT.h5, or -%c FILE.h5:/path",
                      c->file, c->dataset, all[i]->what, tolower(all[i]->what[0]));
    return err->code;
}

/* Take what C or its sums are for what the option says, which may not say otherwise. */
static void recall_conversion(const char *what, const char *option, struct conversion made,
                              struct conversion *given, struct error *err)
{
    if (given->wanted && (given->type != made.type || given->complex != made.complex))
        error_add(err, EXIT_INPUT, "%s %s%s, but --%s %c is given", what,
                  made.complex ? "complex " : "", scalar_name(made.type), option,
                  scalar_letter(given->type, given->complex));
    *given = made;
}

/* Take the type of C, or of its sums, as the product's; that of integers follows from those of A
 * and B.  Of what another program has made --type-c says that it is rounded. */
static void recall_type(const struct format_value *sums, bool ours, struct options *options,
                        const struct source *c, struct error *err)
{
    const bool narrows = ours ? sums->found : options->convert_c.wanted;
    const struct conversion made = {true, c->matrix.elements, c->matrix.complex};
    const bool type_given = options->convert.wanted;
    struct conversion of_sums = made;
    if (matrix_holds(&c->matrix, SCALAR_INT64)) {
        if (type_given || options->convert_c.wanted)
            error_add(
                err, EXIT_INPUT, "C is int64, but --type%s %c is given", type_given ? "" : "-c",
                scalar_letter((type_given ? options->convert : options->convert_c).type, false));
        return;
    }
    if (!scalar_is_float_or_double(made.type)) {
        error_add(err, EXIT_INPUT, "%s:%s (%s) does not hold floats, doubles or int64", c->file,
                  c->dataset, c->layout);
        return;
    }
    of_sums.type = narrows ? scalar_finer(made.type) : made.type;
    recall_conversion(narrows ? "sums of C are" : "C is", "type", of_sums, &options->convert, err);
    recall_conversion("C is", "type-c", made, &options->convert_c, err);
}

static void recall_checksum(const struct format_value *value, struct recall *recall,
                            struct error *err)
{
    recall->has_checksum = value->found;
    if (value->found && !output_is_hash(value->text))
        error_add(err, EXIT_VERIFY, "%s: the checksum recorded for C is damaged",
                  recall->source.file);
    else if (value->found)
        recall->checksum = strtoull(value->text, NULL, 16);
}

/* A product in residues has another bound on its errors: that of what made C, not of what the
 * options say. */
static void recall_kernels(const struct format_value *value, struct options *options)
{
    int moduli = 0;
    const int algorithm = value->found ? algorithm_parse(value->text, &moduli) : ALGORITHM_NONE;
    options->algorithm = algorithm != ALGORITHM_NONE && moduli > 0 ? algorithm : ALGORITHM_AUTO;
    options->moduli = moduli;
}

/* Whether C is the lower half alone; of what another program has made, but for a packed one, the
 * option says it. */
static void recall_triangle(const struct format_value *value, const struct recall *recall,
                            struct options *options, struct error *err)
{
    const enum symmetric asked = options->symmetric;
    enum symmetric made = value->found ? SYMMETRIC_LOWER : SYMMETRIC_AUTO;
    made = recall->source.matrix.packed ? SYMMETRIC_PACKED : made;
    if (asked != made && (asked == SYMMETRIC_PACKED || (asked == SYMMETRIC_LOWER && recall->ours)))
        error_add(err, EXIT_INPUT, "C was made %s, not with the --symmetric %s that was given",
                  made == SYMMETRIC_PACKED  ? "as a packed triangle"
                  : made == SYMMETRIC_LOWER ? "with zeros above the diagonal"
                                            : "as a whole",
                  asked == SYMMETRIC_PACKED ? "packed" : "lower");
    if (made != SYMMETRIC_AUTO)
        options->symmetric = made;
}

/* A normal product's formula begins with the second of its factors, as op(A)^T: what op(A) is
 * follows from the first one. */
static void recall_product(const struct format_value *product, struct format_value *formula,
                           struct options *o, struct error *err)
{
    const bool normal = product->found && strcmp(product->text, product_names[PRODUCT_NORMAL]) == 0;
    const bool asked = o->scaling.product == PRODUCT_NORMAL;
    if (formula->found && asked != normal && o->scaling.product != PRODUCT_PLAIN)
        error_add(err, EXIT_INPUT, "C was %s with --product normal: leave --product out",
                  normal ? "made" : "not made");
    if (!normal)
        return;
    o->scaling.product = PRODUCT_NORMAL;
    char *first = strchr(formula->text, 'A'), *second = first ? strchr(first + 1, 'A') : NULL;
    if (second)
        memmove(first, second, strlen(second) + 1);
}

/* Which of the words it is; the first one where it is none. */
static int recall_word(const struct format_value *value, const char *const words[3])
{
    int found = 0;
    for (int i = 0; i < 3 && value->found; i++)
        found = strcmp(value->text, words[i]) == 0 ? i : found;
    return found;
}

/* Centred and scaled as recorded, where the options do not say it. */
static void recall_standard(const struct recall *recall, struct options *o)
{
    if (o->scaling.product != PRODUCT_PLAIN && o->scaling.product != PRODUCT_NORMAL)
        return;
    o->scaling.center = o->scaling.center ? o->scaling.center : scaling_center(&recall->scaling);
    o->scaling.scale = o->scaling.scale ? o->scaling.scale : scaling_scale(&recall->scaling);
    o->scaling.crossed = recall->scaling.crossed;
    o->scaling.missing = o->given.missing ? o->scaling.missing : recall->scaling.missing;
}

void output_compare_standard(const struct recall *recall, const struct problem *p,
                             struct error *err)
{
    const struct scaling *made = &recall->scaling, now = problem_seen_scaling(p);
    if (!recall->ours)
        return;
    if (made->axis[0] != now.axis[0] || (made->axis[0] && made->crossed != (now.axis[1] != 0)) ||
        made->centers != now.centers || made->scales != now.scales ||
        (made->axis[0] && made->missing != now.missing))
        error_add(err, EXIT_INPUT,
                  "C was made with --center %s --scale %s --nan %s%s, not with the options given "
                  "now: leave these and --product out",
                  axis_names[scaling_center(made)], axis_names[scaling_scale(made)],
                  missing_names[made->missing], made->crossed ? "" : " of A alone");
    else if (recall->has_alpha && recall->alpha != p->alpha)
        error_add(err, EXIT_INPUT,
                  "C was made with --alpha %.15g, and --product asks for %.15g: leave it out",
                  recall->alpha, p->alpha);
}

static int complain_no_output(const char *file, struct error *err)
{
    char part[PATH_MAX + 8];
    struct stat status;
    snprintf(part, sizeof part, "%s.part", file);
    if (file_exists(part, &status, err))
        return error_add(err, EXIT_INPUT,
                         "--check-only: C is not complete in %s; give the command that makes it "
                         "once more, which resumes",
                         part);
    return error_add(err, EXIT_INPUT,
                     "--check-only: there is no output %s; name C's file by -o, or leave "
                     "--check-only out to make it",
                     file);
}

int output_recall(struct options *o, struct recall *recall, struct error *err)
{
    enum {
        ALPHA,
        BETA,
        ALPHA_I,
        BETA_I,
        FORMULA,
        CHECKSUM,
        KERNELS,
        TRIANGLE,
        CENTER,
        SCALE,
        MISSING,
        LINES_B,
        PRODUCT,
        SUMS
    };
    struct format_value values[] = {
        [ALPHA] = {.name = "alpha"},
        [BETA] = {.name = "beta"},
        [ALPHA_I] = {.name = "alpha_imag"},
        [BETA_I] = {.name = "beta_imag"},
        [FORMULA] = {.name = "formula"},
        [CHECKSUM] = {.name = FORMAT_CHECKSUM},
        [KERNELS] = {.name = "kernels"},
        [TRIANGLE] = {.name = "triangle"},
        [CENTER] = {.name = "center"},
        [SCALE] = {.name = "scale"},
        [MISSING] = {.name = "nan"},
        [LINES_B] = {.name = "lines_b"},
        [PRODUCT] = {.name = "product"},
        [SUMS] = {.name = "sums"},
        {.name = NULL},
    };
    struct stat status;
    if (!file_leads(o->output.file, &status, err))
        return err->code ? err->code : complain_no_output(o->output.file, err);
    if (format_describe(o->output.file, o->output.dataset, &recall->source, err) ||
        source_check_finished(&recall->source, err) ||
        format_get_attributes(&recall->source, values, err))
        return err->code;
    recall_scalar("alpha", &values[ALPHA], o->given.alpha, &o->alpha, err);
    recall_scalar("beta", &values[BETA], o->given.beta, &o->beta, err);
    recall_scalar("alpha", &values[ALPHA_I], o->given.alpha, &o->alpha_i, err);
    recall_scalar("beta", &values[BETA_I], o->given.beta, &o->beta_i, err);
    recall_product(&values[PRODUCT], &values[FORMULA], o, err);
    recall_trans('A', &values[FORMULA], o->given.trans_a, &o->trans[0], &o->conjugate[0], err);
    recall_trans('B', &values[FORMULA], o->given.trans_b, &o->trans[1], &o->conjugate[1], err);
    recall_operands(&recall->source, o, err);
    recall->ours = values[FORMULA].found;
    recall_type(&values[SUMS], recall->ours, o, &recall->source, err);
    recall_checksum(&values[CHECKSUM], recall, err);
    recall_kernels(&values[KERNELS], o);
    recall_triangle(&values[TRIANGLE], recall, o, err);
    enum axis center = (enum axis)recall_word(&values[CENTER], axis_names);
    enum axis scale = (enum axis)recall_word(&values[SCALE], axis_names);
    recall->has_alpha = values[ALPHA].found;
    recall->alpha = values[ALPHA].number;
    recall->scaling =
        (struct scaling){.axis = {center ? center : scale},
                         .crossed = !values[LINES_B].found || /* B is A */
                                    strcmp(values[LINES_B].text, axis_names[AXIS_NONE]) != 0,
                         .centers = center != AXIS_NONE,
                         .scales = scale != AXIS_NONE,
                         .missing = (enum missing)recall_word(&values[MISSING], missing_names)};
    recall_standard(recall, o);
    return err->code;
}
