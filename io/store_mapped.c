#include "store_mapped.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "error.h"
#include "file.h"

enum {
    HUGE_PAGE = 2 << 20,    /* bytes that are populated at a time, and may be mapped by that */
    WINDOW_LEAST = 8 << 20, /* bytes */
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
        mmap(NULL, s->source.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->descriptor, 0);
    if (map == MAP_FAILED)
        return;
    s->mapping = map;
    s->window = WINDOW_LEAST;
    /* Before Linux 5.14 pages cannot be populated in advance, and a full disk would raise
     * SIGBUS. */
    if (advise(s, pages_of(0, 1), MADV_POPULATE_WRITE))
        mapped_close(s);
}

void mapped_close(struct store *s)
{
    if (!s->mapping)
        return;
    munmap(s->mapping, s->source.file_bytes);
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

/* Populate pages.  When more than the window would be mapped, all are unmapped first: that stalls
 * all threads, and those that are copying then fault on pages that the file has.  *end: of the
 * caller's pages, the end of the last huge one. */
static int populate(struct store *s, struct pages pages, uint64_t *end)
{
    const struct pages all = pages_of(0, s->source.file_bytes);
    uint64_t begin = pages.begin / HUGE_PAGE * HUGE_PAGE;
    uint64_t last = (pages.end + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uint64_t bytes = last - (begin > *end ? begin : last < *end ? last : *end);
    *end = last;
    if (bytes > 0 && atomic_fetch_add(&s->mapped, bytes) + bytes > s->window) {
        s->mapped = bytes;
        advise(s, all, MADV_DONTNEED);
    }
    return advise(s, pages, MADV_POPULATE_WRITE);
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
static int copy(struct store *s, const struct extent *run, uint64_t *end, struct error *err)
{
    if (populate(s, pages_of(run->offset, run->offset + run->bytes), end))
        return complain(s, run, errno, err);
    stream(s->mapping + run->offset, run->from, run->bytes);
    return 0;
}

int mapped_write(struct store *s, const struct runs *runs, const char *from, struct error *err)
{
    uint64_t end = 0;
    for (int64_t i = 0; i < runs->count && !err->code; i++)
        for (size_t done = 0; done < runs_bytes(runs, i) && !err->code; done += HUGE_PAGE) {
            size_t left = runs_bytes(runs, i) - done;
            struct extent run = {.from = from + (size_t)i * runs->pitch + done,
                                 .offset = runs_offset(runs, i) + done,
                                 .bytes = left < HUGE_PAGE ? left : HUGE_PAGE};
            copy(s, &run, &end, err);
        }
    return err->code;
}

void mapped_prepare(struct store *s, uint64_t begin, uint64_t end)
{
    uint64_t populated = 0;
    for (uint64_t at = begin; at < end; at += HUGE_PAGE)
        if (populate(s, pages_of(at, end - at < HUGE_PAGE ? end : at + HUGE_PAGE), &populated))
            return;
}

size_t mapped_overhead_bytes(int threads)
{
    /* Pages at both ends of what each populates may extend beyond it. */
    return WINDOW_LEAST + (size_t)threads * 3 * HUGE_PAGE;
}
