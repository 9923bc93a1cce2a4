/* Blocks are cut into pieces, which a pool of threads moves: the disk has many requests at work
 * even for one block, and a thread's own buffer takes those that O_DIRECT would not move straight
 * from or to the caller's memory.
 *
 * Read: what lies around a piece up to the next multiples of the alignment is read with it, and so
 * are gaps between rows that are shorter than a request is dear.  Written: whole pages only; what a
 * run has of its first and last page goes through the page cache, where the parts of others that
 * share the page meet it.  No page is written both ways, by whomever, since every cut inside a run
 * is at a page's edge. */
#include "store_direct.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

enum {
    PIECE = 256 << 10, /* bytes of a request */
    GAP = 16 << 10,    /* shorter ones are read along: a request costs more */
    THREADS = 16,
    THREAD_STACK = 32 << 10, /* what a thread touches of its own */
    ALIGNMENT = 4096,        /* enough for any device; assumed where the kernel does not tell */
    BUFFER = PIECE + 2 * ALIGNMENT,
};

/* A block on its way.  Lives on the stack of the thread that asked for it. */
struct job {
    struct runs runs;
    char *to;
    const char *from;
    int64_t rows_per_piece, pieces_per_run, pieces;
    int64_t next, done; /* pieces */
    struct error *err;
    struct job *later;
    pthread_cond_t finished;
};

struct direct {
    struct store *store;
    int descriptor;
    size_t memory_alignment, file_alignment;
    size_t page;   /* of the page cache, a multiple of them */
    char *buffers; /* one a thread */
    pthread_t threads[THREADS];
    int created, started;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct job *first, **last; /* those with pieces that nobody has taken */
    bool stop;
};

/* Bytes [begin, end) of the file, of rows [row, row + rows) of the job. */
struct piece {
    uint64_t begin, end;
    int64_t row, rows;
};

static uint64_t down(uint64_t bytes, size_t unit)
{
    return bytes / unit * unit;
}

static uint64_t up(uint64_t bytes, size_t unit)
{
    return down(bytes + unit - 1, unit);
}

static void cut(struct job *job)
{
    const struct runs *r = &job->runs;
    bool sieve = job->to && r->count > 1 && r->stride - r->bytes <= GAP && r->bytes < PIECE;
    job->rows_per_piece = sieve ? 1 + (int64_t)((PIECE - r->bytes) / r->stride) : 1;
    job->pieces_per_run = r->bytes <= PIECE ? 1 : (int64_t)(r->bytes / PIECE) + 2;
    job->pieces = (r->count + job->rows_per_piece - 1) / job->rows_per_piece * job->pieces_per_run;
}

/* Of a long run, pieces are cut where the file's offset is a multiple of PIECE; the last may be
 * empty. */
static struct piece piece_at(const struct job *job, int64_t index)
{
    const struct runs *r = &job->runs;
    int64_t row = index / job->pieces_per_run * job->rows_per_piece, left = r->count - row;
    struct piece p = {.row = row, .rows = left < job->rows_per_piece ? left : job->rows_per_piece};
    p.begin = r->offset + (uint64_t)row * r->stride;
    p.end = p.begin + (uint64_t)(p.rows - 1) * r->stride + r->bytes;
    if (job->pieces_per_run > 1) {
        uint64_t from = down(p.begin, PIECE) + (uint64_t)(index % job->pieces_per_run) * PIECE;
        p.begin = p.begin > from ? p.begin : from;
        p.end = p.end < from + PIECE ? p.end : from + PIECE;
    }
    return p;
}

/* Where a piece's first byte is in the packed block. */
static size_t piece_place(const struct job *job, const struct piece *p)
{
    const struct runs *r = &job->runs;
    return (size_t)p->row * r->bytes +
           (size_t)(p->begin - r->offset - (uint64_t)p->row * r->stride);
}

/* One aligned call for `run` and the `over` bytes behind it, which are not wanted.  The page cache
 * moves what that call has left over or, as it is with some file systems, refused. */
static int move_aligned(const struct direct *d, struct run run, size_t over, struct error *err)
{
    ssize_t moved;
    size_t call = run.bytes + over;
    do
        moved = run.to ? pread(d->descriptor, run.to, call, (off_t)run.offset)
                       : pwrite(d->descriptor, run.from, call, (off_t)run.offset);
    while (moved < 0 && errno == EINTR);
    if (moved < 0 && errno != EINVAL)
        return store_complain(d->store, &run, errno, err);
    if (moved > 0)
        run_advance(&run, (size_t)moved < run.bytes ? (size_t)moved : run.bytes);
    return store_move(d->store, run, err);
}

static int piece_read(const struct direct *d, const struct job *job, const struct piece *p,
                      char *buffer, struct error *err)
{
    char *to = job->to + piece_place(job, p);
    size_t unit = d->file_alignment;
    if (p->rows == 1 && p->begin % unit == 0 && p->end % unit == 0 &&
        (uintptr_t)to % d->memory_alignment == 0)
        return move_aligned(
            d, (struct run){.to = to, .offset = p->begin, .bytes = p->end - p->begin}, 0, err);
    uint64_t begin = down(p->begin, unit), end = up(p->end, unit);
    struct run run = {.to = buffer, .offset = begin, .bytes = p->end - begin};
    if (move_aligned(d, run, end - p->end, err))
        return err->code;
    const char *from = buffer + (p->begin - begin);
    size_t bytes = p->rows == 1 ? p->end - p->begin : job->runs.bytes;
    for (int64_t i = 0; i < p->rows; i++)
        memcpy(to + (size_t)i * bytes, from + (size_t)i * job->runs.stride, bytes);
    return 0;
}

