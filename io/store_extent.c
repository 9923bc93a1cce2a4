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
    const struct matrix *m = &s->source.matrix;
    const size_t element = scalar_size(s->type), width = m->complex ? 2 : 1;
    const int64_t first = matrix_before(m, b->row), next = matrix_before(m, b->row + 1);
    const int64_t cols = m->packed ? min_i64(b->cols, next - first - b->col) : b->cols;
    struct runs runs = {.offset = s->source.offset + (uint64_t)(first + b->col) * element,
                        .bytes = (size_t)cols * element,
                        .stride = (size_t)(next - first) * element,
                        .pitch = (size_t)b->cols * element,
                        .longer = cols < b->cols ? width * element : 0,
                        .further = m->packed ? width * element : 0,
                        .count = cols ? b->rows : 0};
    if (runs.bytes == runs.stride && runs.count > 0 && !m->packed) {
        runs.bytes *= (size_t)runs.count;
        runs.count = 1;
    }
    return runs;
}
