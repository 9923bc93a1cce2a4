#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
#include "leftovers.h"

static int standard_output = -1; /* where it goes, when it is reserved */
static char temporary[PATH_MAX]; /* the name of the file that is open; one is at a time */

bool atomic_file_is_stdout(const char *path)
{
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

void atomic_file_reserve_stdout(void)
{
    standard_output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

static int complain(const char *path, const char *what, struct error *err)
{
    return error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot write the %s %s: %s", what,
                     path, error_disk_text(errno));
}

static int open_temporary(const char *path)
{
    temporary[0] = '\0';
    if (atomic_file_is_stdout(path))
        return fcntl(standard_output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int fd = file_make_beside(path, temporary);
    if (fd >= 0)
        leftovers_add(temporary, fd);
    return fd;
}

FILE *atomic_file_open(const char *path, const char *what, struct error *err)
{
    int fd = open_temporary(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file)
        return file;
    complain(path, what, err);
    if (fd >= 0) {
        close(fd);
        unlink(temporary);
    }
    return NULL;
}

int atomic_file_close(FILE *file, const char *path, const char *what, struct error *err)
{
    if (!file)
        return err->code;
    bool failed = ferror(file) || fflush(file); /* errno is of the flush, or of what was before */
    failed |= fclose(file) != 0;
    if (atomic_file_is_stdout(path))
        return failed ? complain(path, what, err) : 0;
    if (!failed && rename(temporary, path) == 0)
        return 0;
    complain(path, what, err);
    unlink(temporary);
    return err->code;
}
