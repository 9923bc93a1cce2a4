#include "problem_open.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "integer_problem.h"
#include "options.h"
#include "problem_scaling.h"
#include "sums.h"

static const char *const operand_names[] = {"A", "B", "C"};

static const char *element_name(const struct matrix *matrix)
{
    if (matrix->elements == SCALAR_OTHER)
        return matrix->integers ? "integer" : "other floating-point";
    return scalar_name(matrix->elements);
}

static void check_shapes(const struct problem *p, int64_t k_of_b, struct error *err)
{
    const struct matrix *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    if (p->k == k_of_b)
        return;
    int64_t other_k_a = p->trans[0] ? matrix_cols(a) : a->rows;
    int64_t other_k_b = p->trans[1] ? b->rows : matrix_cols(b);
    const char *remedy = "transposing does not help";
    char text[128];
    if (other_k_b == p->k) {
        snprintf(text, sizeof text, "--transb %s would fit", p->trans[1] ? "N" : "T");
        remedy = text;
    } else if (other_k_a == k_of_b) {
        snprintf(text, sizeof text, "--transa %s would fit", p->trans[0] ? "N" : "T");
        remedy = text;
    } else if (other_k_a == other_k_b) {
        snprintf(text, sizeof text, "--transa %s --transb %s would fit%s", p->trans[0] ? "N" : "T",
                 p->trans[1] ? "N" : "T",
                 p->trans[0] || p->trans[1]
                     ? ""
                     : ", or A and B exchanged, which gives the C of MATLAB, Julia, R and Fortran");
        remedy = text;
    }
    error_add(err, EXIT_INPUT,
              "op(A) is %" PRId64 "x%" PRId64 ", op(B) is %" PRId64 "x%" PRId64
              ": the inner dimensions %" PRId64 " and %" PRId64 " differ; %s",
              p->m, p->k, k_of_b, p->n, p->k, k_of_b, remedy);
}

static void check_c(const struct problem *p, struct error *err)
{
    const struct matrix *c = &p->matrix[OPERAND_C];
    if (c->rows == p->m && matrix_cols(c) == p->n)
        return;
    error_add(err, EXIT_INPUT,
              "%s:%s is %" PRId64 "x%" PRId64 ", but op(A) op(B) is %" PRId64 "x%" PRId64
              "; name another by -c, or give --beta 0",
              p->sources[OPERAND_C].file, p->sources[OPERAND_C].dataset, c->rows, matrix_cols(c),
              p->m, p->n);
}

/* The product is complex where an operand is, or the user says so.  Real operands of it have
 * imaginary parts of 0, but for C: that would be lost. */
static void choose_complex(struct problem *p, const struct options *options, enum operand end,
                           struct error *err)
{
    const struct source *c = &p->sources[OPERAND_C];
    p->complex = options->convert.wanted && options->convert.complex;
    for (enum operand i = 0; i < end; i++) {
        const bool complex = p->matrix[i].complex;
        p->complex |= complex;
        if (complex && options->convert.wanted && !options->convert.complex)
            error_add(err, EXIT_INPUT, "%s:%s is complex; give --type z (or c)", p->sources[i].file,
                      p->sources[i].dataset);
        if (i < OPERAND_C)
            p->conjugate[i] &= complex;
    }
    if (!p->complex && (p->alpha_i != 0 || p->beta_i != 0))
        error_add(err, EXIT_USAGE,
                  "alpha or beta is complex, and the matrices are not; give --type z (or c)");
    if (p->complex && end > OPERAND_C && !c->matrix.complex)
        error_add(
            err, EXIT_INPUT,
            "%s:%s is real, but the product to be added is complex; store it as complex numbers",
            c->file, c->dataset);
}

/* Elements that become the product's type on the device are held as the file has them. */
static void hold_as_stored(struct problem *p)
{
    for (enum operand i = 0; i < OPERAND_C; i++) {
        const enum scalar stored = p->matrix[i].elements;
        if (scalar_is_real(stored) && scalar_factor(stored) == p->type && !(p->normal && i > 0))
            p->held[i] = stored;
    }
}

/* A C0 may have the type that C is to have. */
static bool is_as_written(const struct matrix *matrix, const struct conversion *c)
{
    return c->wanted && matrix_holds(matrix, c->type);
}

