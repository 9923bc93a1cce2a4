/* What other programs mean by what they store: groups that stand for matrices, and datasets whose
 * elements are not those of a matrix. */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "matfile_impl.h"

static const char write_dense[] = "only dense ones are multiplied: write it dense, in Python "
                                  "f[\"A\"] = x.toarray(), or row by row "
                                  "(man dgemm_ooc, Sparse matrices)";

/* By the names of links or attributes that all groups of the kind have. */
static const struct {
    const char *marks[2];
    const char *meaning, *advice;
} groups[] = {
    {{"indices", "indptr"}, "which holds a sparse matrix", write_dense},
    {{"MATLAB_sparse", "jc"}, "which holds a sparse matrix of MATLAB", write_dense},
    {{"pandas_type", "pandas_version"},
     "which holds a data frame of pandas",
     "store its numbers with h5py: f[\"A\"] = df.to_numpy()"},
};

static bool has_mark(hid_t group, const char *name)
{
    return H5Aexists(group, name) > 0 || H5Lexists(group, name, H5P_DEFAULT) > 0;
}

const char *h5_group_meaning(hid_t group, const char **advice)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (has_mark(group, groups[i].marks[0]) && has_mark(group, groups[i].marks[1])) {
            *advice = groups[i].advice;
            return groups[i].meaning;
        }
    return NULL;
}

/* Whether MATLAB stores numbers of the class as they are, and logical values as 0 and 1. */
static bool is_of_numbers(const char *matlab_class)
{
    static const char *const names[] = {"double", "single", "logical", "int8",  "uint8", "int16",
                                        "uint16", "int32",  "uint32",  "int64", "uint64"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(matlab_class, names[i]) == 0)
            return true;
    return false;
}

int h5_matlab(hid_t dataset, struct source *source, struct error *err)
{
    struct format_value kind = {.name = "MATLAB_class"};
    h5_read_attribute(dataset, &kind);
    source->of_matlab = kind.found;
    if (!kind.found)
        return 0;
    if (!is_of_numbers(kind.text))
        return error_add(err, EXIT_INPUT,
                         "%s: dataset \"%s\" is of MATLAB's class %.40s, which is stored as other "
                         "numbers than it has; store it as numbers, in MATLAB double(A) or "
                         "table2array(A)",
                         source->file, source->dataset, kind.text);
    if (H5Aexists(dataset, "MATLAB_empty") > 0)
        return error_add(err, EXIT_INPUT, "%s: dataset \"%s\" is an empty matrix of MATLAB",
                         source->file, source->dataset);
    return 0;
}
