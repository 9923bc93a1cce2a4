#include "pass.h"

#include <stdlib.h>

#include "comm.h"
#include "error.h"
#include "matfile.h"
#include "phase.h"
#include "quantity.h"
#include "stop.h"

enum { PAGE = 4096, PART_MOST = 4 << 20, CHUNK_MOST = 16 << 20 }; /* bytes */

size_t pass_overhead(const struct matrix_info *info, enum scalar type, enum store_way way,
                     int threads)
{
    return store_overhead_bytes(info, type, STORE_READ, way, threads) +
           store_shared_bytes(info, type, STORE_READ, way);
}

/* Of each of so many parts: a whole chunk, which is then decoded once, or less. */
static size_t part_bytes(const struct matrix_info *info, size_t memory, int parts)
{
    const size_t chunk = info->chunk_bytes, each = memory / (size_t)parts / PAGE * PAGE;
    const size_t best = chunk > PART_MOST && chunk <= CHUNK_MOST
                            ? (size_t)round_up((int64_t)chunk, PAGE)
                            : PART_MOST;
    return each < PASS_PART_LEAST ? PASS_PART_LEAST : each < best ? each : best;
}

static size_t room_bytes(const struct pass *pass)
{
    return (size_t)pass->rooms * pass->part_bytes;
}

void *pass_memory(const struct pass *pass, int index)
{
    return pass->memory + (size_t)index * room_bytes(pass);
}

int pass_open(struct pass *pass, size_t memory, struct error *err)
{
    pass->rooms = pass->rooms ? pass->rooms : 1;
    pass->part_bytes = part_bytes(pass->info, memory, pass->threads * pass->rooms);
    pass->memory = aligned_alloc(PAGE, (size_t)pass->threads * room_bytes(pass));
    pass->parts = calloc((size_t)pass->threads, sizeof *pass->parts);
    if (!pass->memory || !pass->parts)
        return error_no_memory(err, "reading matrices");
    return store_open(pass->info, pass->type, STORE_READ, pass->way, &pass->store, err);
}

/* Bytes. */
static uint64_t part_size(const struct pass *pass, int index)
{
    const struct block *part = &pass->parts[index];
    return (uint64_t)(part->rows * part->cols) * scalar_size(pass->type);
}

/* Parts [first, first + count), a thread each. */
static int read_round(struct pass *pass, const struct block *block, const struct block_cut *cut,
                      int64_t first, int count, struct error *err)
{
#pragma omp parallel for num_threads(pass->threads) schedule(static, 1) if (count > 1)
    for (int i = 0; i < count; i++) {
        struct error mine = {0};
        pass->parts[i] = block_cut_part(block, cut, first + i);
        if (store_read(pass->store, &pass->parts[i], pass_memory(pass, i), &mine) == 0) {
            pass->add(pass->context, &pass->parts[i], pass_memory(pass, i));
            phase_count((double)part_size(pass, i) * pass->comm->size);
        }
#pragma omp critical(pass)
        if (mine.code)
            *err = mine;
    }
    for (int i = 0; i < count && !err->code; i++)
        pass->bytes += part_size(pass, i);
    return err->code;
}

/* As many parts as a rank has threads, then those of the next ranks follow. */
int pass_read(struct pass *pass, const struct block *block, struct error *err)
{
    const struct block_cut cut = {(int64_t)(pass->part_bytes / scalar_size(pass->type)),
                                  pass->info->chunk_rows, pass->info->chunk_cols};
    const int64_t parts = err->code ? 0 : block_cut_parts(block, &cut), each = pass->threads;
    const int64_t stride = pass->apart ? each : pass->comm->size * each;
    bool goes_on = true;
    for (int64_t i = pass->apart ? 0 : pass->comm->rank * each;
         i < parts && goes_on && !err->code && !comm_raised(pass->comm); i += stride) {
        const int count = (int)min_i64(each, parts - i);
        if (stop_level(pass->comm->rank == 0) == STOP_END)
            err->code = EXIT_STOPPED;
        else if (read_round(pass, block, &cut, i, count, err) == 0)
            goes_on = !pass->add_round || pass->add_round(pass->context, count);
    }
    if (err->code)
        comm_raise(pass->comm);
    return comm_agree(pass->comm, err);
}

void pass_close(struct pass *pass)
{
    store_close(pass->store);
    free(pass->parts);
    free(pass->memory);
}
