/* What a process does to itself at its calls of the system, those of the HDF5 library included: the
 * program's own definitions come before those of the C library.
 *
 *   DGEMM_OOC_TEST_FILES      how the paths of the files begin whose calls count
 *   DGEMM_OOC_TEST_KILL       N:before, N:after or N:half: SIGKILL at the N-th such call, or in the
 *                             middle of it
 *   DGEMM_OOC_TEST_FAIL       N:ERRNO: the N-th open, read, lock or question about a file fails so
 *   DGEMM_OOC_TEST_FLIP       SUFFIX:N:BIT: the N-th read of a file with this end has another bit
 *   DGEMM_OOC_TEST_DISTURBED  the only rank that is killed or reads other bits, as the launcher
 *                             numbers them; empty: a process that no launcher started
 *   DGEMM_OOC_TEST_DONE       a file that gets a line when something was done
 *   DGEMM_OOC_TEST_SLOW       EACH:ALL: a read takes EACH microseconds longer, until these are ALL
 *                             microseconds
 *   DGEMM_OOC_TEST_NO_LOCKS   the errno that every lock fails with; ERRNO:write: every lock that
 *                             keeps others from reading */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The definition that the program would have had. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum moment { BEFORE, HALF, AFTER };

static long calls, reads, slept, asked;

static bool is_mine(void)
{
    const char *wanted = getenv("DGEMM_OOC_TEST_DISTURBED"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("PMI_RANK");
    return wanted && strcmp(wanted, rank ? rank : "") == 0;
}

static void note(const char *what, const char *path)
{
    const char *name = getenv("DGEMM_OOC_TEST_DONE");
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s %s\n", what, path);
    int fd = name ? NEXT(open)(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd >= 0 && NEXT(write)(fd, line, (size_t)length) < 0)
        _exit(98);
    if (fd >= 0)
        close(fd);
}

static bool is_watched(const char *path)
{
    const char *files = getenv("DGEMM_OOC_TEST_FILES");
    return files && strncmp(path, files, strlen(files)) == 0;
}

static const char *path_of(int fd, char path[PATH_MAX])
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return path;
}

static bool is_half(void)
{
    return strstr(getenv("DGEMM_OOC_TEST_KILL"), ":half");
}

/* The number of this call, if it is one that the process is to be killed at; 0 otherwise. */
static long count_call(const char *path)
{
    const char *text = getenv("DGEMM_OOC_TEST_KILL");
    if (!text || !is_mine() || !is_watched(path))
        return 0;
    long number = __sync_add_and_fetch(&calls, 1);
    return number == atol(text) ? number : 0;
}

static void kill_at(long number, enum moment moment, const char *call, const char *path)
{
    static const char *const words[] = {":before", ":half", ":after"};
    if (number == 0 || !strstr(getenv("DGEMM_OOC_TEST_KILL"), words[moment]))
        return;
    note(call, path);
    kill(getpid(), SIGKILL);
}

