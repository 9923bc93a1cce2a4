/* The back end for chunked matrices: reads raw chunks by offset and decodes them in the calling
 * thread.
 *
 * A chunk that needs no decoding or conversion is read directly to its rows in memory; small chunks
 * that are adjacent in the file are read by one call to a buffer that fits the CPU cache, and
 * copied from there.  All others are decoded in a cache entry, and stay there until the entry is
 * reused, so that blocks that share a chunk decode it once if they are read at about the same time.
 * An entry is only added when all others are in use, so that there are never more entries than
 * reading threads. */
#include <errno.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "error.h"
#include "quantity.h"
#include "store_impl.h"

enum {
    ENTRIES_MAX = 256,
    VECTOR_MAX = 256,       /* buffers per preadv */
    GAP_MAX = 4 << 10,      /* bytes: shorter gaps between rows are read and discarded */
    BATCH = 120 << 10,      /* bytes of small chunks per call, at most: malloc keeps these */
    BATCH_MAX = 64,         /* small chunks per call, at most */
    ENTRY_BYTES = 64 << 10, /* besides its two buffers: the inflater, the thread's stack */
};

/* A cache entry: a decoded chunk, or one that is being decoded. */
struct entry {
    int64_t chunk; /* -1: none */
    int users;
    bool ready;
    unsigned char *memory; /* both buffers of `work` */
    struct chunk_work work;
};

struct chunk_store {
    int64_t across; /* chunks in a row of the matrix */
    struct format_chunk *table;
    int16_t *entry_of; /* each chunk's entry, or -1 */
    struct entry entries[ENTRIES_MAX];
    int count, next; /* entries; where the search for a free one starts */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an entry has become ready or free */
};

/* The intersection of a block with one chunk. */
struct chunk_piece {
    int64_t chunk;
    int64_t row, col, rows, cols; /* in the chunk */
    char *to;
    size_t pitch; /* bytes between its rows in memory */
};

/* Whether elements need no conversion. */
static bool is_native(const struct matrix *matrix, enum scalar type)
{
    return !matrix->swapped && matrix_holds(matrix, type);
}

static size_t chunks_overhead(const struct matrix *matrix, enum scalar type, enum store_mode mode,
                              enum store_way way, int threads)
{
    (void)mode, (void)way;
    size_t entry = ENTRY_BYTES + 2 * chunk_room(matrix->chunk_bytes);
    size_t record = sizeof(struct format_chunk) + sizeof(int16_t);
    bool decoded = matrix->pipeline.count > 0 || !is_native(matrix, type);
    bool together = is_native(matrix, type) && matrix->chunk_bytes <= BATCH;
    return format_of_matrix(matrix)->list_overhead(matrix) +
           (size_t)matrix_chunks(matrix) * record +
           (size_t)threads * ((decoded ? entry : 0) + (together ? BATCH : 0));
}

static int chunks_open(struct store *s, struct error *err)
{
    int rc = store_posix.open(s, err);
    if (rc)
        return rc;
    size_t count = (size_t)matrix_chunks(&s->source.matrix);
    struct chunk_store *c = s->chunks = calloc(1, sizeof *c);
    if (c) {
        pthread_mutex_init(&c->lock, NULL);
        pthread_cond_init(&c->changed, NULL);
        c->across = ceil_div(matrix_file_cols(&s->source.matrix), s->source.matrix.chunk_cols);
        c->table = malloc((count + 1) * sizeof *c->table);
        c->entry_of = malloc((count + 1) * sizeof *c->entry_of);
    }
    if (!c || !c->table || !c->entry_of)
        return error_no_memory(err, "the index of chunks");
    memset(c->entry_of, -1, count * sizeof *c->entry_of);
    return s->format->list_chunks(&s->source, c->table, err);
}

static void chunks_close(struct store *s)
{
    struct chunk_store *c = s->chunks;
    store_posix.close(s);
    if (!c)
        return;
    for (int i = 0; i < c->count; i++) {
        libdeflate_free_decompressor(c->entries[i].work.inflater);
        free(c->entries[i].memory);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->entry_of);
    free(c->table);
    free(c);
}

