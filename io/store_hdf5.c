/* The back end that reads every kind of dataset, through the HDF5 library. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "store_impl.h"

static int hdf5_open(struct store *s, struct error *err)
{
    struct stat status;
    if (stat(s->source.file, &status))
        return error_add(err, EXIT_INPUT, "%s: %s", s->source.file, strerror(errno));
    int rc = store_check_bytes(s, (uint64_t)status.st_size, err);
    return rc ? rc : matfile_open(&s->source, &s->matfile, err);
}

static void hdf5_close(struct store *s)
{
    matfile_close(s->matfile);
}

static int hdf5_read(struct store *s, const struct block *block, void *to, struct error *err)
{
    return matfile_read(s->matfile, s->type, block, to, err);
}

static size_t hdf5_overhead(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                            enum store_way way, int threads)
{
    (void)type, (void)mode, (void)way, (void)threads; /* one thread at a time is in the library */
    return matfile_read_overhead(matrix);
}

const struct store_backend store_hdf5 = {
    .open = hdf5_open, .close = hdf5_close, .read = hdf5_read, .overhead = hdf5_overhead};
