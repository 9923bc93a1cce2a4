#include "paper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "file.h"

static int standard_output = -1; /* where it is reserved for a paper */

bool paper_is_standard(const char *path)
{
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

void paper_reserve(void)
{
    standard_output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

static int complain(const char *path, const char *what, struct error *err)
{
    return error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot write the %s %s: %s", what,
                     path, strerror(errno));
}

static int open_part(const char *path)
{
    char part[PATH_MAX + 8];
    if (paper_is_standard(path))
        return fcntl(standard_output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    snprintf(part, sizeof part, "%s.part", path);
    int fd = file_open_own(part, O_CREAT);
    if (fd < 0 || ftruncate(fd, 0) == 0) /* only now is it known that nothing else is called so */
        return fd;
    close(fd);
    return -1;
}

FILE *paper_open(const char *path, const char *what, struct error *err)
{
    int fd = open_part(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
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
    bool failed = ferror(file) || fflush(file); /* errno is of the flush, or of what was before */
    failed |= fclose(file) != 0;
    if (paper_is_standard(path))
        return failed ? complain(path, what, err) : 0;
    snprintf(part, sizeof part, "%s.part", path);
    if (!failed && rename(part, path) == 0)
        return 0;
    complain(path, what, err);
    unlink(part);
    return err->code;
}
