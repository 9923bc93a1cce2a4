#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "draw.h"
#include "error.h"

void file_fill_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static bool is_same(const struct stat *x, const struct stat *y)
{
    return x->st_dev == y->st_dev && x->st_ino == y->st_ino;
}

static bool answer(const char *name, int rc, struct error *err)
{
    if (rc && errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
        error_add(err, EXIT_INPUT, "cannot tell whether %.400s exists: %s", name, strerror(errno));
    return rc == 0;
}

bool file_exists(const char *name, struct stat *status, struct error *err)
{
    return answer(name, lstat(name, status), err);
}

bool file_leads(const char *name, struct stat *status, struct error *err)
{
    return answer(name, stat(name, status), err);
}

bool file_is_same(const char *x, const char *y, struct error *err)
{
    struct stat of_x, of_y;
    return file_leads(x, &of_x, err) && file_leads(y, &of_y, err) && is_same(&of_x, &of_y);
}

bool file_is_same_name(const char *x, const char *y, struct error *err)
{
    char dir_x[PATH_MAX], dir_y[PATH_MAX];
    const char *slash_x = strrchr(x, '/'), *slash_y = strrchr(y, '/');
    if (strcmp(slash_x ? slash_x + 1 : x, slash_y ? slash_y + 1 : y) != 0)
        return false;
    snprintf(dir_x, sizeof dir_x, "%s", x);
    snprintf(dir_y, sizeof dir_y, "%s", y);
    return file_is_same(dirname(dir_x), dirname(dir_y), err);
}

bool file_is_in_memory(const struct statfs *status)
{
    return status->f_type == TMPFS_MAGIC || status->f_type == RAMFS_MAGIC;
}

bool file_has_name(int descriptor, const char *name)
{
    struct stat opened, named;
    return fstat(descriptor, &opened) == 0 && lstat(name, &named) == 0 && is_same(&opened, &named);
}

/* Unlike mkostemp, with the mode that the user's files have. */
int file_make_beside(const char *name, char *made)
{
    enum { ATTEMPTS = 100 };
    int fd = -1;
    for (int i = 0; i < ATTEMPTS && (i == 0 || errno == EEXIST) && fd < 0; i++) {
        if (snprintf(made, PATH_MAX, "%s.%06" PRIx64, name, draw_random() >> 40) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(made, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    }
    return fd;
}

int file_sample(const char *name, struct stat *sample)
{
    char made[PATH_MAX];
    int fd = file_make_beside(name, made);
    int rc = fd < 0 ? -1 : fstat(fd, sample);
    if (fd >= 0) {
        unlink(made);
        close(fd);
    }
    return rc;
}

bool file_write(int descriptor, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t moved = write(descriptor, bytes, count);
        if (moved < 0 && errno != EINTR)
            return false;
        bytes += moved > 0 ? moved : 0;
        count -= moved > 0 ? (size_t)moved : 0;
    }
    return true;
}

/* Some file systems give all files one owner, or root's to nobody. */
static bool is_mine(const char *name, const struct stat *status)
{
    struct stat sample;
    return status->st_uid == geteuid() ||
           (file_sample(name, &sample) == 0 && sample.st_uid == status->st_uid);
}

const char *file_why_foreign(const char *name, const struct stat *status)
{
    if (!S_ISREG(status->st_mode) || status->st_nlink != 1)
        return "is a link, or no regular file";
    return is_mine(name, status) ? NULL : "belongs to another user";
}

int file_open_own(const char *name, int flags)
{
    struct stat status;
    const int safe = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = flags & O_CREAT ? open(name, flags | safe | O_EXCL, 0666) : -1;
    if (fd >= 0 || (flags & O_CREAT && errno != EEXIST))
        return fd;
    fd = open(name, flags | safe, 0666);
    if (fd < 0)
        return -1;
    const bool known = fstat(fd, &status) == 0;
    if (known && !file_why_foreign(name, &status))
        return fd;
    close(fd);
    errno = !known || (S_ISREG(status.st_mode) && status.st_nlink == 1) ? EPERM : EMLINK;
    return -1;
}

int file_give_name(const char *part, const char *name, bool replace)
{
    struct stat there;
    if (replace)
        return rename(part, name) ? errno : 0;
    if (renameat2(AT_FDCWD, part, AT_FDCWD, name, RENAME_NOREPLACE) == 0)
        return 0;
    /* EPERM: of a container that forbids the calls which it does not know. */
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP && errno != EPERM)
        return errno;
    if (link(part, name) == 0) {
        unlink(part);
        return 0;
    }
    /* A file system with neither: what comes between these two calls is replaced. */
    if (errno == EEXIST || lstat(name, &there) == 0)
        return EEXIST;
    if (errno != ENOENT)
        return errno;
    return rename(part, name) ? errno : 0;
}

void file_sync_name(const char *name)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", name);
    int directory = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        fsync(directory);
        close(directory);
    }
}