/* The type of the product is what the operands become; other conversions have to be asked for. */
static void check_types(struct problem *p, const struct options *options, enum operand end,
                        struct error *err)
{
    const char *types = p->complex ? "z (or c)" : "d (or s)";
    if (options->convert.wanted) {
        problem_set_type(p, options->convert.type);
        hold_as_stored(p);
        return;
    }
    const struct matrix *a = &p->matrix[OPERAND_A];
    for (enum operand i = 0; i < end; i++) {
        const struct matrix *matrix = &p->matrix[i];
        if (p->sources[i].netcdf[0]) /* refused; of another type when decoded */
            continue;
        if (!scalar_is_real(matrix->elements))
            error_add(err, EXIT_INPUT,
                      "%s:%s holds %s elements; give --type %s to convert them while reading",
                      p->sources[i].file, p->sources[i].dataset, element_name(matrix), types);
        else if (scalar_is_real(a->elements) &&
                 scalar_factor(matrix->elements) != scalar_factor(a->elements) &&
                 !(i == OPERAND_C && is_as_written(matrix, &options->convert_c)))
            error_add(err, EXIT_INPUT,
                      "%s is %s but A is %s; give --type %s to convert while reading",
                      operand_names[i], element_name(matrix), element_name(a), types);
    }
    problem_set_type(p, scalar_is_real(a->elements) ? scalar_factor(a->elements) : SCALAR_DOUBLE);
    hold_as_stored(p);
}

/* Once the types of sums are known. */
static void choose_written(struct problem *p, const struct conversion *c, struct error *err)
{
    const char letter = scalar_letter(c->type, c->complex);
    if (!c->wanted)
        return;
    if (problem_gives_integers(p))
        error_add(err, EXIT_INPUT,
                  "--type-c %c: A and B are integers, and C is int64; give --type d, too", letter);
    else if (c->complex != p->complex)
        error_add(err, EXIT_INPUT, "--type-c %c: the product is %s; give --type-c %c", letter,
                  p->complex ? "complex" : "real", scalar_letter(c->type, p->complex));
    else if (scalar_roundoff(c->type) < scalar_roundoff(p->type))
        error_add(err, EXIT_INPUT,
                  "--type-c %c: sums of floats are floats; give --type %c for sums of doubles",
                  letter, letter);
    else
        p->narrows = c->type != p->type;
}

/* What is packed would be multiplied as it is stored, and a missing element as a number. */
static void check_netcdf(const struct source *source, struct error *err)
{
    bool packed = strstr(source->netcdf, "scale_factor") || strstr(source->netcdf, "add_offset") ||
                  strstr(source->netcdf, "_Unsigned");
    if (source->netcdf[0])
        error_add(
            err, EXIT_INPUT,
            "%s:%s has %s, by which netCDF %s, and would be multiplied as it is stored; decode "
            "it first (xarray: "
            "open_dataset(\"%s\").drop_encoding().fillna(0).to_netcdf(\"decoded.nc\"))%s",
            source->file, source->dataset, source->netcdf,
            packed ? "packs elements" : "marks missing elements", source->file,
            packed ? "" : ", or delete the attribute where nothing is missing");
}

/* Kernels take alpha and beta as numbers of the product's type. */
static void check_scalar(const struct problem *p, const char *name, double value, struct error *err)
{
    const double rounded = scalar_rounded(p->type, value);
    if (isinf(rounded) || (rounded == 0 && value != 0))
        error_add(err, EXIT_USAGE, "--%s %g is out of the range of %s; give --type d", name, value,
                  scalar_name(p->type));
}

/* Where the user asks for a grid or tiles, these are of the general product.  To be called when the
 * shapes have been checked. */
