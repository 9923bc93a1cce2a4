/* The table of functions behind a store, and what its back ends share. */
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
    bool (*prepare)(struct store *store, const struct block *rows);
    int (*sync)(struct store *store, struct error *err);
    size_t (*overhead)(const struct matrix_info *info, enum scalar type, enum store_mode mode,
                       enum store_way way, int threads);
    size_t (*shared)(const struct matrix_info *info, enum scalar type, enum store_way way);
};

struct chunk_store;

struct store {
    const struct store_backend *backend;
    struct matrix_info info;
    enum scalar type;
    enum store_mode mode;
    enum store_way way;         /* as asked for; once open, as chosen */
    int descriptor;             /* posix, chunks: through the page cache */
    struct writeback *dirty;    /* posix: what went that way and is not on the disk yet */
    struct direct *direct;      /* posix: past it; null when the way is another */
    char *mapping;              /* posix: of the whole file; null likewise */
    struct chunk_store *chunks; /* chunks */
    struct matfile *matfile;    /* hdf5 */
};

extern const struct store_backend store_posix, store_chunks, store_hdf5;

/* A file of another size than the one described is another file. */
int store_check_bytes(const struct store *store, uint64_t bytes, struct error *err);

/* A block as its file has it: `count` runs of `bytes` bytes, the first at `offset`, each `stride`
 * after the one before.  Whole rows are one run. */
struct runs {
    uint64_t offset;
    size_t bytes, stride;
    int64_t count;
};
struct runs store_runs(const struct store *store, const struct block *block);

/* Consecutive bytes of the file; exactly one of `to` and `from` is set. */
struct extent {
    char *to;
    const char *from;
    uint64_t offset;
    size_t bytes;
};

/* Move them through the page cache.  Any thread. */
int store_move(const struct store *store, struct extent run, struct error *err);

/* What a call has moved of it is behind it. */
void extent_advance(struct extent *run, size_t bytes);

/* The sentence for a call that failed with this errno, or met the end of the file (0). */
int store_complain(const struct store *store, const struct extent *run, int number,
                   struct error *err);

#endif
