/* The files that a dataset is read from: links lead to others, and so do virtual and external
 * ones. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "matfile_impl.h"

struct search {
    char holder[PATH_MAX]; /* the file that holds the dataset */
    struct stat wanted;
};

static bool is_wanted(const struct search *search, const char *file)
{
    struct stat status;
    return stat(file, &status) == 0 && status.st_dev == search->wanted.st_dev &&
           status.st_ino == search->wanted.st_ino;
}

/* A name in a dataset: relative ones are looked for here and beside the holder. */
static bool names_wanted(const struct search *search, const char *name)
{
    char beside[2 * PATH_MAX];
    const char *slash = strrchr(search->holder, '/');
    int folder = slash ? (int)(slash - search->holder) + 1 : 0;
    snprintf(beside, sizeof beside, "%.*s%s", folder, search->holder, name);
    return is_wanted(search, name) || is_wanted(search, beside);
}

static bool draws_on(hid_t dataset, struct search *search)
{
    char name[PATH_MAX];
    size_t sources = 0;
    bool found = false;
    ssize_t length = H5Fget_name(dataset, search->holder, sizeof search->holder);
    if (length <= 0 || length >= (ssize_t)sizeof search->holder)
        return false;
    hid_t plist = H5Dget_create_plist(dataset);
    int external = H5Pget_external_count(plist);
    if (H5Pget_layout(plist) == H5D_VIRTUAL)
        H5Pget_virtual_count(plist, &sources);
    for (size_t i = 0; i < sources && !found; i++)
        found =
            H5Pget_virtual_filename(plist, i, name, sizeof name) > 0 && names_wanted(search, name);
    for (int i = 0; i < external && !found; i++) {
        name[sizeof name - 1] = '\0'; /* a longer one is cut without it */
        found = H5Pget_external(plist, (unsigned)i, sizeof name - 1, name, NULL, NULL) >= 0 &&
                names_wanted(search, name);
    }
    h5_close(plist);
    return found || is_wanted(search, search->holder);
}

bool matfile_draws_on(const struct matrix_info *info, const char *file)
{
    struct search search;
    struct error ignored = {0};
    if (stat(file, &search.wanted))
        return false;
    h5_enter();
    hid_t id = h5_open_file(info->file, H5_READ, &ignored);
    hid_t dataset = id < 0 ? -1 : H5Dopen2(id, info->dataset, H5P_DEFAULT);
    bool found = is_wanted(&search, info->file) || (dataset >= 0 && draws_on(dataset, &search));
    h5_close(dataset);
    h5_close(id);
    h5_leave();
    return found;
}
