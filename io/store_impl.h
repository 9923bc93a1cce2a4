/* The function table of a store, and what its back ends share. */
#pragma once

#include "store.h"

/* A back end.  Pointers of operations that it does not need are null. */
struct store_backend {
    int (*open)(struct store *store, struct error *err);
    void (*close)(struct store *store);
    int (*read)(struct store *store, const struct block *block, void *to, struct error *err);
    int (*write)(struct store *store, const struct block *block, const void *from,
                 struct error *err);
    int (*reserve)(struct store *store, struct error *err);
    bool (*prepare)(struct store *store, const struct block *rows);
    int (*sync)(struct store *store, struct error *err);
    size_t (*overhead)(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                       enum store_way way, int threads);
    size_t (*shared)(const struct matrix *matrix, enum scalar type, enum store_way way);
};

struct chunk_store;

struct store {
    const struct store_backend *backend;
    const struct format *format;
    struct source source;
    enum scalar type; /* that the back end reads or writes */
    bool widens;      /* store_read gives what these become (scalar_factor) */
    enum store_mode mode;
    enum store_way way;         /* as requested; once open, as chosen */
    int descriptor;             /* posix, chunks: for buffered I/O */
    struct writeback *dirty;    /* posix: buffered writes that are not on the disk yet */
    struct direct *direct;      /* posix: null unless direct I/O is used */
    char *mapping;              /* posix: of the whole file; null unless mapped */
    size_t window;              /* bytes of it that may be in memory at a time */
    _Atomic uint64_t mapped;    /* bytes that are, at most */
    struct chunk_store *chunks; /* chunks */
    void *opened;               /* library: by the format */
};

extern const struct store_backend store_posix, store_chunks, store_library;

/* Complain (EXIT_INPUT) unless the file has the size that was described. */
int store_check_bytes(const struct store *store, uint64_t bytes, struct error *err);

/* A block in the file: `count` contiguous runs of `bytes` bytes, the first at `offset`, `stride`
 * bytes apart, and `pitch` in memory.  Whole rows form one run.  Of a packed triangle each run is
 * `longer` by so much than the one before, and each stride `further`; all rows of the block reach
 * the diagonal in it, or none does (store_packed.c). */
struct runs {
    uint64_t offset;
    size_t bytes, stride, pitch, longer, further;
    int64_t count;
};
struct runs store_runs(const struct store *store, const struct block *block);

static inline uint64_t runs_offset(const struct runs *runs, int64_t i)
{
    return runs->offset + (uint64_t)i * runs->stride + (uint64_t)(i * (i - 1) / 2) * runs->further;
}

static inline size_t runs_bytes(const struct runs *runs, int64_t i)
{
    return runs->bytes + (size_t)i * runs->longer;
}

/* Transfer a block of a packed triangle: exactly one of `to` and `from` is not null.  What is above
 * the diagonal becomes 0, or is left out. */
int store_move_packed(struct store *store, const struct block *block, void *to, const void *from,
                      struct error *err);

/* Consecutive bytes of the file; exactly one of `to` and `from` is set. */
struct extent {
    char *to;
    const char *from;
    uint64_t offset;
    size_t bytes;
};

/* Transfer an extent through the page cache.  Blocks; any thread. */
int store_move(const struct store *store, struct extent run, struct error *err);

/* Advance an extent past the bytes that a call has moved. */
void extent_advance(struct extent *run, size_t bytes);

/* Complain about a call that failed with this errno, or reached the end of the file (0). */
int store_complain(const struct store *store, const struct extent *run, int number,
                   struct error *err);
