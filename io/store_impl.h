/* The table of functions behind a store. */
#ifndef DGEMM_OOC_STORE_IMPL_H
#define DGEMM_OOC_STORE_IMPL_H

#include "store.h"

/* Null where the back end has nothing to do. */
struct store_backend {
    int (*open)(struct store *store, struct error *err);
    void (*close)(struct store *store);
    int (*read)(struct store *store, const struct block *block, void *to, struct error *err);
    int (*write)(struct store *store, const struct block *block, const void *from,
                 struct error *err);
    int (*reserve)(struct store *store, struct error *err);
    int (*sync)(struct store *store, struct error *err);
    size_t (*overhead)(const struct matrix_info *info, enum scalar type, int readers);
};

struct chunk_store;

struct store {
    const struct store_backend *backend;
    struct matrix_info info;
    enum scalar type;
    enum store_mode mode;
    int descriptor;             /* posix */
    struct chunk_store *chunks; /* chunks, which has a descriptor too */
    struct matfile *matfile;    /* hdf5 */
};

extern const struct store_backend store_posix, store_chunks, store_hdf5;

/* A file of another size than the one described is another file. */
int store_check_bytes(const struct store *store, uint64_t bytes, struct error *err);

#endif
