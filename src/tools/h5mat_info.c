/* h5mat info: say what matrices a file holds, and how dgemm_ooc would read them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common_options.h"
#include "error.h"
#include "format.h"
#include "h5mat.h"
#include "matname.h"

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    const char **name = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*name)
            argp_error(state, "only one FILE.h5 can be given; %s is a second one", arg);
        *name = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "FILE.h5 is missing; for example: %s x.h5", state->name);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char *type_word(const struct matrix *matrix)
{
    return matrix->integers                   ? "integer"
           : matrix->elements == SCALAR_OTHER ? "other real"
                                              : scalar_name(matrix->elements);
}

static const char *plain_name(const struct source *source, char name[DATASET_NAME_MAX])
{
    strcpy(name, source->dataset);
    error_make_plain(name);
    return name;
}

static void print_matrix(const struct source *source)
{
    const struct matrix seen = matrix_seen(&source->matrix), *m = &seen;
    uint64_t bytes = (uint64_t)matrix_elements(m) * m->element_bytes;
    char name[DATASET_NAME_MAX];
    const char *how = strstr(source->layout, ": read ");
    int length = how ? (int)(how - source->layout) : (int)strlen(source->layout);
    printf("%s: %" PRId64 " x %" PRId64 " %s%s, %" PRIu64 " bytes\n", plain_name(source, name),
           m->rows, matrix_cols(m), m->complex ? "complex " : "", type_word(m), bytes);
    printf("  layout: %.*s%s", length, source->layout,
           m->packed ? ", the lower triangle row by row" : "");
    const bool typed = (m->elements == SCALAR_OTHER && !m->integers) ||
                       (m->integers && (m->complex || m->element_bytes > 4));
    const char *types = !typed ? "" : m->complex ? ", with --type z or c" : ", with --type d or s";
    if (typed && (m->by_offset || m->by_chunks))
        printf("\n  read:   by HDF5 (converted)%s\n", types);
    else if (m->by_offset)
        printf(", at offset %" PRIu64 "\n  read:   by offset\n", source->offset);
    else
        printf("\n  read:  %s%s\n", how ? how + strlen(": read") : " by HDF5", types);
    if (source->unfinished)
        printf("  state:  an unfinished output of dgemm_ooc; elements are missing\n");
    if (source->netcdf[0])
        printf("  netCDF: %s; dgemm_ooc refuses it until it is decoded\n", source->netcdf);
    if (source->missing_by[0])
        printf("  %s: elements equal to %.10g are missing\n", source->missing_by, source->missing);
    if (source->similar[0])
        printf("  stored: its %s is not looked at\n", source->similar);
    if (source->of_matlab)
        printf("  MATLAB: shows the transpose\n");
}

static void list_matrix(const struct source *source, const struct error *problem, void *context)
{
    char name[DATASET_NAME_MAX];
    ++*(int *)context;
    if (problem->code == 0)
        print_matrix(source);
    else if (source->matrix.rows == 0 && source->matrix.cols == 0)
        printf("%s\n  read:   not at all: %s\n", plain_name(source, name), problem->text);
    else
        printf("%s: %" PRId64 " x %" PRId64 "\n  read:   not at all: %s\n",
               plain_name(source, name), source->matrix.rows, matrix_cols(&source->matrix),
               problem->text);
}

static int list_all(const char *file, struct error *err)
{
    int count = 0, rc = format_each(file, list_matrix, &count, err);
    if (!rc && count == 0)
        rc = error_add(err, EXIT_INPUT, "%s: there is no two-dimensional dataset in it", file);
    return rc;
}

int h5mat_info(int argc, char **argv, struct error *err)
{
    static const struct argp argp = {.parser = parse_option,
                                     .args_doc = "FILE.h5[:/path]",
                                     .doc =
                                         "Describe the matrices of a file, or one of them: shape, "
                                         "type, bytes, layout, offset, and how dgemm_ooc reads it.",
                                     .children = common_options};
    const char *name = NULL;
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &name);

    char file[PATH_MAX], dataset[DATASET_NAME_MAX];
    static const char all[] = "*";
    int rc = matname_split(name, all, file, dataset, err);
    if (rc)
        return rc;
    if (strcmp(dataset, all) == 0)
        return list_all(file, err);
    if (strncmp(dataset, "*[", 2) == 0) /* a slice of a file's one matrix */
        dataset[0] = 'A';
    struct source source;
    rc = format_describe(file, dataset, &source, err);
    if (!rc)
        print_matrix(&source);
    return rc;
}
