/* Wrappers that inject faults into the system calls and allocations of the program. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "faults.h"
#include "file.h"

enum { DELAY_US = 20000 };

/* Declare the original function and its wrapper by the names that the linker gives them. */
#define NEXT(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

/* Whether the call must fail now, with errno set.  A delay is applied here. */
static bool fails(int fault)
{
    if (fault == FAULT_DELAY)
        usleep(DELAY_US);
    if (fault > 0)
        errno = fault;
    return fault > 0;
}

static size_t shorten(int fault, size_t bytes)
{
    return fault == FAULT_SHORT && bytes > 1 ? bytes / 2 : bytes;
}

NEXT(ssize_t, pread, int, void *, size_t, off_t);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset)
{
    int fault = fault_of_file(CALL_PREAD, fd);
    if (fails(fault))
        return -1;
    ssize_t got = fault == FAULT_EOF ? 0 : __real_pread(fd, to, shorten(fault, bytes), offset);
    if (fault == FAULT_FLIP && got > 0)
        ((unsigned char *)to)[got / 2] ^= 0x40;
    return got;
}

NEXT(ssize_t, preadv, int, const struct iovec *, int, off_t);
ssize_t __wrap_preadv(int fd, const struct iovec *v, int count, off_t offset)
{
    int fault = fault_of_file(CALL_PREADV, fd);
    if (fails(fault))
        return -1;
    struct iovec first = {v->iov_base, shorten(fault, v->iov_len)};
    if (fault == FAULT_EOF)
        return 0;
    if (fault == FAULT_SHORT)
        return __real_preadv(fd, &first, 1, offset);
    ssize_t got = __real_preadv(fd, v, count, offset);
    if (fault == FAULT_FLIP && got >= (ssize_t)first.iov_len)
        ((unsigned char *)first.iov_base)[first.iov_len / 2] ^= 0x40;
    return got;
}

NEXT(ssize_t, pwrite, int, const void *, size_t, off_t);
ssize_t __wrap_pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    int fault = fault_of_file(CALL_PWRITE, fd);
    if (fails(fault))
        return -1;
    ssize_t moved = __real_pwrite(fd, from, shorten(fault, bytes), offset);
    if (fault == FAULT_FLIP && moved > 0) {
        unsigned char byte = ((const unsigned char *)from)[moved / 2] ^ 0x40;
        __real_pwrite(fd, &byte, 1, offset + moved / 2);
    }
    return moved;
}

NEXT(ssize_t, write, int, const void *, size_t);
ssize_t __wrap_write(int fd, const void *from, size_t bytes)
{
    int fault = fault_of_file(CALL_WRITE, fd);
    return fails(fault) ? -1 : __real_write(fd, from, shorten(fault, bytes));
}

NEXT(int, fallocate, int, int, off_t, off_t);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    return fails(fault_of_file(CALL_FALLOCATE, fd)) ? -1
                                                    : __real_fallocate(fd, mode, offset, bytes);
}

NEXT(int, sync_file_range, int, off64_t, off64_t, unsigned);
int __wrap_sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags)
{
    return fails(fault_of_file(CALL_SYNC_FILE_RANGE, fd))
               ? -1
               : __real_sync_file_range(fd, offset, bytes, flags);
}

NEXT(int, fdatasync, int);
int __wrap_fdatasync(int fd)
{
    return fails(fault_of_file(CALL_FDATASYNC, fd)) ? -1 : __real_fdatasync(fd);
}

NEXT(int, fsync, int);
int __wrap_fsync(int fd)
{
    return fails(fault_of_file(CALL_FSYNC, fd)) ? -1 : __real_fsync(fd);
}

NEXT(int, rename, const char *, const char *);
int __wrap_rename(const char *from, const char *to)
{
    return fails(fault_of_path(CALL_RENAME, from)) ? -1 : __real_rename(from, to);
}

NEXT(int, renameat2, int, const char *, int, const char *, unsigned);
int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned flags)
{
    return fails(fault_of_path(CALL_RENAME, from))
               ? -1
               : __real_renameat2(from_folder, from, to_folder, to, flags);
}

NEXT(int, link, const char *, const char *);
int __wrap_link(const char *from, const char *to)
{
    return fails(fault_of_path(CALL_LINK, from)) ? -1 : __real_link(from, to);
}

int __real_open(const char *, int, ...);
int __wrap_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails(fault_of_path(CALL_OPEN, name)) ? -1 : __real_open(name, flags, mode);
}

NEXT(int, ftruncate, int, off_t);
int __wrap_ftruncate(int fd, off_t bytes)
{
    return fails(fault_of_file(CALL_FTRUNCATE, fd)) ? -1 : __real_ftruncate(fd, bytes);
}

NEXT(int, stat, const char *, struct stat *);
int __wrap_stat(const char *path, struct stat *to)
{
    return fails(fault_of_path(CALL_STAT, path)) ? -1 : __real_stat(path, to);
}

NEXT(int, lstat, const char *, struct stat *);
int __wrap_lstat(const char *path, struct stat *to)
{
    return fails(fault_of_path(CALL_STAT, path)) ? -1 : __real_lstat(path, to);
}

NEXT(int, fstat, int, struct stat *);
int __wrap_fstat(int fd, struct stat *to)
{
    return fails(fault_of_file(CALL_STAT, fd)) ? -1 : __real_fstat(fd, to);
}

NEXT(int, access, const char *, int);
int __wrap_access(const char *path, int mode)
{
    return fails(fault_of_path(CALL_STAT, path)) ? -1 : __real_access(path, mode);
}

NEXT(int, madvise, void *, size_t, int);
int __wrap_madvise(void *at, size_t bytes, int advice)
{
    if (advice == MADV_POPULATE_WRITE && fails(fault_of(CALL_MADVISE)))
        return -1;
    return __real_madvise(at, bytes, advice);
}

NEXT(void *, malloc, size_t);
void *__wrap_malloc(size_t bytes)
{
    return fails(fault_of(CALL_MALLOC)) ? NULL : __real_malloc(bytes);
}

NEXT(void *, calloc, size_t, size_t);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails(fault_of(CALL_MALLOC)) ? NULL : __real_calloc(count, bytes);
}

NEXT(void *, aligned_alloc, size_t, size_t);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails(fault_of(CALL_MALLOC)) ? NULL : __real_aligned_alloc(alignment, bytes);
}

NEXT(int, posix_memalign, void **, size_t, size_t);
int __wrap_posix_memalign(void **to, size_t alignment, size_t bytes)
{
    return fails(fault_of(CALL_MALLOC)) ? errno : __real_posix_memalign(to, alignment, bytes);
}

NEXT(void *, mmap, void *, size_t, int, int, int, off_t);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return fails(fault_of(CALL_MMAP)) ? MAP_FAILED
                                      : __real_mmap(at, bytes, protection, flags, fd, offset);
}

NEXT(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return fails(fault_of(CALL_THREAD)) ? errno
                                        : __real_pthread_create(thread, attributes, run, argument);
}
