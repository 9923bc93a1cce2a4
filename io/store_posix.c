/* The back end for contiguous matrices, by offset: buffered I/O through the page cache, and the
 * choice between it, direct I/O (store_direct.c) and a mapping (store_mapped.c).
 *
 * Writeback of written data is started at once and awaited a batch later, which bounds the dirty
 * pages in memory and the work of the final fdatasync. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
#include "pool.h"
#include "quantity.h"
#include "store_direct.h"
#include "store_mapped.h"

enum {
    SMALL = 256 << 20,       /* bytes of a matrix below which auto means buffered */
    DIRTY_BATCH = 128 << 20, /* bytes per request for writeback */
    SAMPLES = 64,            /* places where the page cache is probed, */
    SAMPLE = 64 << 10,       /* and the bytes of each */
    PAGE_MIN = 4096,
};

/* Bytes written somewhere in [begin, end) of the file. */
struct dirty_range {
    uint64_t begin, end, bytes;
};

struct writeback {
    pthread_mutex_t lock;
    struct dirty_range filling, sent; /* not requested yet; requested, not awaited */
};

static uint64_t matrix_bytes(const struct matrix *matrix, enum scalar type)
{
    return (uint64_t)matrix_elements(matrix) * scalar_size(type);
}

/* Whether auto considers other methods than buffered I/O. */
static bool looks_further(const struct matrix *matrix, enum scalar type, enum store_way way)
{
    return way == STORE_AUTO && matrix_bytes(matrix, type) >= SMALL;
}

static bool in_memory(const struct store *s)
{
    struct statfs fs;
    return fstatfs(s->descriptor, &fs) == 0 && file_is_in_memory(&fs);
}

/* mincore reports residency only to users who may write to the file; to others everything seems
 * resident. */
static bool may_probe_cache(const struct store *s)
{
    struct stat status;
    return (fstat(s->descriptor, &status) == 0 && status.st_uid == geteuid()) ||
           euidaccess(s->source.file, W_OK) == 0;
}

/* Whether at least half of the matrix is in the page cache, estimated from a sample. */
static bool is_cached(const struct store *s)
{
    unsigned char present[SAMPLE / PAGE_MIN];
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE), seen = 0;
    uint64_t begin = s->source.offset / page * page;
    const uint64_t elements = (uint64_t)matrix_before(&s->source.matrix, s->source.matrix.rows);
    size_t bytes = s->source.offset + elements * scalar_size(s->type) - begin;
    size_t stride = bytes / SAMPLES / page * page;
    if (stride < SAMPLE || !may_probe_cache(s))
        return false;
    char *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, s->descriptor, (off_t)begin);
    if (map == MAP_FAILED)
        return false;
    for (size_t i = 0; i < SAMPLES; i++)
        if (mincore(map + i * stride, SAMPLE, present) == 0)
            for (size_t j = 0; j < SAMPLE / page; j++)
                seen += present[j] & 1;
    munmap(map, bytes);
    return seen >= SAMPLES * (SAMPLE / page) / 2;
}

static bool wants_direct(const struct store *s)
{
    return s->way == STORE_DIRECT || (looks_further(&s->source.matrix, s->type, s->way) &&
                                      !in_memory(s) && !(s->mode == STORE_READ && is_cached(s)));
}

static bool wants_mapping(const struct store *s)
{
    bool pays = looks_further(&s->source.matrix, s->type, s->way) && in_memory(s) &&
                sysconf(_SC_NPROCESSORS_ONLN) >= STORE_MAPPING_CPUS;
    return s->mode == STORE_WRITE && (s->way == STORE_MAPPED || pays);
}

