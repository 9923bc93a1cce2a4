/* h5mat diff: compare two matrices, larger than memory if need be; or those of two files.
 *
 * Elements are compared as long doubles, which hold every int64 and every double, and on x86 and
 * Arm the squares of all doubles, too, without overflow or underflow.
 *
 * The sums are taken block by block and then over the blocks in order, so that the same two
 * matrices give the same digits whatever the threads do. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common_options.h"
#include "error.h"
#include "h5mat.h"
#include "h5mat_grid.h"
#include "matname.h"
#include "quantity.h"
#include "store.h"

struct difference {
    struct extreme {
        long double size;                /* a difference, */
        long double first[2], second[2]; /* and the elements there: real and imaginary parts */
        int64_t row, col;
    } largest;
    long double square_sum;    /* of differences */
    long double square_sum_of; /* of the first matrix */
    int64_t over;              /* elements that differ by more than the tolerance */
};

struct diff {
    const char *names[2]; /* as they were given: */
    char file[2][PATH_MAX];
    char dataset[2][DATASET_NAME_MAX]; /* empty: not named */
    double tolerance;
    bool different; /* one of the pairs so far */
    /* Of the pair at work: */
    struct source source[2];
    enum scalar type[2]; /* in which they are read */
    struct store *store[2];
    struct difference *blocks;
};

