/* The fast back end: the bytes of a contiguous matrix, by offset, on one plain descriptor.
 *
 * The kernel moves at most 2 GiB - 4 KiB a call and may move less: calls are capped and continued.
 * Rows of a block that is narrower than its matrix are moved one by one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "error.h"
#include "store_impl.h"

enum { CALL_MAX = 256 << 20 };

/* Consecutive bytes of the file; exactly one of `to` and `from` is set. */
struct run {
    char *to;
    const char *from;
    uint64_t offset;
    size_t bytes;
};

static int posix_open(struct store *s, struct error *err)
{
    const char *file = s->info.file;
    int flags = s->mode == STORE_WRITE ? O_RDWR | O_NOFOLLOW : O_RDONLY;
    s->descriptor = open(file, flags | O_CLOEXEC);
    if (s->descriptor < 0 && errno == ENOENT)
        return error_add(err, EXIT_INPUT,
                         "%s: no such file here; is it on storage that is local to each node?",
                         file);
    if (s->descriptor < 0 && errno == ELOOP)
        return error_add(err, EXIT_INPUT, "%s is a symbolic link, which is not written through",
                         file);
    if (s->descriptor < 0)
        return error_add(err, EXIT_INPUT, "%s cannot be opened: %s", file, strerror(errno));
    struct stat status;
    if (fstat(s->descriptor, &status))
        return error_add(err, EXIT_INPUT, "%s cannot be examined: %s", file, strerror(errno));
    return store_check_bytes(s, (uint64_t)status.st_size, err);
}

static void posix_close(struct store *s)
{
    if (s->descriptor >= 0)
        close(s->descriptor);
}

static bool is_disk_full(int number)
{
    return number == ENOSPC || number == EDQUOT;
}

static int complain(const struct store *s, const struct run *run, int number, struct error *err)
{
    if (number == 0)
        return error_add(err, EXIT_RUNTIME,
                         "%s ends at byte %" PRIu64 ", %zu bytes early: was it cut short while "
                         "in use?",
                         s->info.file, run->offset, run->bytes);
    return error_add(err, is_disk_full(number) ? EXIT_RESOURCES : EXIT_RUNTIME,
                     "%s: %s %zu bytes at byte %" PRIu64 " failed: %s%s", s->info.file,
                     run->to ? "reading" : "writing", run->bytes, run->offset, strerror(number),
                     is_disk_full(number) ? "; make room there" : "");
}

static int move_run(const struct store *s, struct run run, struct error *err)
{
    while (run.bytes > 0) {
        size_t call = run.bytes < CALL_MAX ? run.bytes : CALL_MAX;
        ssize_t moved = run.to ? pread(s->descriptor, run.to, call, (off_t)run.offset)
                               : pwrite(s->descriptor, run.from, call, (off_t)run.offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return complain(s, &run, moved < 0 ? errno : 0, err);
        run.bytes -= (size_t)moved;
        run.offset += (uint64_t)moved;
        if (run.to)
            run.to += moved;
        else
            run.from += moved;
    }
    return 0;
}

static int move_block(const struct store *s, const struct block *b, char *to, const char *from,
                      struct error *err)
{
    size_t element = scalar_size(s->type);
    bool whole_rows = b->cols == s->info.cols;
    int64_t runs = whole_rows ? 1 : b->rows;
    size_t bytes = (size_t)(whole_rows ? b->rows * b->cols : b->cols) * element;
    int rc = 0;
    for (int64_t i = 0; i < runs && !rc; i++) {
        uint64_t first = (uint64_t)(b->row + i) * (uint64_t)s->info.cols + (uint64_t)b->col;
        struct run run = {.offset = s->info.offset + first * element, .bytes = bytes};
        if (to)
            run.to = to + (size_t)i * bytes;
        else
            run.from = from + (size_t)i * bytes;
        rc = move_run(s, run, err);
    }
    return rc;
}

static int posix_read(struct store *s, const struct block *block, void *to, struct error *err)
{
    return move_block(s, block, to, NULL, err);
}

static int posix_write(struct store *s, const struct block *block, const void *from,
                       struct error *err)
{
    return move_block(s, block, NULL, from, err);
}

static uint64_t free_bytes(int descriptor)
{
    struct statvfs status;
    return fstatvfs(descriptor, &status) ? 0 : (uint64_t)status.f_bavail * status.f_frsize;
}

static int posix_reserve(struct store *s, struct error *err)
{
    uint64_t bytes = (uint64_t)s->info.rows * (uint64_t)s->info.cols * scalar_size(s->type);
    int status;
    do
        status = bytes ? fallocate(s->descriptor, 0, (off_t)s->info.offset, (off_t)bytes) : 0;
    while (status && errno == EINTR);
    if (status && is_disk_full(errno))
        return error_add(err, EXIT_RESOURCES,
                         "%s needs %" PRIu64 " bytes, its file system has %" PRIu64
                         " free; make room there",
                         s->info.file, bytes, free_bytes(s->descriptor));
    return 0;
}

static int posix_sync(struct store *s, struct error *err)
{
    if (fdatasync(s->descriptor) == 0)
        return 0;
    return error_add(err, is_disk_full(errno) ? EXIT_RESOURCES : EXIT_RUNTIME,
                     "%s: making it durable failed: %s", s->info.file, strerror(errno));
}

const struct store_backend store_posix = {.open = posix_open,
                                          .close = posix_close,
                                          .read = posix_read,
                                          .write = posix_write,
                                          .reserve = posix_reserve,
                                          .sync = posix_sync};
