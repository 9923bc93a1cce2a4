/* The back end that reads every kind of dataset, through the library of its format. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "store_impl.h"

static int library_open(struct store *s, struct error *err)
{
    struct stat status;
    if (stat(s->source.file, &status))
        return error_add(err, EXIT_INPUT, "%s: %s", s->source.file, strerror(errno));
    int rc = store_check_bytes(s, (uint64_t)status.st_size, err);
    return rc ? rc : s->format->open(&s->source, false, &s->opened, err);
}

static void library_close(struct store *s)
{
    s->format->close(s->opened);
}

static int library_read(struct store *s, const struct block *block, void *to, struct error *err)
{
    return s->format->read(s->opened, s->type, block, to, err);
}

static size_t library_overhead(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                               enum store_way way, int threads)
{
    (void)type, (void)mode, (void)way, (void)threads; /* one thread at a time is in the library */
    return format_of_matrix(matrix)->read_overhead(matrix);
}

const struct store_backend store_library = {.open = library_open,
                                            .close = library_close,
                                            .read = library_read,
                                            .overhead = library_overhead};
