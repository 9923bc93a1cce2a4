#include "store_mapped.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "error.h"
#include "populate.h"

enum {
    BATCH = 2 << 20, /* bytes that are populated at a time: a huge page */
    SPAN = 8 << 20,  /* bytes that a thread keeps mapped: unmapping stalls all threads */
};

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGE_SIZE);
}

/* A page-aligned range of the file. */
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
    /* Before Linux 5.14 pages cannot be populated in advance, and a full disk would raise
     * SIGBUS. */
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

/* EFAULT of populating means that the page is beyond the end of the file, or the file system is
 * full. */
static int complain(const struct store *s, const struct extent *run, int number, struct error *err)
{
    struct stat now;
    if (number == EFAULT && fstat(s->descriptor, &now) == 0)
        number = (uint64_t)now.st_size < run->offset + run->bytes ? 0 : ENOSPC;
    return store_complain(s, run, number, err);
}

/* Unmap the pages that this thread has populated. */
static void unmap(const struct store *s, struct pages *held)
{
    if (held->end > held->begin)
        advise(s, *held, MADV_DONTNEED);
    *held = (struct pages){0};
}

/* Copy with non-temporal stores: whole cache lines are written without being fetched first, and the
 * data is not read again soon. */
static void stream(char *to, const char *from, size_t bytes)
{
    size_t done = 0;
#ifdef __SSE2__
    enum { LINE = 64 };
    size_t ahead = -(uintptr_t)to % LINE;
    done = ahead < bytes ? ahead : bytes;
    memcpy(to, from, done);
    for (; bytes - done >= LINE; done += LINE)
        for (size_t at = done; at < done + LINE; at += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(to + at), _mm_loadu_si128((const __m128i *)(from + at)));
    _mm_sfence();
#endif
    memcpy(to + done, from + done, bytes - done);
}

/* Copy an extent.  Its pages are populated first, so that a failure is an error instead of a
 * signal. */
static int copy(const struct store *s, const struct extent *run, struct pages *held,
                struct error *err)
{
    struct pages pages = pages_of(run->offset, run->offset + run->bytes);
    if (advise(s, pages, MADV_POPULATE_WRITE))
        return complain(s, run, errno, err);
    stream(s->mapping + run->offset, run->from, run->bytes);
    if (held->end == 0)
        held->begin = pages.begin;
    held->end = pages.end;
    if (held->end - held->begin >= SPAN)
        unmap(s, held);
    return 0;
}

int mapped_write(const struct store *s, const struct runs *runs, const char *from,
                 struct error *err)
{
    struct pages held = {0};
    for (int64_t i = 0; i < runs->count && !err->code; i++)
        for (size_t done = 0; done < runs->bytes && !err->code; done += BATCH) {
            struct extent run = {.from = from + (size_t)i * runs->bytes + done,
                                 .offset = runs->offset + (uint64_t)i * runs->stride + done,
                                 .bytes = runs->bytes - done < BATCH ? runs->bytes - done : BATCH};
            copy(s, &run, &held, err);
        }
    unmap(s, &held);
    return err->code;
}

void mapped_prepare(const struct store *s, uint64_t begin, uint64_t end)
{
    for (uint64_t at = begin; at < end; at += SPAN) {
        struct pages pages = pages_of(at, end - at < SPAN ? end : at + SPAN);
        if (advise(s, pages, MADV_POPULATE_WRITE))
            return;
        advise(s, pages, MADV_DONTNEED);
    }
}

size_t mapped_overhead_bytes(int threads)
{
    return (size_t)threads * (SPAN + 3 * BATCH); /* pages at both ends may extend beyond it */
}
