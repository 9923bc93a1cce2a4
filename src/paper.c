#include "paper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "output.h"

static int complain(const char *path, const char *what, struct error *err)
{
    return error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot write the %s %s: %s", what,
                     path, strerror(errno));
}

FILE *paper_open(const char *path, const char *what, struct error *err)
{
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.part", path);
    int fd = output_open_beside(part, O_CREAT);
    /* Only now is it known that nothing else is called so. */
    FILE *file = fd >= 0 && ftruncate(fd, 0) == 0 ? fdopen(fd, "w") : NULL;
    if (!file)
        complain(path, what, err);
    if (!file && fd >= 0)
        close(fd);
    return file;
}

int paper_close(FILE *file, const char *path, const char *what, struct error *err)
{
    char part[PATH_MAX + 8];
    if (!file)
        return err->code;
    snprintf(part, sizeof part, "%s.part", path);
    bool failed = ferror(file) || fflush(file); /* errno is of the flush, or of what was before */
    failed |= fclose(file) != 0;
    if (!failed && rename(part, path) == 0)
        return 0;
    complain(path, what, err);
    unlink(part);
    return err->code;
}