/* Choose the I/O method, for the whole matrix. */
static int choose_way(struct store *s, struct error *err)
{
    const enum store_way asked = s->way;
    if (wants_direct(s))
        direct_open(s, err);
    else if (wants_mapping(s))
        mapped_open(s);
    s->way = s->direct ? STORE_DIRECT : s->mapping ? STORE_MAPPED : STORE_BUFFERED;
    if (asked == STORE_DIRECT && !s->direct && !err->code)
        error_add(err, EXIT_INPUT,
                  "%s is on a file system that refuses direct I/O; leave --io at auto",
                  s->source.file);
    if (asked == STORE_MAPPED && s->mode == STORE_WRITE && !s->mapping)
        error_add(err, EXIT_INPUT, "%s cannot be written through a mapping; leave --io at auto",
                  s->source.file);
    return err->code;
}

static int posix_open(struct store *s, struct error *err)
{
    const char *file = s->source.file;
    int flags = s->mode == STORE_WRITE ? O_RDWR | O_NOFOLLOW : O_RDONLY;
    s->descriptor = open(file, flags | O_CLOEXEC);
    if (s->descriptor < 0 && errno == ENOENT)
        return error_add(err, EXIT_INPUT,
                         "%s: no such file here; is it on storage that is local to each node?",
                         file);
    if (s->descriptor < 0 && errno == ELOOP)
        return error_add(err, EXIT_INPUT,
                         "%s is a symbolic link; links are not followed for writing", file);
    if (s->descriptor < 0)
        return error_add(err, EXIT_INPUT, "%s cannot be opened: %s", file, strerror(errno));
    struct stat status;
    if (fstat(s->descriptor, &status))
        return error_add(err, EXIT_INPUT, "%s cannot be examined: %s", file, strerror(errno));
    if (store_check_bytes(s, (uint64_t)status.st_size, err))
        return err->code;
    s->dirty = calloc(1, sizeof *s->dirty);
    if (!s->dirty)
        return error_add(err, EXIT_RESOURCES, "no memory to open %s", file);
    pthread_mutex_init(&s->dirty->lock, NULL);
    return choose_way(s, err);
}

static void posix_close(struct store *s)
{
    direct_close(s->direct);
    mapped_close(s);
    if (s->dirty)
        pthread_mutex_destroy(&s->dirty->lock);
    free(s->dirty);
    if (s->descriptor >= 0)
        close(s->descriptor);
}

static int move_runs(const struct store *s, const struct runs *runs, char *to, const char *from,
                     struct error *err)
{
    int rc = 0;
    for (int64_t i = 0; i < runs->count && !rc; i++) {
        struct extent run = {.offset = runs_offset(runs, i), .bytes = runs_bytes(runs, i)};
        if (to)
            run.to = to + (size_t)i * runs->pitch;
        else
            run.from = from + (size_t)i * runs->pitch;
        rc = store_move(s, run, err);
    }
    return rc;
}

static int posix_read(struct store *s, const struct block *block, void *to, struct error *err)
{
    struct runs runs = store_runs(s, block);
    return s->direct ? direct_move(s->direct, &runs, to, NULL, err)
                     : move_runs(s, &runs, to, NULL, err);
}

/* Start writeback of a range, or wait for it, as `flags` say (sync_file_range). */
static int write_back(const struct store *s, const struct dirty_range *range, unsigned flags,
                      struct error *err)
{
    if (range->bytes == 0 ||
        sync_file_range(s->descriptor, (off_t)range->begin, (off_t)(range->end - range->begin),
                        flags) == 0 ||
        errno == ENOSYS || errno == EINVAL || errno == ESPIPE)
        return 0;
    struct extent run = {.offset = range->begin, .bytes = range->bytes};
    return store_complain(s, &run, errno, err);
}

/* Note that these runs were written to the page cache.  When they complete a batch, start its
 * writeback, and wait for that of the preceding batch. */
