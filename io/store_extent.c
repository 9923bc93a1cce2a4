/* Consecutive bytes of a store's file, which all back ends by offset move. */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "store_impl.h"

/* The kernel transfers at most 2 GiB - 4 KiB per call and may transfer less: calls are capped and
 * continued. */
enum { CALL_MAX = 256 << 20 };

int store_complain(const struct store *s, const struct extent *run, int number, struct error *err)
{
    struct stat now;
    if (number == 0 && fstat(s->descriptor, &now) == 0)
        return error_add(err, EXIT_RUNTIME,
                         "%s ends at byte %jd, not at %" PRIu64 ": was it cut short while in use?",
                         s->source.file, (intmax_t)now.st_size, s->source.file_bytes);
    return error_add(err, error_of_disk(number, EXIT_RUNTIME),
                     "%s: %s %zu bytes at byte %" PRIu64 " failed: %s", s->source.file,
                     run->to ? "reading" : "writing", run->bytes, run->offset,
                     error_disk_text(number));
}

void extent_advance(struct extent *run, size_t bytes)
{
    run->bytes -= bytes;
    run->offset += bytes;
    if (run->to)
        run->to += bytes;
    else
        run->from += bytes;
}

int store_move(const struct store *s, struct extent run, struct error *err)
{
    while (run.bytes > 0) {
        size_t call = run.bytes < CALL_MAX ? run.bytes : CALL_MAX;
        ssize_t moved = run.to ? pread(s->descriptor, run.to, call, (off_t)run.offset)
                               : pwrite(s->descriptor, run.from, call, (off_t)run.offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return store_complain(s, &run, moved < 0 ? errno : 0, err);
        extent_advance(&run, (size_t)moved);
    }
    return 0;
}

struct runs store_runs(const struct store *s, const struct block *b)
{
    size_t element = scalar_size(s->type), bytes = (size_t)b->cols * element;
    const uint64_t cols = (uint64_t)matrix_file_cols(&s->source.matrix);
    const uint64_t first = (uint64_t)b->row * cols + (uint64_t)b->col;
    struct runs runs = {.offset = s->source.offset + first * element,
                        .bytes = bytes,
                        .stride = cols * element,
                        .count = bytes ? b->rows : 0};
    if (bytes == runs.stride && runs.count > 0) {
        runs.bytes *= (size_t)runs.count;
        runs.count = 1;
    }
    return runs;
}