static const struct argp_option option_table[] = {
    {"tol", 't', "T", 0, "largest difference allowed between two elements (default 0)", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct diff *d = state->input;
    char *end;
    switch (key) {
    case 't':
        d->tolerance = strtod(arg, &end);
        if (end == arg || *end || !(d->tolerance >= 0))
            argp_error(state, "--tol takes a number from 0 up, not \"%s\"", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "only two matrices can be compared; %s is a third one", arg);
        d->names[state->arg_num] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!d->names[1])
            argp_error(
                state,
                "two files or matrices are needed, as in %s x.h5:/C y.h5:/C, or %s x.h5 y.h5",
                state->name, state->name);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Equal infinities and two NaNs do not differ; a NaN and a number differ beyond any tolerance. */
static long double distance(long double a, long double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    long double d = fabsl(a - b);
    return isnan(d) ? INFINITY : d;
}

static void take_element(struct difference *d, const long double a[2], const long double b[2],
                         double tolerance, int64_t row, int64_t col)
{
    long double distant = distance(a[0], b[0]), across = distance(a[1], b[1]);
    if (across > 0)
        distant = hypotl(distant, across);
    if (distant > d->largest.size)
        d->largest = (struct extreme){distant, {a[0], a[1]}, {b[0], b[1]}, row, col};
    d->over += distant > tolerance;
    d->square_sum += distant * distant;
    for (int i = 0; i < 2; i++)
        d->square_sum_of += isfinite(a[i]) ? a[i] * a[i] : 0;
}

static long double get_number(enum scalar type, const void *from, int64_t n)
{
    return type == SCALAR_INT64 ? (long double)((const int64_t *)from)[n]
                                : scalar_get(type, from, n);
}

static void compare(const struct diff *d, const struct block *block, const void *a, const void *b,
                    struct difference *result)
{
    const int64_t width = d->source[0].matrix.complex ? 2 : 1;
    int64_t n = 0;
    for (int64_t i = 0; i < block->rows; i++)
        for (int64_t j = 0; j < block->cols; j += width, n += width) {
            long double x[2] = {0}, y[2] = {0};
            for (int64_t part = 0; part < width; part++) {
                x[part] = get_number(d->type[0], a, n + part);
                y[part] = get_number(d->type[1], b, n + part);
            }
            take_element(result, x, y, d->tolerance, block->row + i, (block->col + j) / width);
        }
}

static int compare_block(void *context, int64_t index, const struct block *block, void *buffer,
                         struct error *err)
{
    struct diff *d = context;
    char *a = buffer, *b = a + (size_t)(block->rows * block->cols) * scalar_size(d->type[0]);
    int rc = store_read(d->store[0], block, a, err);
    if (!rc)
        rc = store_read(d->store[1], block, b, err);
    if (!rc)
        compare(d, block, a, b, &d->blocks[index]);
    return rc;
}

/* Blocks are merged in order, so of equal largest differences the one found first stays. */
static void merge(struct difference *sum, const struct difference *block)
{
    if (block->largest.size > sum->largest.size)
        sum->largest = block->largest;
    sum->square_sum += block->square_sum;
    sum->square_sum_of += block->square_sum_of;
    sum->over += block->over;
}

static int compare_all(struct diff *d, struct difference *sum, struct error *err)
{
    const struct matrix *a = &d->source[0].matrix, *b = &d->source[1].matrix;
    struct grid grid = grid_make(a->rows, a->cols, max_i64(a->chunk_rows, b->chunk_rows),
                                 max_i64(a->chunk_cols, b->chunk_cols));
    int64_t blocks = grid_blocks(&grid);
    d->blocks = calloc((size_t)max_i64(blocks, 1), sizeof *d->blocks);
    if (!d->blocks)
        return error_add(err, EXIT_RESOURCES, "no memory for %" PRId64 " blocks", blocks);
    int rc =
        grid_each(&grid, scalar_size(d->type[0]) + scalar_size(d->type[1]), compare_block, d, err);
    for (int64_t i = 0; i < blocks && !rc; i++)
        merge(sum, &d->blocks[i]);
    free(d->blocks);
    return rc;
}

/* "x.h5:/A", fit to be printed; the caller frees it. */
static char *full_name(const struct source *source)
{
    char *name = NULL;
    if (asprintf(&name, "%s:%s%s", source->file, source->dataset[0] == '/' ? "" : "/",
                 source->dataset) < 0)
        return NULL;
    error_make_plain(name);
    return name;
}

/* The type that has all of its elements, or else double. */
static enum scalar type_of(const struct matrix *matrix)
{
    return matrix->elements == SCALAR_OTHER ? SCALAR_DOUBLE : matrix->elements;
}

static bool is_rounded(const struct matrix *matrix)
{
    return matrix->elements == SCALAR_OTHER && matrix->element_bytes >= sizeof(double);
}

static int open_both(struct diff *d, struct error *err)
{
    const struct source *a = &d->source[0], *b = &d->source[1];
    if (a->matrix.turned || b->matrix.turned)
        return error_add(err, EXIT_INPUT,
                         "%s is in Fortran's order, in which h5mat compares nothing: store it in "
                         "C's order",
                         a->matrix.turned ? a->file : b->file);
    if (a->matrix.rows != b->matrix.rows || matrix_cols(&a->matrix) != matrix_cols(&b->matrix))
        return error_add(err, EXIT_INPUT,
                         "%s:%s is %" PRId64 "x%" PRId64 " but %s:%s is %" PRId64 "x%" PRId64,
                         a->file, a->dataset, a->matrix.rows, matrix_cols(&a->matrix), b->file,
                         b->dataset, b->matrix.rows, matrix_cols(&b->matrix));
    if (a->matrix.complex != b->matrix.complex)
        return error_add(err, EXIT_INPUT, "%s:%s is %s but %s:%s is %s", a->file, a->dataset,
                         a->matrix.complex ? "complex" : "real", b->file, b->dataset,
                         b->matrix.complex ? "complex" : "real");
    for (int i = 0; i < 2 && !err->code; i++) {
        d->type[i] = type_of(&d->source[i].matrix);
        store_open(&d->source[i], d->type[i], STORE_READ, STORE_AUTO, &d->store[i], err);
    }
    return err->code;
}

static long double ratio(long double part, long double whole)
{
    return part == 0 ? 0 : part / whole;
}

static void print_difference(const struct diff *d, const struct difference *sum)
{
    const struct extreme *largest = &sum->largest;
    const int64_t cols = matrix_cols(&d->source[0].matrix);
    double elements = (double)d->source[0].matrix.rows * (double)cols;
    long double mse = ratio(sum->square_sum, elements);
    const bool rounded = is_rounded(&d->source[0].matrix) || is_rounded(&d->source[1].matrix);
    const int digits = scalar_is_integer(d->type[0]) && scalar_is_integer(d->type[1]) ? 19 : 17;
    char *first = full_name(&d->source[0]), *second = full_name(&d->source[1]);
    printf("%s and %s: %" PRId64 " x %" PRId64 ", tolerance %g%s\n", first, second,
           d->source[0].matrix.rows, cols, d->tolerance, rounded ? ", rounded to doubles" : "");
    free(first);
    free(second);
    printf("  max abs difference  %Lg", largest->size);
    if (largest->size > 0)
        printf(" at row %" PRId64 ", column %" PRId64 ": ", largest->row, largest->col);
    if (largest->size > 0 && d->source[0].matrix.complex)
        printf("%.17Lg%+.17Lgi and %.17Lg%+.17Lgi", largest->first[0], largest->first[1],
               largest->second[0], largest->second[1]);
    else if (largest->size > 0)
        printf("%.*Lg and %.*Lg", digits, largest->first[0], digits, largest->second[0]);
    printf("\n  RMS                 %Lg\n  MSE                 %Lg\n", sqrtl(mse), mse);
    printf("  relative Frobenius  %Lg\n", sqrtl(ratio(sum->square_sum, sum->square_sum_of)));
    printf("  over the tolerance  %" PRId64 " of %.0f elements, %Lg %%\n", sum->over, elements,
           100 * ratio(sum->over, elements));
    printf("%s\n", sum->over           ? "DIFFERENT"
                   : largest->size > 0 ? "equal within the tolerance"
                   : rounded           ? "equal as doubles"
                                       : "equal");
}

static void compare_pair(struct diff *d, const char *first, const char *second, struct error *err)
{
    struct difference sum = {0};
    struct error own = {0};
    d->store[0] = d->store[1] = NULL;
    int failed = format_describe(d->file[0], first, &d->source[0], &own);
    failed |= format_describe(d->file[1], second, &d->source[1], &own);
    for (int i = 0; i < 2 && !failed; i++)
        failed = source_check_finished(&d->source[i], &own);
    if (!failed && open_both(d, &own) == 0 && compare_all(d, &sum, &own) == 0) {
        print_difference(d, &sum);
        d->different |= sum.over > 0;
    }
    store_close(d->store[0]);
    store_close(d->store[1]);
    error_append(err, &own);
}

/* The matrices of a file. */
struct list {
    char **names;
    int count;
    bool incomplete; /* for want of memory */
};

static void add_name(const struct source *source, const struct error *problem, void *context)
{
    (void)problem;
    struct list *list = context;
    char **names = realloc(list->names, ((size_t)list->count + 1) * sizeof *names);
    if (names)
        list->names = names;
    char *name = names ? strdup(source->dataset) : NULL;
    if (name)
        list->names[list->count++] = name;
    list->incomplete |= !name;
}

static int list_open(struct list *list, const char *file, struct error *err)
{
    *list = (struct list){0};
    if (format_each(file, add_name, list, err))
        return err->code;
    if (list->incomplete)
        return error_add(err, EXIT_RESOURCES, "no memory for the names in %s", file);
    if (list->count == 0)
        return error_add(err, EXIT_INPUT, "%s: there is no two-dimensional dataset in it", file);
    return 0;
}

static void list_close(struct list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
}

/* With or without its first slash. */
static bool list_has(const struct list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->names[i] + (list->names[i][0] == '/'), name + (name[0] == '/')) == 0)
            return true;
    return false;
}

