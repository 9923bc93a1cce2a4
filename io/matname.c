#include "matname.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "error.h"
#include "file.h"
#include "slice.h"

/* Such as s3://bucket/in.h5 or https://host/in.h5, and not FILE://path. */
static bool is_url(const char *text, struct error *err)
{
    struct stat status;
    char scheme[PATH_MAX];
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+");
    snprintf(scheme, sizeof scheme, "%.*s", (int)length, text);
    return length > 0 && strncmp(text + length, "://", 3) == 0 && !file_leads(text, &status, err) &&
           !file_leads(scheme, &status, err);
}

/* The index of the colon before the dataset, or of the bracket of a slice behind a file's name; the
 * length of the text if there is neither. */
static size_t find_colon(const char *text, struct error *err)
{
    struct stat status;
    char file[PATH_MAX];
    size_t length = strlen(text);
    if (file_leads(text, &status, err))
        return length;
    for (size_t i = length; i-- > 0;)
        if (text[i] == ':' && text[i + 1] == '/')
            return i;
    for (size_t i = length; i-- > 0;) {
        snprintf(file, sizeof file, "%.*s", (int)i, text);
        if (text[i] == ':' && file_leads(file, &status, err))
            return i;
    }
    snprintf(file, sizeof file, "%.*s", (int)slice_base(text), text);
    return file_leads(file, &status, err) ? strlen(file) : length;
}

int matname_split(const char *text, const char *default_dataset, char file[PATH_MAX],
                  char dataset[DATASET_NAME_MAX], struct error *err)
{
    if (strlen(text) >= PATH_MAX)
        return error_add(err, EXIT_USAGE, "the name %.40s... is too long", text);
    struct error unknown = {0};
    struct stat status;
    const bool url = is_url(text, &unknown);
    const size_t colon = find_colon(text, &unknown);
    const char *path = text[colon] == ':' ? text + colon + 1 : default_dataset;
    const char *slice = text[colon] == '[' ? text + colon : "";
    const size_t length = strlen(path) + strlen(slice);
    const char *last = strrchr(path, '/');
    error_append(err, &unknown);
    if (unknown.code)
        return unknown.code;
    if (url)
        return error_add(err, EXIT_USAGE,
                         "%s is a URL, and URLs are neither read nor written: copy the file here, "
                         "and give its path",
                         text);
    if (text[0] == '~' && !file_leads(text, &status, &unknown))
        return error_add(err, EXIT_USAGE,
                         "%s: a shell replaces ~ only where a word begins with it, unquoted; write "
                         "$HOME",
                         text);
    last = last ? last + 1 : path;
    if (colon == 0)
        return error_add(err, EXIT_USAGE, "\"%s\" names no file; write FILE.h5 or FILE.h5:/path",
                         text);
    if (!last[0] || strcmp(last, ".") == 0)
        return error_add(err, EXIT_USAGE, "\"%s\" names no dataset; write FILE.h5:/path",
                         text[colon] ? text : path);
    if (length >= DATASET_NAME_MAX)
        return error_add(err, EXIT_USAGE, "the dataset name %.40s... is too long", path);
    snprintf(file, PATH_MAX, "%.*s", (int)colon, text);
    snprintf(dataset, DATASET_NAME_MAX, "%s%s", path, slice);
    return 0;
}

/* What the names of other files end in. */
static const char foreign[] =
    ".npy.part .npz .csv .tsv .txt .mat .parquet .feather .arrow .zarr .mtx .xls .xlsx .ods .rds "
    ".rdata .pkl .pickle .pt .pth .bed .safetensors .json .html .fits .tif .tiff .png .gz .zip "
    ".tar";

bool matname_ends(const char *file, const char *endings)
{
    const size_t length = strlen(file);
    for (const char *at = endings; *at; at += strcspn(at, " "), at += *at == ' ') {
        const size_t count = strcspn(at, " ");
        if (count <= length && strncasecmp(at, file + length - count, count) == 0)
            return true;
    }
    return false;
}

bool matname_is_foreign(const char *file)
{
    return matname_ends(file, foreign);
}

static const char *last_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int matname_check_new(const char *file, const char *dataset, struct error *err)
{
    const char *end = strrchr(file, '.'), *last = last_of(file);
    const int stem = (int)(end ? end - file : 0);
    if (!last[0] || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        return error_add(err, EXIT_USAGE, "%s names a directory: name the file in it, %s%s%s.h5",
                         file, file, last[0] ? "/" : "", last_of(dataset));
    if (matname_is_foreign(file))
        return error_add(err, EXIT_USAGE, "%s: what is written is HDF5 and not %s: name it %.*s.h5",
                         file, end, stem, file);
    return 0;
}
