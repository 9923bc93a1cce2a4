#include "shared_read.h"

#include <stdlib.h>

#include "comm.h"
#include "error.h"
#include "phase.h"
#include "quantity.h"
#include "stop.h"

enum { PAGE = 4096, PART_MOST = 4 << 20, CHUNK_MOST = 16 << 20 }; /* bytes */

size_t shared_read_overhead(const struct matrix *matrix, enum scalar type, enum store_way way,
                            int threads)
{
    return store_overhead_bytes(matrix, type, STORE_READ, way, threads) +
           store_shared_bytes(matrix, type, STORE_READ, way);
}

/* Of each of so many parts: a whole chunk, which is then decoded once, or less. */
static size_t part_bytes(const struct matrix *matrix, size_t memory, int parts)
{
    const size_t chunk = matrix->chunk_bytes, each = memory / (size_t)parts / PAGE * PAGE;
    const size_t best = chunk > PART_MOST && chunk <= CHUNK_MOST
                            ? (size_t)round_up((int64_t)chunk, PAGE)
                            : PART_MOST;
    return each < SHARED_READ_PART_LEAST ? SHARED_READ_PART_LEAST : each < best ? each : best;
}

static size_t room_bytes(const struct shared_read *r)
{
    return (size_t)r->rooms * r->part_bytes;
}

void *shared_read_memory(const struct shared_read *r, int index)
{
    return r->memory + (size_t)index * room_bytes(r);
}

int shared_read_open(struct shared_read *r, size_t memory, struct error *err)
{
    r->rooms = r->rooms ? r->rooms : 1;
    r->part_bytes = part_bytes(&r->source->matrix, memory, r->threads * r->rooms);
    r->memory = aligned_alloc(PAGE, (size_t)r->threads * room_bytes(r));
    r->parts = calloc((size_t)r->threads, sizeof *r->parts);
    if (!r->memory || !r->parts)
        return error_no_memory(err, "reading matrices");
    return store_open(r->source, r->type, STORE_READ, r->way, &r->store, err);
}

/* Bytes. */
static uint64_t part_size(const struct shared_read *r, int index)
{
    const struct block *part = &r->parts[index];
    return (uint64_t)(part->rows * part->cols) * scalar_size(r->type);
}

/* Parts [first, first + count), a thread each. */
static int read_round(struct shared_read *r, const struct block *block, const struct block_cut *cut,
                      int64_t first, int count, struct error *err)
{
#pragma omp parallel for num_threads(r->threads) schedule(static, 1) if (count > 1)
    for (int i = 0; i < count; i++) {
        struct error mine = {0};
        r->parts[i] = block_cut_part(block, cut, first + i);
        if (store_read(r->store, &r->parts[i], shared_read_memory(r, i), &mine) == 0) {
            r->add(r->context, &r->parts[i], shared_read_memory(r, i));
            phase_count((double)part_size(r, i) * r->comm->size);
        }
#pragma omp critical(shared_read)
        if (mine.code)
            *err = mine;
    }
    for (int i = 0; i < count && !err->code; i++)
        r->bytes += part_size(r, i);
    return err->code;
}

/* As many parts as a rank has threads, then those of the next ranks follow. */
int shared_read_block(struct shared_read *r, const struct block *block, struct error *err)
{
    const struct block_cut cut = {(int64_t)(r->part_bytes / scalar_size(r->type)),
                                  r->source->matrix.chunk_rows, r->source->matrix.chunk_cols};
    const int64_t parts = err->code ? 0 : block_cut_parts(block, &cut), each = r->threads;
    const int64_t stride = r->apart ? each : r->comm->size * each;
    bool goes_on = true;
    for (int64_t i = r->apart ? 0 : r->comm->rank * each;
         i < parts && goes_on && !err->code && !comm_raised(r->comm); i += stride) {
        const int count = (int)min_i64(each, parts - i);
        if (stop_level(r->comm->rank == 0) == STOP_END)
            err->code = EXIT_STOPPED;
        else if (read_round(r, block, &cut, i, count, err) == 0)
            goes_on = !r->add_round || r->add_round(r->context, count);
    }
    if (!err->code && comm_raised(r->comm))
        err->code = ERROR_ELSEWHERE; /* not all was read */
    if (err->code)
        comm_raise(r->comm);
    return comm_agree(r->comm, err);
}

void shared_read_close(struct shared_read *r)
{
    store_close(r->store);
    free(r->parts);
    free(r->memory);
}
