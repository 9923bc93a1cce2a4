#include "store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "error.h"
#include "store_direct.h"

static bool is_native(const struct matrix_info *info, enum scalar type)
{
    enum element_class wanted = type == SCALAR_FLOAT ? ELEMENT_FLOAT : ELEMENT_DOUBLE;
    return info->by_offset && info->elements == wanted;
}

static bool moves_by_offset(const struct matrix_info *info, enum scalar type, enum store_mode mode,
                            enum store_way way)
{
    return is_native(info, type) && !(mode == STORE_READ && way == STORE_HDF5);
}

int store_check_bytes(const struct store *store, uint64_t bytes, struct error *err)
{
    if (bytes == store->info.file_bytes)
        return 0;
    return error_add(err, EXIT_INPUT,
                     "%s has %" PRIu64 " bytes here but %" PRIu64 " where it was examined: is it "
                     "being changed, or on storage that is local to each node?",
                     store->info.file, bytes, store->info.file_bytes);
}

int store_open(const struct matrix_info *info, enum scalar type, enum store_mode mode,
               enum store_way way, struct store **store, struct error *err)
{
    bool by_offset = moves_by_offset(info, type, mode, way);
    *store = NULL;
    if (mode == STORE_WRITE && !by_offset)
        return error_add(err, EXIT_INPUT, "%s:%s (%s) cannot be written by offset as %s",
                         info->file, info->dataset, info->layout, scalar_name(type));
    struct store *s = malloc(sizeof *s);
    if (!s)
        return error_add(err, EXIT_RESOURCES, "no memory to open %s", info->file);
    *s = (struct store){.backend = by_offset ? &store_posix : &store_hdf5,
                        .info = *info,
                        .type = type,
                        .mode = mode,
                        .way = !by_offset          ? STORE_HDF5
                               : way == STORE_HDF5 ? STORE_AUTO
                                                   : way,
                        .descriptor = -1};
    int rc = s->backend->open(s, err);
    if (rc) {
        store_close(s);
        s = NULL;
    }
    *store = s;
    return rc;
}

const char *store_way_name(const struct store *store)
{
    static const char *const names[] = {"auto", "direct", "buffered", "hdf5"};
    return names[store->way];
}

size_t store_overhead_bytes(const struct matrix_info *info, enum scalar type, enum store_mode mode,
                            enum store_way way)
{
    if (!moves_by_offset(info, type, mode, way))
        return matfile_read_overhead(info);
    return store_may_be_direct(info, type, way) ? direct_overhead_bytes() : 0;
}

static bool is_inside(const struct block *b, const struct matrix_info *info)
{
    return b->row >= 0 && b->col >= 0 && b->rows >= 0 && b->cols >= 0 &&
           b->rows <= info->rows - b->row && b->cols <= info->cols - b->col;
}

int store_read(struct store *store, const struct block *block, void *to, struct error *err)
{
    assert(is_inside(block, &store->info));
    return store->backend->read(store, block, to, err);
}

int store_write(struct store *store, const struct block *block, const void *from, struct error *err)
{
    assert(is_inside(block, &store->info) && store->mode == STORE_WRITE);
    return store->backend->write(store, block, from, err);
}

int store_reserve(struct store *store, struct error *err)
{
    assert(store->mode == STORE_WRITE);
    return store->backend->reserve ? store->backend->reserve(store, err) : 0;
}

int store_sync(struct store *store, struct error *err)
{
    return store->backend->sync ? store->backend->sync(store, err) : 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    store->backend->close(store);
    free(store);
}