static void set_symmetric(struct problem *p, const struct options *o, struct error *err)
{
    bool one = problem_is_of_one_matrix(p), forced = o->plan.grid_rows || o->plan.tile_rows;
    static const char *const words[] = {
        [SYMMETRIC_ON] = "on", [SYMMETRIC_LOWER] = "lower", [SYMMETRIC_PACKED] = "packed"};
    const char *word = words[o->symmetric];
    p->lower = o->symmetric == SYMMETRIC_LOWER    ? LOWER_ZEROS
               : o->symmetric == SYMMETRIC_PACKED ? LOWER_PACKED
                                                  : LOWER_NO;
    bool must = o->symmetric == SYMMETRIC_ON || p->lower;
    p->symmetric = o->symmetric != SYMMETRIC_OFF && one && !forced && problem_reads_ab(p);
    if (must && !one && !err->code)
        error_add(err, EXIT_INPUT,
                  "--symmetric %s: op(B) is not the transpose of op(A); give -b the dataset that A "
                  "is, and --transa T or --transb T%s",
                  word, p->complex ? " (or C)" : "");
    if (p->lower && problem_is_hermitian(p) && (p->alpha_i != 0 || p->beta_i != 0))
        error_add(err, EXIT_USAGE,
                  "--symmetric %s: with a complex alpha or beta C is not Hermitian, which its "
                  "lower half would stand for; leave it at auto",
                  word);
    if (must && forced)
        error_add(err, EXIT_USAGE, "--symmetric %s cannot be combined with --grid or --tile", word);
    if (p->lower && !problem_reads_ab(p))
        error_add(err, EXIT_USAGE,
                  "--symmetric %s: nothing is multiplied where alpha or k is 0; leave it at auto",
                  word);
}

/* Zeros stand above its diagonal, where only a C that is added may have them. */
static void check_packed(const struct problem *p, enum operand operand, struct error *err)
{
    const struct source *s = &p->sources[operand];
    if (s->matrix.packed && !(operand == OPERAND_C && p->lower))
        error_add(err, EXIT_INPUT,
                  "%s:%s is a packed triangle, which is no operand: make all of it by h5mat gen "
                  "--unpack, and name that",
                  s->file, s->dataset);
}

static int moduli_of(const struct options *options, enum scalar type, bool complex)
{
    if (options->algorithm != ALGORITHM_OZAKI)
        return 0;
    return options->moduli > 0 ? options->moduli : ozaki_moduli(type, complex);
}

/* Of the files, which may have the transposes of what users see. */
static void turn_operands(struct problem *p)
{
    for (enum operand i = 0; i < OPERAND_C; i++) {
        p->scaling.axis[i] = axis_seen(p->scaling.axis[i], p->matrix[i].turned);
        p->trans[i] = p->trans[i] != p->matrix[i].turned;
        p->matrix[i] = p->sources[i].matrix;
    }
}

/* Not all of them may be turned. */
static void check_turned(const struct problem *p, enum operand end, struct error *err)
{
    for (enum operand i = 0; i < end; i++)
        if (p->matrix[i].turned && (i == OPERAND_C || p->conjugate[i]))
            error_add(err, EXIT_INPUT,
                      "%s is in Fortran's order, which is not read %s: store it in C's order",
                      p->sources[i].file,
                      i == OPERAND_C ? "of a C that is added" : "where it is conjugated");
}

/* What a normal product cannot be. */
static void check_normal(const struct problem *p, const struct options *o, struct error *err)
{
    if (!p->normal)
        return;
    if (p->complex || problem_is_exact(p) || p->moduli > 0)
        error_add(err, EXIT_INPUT,
                  "--product normal is for real numbers, without --algo ozaki: give --type d for "
                  "integers");
    if (p->narrows)
        error_add(err, EXIT_USAGE, "--product normal: leave --type-c out");
    if (p->trans[OPERAND_B] || p->matrix[OPERAND_B].turned)
        error_add(err, EXIT_INPUT,
                  "--product normal takes B as it is stored, in C's order, without --transb");
    if (p->alpha == 0 || p->m == 0 || p->k == 0)
        error_add(
            err, EXIT_INPUT,
            "--product normal: alpha is 0, or A has no elements; there is nothing to compute");
    if (o->plan.grid_rows > 1 || o->plan.tile_rows)
        error_add(err, EXIT_USAGE,
                  "--product normal has all rows of C on each device: leave --grid and --tile out");
}

/* From what users count to what problem.h says, once all has been checked. */
static void count_parts(struct problem *p)
{
    turn_operands(p);
    if (p->normal) { /* until now op(B) */
        const int64_t rows = p->m;
        p->m = p->k;
        p->k = rows;
        p->trans[OPERAND_A] = !p->trans[OPERAND_A];
    }
    p->k *= problem_width(p);
    p->n *= problem_width(p);
    p->k_whole = p->k;
    p->n_whole = p->n;
    p->blocks.steps = sums_block(p);
}