/* A call that has no middle. */
#define KILLED(path, call, ...)                                                                    \
    do {                                                                                           \
        long number = count_call(path);                                                            \
        kill_at(number, BEFORE, #call, path);                                                      \
        __typeof__(NEXT(call)(__VA_ARGS__)) result = NEXT(call)(__VA_ARGS__);                      \
        int error = errno;                                                                         \
        kill_at(number, HALF, #call, path);                                                        \
        kill_at(number, AFTER, #call, path);                                                       \
        errno = error;                                                                             \
        return result;                                                                             \
    } while (0)

/* Whether this call is the one that is to fail, with errno set. */
static bool fails(const char *path, const char *call)
{
    const char *text = getenv("DGEMM_OOC_TEST_FAIL");
    if (!text || !is_mine() || !is_watched(path) || __sync_add_and_fetch(&asked, 1) != atol(text))
        return false;
    note(call, path);
    errno = atoi(strchr(text, ':') + 1);
    return true;
}

static bool fails_on(int fd, const char *call)
{
    char path[PATH_MAX];
    return getenv("DGEMM_OOC_TEST_FAIL") && fails(path_of(fd, path), call);
}

static void slow_down(void)
{
    const char *text = getenv("DGEMM_OOC_TEST_SLOW"), *all = text ? strchr(text, ':') : NULL;
    if (all && __sync_fetch_and_add(&slept, atol(text)) < atol(all + 1))
        usleep((useconds_t)atol(text));
}

static void flip(int fd, void *to, ssize_t bytes)
{
    char copy[256], path[PATH_MAX];
    const char *text = getenv("DGEMM_OOC_TEST_FLIP");
    if (!text || bytes <= 0 || !is_mine())
        return;
    snprintf(copy, sizeof copy, "%s", text);
    char *rest = copy, *suffix = strsep(&rest, ":"), *number = strsep(&rest, ":");
    path_of(fd, path);
    if (strlen(path) < strlen(suffix) || strcmp(path + strlen(path) - strlen(suffix), suffix) != 0)
        return;
    if (__sync_add_and_fetch(&reads, 1) != atol(number))
        return;
    unsigned long bit = strtoul(rest, NULL, 10) % (8 * (unsigned long)bytes);
    ((unsigned char *)to)[bit / 8] ^= (unsigned char)(1 << bit % 8);
    note("flip", path);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
    slow_down();
    if (fails_on(fd, "pread"))
        return -1;
    ssize_t got = NEXT(pread)(fd, to, bytes, offset);
    flip(fd, to, got);
    return got;
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    slow_down();
    if (fails_on(fd, "preadv"))
        return -1;
    ssize_t got = NEXT(preadv)(fd, parts, count, offset);
    if (got >= (ssize_t)parts[0].iov_len)
        flip(fd, parts[0].iov_base, (ssize_t)parts[0].iov_len);
    return got;
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    char path[PATH_MAX];
    long number = count_call(path_of(fd, path));
    kill_at(number, BEFORE, "pwrite", path);
    ssize_t moved = NEXT(pwrite)(fd, from, number && is_half() ? bytes / 2 : bytes, offset);
    kill_at(number, HALF, "pwrite", path);
    kill_at(number, AFTER, "pwrite", path);
    return moved;
}

ssize_t write(int fd, const void *from, size_t bytes)
{
    char path[PATH_MAX];
    if (!getenv("DGEMM_OOC_TEST_KILL"))
        return NEXT(write)(fd, from, bytes);
    long number = count_call(path_of(fd, path));
    kill_at(number, BEFORE, "write", path);
    ssize_t moved = NEXT(write)(fd, from, number && is_half() ? bytes / 2 : bytes);
    kill_at(number, HALF, "write", path);
    kill_at(number, AFTER, "write", path);
    return moved;
}

int fsync(int fd)
{
    char path[PATH_MAX];
    KILLED(path_of(fd, path), fsync, fd);
}

int fdatasync(int fd)
{
    char path[PATH_MAX];
    KILLED(path_of(fd, path), fdatasync, fd);
}

int ftruncate(int fd, off_t bytes)
{
    char path[PATH_MAX];
    KILLED(path_of(fd, path), ftruncate, fd, bytes);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    char path[PATH_MAX];
    KILLED(path_of(fd, path), fallocate, fd, mode, offset, bytes);
}

int rename(const char *from, const char *to)
{
    KILLED(from, rename, from, to);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    KILLED(from, renameat2, from_dir, from, to_dir, to, flags);
}

int link(const char *from, const char *to)
{
    KILLED(from, link, from, to);
}

int unlink(const char *path)
{
    KILLED(path, unlink, path);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (fails(path, "open"))
        return -1;
    KILLED(path, open, path, flags, mode);
}

int access(const char *path, int mode)
{
    return fails(path, "access") ? -1 : NEXT(access)(path, mode);
}

#define QUESTIONS(suffix)                                                                          \
    int stat##suffix(const char *path, struct stat##suffix *status)                               \
    {                                                                                              \
        return fails(path, "stat") ? -1 : NEXT(stat##suffix)(path, status);                        \
    }                                                                                              \
    int lstat##suffix(const char *path, struct stat##suffix *status)                              \
    {                                                                                              \
        return fails(path, "lstat") ? -1 : NEXT(lstat##suffix)(path, status);                      \
    }                                                                                              \
    int fstat##suffix(int fd, struct stat##suffix *status)                                        \
    {                                                                                              \
        return fails_on(fd, "fstat") ? -1 : NEXT(fstat##suffix)(fd, status);                       \
    }

QUESTIONS()
QUESTIONS(64)

/* Whether a lock fails, with errno set. */
static bool fail_lock(bool keeps_from_reading)
{
    const char *text = getenv("DGEMM_OOC_TEST_NO_LOCKS");
    if (!text || (strchr(text, ':') && !keeps_from_reading))
        return false;
    errno = atoi(text);
    return true;
}

int flock(int fd, int operation)
{
    char path[PATH_MAX];
    if (fail_lock(operation & LOCK_EX) || (operation != LOCK_UN && fails_on(fd, "flock")))
        return -1;
    KILLED(path_of(fd, path), flock, fd, operation);
}

int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK;
    return locks && fail_lock(true) ? -1 : NEXT(fcntl)(fd, command, argument);
}

#define LARGE(type, name, ...) type name##64(__VA_ARGS__) __attribute__((alias(#name)))

LARGE(ssize_t, pread, int, void *, size_t, off_t);
LARGE(ssize_t, preadv, int, const struct iovec *, int, off_t);
LARGE(ssize_t, pwrite, int, const void *, size_t, off_t);
LARGE(int, ftruncate, int, off_t);
LARGE(int, fallocate, int, int, off_t, off_t);
LARGE(int, open, const char *, int, ...);
LARGE(int, fcntl, int, int, ...);