static int piece_write(const struct direct *d, const struct job *job, const struct piece *p,
                       char *buffer, struct error *err)
{
    const char *from = job->from + piece_place(job, p);
    uint64_t begin = up(p->begin, d->page), end = down(p->end, d->page);
    if (begin >= end)
        return store_move(
            d->store, (struct run){.from = from, .offset = p->begin, .bytes = p->end - p->begin},
            err);
    struct run head = {.from = from, .offset = p->begin, .bytes = begin - p->begin};
    struct run body = {.from = from + head.bytes, .offset = begin, .bytes = end - begin};
    struct run tail = {.from = body.from + body.bytes, .offset = end, .bytes = p->end - end};
    if ((uintptr_t)body.from % d->memory_alignment)
        body.from = memcpy(buffer, body.from, body.bytes);
    if (move_aligned(d, body, 0, err) || store_move(d->store, head, err) ||
        store_move(d->store, tail, err))
        return err->code;
    return 0;
}

/* Take the first job's next piece.  Called with the lock held, which it lets go meanwhile. */
static void work_on(struct direct *d, char *buffer)
{
    struct job *job = d->first;
    struct piece p = piece_at(job, job->next++);
    struct error err = {0};
    if (job->next == job->pieces && !(d->first = job->later))
        d->last = &d->first;
    bool wanted = p.begin < p.end && !job->err->code;
    pthread_mutex_unlock(&d->lock);
    if (wanted)
        (job->to ? piece_read : piece_write)(d, job, &p, buffer, &err);
    pthread_mutex_lock(&d->lock);
    if (err.code && !job->err->code)
        *job->err = err;
    if (++job->done == job->pieces)
        pthread_cond_signal(&job->finished);
}

static void *work(void *argument)
{
    struct direct *d = argument;
    pthread_mutex_lock(&d->lock);
    char *buffer = d->buffers + (size_t)d->started++ * BUFFER;
    while (!d->stop)
        if (d->first)
            work_on(d, buffer);
        else
            pthread_cond_wait(&d->work, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

int direct_move(struct store *s, const struct runs *runs, char *to, const char *from,
                struct error *err)
{
    struct direct *d = s->direct;
    struct job job = {
        .runs = *runs, .to = to, .from = from, .err = err, .finished = PTHREAD_COND_INITIALIZER};
    if (runs->count == 0)
        return 0;
    cut(&job);
    pthread_mutex_lock(&d->lock);
    *d->last = &job;
    d->last = &job.later;
    pthread_cond_broadcast(&d->work);
    while (job.done < job.pieces)
        pthread_cond_wait(&job.finished, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return err->code;
}

/* The alignments that the file system asks for; false where it does not do direct I/O. */
static bool learn_alignment(struct direct *d)
{
    d->memory_alignment = d->file_alignment = ALIGNMENT;
#ifdef STATX_DIOALIGN
    struct statx status;
    if (statx(d->descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
        status.stx_mask & STATX_DIOALIGN) {
        d->memory_alignment = status.stx_dio_mem_align;
        d->file_alignment = status.stx_dio_offset_align;
    }
#endif
    return d->memory_alignment > 0 && ALIGNMENT % d->memory_alignment == 0 &&
           d->file_alignment > 0 && ALIGNMENT % d->file_alignment == 0;
}

static int start(struct direct *d, struct error *err)
{
    d->buffers = aligned_alloc(ALIGNMENT, (size_t)THREADS * BUFFER);
    while (d->buffers && d->created < THREADS &&
           pthread_create(&d->threads[d->created], NULL, work, d) == 0)
        d->created++;
    if (d->created == 0)
        return error_add(err, EXIT_RESOURCES, "no memory or threads for direct I/O");
    return 0;
}

int direct_open(struct store *s, struct error *err)
{
    char same[32];
    snprintf(same, sizeof same, "/proc/self/fd/%d", s->descriptor);
    int access = s->mode == STORE_WRITE ? O_RDWR : O_RDONLY;
    struct direct *d = calloc(1, sizeof *d);
    if (!d)
        return error_add(err, EXIT_RESOURCES, "no memory to open %s", s->info.file);
    d->store = s;
    d->last = &d->first;
    d->page = (size_t)sysconf(_SC_PAGE_SIZE);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->work, NULL);
    d->descriptor = open(same, access | O_DIRECT | O_CLOEXEC);
    if (d->descriptor >= 0 && learn_alignment(d) && start(d, err) == 0)
        s->direct = d;
    else
        direct_close(d);
    return err->code;
}

void direct_close(struct direct *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_broadcast(&d->work);
    pthread_mutex_unlock(&d->lock);
    while (d->created > 0)
        pthread_join(d->threads[--d->created], NULL);
    if (d->descriptor >= 0)
        close(d->descriptor);
    free(d->buffers);
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

size_t direct_overhead_bytes(void)
{
    return (size_t)THREADS * (BUFFER + THREAD_STACK);
}