/* The C that is added has a default name, too, of which a user of --beta may not think. */
static int describe_c(const struct operand_name *name, struct source *source, struct error *err)
{
    struct error why = {0};
    if (format_describe(name->file, name->dataset, source, &why))
        error_add(err, why.code, "%s; name the C that --beta adds by -c, or leave --beta out",
                  why.text);
    return why.code;
}

int problem_open(const struct options *options, struct source sources[OPERAND_COUNT],
                 struct problem *p, struct error *err)
{
    *p = (struct problem){.normal = options->scaling.product == PRODUCT_NORMAL,
                          .trans = {options->trans[0], options->trans[1]},
                          .conjugate = {options->conjugate[0], options->conjugate[1]},
                          .alpha = options->alpha,
                          .beta = options->beta,
                          .alpha_i = options->alpha_i,
                          .beta_i = options->beta_i,
                          .io = options->io,
                          .sources = sources};
    const struct operand_name *names[] = {&options->a, &options->b, &options->c};
    enum operand end = problem_reads_c(p) ? OPERAND_COUNT : OPERAND_C;
    int failed = 0;
    for (enum operand i = 0; i < OPERAND_C; i++)
        failed |= format_describe(names[i]->file, names[i]->dataset, &sources[i], err);
    if (problem_reads_c(p))
        failed |= describe_c(names[OPERAND_C], &sources[OPERAND_C], err);
    if (failed)
        return err->code;
    for (enum operand i = 0; i < end; i++)
        p->matrix[i] = matrix_seen(&sources[i].matrix);

    const struct matrix *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    p->m = p->trans[0] ? matrix_cols(a) : a->rows;
    p->k = p->trans[0] ? a->rows : matrix_cols(a);
    p->n = p->trans[1] ? b->rows : matrix_cols(b);
    choose_complex(p, options, end, err);
    check_turned(p, end, err);
    if (p->complex || !integers_choose(options, p, end, err))
        check_types(p, options, end, err);
    choose_written(p, &options->convert_c, err);
    p->moduli = problem_is_exact(p) ? 0 : moduli_of(options, p->type, p->complex);
    check_scalar(p, "alpha", p->alpha, err);
    check_scalar(p, "beta", p->beta, err);
    check_scalar(p, "alpha", p->alpha_i, err);
    check_scalar(p, "beta", p->beta_i, err);
    if (scaling_is_of_any(&options->scaling, p))
        check_shapes(p, p->trans[1] ? matrix_cols(b) : b->rows, err);
    scaling_choose(&options->scaling, options->given.b, p, err);
    check_normal(p, options, err);
    set_symmetric(p, options, err);
    if (p->m == 0 || p->n == 0)
        error_add(err, EXIT_INPUT,
                  "C would be %" PRId64 "x%" PRId64 ": there is nothing to compute; name "
                  "matrices that have rows and columns",
                  p->m, p->n);
    else if (p->m > INT64_MAX / (int64_t)sizeof(double) / problem_width(p) / p->n)
        error_add(err, EXIT_INPUT,
                  "C would be %" PRId64 "x%" PRId64 ", more than a file can hold; is a --transa or "
                  "--transb missing?",
                  p->m, p->n);
    if (problem_reads_c(p))
        check_c(p, err);
    for (enum operand i = 0; i < end; i++)
        if (problem_reads(p, i)) {
            check_netcdf(&sources[i], err);
            check_packed(p, i, err);
            source_check_finished(&sources[i], err);
            store_check_readable(&sources[i], p->held[i], err);
        }
    for (enum operand i = 0; i < end; i++)
        if ((options->io == STORE_DIRECT && !problem_by_offset(p, i)) ||
            (options->io == STORE_BUFFERED && problem_through_library(p, i)))
            error_add(err, EXIT_INPUT,
                      "%s (%s) cannot be read by offset: it has to be %s; leave --io at auto",
                      operand_names[i], sources[i].layout,
                      p->matrix[i].chunk_rows > 0 ? "decoded" : "converted");
    count_parts(p);
    return err->code;
}
