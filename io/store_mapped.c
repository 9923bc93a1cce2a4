#include "store_mapped.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { BATCH = 2 << 20 }; /* a thread lets go of its pages after so many bytes of them */

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGE_SIZE);
}

/* Pages that hold [begin, end) of the file. */
struct pages {
    uint64_t begin, end;
};

static struct pages pages_of(uint64_t begin, uint64_t end)
{
    uint64_t page = page_bytes();
    return (struct pages){begin / page * page, (end + page - 1) / page * page};
}

static int advise(const struct store *s, struct pages pages, int advice)
{
    int status;
    do
        status = madvise(s->mapping + pages.begin, pages.end - pages.begin, advice);
    while (status && errno == EINTR);
    return status;
}

void mapped_open(struct store *s)
{
    void *map =
        mmap(NULL, s->info.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->descriptor, 0);
    if (map == MAP_FAILED)
        return;
    s->mapping = map;
    /* Before Linux 5.14 pages cannot be asked for, and a full disk would be a SIGBUS. */
    if (advise(s, pages_of(0, 1), MADV_POPULATE_WRITE))
        mapped_close(s);
}

void mapped_close(struct store *s)
{
    if (!s->mapping)
        return;
    munmap(s->mapping, s->info.file_bytes);
    s->mapping = NULL;
}

/* What the file has no page for lies beyond its end, or its file system is full. */
static int complain(const struct store *s, const struct run *run, int number, struct error *err)
{
    struct stat now;
    if (number == EFAULT && fstat(s->descriptor, &now) == 0)
        number = (uint64_t)now.st_size < run->offset + run->bytes ? 0 : ENOSPC;
    return store_complain(s, run, number, err);
}

/* Pages that this thread has mapped and not let go of yet. */
struct held {
    struct pages all; /* from the first to the last */
    uint64_t bytes;
};

static void let_go(const struct store *s, struct held *held)
{
    if (held->bytes > 0)
        advise(s, held->all, MADV_DONTNEED);
    held->bytes = 0;
}

/* Pages are asked for before they are written, so that a failure is an error and no signal. */
static int copy(const struct store *s, const struct run *run, struct held *held, struct error *err)
{
    struct pages pages = pages_of(run->offset, run->offset + run->bytes);
    if (advise(s, pages, MADV_POPULATE_WRITE))
        return complain(s, run, errno, err);
    memcpy(s->mapping + run->offset, run->from, run->bytes);
    if (held->bytes == 0)
        held->all.begin = pages.begin;
    held->all.end = pages.end;
    held->bytes += pages.end - pages.begin;
    if (held->bytes >= BATCH)
        let_go(s, held);
    return 0;
}

int mapped_write(const struct store *s, const struct runs *runs, const char *from,
                 struct error *err)
{
    struct held held = {0};
    for (int64_t i = 0; i < runs->count && !err->code; i++)
        for (size_t done = 0; done < runs->bytes && !err->code; done += BATCH) {
            struct run run = {.from = from + (size_t)i * runs->bytes + done,
                              .offset = runs->offset + (uint64_t)i * runs->stride + done,
                              .bytes = runs->bytes - done < BATCH ? runs->bytes - done : BATCH};
            copy(s, &run, &held, err);
        }
    let_go(s, &held);
    return err->code;
}

void mapped_prepare(const struct store *s, uint64_t begin, uint64_t end)
{
    for (uint64_t at = begin; at < end; at += BATCH) {
        struct pages pages = pages_of(at, end - at < BATCH ? end : at + BATCH);
        if (advise(s, pages, MADV_POPULATE_WRITE))
            return;
        advise(s, pages, MADV_DONTNEED);
    }
}

size_t mapped_overhead_bytes(int threads)
{
    return (size_t)threads * 2 * BATCH;
}