static int bound_dirty(struct store *s, const struct runs *runs, struct error *err)
{
    struct writeback *w = s->dirty;
    struct dirty_range full = {0}, before = {0};
    const size_t last = runs_bytes(runs, runs->count - 1);
    const uint64_t end = runs_offset(runs, runs->count - 1) + last;
    pthread_mutex_lock(&w->lock);
    if (w->filling.bytes == 0 || runs->offset < w->filling.begin)
        w->filling.begin = runs->offset;
    if (end > w->filling.end)
        w->filling.end = end;
    w->filling.bytes += (uint64_t)runs->count * (runs->bytes + last) / 2;
    if (w->filling.bytes >= DIRTY_BATCH) {
        before = w->sent;
        full = w->sent = w->filling;
        w->filling = (struct dirty_range){0};
    }
    pthread_mutex_unlock(&w->lock);
    const unsigned wait =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (write_back(s, &full, SYNC_FILE_RANGE_WRITE, err) || write_back(s, &before, wait, err))
        return err->code;
    return 0;
}

static int posix_write(struct store *s, const struct block *block, const void *from,
                       struct error *err)
{
    struct runs runs = store_runs(s, block);
    if (s->direct && runs.count > 0 && runs_bytes(&runs, runs.count - 1) >= DIRECT_WRITE_MIN)
        return direct_move(s->direct, &runs, NULL, from, err);
    if (s->mapping)
        return mapped_write(s, &runs, from, err);
    if (runs.count == 0 || move_runs(s, &runs, NULL, from, err))
        return err->code;
    return bound_dirty(s, &runs, err);
}

/* Bytes that are free in its file system, and those that the file has already. */
static double room(int descriptor)
{
    struct statvfs fs;
    struct stat file;
    if (fstatvfs(descriptor, &fs) || fs.f_blocks == 0 || fstat(descriptor, &file))
        return INFINITY;
    return (double)fs.f_bavail * (double)fs.f_frsize + 512.0 * (double)file.st_blocks;
}

/* Some file systems use up all that is free before they refuse to reserve more. */
static int posix_reserve(struct store *s, struct error *err)
{
    uint64_t bytes = matrix_bytes(&s->source.matrix, s->type);
    if ((s->mapping && in_memory(s)) || bytes == 0)
        return 0;
    const double most = room(s->descriptor);
    int status = 0;
    if ((double)bytes <= most)
        do
            status = fallocate(s->descriptor, 0, (off_t)s->source.offset, (off_t)bytes);
        while (status && errno == EINTR);
    if ((double)bytes > most || (status && error_is_disk_full(errno)))
        return error_add(err, EXIT_RESOURCES,
                         "%s needs %s, and %s are free in its file system%s; make room there, or "
                         "choose another directory",
                         s->source.file, quantity_bytes((double)bytes), quantity_bytes(most),
                         status ? ", or less under a quota" : "");
    return 0;
}

static bool posix_prepare(struct store *s, const struct block *rows)
{
    if (!s->mapping || !in_memory(s))
        return false;
    const struct matrix *m = &s->source.matrix;
    const uint64_t begin = (uint64_t)matrix_before(m, rows->row), size = scalar_size(s->type),
                   end = (uint64_t)matrix_before(m, rows->row + rows->rows);
    mapped_prepare(s, s->source.offset + begin * size, s->source.offset + end * size);
    return true;
}

static int posix_sync(struct store *s, struct error *err)
{
    if (fdatasync(s->descriptor) == 0)
        return 0;
    return error_add(err, error_of_disk(errno, EXIT_RUNTIME),
                     "%s: syncing the file to disk failed: %s", s->source.file,
                     error_disk_text(errno));
}

static size_t posix_overhead(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                             enum store_way way, int threads)
{
    bool maps = mode == STORE_WRITE && (way == STORE_MAPPED || looks_further(matrix, type, way));
    return maps ? mapped_overhead_bytes(threads) : 0;
}

static size_t posix_shared(const struct matrix *matrix, enum scalar type, enum store_way way)
{
    return way == STORE_DIRECT || looks_further(matrix, type, way) ? pool_bytes() : 0;
}

const struct store_backend store_posix = {.open = posix_open,
                                          .close = posix_close,
                                          .read = posix_read,
                                          .write = posix_write,
                                          .reserve = posix_reserve,
                                          .prepare = posix_prepare,
                                          .sync = posix_sync,
                                          .overhead = posix_overhead,
                                          .shared = posix_shared};
