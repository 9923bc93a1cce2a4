#include "file_names.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "file.h"

int file_names_make(struct file_names *names, const char *output, struct error *err)
{
    static const char *const endings[FILE_NAMES_BESIDE] = {".part", ".part.sums0", ".part.sums1",
                                                           ".journal", ".lock"};
    size_t longest = 0;
    snprintf(names->output, PATH_MAX, "%s", output);
    for (int i = 0; i < FILE_NAMES_BESIDE; i++) {
        snprintf(names->beside[i], PATH_MAX, "%s%s", output, endings[i]);
        longest = strlen(endings[i]) > longest ? strlen(endings[i]) : longest;
    }
    return file_names_check_length(output, longest + FILE_BESIDE_BYTES, err);
}

int file_names_check_length(const char *path, size_t more, struct error *err)
{
    char copy[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strlen(path) + more >= PATH_MAX)
        return error_add(err, EXIT_INPUT, "the path %.60s... is too long; choose a shorter one",
                         path);
    snprintf(copy, sizeof copy, "%s", path);
    errno = 0;
    const long most = pathconf(dirname(copy), _PC_NAME_MAX);
    if (most < 0 && errno == ENAMETOOLONG)
        return error_add(err, EXIT_INPUT,
                         "the path %.60s... has a folder whose name is too long; choose another",
                         path);
    if (most < 0 || strlen(name) + more <= (size_t)most)
        return 0;
    return error_add(err, EXIT_INPUT,
                     "the name %.60s... is too long: it may have %ld characters here, since the "
                     "run makes files whose names are longer",
                     name, most - (long)more);
}
