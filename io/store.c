#include "store.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "store_impl.h"

/* Between floats and doubles, in either byte order; integers are only moved. */
static bool chunks_convert(const struct matrix *matrix, enum scalar type)
{
    if (matrix->integers || scalar_is_integer(type))
        return matrix_holds(matrix, type);
    return true;
}

/* What the back end reads as `type`: elements that become this are widened here. */
static enum scalar stored_as(const struct matrix *matrix, enum scalar type)
{
    const bool becomes =
        matrix->elements != SCALAR_OTHER && scalar_factor(matrix->elements) == type;
    return becomes ? matrix->elements : type;
}

static const struct store_backend *backend_of(const struct matrix *matrix, enum scalar type,
                                              enum store_mode mode, enum store_way way)
{
    type = stored_as(matrix, type);
    if (mode == STORE_READ && way == STORE_LIBRARY && format_of_matrix(matrix)->read)
        return &store_library;
    if (matrix->by_offset && matrix_holds(matrix, type))
        return &store_posix;
    return matrix->by_chunks && chunks_convert(matrix, type) ? &store_chunks : &store_library;
}

bool store_by_offset(const struct matrix *matrix, enum scalar type, enum store_way way)
{
    return backend_of(matrix, type, STORE_READ, way) == &store_posix;
}

bool store_through_library(const struct matrix *matrix, enum scalar type, enum store_way way)
{
    return backend_of(matrix, type, STORE_READ, way) == &store_library;
}

int store_check_bytes(const struct store *store, uint64_t bytes, struct error *err)
{
    if (bytes == store->source.file_bytes)
        return 0;
    return error_add(err, EXIT_INPUT,
                     "%s has %" PRIu64 " bytes here but %" PRIu64 " where it was examined: is it "
                     "being changed, or on storage that is local to each node?",
                     store->source.file, bytes, store->source.file_bytes);
}

/* The library only reads; with STORE_LIBRARY, writes go by offset. */
static enum store_way way_of(enum store_mode mode, enum store_way way)
{
    return mode == STORE_WRITE && way == STORE_LIBRARY ? STORE_AUTO : way;
}

/* Complain unless the file that is open has the sign that it is described with. */
static int check_sign(const struct store *s, struct error *err)
{
    const struct file_sign *sign = &s->source.sign;
    char found[SIGN_TEXT] = "";
    const struct extent there = {.to = found, .offset = sign->at, .bytes = SIGN_TEXT - 1};
    if (store_move(s, there, err))
        return err->code;
    if (strcmp(found, sign->text) == 0)
        return 0;
    return error_add(err, EXIT_INPUT,
                     "this rank does not see the %s that rank 0 writes; is it on node-local "
                     "storage? Choose a folder that is the same on all nodes with --output",
                     s->source.file);
}

int store_check_readable(const struct source *source, enum scalar type, struct error *err)
{
    const struct matrix *matrix = &source->matrix;
    if (!store_through_library(matrix, type, STORE_AUTO) || format_of_matrix(matrix)->read)
        return 0;
    return error_add(err, EXIT_INPUT,
                     "%s (%s) is not converted to %s while it is read: store it so", source->file,
                     source->layout, scalar_name(type));
}

int store_open(const struct source *source, enum scalar type, enum store_mode mode,
               enum store_way way, struct store **store, struct error *err)
{
    const struct store_backend *backend = backend_of(&source->matrix, type, mode, way);
    *store = NULL;
    if (mode == STORE_WRITE && !backend->write)
        return error_add(err, EXIT_INPUT, "%s:%s (%s) cannot be written by offset as %s",
                         source->file, source->dataset, source->layout, scalar_name(type));
    if (mode == STORE_READ && store_check_readable(source, type, err))
        return err->code;
    struct store *s = malloc(sizeof *s);
    if (!s)
        return error_add(err, EXIT_RESOURCES, "no memory to open %s", source->file);
    const enum scalar stored = stored_as(&source->matrix, type);
    *s = (struct store){.backend = backend,
                        .format = format_of_matrix(&source->matrix),
                        .source = *source,
                        .type = stored,
                        .widens = stored != type,
                        .mode = mode,
                        .descriptor = -1};
    s->way = backend == &store_library  ? STORE_LIBRARY
             : backend == &store_chunks ? STORE_BUFFERED
                                        : way_of(mode, way);
    int rc = s->backend->open(s, err);
    if (!rc && mode == STORE_WRITE && source->sign.text[0])
        rc = check_sign(s, err);
    if (rc) {
        store_close(s);
        s = NULL;
    }
    *store = s;
    return rc;
}

const char *store_way_name(const struct store *store)
{
    static const char *const names[] = {"auto", "direct", "buffered", "mapped"};
    return store->backend == &store_chunks    ? "chunks"
           : store->backend == &store_library ? store->format->name
                                              : names[store->way];
}

size_t store_overhead_bytes(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                            enum store_way way, int threads)
{
    const struct store_backend *backend = backend_of(matrix, type, mode, way);
    return backend->overhead(matrix, stored_as(matrix, type), mode, way_of(mode, way), threads);
}

void store_widen(struct store *store, size_t bytes)
{
    store->window += bytes;
}

size_t store_shared_bytes(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                          enum store_way way)
{
    const struct store_backend *backend = backend_of(matrix, type, mode, way);
    return backend->shared ? backend->shared(matrix, stored_as(matrix, type), way_of(mode, way))
                           : 0;
}

static bool is_inside(const struct block *b, const struct matrix *matrix)
{
    return b->row >= 0 && b->col >= 0 && b->rows >= 0 && b->cols >= 0 &&
           b->rows <= matrix->rows - b->row && b->cols <= matrix->cols - b->col;
}

static int read_block(struct store *store, const struct block *block, void *to, struct error *err)
{
    if (store->source.matrix.packed)
        return store_move_packed(store, block, to, NULL, err);
    return store->backend->read(store, block, to, err);
}

int store_read(struct store *store, const struct block *block, void *to, struct error *err)
{
    assert(is_inside(block, &store->source.matrix));
    if (!store->widens)
        return read_block(store, block, to, err);
    const int64_t count = block->rows * block->cols;
    void *end = (char *)to + (size_t)count * (sizeof(float) - scalar_size(store->type));
    if (read_block(store, block, end, err))
        return err->code;
    scalar_widen(store->type, end, count, to);
    return 0;
}

int store_write(struct store *store, const struct block *block, const void *from, struct error *err)
{
    assert(is_inside(block, &store->source.matrix) && store->mode == STORE_WRITE);
    if (store->source.matrix.packed)
        return store_move_packed(store, block, NULL, from, err);
    return store->backend->write(store, block, from, err);
}

int store_reserve(struct store *store, struct error *err)
{
    assert(store->mode == STORE_WRITE);
    return store->backend->reserve ? store->backend->reserve(store, err) : 0;
}

bool store_prepare(struct store *store, int64_t row, int64_t rows)
{
    const struct block block = {row, 0, rows, store->source.matrix.cols};
    assert(is_inside(&block, &store->source.matrix) && store->mode == STORE_WRITE);
    return store->backend->prepare && store->backend->prepare(store, &block);
}

int store_sync(struct store *store, struct error *err)
{
    return store->backend->sync ? store->backend->sync(store, err) : 0;
}

void store_forget(struct store *store)
{
    if (store->descriptor >= 0)
        posix_fadvise(store->descriptor, 0, 0, POSIX_FADV_DONTNEED);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    store->backend->close(store);
    free(store);
}
