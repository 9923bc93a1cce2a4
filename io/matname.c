#include "matname.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "file.h"

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

/* The index of the colon before the dataset; the length of the text if there is none. */
static size_t find_colon(const char *text, struct error *err)
{
    struct stat status;
    size_t length = strlen(text);
    if (file_leads(text, &status, err))
        return length;
    for (size_t i = length; i-- > 0;)
        if (text[i] == ':' && text[i + 1] == '/')
            return i;
    for (size_t i = length; i-- > 0;) {
        char file[PATH_MAX];
        snprintf(file, sizeof file, "%.*s", (int)i, text);
        if (text[i] == ':' && file_leads(file, &status, err))
            return i;
    }
    return length;
}

int matname_split(const char *text, const char *default_dataset, char file[PATH_MAX],
                  char dataset[MATFILE_NAME_MAX], struct error *err)
{
    if (strlen(text) >= PATH_MAX)
        return error_add(err, EXIT_USAGE, "the name %.40s... is too long", text);
    struct error unknown = {0};
    const bool url = is_url(text, &unknown);
    const size_t colon = find_colon(text, &unknown);
    const char *path = text[colon] ? text + colon + 1 : default_dataset;
    const size_t length = strlen(path);
    const char *last = strrchr(path, '/');
    error_append(err, &unknown);
    if (unknown.code)
        return unknown.code;
    if (url)
        return error_add(err, EXIT_USAGE,
                         "%s is a URL, and URLs are neither read nor written: copy the file here, "
                         "and give its path",
                         text);
    last = last ? last + 1 : path;
    if (colon == 0)
        return error_add(err, EXIT_USAGE, "\"%s\" names no file; write FILE.h5 or FILE.h5:/path",
                         text);
    if (!last[0] || strcmp(last, ".") == 0)
        return error_add(err, EXIT_USAGE, "\"%s\" names no dataset; write FILE.h5:/path", text);
    if (length >= MATFILE_NAME_MAX)
        return error_add(err, EXIT_USAGE, "the dataset name %.40s... is too long", path);
    snprintf(file, PATH_MAX, "%.*s", (int)colon, text);
    snprintf(dataset, MATFILE_NAME_MAX, "%s", path);
    return 0;
}