/* Say which matrices the other file does not have, and so are not compared. */
static void print_alone(const char *file, const struct list *list, const struct list *other)
{
    for (int i = 0; i < list->count; i++)
        if (!list_has(other, list->names[i])) {
            error_make_plain(list->names[i]);
            printf("only in %s: %s\n", file, list->names[i]);
        }
}

/* The only matrix of each, or all that have the same name. */
static void compare_files(struct diff *d, const struct list *a, const struct list *b,
                          struct error *err)
{
    bool both = false;
    if (a->count == 1 && b->count == 1) {
        compare_pair(d, a->names[0], b->names[0], err);
        return;
    }
    for (int i = 0; i < a->count; i++)
        if (list_has(b, a->names[i])) {
            compare_pair(d, a->names[i], a->names[i], err);
            both = true;
        }
    if (!both)
        error_add(
            err, EXIT_INPUT,
            "%s and %s have no matrix of the same name; name one of each, as in FILE.h5:/path",
            d->file[0], d->file[1]);
    print_alone(d->file[0], a, b);
    print_alone(d->file[1], b, a);
}

/* Where one of them is named: the other is that of the same name, or the only one. */
static const char *partner(const struct list *list, const char *name)
{
    return list->count == 1 && !list_has(list, name) ? list->names[0] : name;
}

static void compare_named(struct diff *d, struct error *err)
{
    struct list lists[2] = {0};
    const char *a = d->dataset[0], *b = d->dataset[1];
    for (int i = 0; i < 2 && !err->code; i++)
        if (!d->dataset[i][0])
            list_open(&lists[i], d->file[i], err);
    if (!err->code && !*a && !*b)
        compare_files(d, &lists[0], &lists[1], err);
    else if (!err->code)
        compare_pair(d, *a ? a : partner(&lists[0], b), *b ? b : partner(&lists[1], a), err);
    list_close(&lists[0]);
    list_close(&lists[1]);
}

static int split_names(struct diff *d, struct error *err)
{
    static const char all[] = "*";
    for (int i = 0; i < 2; i++) {
        if (matname_split(d->names[i], all, d->file[i], d->dataset[i], err) == 0 &&
            strcmp(d->dataset[i], all) == 0)
            d->dataset[i][0] = '\0';
    }
    return err->code;
}

int h5mat_diff(int argc, char **argv, struct error *err)
{
    static const struct argp argp = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "FILE1.h5[:/path] FILE2.h5[:/path]",
        .doc =
            "Compare two matrices; relative differences are relative to the first.  Without paths, "
            "the only matrices of the files are compared, or all matrices of the same name.  NaN "
            "equals only NaN.  Exit code 0: no difference over the tolerance; 5: a difference.",
        .children = common_options};
    static struct diff d;
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &d);
    if (split_names(&d, err) == 0)
        compare_named(&d, err);
    return err->code ? err->code : d.different ? EXIT_VERIFY : 0;
}