static int damaged(const struct store *s, int64_t chunk, const char *how, struct error *err)
{
    return error_add(
        err, EXIT_INPUT,
        "%s: dataset \"%s\": the chunk at row %" PRId64 ", column %" PRId64 " is damaged: %s",
        s->source.file, s->source.dataset, chunk / s->chunks->across * s->source.matrix.chunk_rows,
        chunk % s->chunks->across * s->source.matrix.chunk_cols, how);
}

/* Read consecutive bytes of the file to the buffers of a vector, which is modified. */
static int read_vector(const struct store *s, struct iovec *v, int count, uint64_t offset,
                       struct error *err)
{
    while (count > 0) {
        ssize_t got = preadv(s->descriptor, v, count, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_add(err, EXIT_RUNTIME, "%s: reading at byte %" PRIu64 " failed: %s",
                             s->source.file, offset,
                             got < 0 ? strerror(errno) : "it ends there; was it cut short?");
        offset += (uint64_t)got;
        for (; count > 0 && (size_t)got >= v->iov_len; v++, count--)
            got -= (ssize_t)v->iov_len;
        if (count > 0) {
            v->iov_base = (char *)v->iov_base + got;
            v->iov_len -= (size_t)got;
        }
    }
    return 0;
}

/* Read rows of a chunk that needs no decoding, with as few calls as possible. */
static int read_rows(const struct store *s, const struct chunk_piece *p, struct error *err)
{
    char skipped[GAP_MAX];
    struct iovec v[VECTOR_MAX];
    size_t element = s->source.matrix.element_bytes,
           pitch = (size_t)s->source.matrix.chunk_cols * element;
    size_t run = (size_t)p->cols * element, gap = pitch - run;
    uint64_t first = s->chunks->table[p->chunk].address + (size_t)p->row * pitch;
    uint64_t offset = first += (size_t)p->col * element;
    int rc = 0, count = 0;
    for (int64_t row = 0; row < p->rows && !rc; row++) {
        char *to = p->to + (size_t)row * p->pitch;
        if (count > 0 && gap == 0 && p->pitch == run)
            v[count - 1].iov_len += run;
        else
            v[count++] = (struct iovec){to, run};
        if (row + 1 == p->rows || gap > GAP_MAX || count + 2 > VECTOR_MAX) {
            rc = read_vector(s, v, count, offset, err);
            offset = first + (size_t)(row + 1) * pitch;
            count = 0;
        } else if (gap > 0) {
            v[count++] = (struct iovec){skipped, gap};
        }
    }
    return rc;
}

static double load(const struct matrix *matrix, const unsigned char *from)
{
    if (!matrix->swapped)
        return scalar_get(matrix->elements, from, 0);
    uint64_t bits = 0; /* of an element, at the end of its bytes */
    const size_t size = scalar_size(matrix->elements);
    memcpy((char *)&bits + sizeof bits - size, from, size);
    bits = __builtin_bswap64(bits);
    return scalar_get(matrix->elements, &bits, 0);
}

/* Whether the type has the value, rounded.  What is beyond its largest number counts as too large,
 * as in HDF5, even if it would be rounded to it. */
static bool put(enum scalar type, double value, void *to, int64_t index)
{
    scalar_put(type, value, to, index);
    return !(fabs(value) > scalar_largest(type)) || isinf(value);
}

static int too_large(const struct store *s, const struct chunk_piece *p, int64_t row, int64_t col,
                     struct error *err)
{
    const int64_t down = p->chunk / s->chunks->across, across = p->chunk % s->chunks->across;
    const struct matrix *m = &s->source.matrix;
    return source_complain_too_large(&s->source, s->type,
                                     down * m->chunk_rows + p->row + row - m->within.row,
                                     across * m->chunk_cols + p->col + col - m->within.col, err);
}

/* Copy rows from a decoded chunk to the block, converting elements if necessary. */
static int scatter(const struct store *s, const struct chunk_piece *p, const unsigned char *data,
                   struct error *err)
{
    size_t element = s->source.matrix.element_bytes;
    for (int64_t row = 0; row < p->rows; row++) {
        size_t at = (size_t)((p->row + row) * s->source.matrix.chunk_cols + p->col) * element;
        char *to = p->to + (size_t)row * p->pitch;
        if (is_native(&s->source.matrix, s->type))
            memcpy(to, data + at, (size_t)p->cols * element);
        else
            for (int64_t i = 0; i < p->cols; i++)
                if (!put(s->type, load(&s->source.matrix, data + at + (size_t)i * element), to, i))
                    return too_large(s, p, row, i, err);
    }
    return 0;
}

static int fill(const struct store *s, const struct chunk_piece *p, struct error *err)
{
    for (int64_t row = 0; row < p->rows; row++) {
        char *to = p->to + (size_t)row * p->pitch;
        for (int64_t i = 0; i < p->cols; i++)
            if (scalar_is_integer(s->type))
                scalar_put_integer(s->type, s->source.fill_integer, to, i);
            else if (!put(s->type, s->source.fill, to, i))
                return too_large(s, p, row, i, err);
    }
    return 0;
}

/* An unused entry, emptied, or a new one; null if there is none.  Called with the lock held. */
static struct entry *free_entry(struct chunk_store *c)
{
    for (int i = 0; i < c->count; i++) {
        struct entry *entry = &c->entries[(c->next + i) % c->count];
        if (entry->users > 0)
            continue;
        c->next = (c->next + i + 1) % c->count;
        if (entry->chunk >= 0)
            c->entry_of[entry->chunk] = -1;
        return entry;
    }
    return c->count < ENTRIES_MAX ? &c->entries[c->count++] : NULL;
}

static int allocate(struct entry *entry, size_t room, struct error *err)
{
    if (entry->memory)
        return 0;
    entry->memory = malloc(2 * room);
    entry->work.inflater = libdeflate_alloc_decompressor();
    if (!entry->memory || !entry->work.inflater)
        return error_no_memory(err, "chunks");
    entry->work.data = entry->memory;
    entry->work.spare = entry->memory + room;
    return 0;
}

static int decode(const struct store *s, struct entry *entry, struct error *err)
{
    const struct format_chunk *chunk = &s->chunks->table[entry->chunk];
    size_t room = chunk_room(s->source.matrix.chunk_bytes);
    if (chunk->bytes > room)
        return damaged(s, entry->chunk, "it is longer than a chunk can be", err);
    if (allocate(entry, room, err))
        return err->code;
    struct iovec v = {entry->work.data, entry->work.bytes = chunk->bytes};
    if (read_vector(s, &v, 1, chunk->address, err))
        return err->code;
    const char *how = chunk_decode(&s->source.matrix.pipeline, chunk->mask, &entry->work,
                                   s->source.matrix.chunk_bytes);
    return how ? damaged(s, entry->chunk, how, err) : 0;
}

/* Acquire the entry of a chunk; reads and decodes the chunk if it is not cached.  Waits for a free
 * entry, or for another thread that is decoding it.  Null after a complaint. */
static struct entry *acquire(const struct store *s, int64_t chunk, struct error *err)
{
    struct chunk_store *c = s->chunks;
    struct entry *entry = NULL;
    pthread_mutex_lock(&c->lock);
    while (!entry) {
        int known = c->entry_of[chunk];
        if (known >= 0 && c->entries[known].ready)
            entry = &c->entries[known];
        else if (known >= 0 || !(entry = free_entry(c)))
            pthread_cond_wait(&c->changed, &c->lock);
    }
    entry->users++;
    if (c->entry_of[chunk] < 0) {
        c->entry_of[chunk] = (int16_t)(entry - c->entries);
        entry->chunk = chunk;
        entry->ready = false;
        pthread_mutex_unlock(&c->lock);
        int rc = decode(s, entry, err);
        pthread_mutex_lock(&c->lock);
        entry->ready = rc == 0;
        if (rc) {
            c->entry_of[chunk] = -1;
            entry->chunk = -1;
            entry->users = 0;
            entry = NULL;
        }
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return entry;
}

static void release(struct chunk_store *c, struct entry *entry)
{
    pthread_mutex_lock(&c->lock);
    if (--entry->users == 0)
        pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Whether the stored bytes of the chunk need no decoding or conversion. */
static bool is_plain(const struct store *s, int64_t chunk)
{
    const struct format_chunk *c = &s->chunks->table[chunk];
    return is_native(&s->source.matrix, s->type) &&
           chunk_is_plain(&s->source.matrix.pipeline, c->mask) &&
           c->bytes == s->source.matrix.chunk_bytes;
}

static int read_piece(const struct store *s, const struct chunk_piece *p, struct error *err)
{
    if (s->chunks->table[p->chunk].bytes == 0)
        return fill(s, p, err);
    if (is_plain(s, p->chunk))
        return read_rows(s, p, err);
    struct entry *entry = acquire(s, p->chunk, err);
    if (!entry)
        return err->code;
    scatter(s, p, entry->work.data, err);
    release(s->chunks, entry);
    return err->code;
}

/* Pieces whose chunks are adjacent in the file, to be read by one call. */
struct batch {
    struct chunk_piece pieces[BATCH_MAX];
    int count;
};

/* Whether it is faster to read the whole chunk of a piece, in a batch. */
static bool is_small(const struct store *s, const struct chunk_piece *p)
{
    return is_plain(s, p->chunk) && s->source.matrix.chunk_bytes <= BATCH &&
           2 * p->rows * p->cols >= s->source.matrix.chunk_rows * s->source.matrix.chunk_cols;
}

/* Whether the chunk of a small piece directly follows those of the batch, which has room for it. */
static bool follows(const struct store *s, const struct batch *batch, const struct chunk_piece *p)
{
    const struct format_chunk *table = s->chunks->table;
    size_t bytes = s->source.matrix.chunk_bytes;
    return batch->count == 0 ||
           (batch->count < BATCH_MAX && (size_t)(batch->count + 1) * bytes <= BATCH &&
            table[p->chunk].address ==
                table[batch->pieces[batch->count - 1].chunk].address + bytes);
}

static int read_batch(const struct store *s, struct batch *batch, struct error *err)
{
    int count = batch->count;
    size_t bytes = (size_t)count * s->source.matrix.chunk_bytes;
    batch->count = 0;
    if (count == 0)
        return 0;
    unsigned char *buffer = malloc(bytes);
    struct iovec v = {buffer, bytes};
    if (!buffer)
        return error_no_memory(err, "chunks");
    read_vector(s, &v, 1, s->chunks->table[batch->pieces[0].chunk].address, err);
    for (int i = 0; i < count && !err->code; i++)
        scatter(s, &batch->pieces[i], buffer + (size_t)i * s->source.matrix.chunk_bytes, err);
    free(buffer);
    return err->code;
}

/* The piece of the block that starts at its row `row` and column `col`. */
static struct chunk_piece piece_at(const struct store *s, const struct block *b, int64_t row,
                                   int64_t col, char *to)
{
    int64_t height = s->source.matrix.chunk_rows, width = s->source.matrix.chunk_cols;
    const struct block *within = &s->source.matrix.within;
    const int64_t first_row = within->row + b->row + row, first_col = within->col + b->col + col;
    int64_t down = first_row / height, across = first_col / width;
    size_t element = scalar_size(s->type);
    struct chunk_piece p = {.chunk = down * s->chunks->across + across,
                            .row = first_row - down * height,
                            .col = first_col - across * width,
                            .to = to + (size_t)(row * b->cols + col) * element,
                            .pitch = (size_t)b->cols * element};
    p.rows = min_i64(height - p.row, b->rows - row);
    p.cols = min_i64(width - p.col, b->cols - col);
    return p;
}

static int chunks_read(struct store *s, const struct block *b, void *to, struct error *err)
{
    struct batch batch = {.count = 0};
    int64_t row = 0, col = 0;
    while (row < b->rows && b->cols > 0) {
        struct chunk_piece p = piece_at(s, b, row, col, to);
        bool small = is_small(s, &p);
        if (!(small && follows(s, &batch, &p)) && read_batch(s, &batch, err))
            return err->code;
        if (small)
            batch.pieces[batch.count++] = p;
        else if (read_piece(s, &p, err))
            return err->code;
        col += p.cols;
        if (col == b->cols) {
            row += p.rows;
            col = 0;
        }
    }
    return read_batch(s, &batch, err);
}

const struct store_backend store_chunks = {
    .open = chunks_open, .close = chunks_close, .read = chunks_read, .overhead = chunks_overhead};
