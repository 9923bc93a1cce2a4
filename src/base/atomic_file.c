#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
#include "leftovers.h"

static int standard_output = -1; /* where it goes, when it is reserved */

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

static int complain(const struct atomic_file *file, struct error *err)
{
    return error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot write the %s %s: %s",
                     file->what, file->path, error_disk_text(errno));
}

static int open_temporary(struct atomic_file *file)
{
    if (atomic_file_is_stdout(file->path))
        return fcntl(standard_output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int fd = file_make_beside(file->path, file->temporary);
    if (fd >= 0)
        leftovers_add(file->temporary, fd);
    return fd;
}

FILE *atomic_file_open(struct atomic_file *file, const char *path, const char *what,
                       struct error *err)
{
    *file = (struct atomic_file){.path = path, .what = what};
    int fd = open_temporary(file);
    file->to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file->to)
        return file->to;
    complain(file, err);
    if (fd >= 0) {
        close(fd);
        unlink(file->temporary);
    }
    return NULL;
}

int atomic_file_close(struct atomic_file *file, struct error *err)
{
    if (!file->to)
        return err->code;
    bool failed = ferror(file->to) || fflush(file->to); /* errno is of the flush, or earlier */
    failed |= fclose(file->to) != 0;
    if (atomic_file_is_stdout(file->path))
        return failed ? complain(file, err) : 0;
    if (!failed && rename(file->temporary, file->path) == 0)
        return 0;
    complain(file, err);
    unlink(file->temporary);
    return err->code;
}
