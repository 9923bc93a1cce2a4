/* Blocks are cut into fragments, each of them a request to the pool, so that many requests are in
 * flight even for one block.  A fragment that is not aligned for O_DIRECT goes through the
 * request's own buffer.
 *
 * Reads extend a fragment to multiples of the alignment, and include short gaps between rows, which
 * cost less than another request (data sieving).  Writes transfer whole pages only; the partial
 * pages at the ends of a run go through the page cache, which merges them with the parts that
 * others write.  No page is written both ways, since fragments of a run are cut at page
 * boundaries. */
#include "store_direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "pool.h"

enum {
    ALIGNMENT = POOL_ALIGNMENT, /* sufficient for any device; used where the kernel tells none */
    PIECE = POOL_BUFFER - 2 * ALIGNMENT, /* bytes of a fragment, at most */
    GAP = 16 << 10,                      /* the longest gap that is read along with the rows */
};

struct direct {
    const struct store *store;
    int descriptor;
    size_t memory_alignment, file_alignment;
    size_t page; /* bytes of a page, a multiple of both */
};

/* A block, cut into `count` fragments: rows_each rows per fragment, or per_run fragments per
 * run. */
struct fragments {
    const struct direct *direct;
    struct runs runs;
    char *to;
    const char *from;
    int64_t rows_each, per_run, count;
};

/* Bytes [begin, end) of the file, of rows [row, row + rows) of the block. */
struct fragment {
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

static void cut(struct fragments *all)
{
    const struct runs *r = &all->runs;
    const size_t most = runs_bytes(r, r->count - 1);
    const bool alike = r->further == 0;
    bool sieve = all->to && alike && r->count > 1 && r->stride - most <= GAP && most < PIECE;
    all->rows_each = sieve ? 1 + (int64_t)((PIECE - most) / r->stride) : 1;
    all->per_run = most <= PIECE ? 1 : (int64_t)(most / PIECE) + 2;
    all->count = (r->count + all->rows_each - 1) / all->rows_each * all->per_run;
}

/* A long run is cut where the file offset is a multiple of PIECE; its last fragment may be
 * empty. */
static struct fragment fragment_at(const struct fragments *all, int64_t index)
{
    const struct runs *r = &all->runs;
    int64_t row = index / all->per_run * all->rows_each, left = r->count - row;
    struct fragment p = {.row = row, .rows = left < all->rows_each ? left : all->rows_each};
    p.begin = runs_offset(r, row);
    p.end = runs_offset(r, row + p.rows - 1) + runs_bytes(r, row + p.rows - 1);
    if (all->per_run > 1) {
        uint64_t from = down(p.begin, PIECE) + (uint64_t)(index % all->per_run) * PIECE;
        p.begin = p.begin > from ? p.begin : from;
        p.end = p.end < from + PIECE ? p.end : from + PIECE;
    }
    return p;
}

/* The offset of a fragment's first byte in the packed block. */
static size_t fragment_offset(const struct fragments *all, const struct fragment *p)
{
    const struct runs *r = &all->runs;
    return (size_t)p->row * r->pitch + (size_t)(p->begin - runs_offset(r, p->row));
}

/* Transfer `run` by one aligned call, which includes `over` unused bytes behind it.  What that call
 * does not transfer, or some file systems refuse (EINVAL), goes through the page cache. */
static int move_aligned(const struct direct *d, struct extent run, size_t over, struct error *err)
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
        extent_advance(&run, (size_t)moved < run.bytes ? (size_t)moved : run.bytes);
    return store_move(d->store, run, err);
}

static int fragment_read(const struct fragments *all, const struct fragment *p, char *buffer,
                         struct error *err)
{
    const struct direct *d = all->direct;
    char *to = all->to + fragment_offset(all, p);
    size_t unit = d->file_alignment;
    if (p->rows == 1 && p->begin % unit == 0 && p->end % unit == 0 &&
        (uintptr_t)to % d->memory_alignment == 0)
        return move_aligned(
            d, (struct extent){.to = to, .offset = p->begin, .bytes = p->end - p->begin}, 0, err);
    uint64_t begin = down(p->begin, unit), end = up(p->end, unit);
    struct extent run = {.to = buffer, .offset = begin, .bytes = p->end - begin};
    if (move_aligned(d, run, end - p->end, err))
        return err->code;
    const char *from = buffer + (p->begin - begin);
    size_t bytes = p->rows == 1 ? p->end - p->begin : all->runs.bytes;
    for (int64_t i = 0; i < p->rows; i++)
        memcpy(to + (size_t)i * bytes, from + (size_t)i * all->runs.stride, bytes);
    return 0;
}

static int fragment_write(const struct fragments *all, const struct fragment *p, char *buffer,
                          struct error *err)
{
    const struct direct *d = all->direct;
    const char *from = all->from + fragment_offset(all, p);
    uint64_t begin = up(p->begin, d->page), end = down(p->end, d->page);
    if (begin >= end)
        return store_move(
            d->store, (struct extent){.from = from, .offset = p->begin, .bytes = p->end - p->begin},
            err);
    struct extent head = {.from = from, .offset = p->begin, .bytes = begin - p->begin};
    struct extent body = {.from = from + head.bytes, .offset = begin, .bytes = end - begin};
    struct extent tail = {.from = body.from + body.bytes, .offset = end, .bytes = p->end - end};
    if ((uintptr_t)body.from % d->memory_alignment)
        body.from = memcpy(buffer, body.from, body.bytes);
    if (move_aligned(d, body, 0, err) || store_move(d->store, head, err) ||
        store_move(d->store, tail, err))
        return err->code;
    return 0;
}

static void fragment_move(void *context, int64_t index, char *buffer, struct error *err)
{
    const struct fragments *all = context;
    struct fragment p = fragment_at(all, index);
    if (p.begin < p.end)
        (all->to ? fragment_read : fragment_write)(all, &p, buffer, err);
}

int direct_move(const struct direct *d, const struct runs *runs, char *to, const char *from,
                struct error *err)
{
    struct fragments all = {.direct = d, .runs = *runs, .to = to, .from = from};
    if (runs->count == 0)
        return 0;
    cut(&all);
    return pool_run(fragment_move, &all, all.count, err);
}

/* Query the required alignments; false if the file system does not support direct I/O. */
static bool query_alignment(struct direct *d)
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

int direct_open(struct store *s, struct error *err)
{
    char same[32];
    snprintf(same, sizeof same, "/proc/self/fd/%d", s->descriptor);
    int access = s->mode == STORE_WRITE ? O_RDWR : O_RDONLY;
    struct direct *d = malloc(sizeof *d);
    if (!d)
        return error_add(err, EXIT_RESOURCES, "no memory to open %s", s->source.file);
    *d = (struct direct){.store = s, .page = (size_t)sysconf(_SC_PAGE_SIZE)};
    d->descriptor = open(same, access | O_DIRECT | O_CLOEXEC);
    if (d->descriptor >= 0 && query_alignment(d) && pool_acquire(err) == 0) {
        s->direct = d;
        return 0;
    }
    if (d->descriptor >= 0)
        close(d->descriptor);
    free(d);
    return err->code;
}

void direct_close(struct direct *d)
{
    if (!d)
        return;
    pool_release();
    close(d->descriptor);
    free(d);
}
