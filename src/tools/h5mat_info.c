/* h5mat info: say what matrices a file holds, and how dgemm_ooc would read them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common_options.h"
#include "error.h"
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

static const char *type_word(const struct matrix_info *info)
{
    return info->integers                   ? "integer"
           : info->elements == SCALAR_OTHER ? "other real"
                                            : scalar_name(info->elements);
}

static const char *plain_name(const struct matrix_info *info, char name[MATFILE_NAME_MAX])
{
    strcpy(name, info->dataset);
    error_make_plain(name);
    return name;
}

static void print_matrix(const struct matrix_info *info)
{
    uint64_t bytes = (uint64_t)info->rows * (uint64_t)info->cols * info->element_bytes;
    char name[MATFILE_NAME_MAX];
    const char *how = strstr(info->layout, ": read ");
    int length = how ? (int)(how - info->layout) : (int)strlen(info->layout);
    printf("%s: %" PRId64 " x %" PRId64 " %s%s, %" PRIu64 " bytes\n", plain_name(info, name),
           info->rows, matfile_cols(info), info->complex ? "complex " : "", type_word(info), bytes);
    printf("  layout: %.*s", length, info->layout);
    const bool typed = (info->elements == SCALAR_OTHER && !info->integers) ||
                       (info->integers && (info->complex || info->element_bytes > 4));
    const char *types = !typed          ? ""
                        : info->complex ? ", with --type z or c"
                                        : ", with --type d or s";
    if (typed && (info->by_offset || info->by_chunks))
        printf("\n  read:   by HDF5 (converted)%s\n", types);
    else if (info->by_offset)
        printf(", at offset %" PRIu64 "\n  read:   by offset\n", info->offset);
    else
        printf("\n  read:  %s%s\n", how ? how + strlen(": read") : " by HDF5", types);
    if (info->unfinished)
        printf("  state:  an unfinished output of dgemm_ooc; elements are missing\n");
    if (info->netcdf[0])
        printf("  netCDF: %s; dgemm_ooc refuses it until it is decoded\n", info->netcdf);
    if (info->missing_by[0])
        printf("  %s: elements equal to %.10g are missing\n", info->missing_by, info->missing);
    if (info->similar[0])
        printf("  stored: its %s is not looked at\n", info->similar);
    if (info->of_matlab)
        printf("  MATLAB: shows the transpose\n");
}

static void list_matrix(const struct matrix_info *info, const struct error *problem, void *context)
{
    char name[MATFILE_NAME_MAX];
    ++*(int *)context;
    if (problem->code == 0)
        print_matrix(info);
    else if (info->rows == 0 && info->cols == 0)
        printf("%s\n  read:   not at all: %s\n", plain_name(info, name), problem->text);
    else
        printf("%s: %" PRId64 " x %" PRId64 "\n  read:   not at all: %s\n", plain_name(info, name),
               info->rows, matfile_cols(info), problem->text);
}

static int list_all(const char *file, struct error *err)
{
    int count = 0, rc = matfile_each(file, list_matrix, &count, err);
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

    char file[PATH_MAX], dataset[MATFILE_NAME_MAX];
    static const char all[] = "*";
    int rc = matname_split(name, all, file, dataset, err);
    if (rc)
        return rc;
    if (strcmp(dataset, all) == 0)
        return list_all(file, err);
    struct matrix_info info;
    rc = matfile_describe(file, dataset, &info, err);
    if (!rc)
        print_matrix(&info);
    return rc;
}
