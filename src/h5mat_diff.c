/* h5mat diff: compare two matrices, larger than memory if need be.
 *
 * The sums are taken block by block and then over the blocks in order, so that the same two
 * matrices give the same digits whatever the threads do. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "h5mat.h"
#include "h5mat_grid.h"
#include "matname.h"
#include "quantity.h"
#include "standard_options.h"
#include "store.h"

struct difference {
    double largest, first, second; /* the largest difference, and the elements there */
    int64_t row, col;
    double square_sum;    /* of differences */
    double square_sum_of; /* of the first matrix */
    int64_t over;         /* elements that differ by more than the tolerance */
};

struct diff {
    const char *names[2];
    double tolerance;
    struct matrix_info info[2];
    enum scalar type; /* in which both are read */
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
            argp_error(state, "two matrices only; %s is a third one", arg);
        d->names[state->arg_num] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!d->names[1])
            argp_error(state, "which two? For example: %s x.h5:/C y.h5:/C", state->name);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Equal infinities and two NaNs do not differ; a NaN and a number differ beyond any tolerance. */
static double distance(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    double d = fabs(a - b);
    return isnan(d) ? INFINITY : d;
}

static void take_element(struct difference *d, double a, double b, double tolerance, int64_t row,
                         int64_t col)
{
    double distant = distance(a, b);
    if (distant > d->largest) {
        d->largest = distant;
        d->first = a;
        d->second = b;
        d->row = row;
        d->col = col;
    }
    d->over += distant > tolerance;
    d->square_sum += distant * distant;
    d->square_sum_of += isnan(a) ? 0 : a * a;
}

static void compare(const struct diff *d, const struct block *block, const void *a, const void *b,
                    struct difference *result)
{
    int64_t n = 0;
    for (int64_t i = 0; i < block->rows; i++)
        for (int64_t j = 0; j < block->cols; j++, n++) {
            bool wide = d->type == SCALAR_DOUBLE;
            double x = wide ? ((const double *)a)[n] : ((const float *)a)[n];
            double y = wide ? ((const double *)b)[n] : ((const float *)b)[n];
            take_element(result, x, y, d->tolerance, block->row + i, block->col + j);
        }
}

static int compare_block(void *context, int64_t index, const struct block *block, void *buffer,
                         struct error *err)
{
    struct diff *d = context;
    char *a = buffer, *b = a + (size_t)(block->rows * block->cols) * scalar_size(d->type);
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
    if (block->largest > sum->largest) {
        sum->largest = block->largest;
        sum->first = block->first;
        sum->second = block->second;
        sum->row = block->row;
        sum->col = block->col;
    }
    sum->square_sum += block->square_sum;
    sum->square_sum_of += block->square_sum_of;
    sum->over += block->over;
}

static int compare_all(struct diff *d, struct difference *sum, struct error *err)
{
    const struct matrix_info *a = &d->info[0], *b = &d->info[1];
    struct grid grid = grid_make(a->rows, a->cols, max_i64(a->chunk_rows, b->chunk_rows),
                                 max_i64(a->chunk_cols, b->chunk_cols));
    int64_t blocks = grid_blocks(&grid);
    d->blocks = calloc((size_t)max_i64(blocks, 1), sizeof *d->blocks);
    if (!d->blocks)
        return error_add(err, EXIT_RESOURCES, "no memory for %" PRId64 " blocks", blocks);
    int rc = grid_each(&grid, 2 * scalar_size(d->type), compare_block, d, err);
    for (int64_t i = 0; i < blocks && !rc; i++)
        merge(sum, &d->blocks[i]);
    free(d->blocks);
    return rc;
}

static int describe_both(struct diff *d, struct error *err)
{
    char file[PATH_MAX], dataset[2][MATFILE_NAME_MAX] = {"/A", ""};
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        const char *otherwise = dataset[0];
        failed |= matname_split(d->names[i], otherwise, file, dataset[1], err) ||
                  matfile_describe(file, dataset[1], &d->info[i], err);
        memcpy(dataset[0], dataset[1], sizeof dataset[0]);
    }
    return failed ? err->code : 0;
}

static int open_both(struct diff *d, struct error *err)
{
    int rc = describe_both(d, err);
    if (rc)
        return rc;
    const struct matrix_info *a = &d->info[0], *b = &d->info[1];
    if (a->rows != b->rows || a->cols != b->cols)
        return error_add(err, EXIT_INPUT,
                         "%s is %" PRId64 "x%" PRId64 " but %s is %" PRId64 "x%" PRId64,
                         d->names[0], a->rows, a->cols, d->names[1], b->rows, b->cols);
    bool floats = a->elements == ELEMENT_FLOAT && b->elements == ELEMENT_FLOAT;
    d->type = floats ? SCALAR_FLOAT : SCALAR_DOUBLE;
    for (int i = 0; i < 2 && !rc; i++)
        rc = store_open(&d->info[i], d->type, STORE_READ, STORE_AUTO, &d->store[i], err);
    return rc;
}

static double ratio(double part, double whole)
{
    return part == 0 ? 0 : part / whole;
}

static void print_difference(const struct diff *d, const struct difference *sum)
{
    double elements = (double)d->info[0].rows * (double)d->info[0].cols;
    double mse = ratio(sum->square_sum, elements);
    printf("%s and %s: %" PRId64 " x %" PRId64 ", tolerance %g\n", d->names[0], d->names[1],
           d->info[0].rows, d->info[0].cols, d->tolerance);
    printf("  max abs difference  %g", sum->largest);
    if (sum->largest > 0)
        printf(" at row %" PRId64 ", column %" PRId64 ": %.17g and %.17g", sum->row, sum->col,
               sum->first, sum->second);
    printf("\n  RMS                 %g\n  MSE                 %g\n", sqrt(mse), mse);
    printf("  relative Frobenius  %g\n", sqrt(ratio(sum->square_sum, sum->square_sum_of)));
    printf("  over the tolerance  %" PRId64 " of %.0f elements, %g %%\n", sum->over, elements,
           100 * ratio((double)sum->over, elements));
    printf("%s\n", sum->over           ? "DIFFERENT"
                   : sum->largest == 0 ? "equal"
                                       : "equal within the tolerance");
}

int h5mat_diff(int argc, char **argv, struct error *err)
{
    static const struct argp argp = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "FILE1.h5:/path FILE2.h5:/path",
        .doc = "Compare two matrices; the relative difference is relative to the first.  A NaN "
               "equals a NaN only.  Exit code 0: no difference over the tolerance, 5: there is.",
        .children = standard_options};
    struct diff d = {0};
    struct difference sum = {0};
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &d);
    int rc = open_both(&d, err);
    if (!rc)
        rc = compare_all(&d, &sum, err);
    if (!rc) {
        print_difference(&d, &sum);
        rc = sum.over ? EXIT_VERIFY : 0;
    }
    store_close(d.store[0]);
    store_close(d.store[1]);
    return rc;
}
