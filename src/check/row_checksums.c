#include "row_checksums.h"

#include <stdlib.h>

#include "comm.h"
#include "error.h"
#include "phase.h"
#include "quantity.h"
#include "stop.h"
#include "store.h"

enum { READ_BYTES = 1 << 20 }; /* that a thread reads at a time */

static int64_t group_rows(int64_t rows)
{
    return max_i64(ceil_div(rows, ROW_GROUPS), 1);
}

struct block row_group_block(int64_t rows, int64_t cols, int first, int end)
{
    int64_t top = min_i64(first * group_rows(rows), rows);
    return (struct block){top, 0, min_i64(end * group_rows(rows), rows) - top, cols};
}

uint64_t row_checksums_total(const struct row_checksums *checksums)
{
    uint64_t total = 0;
    for (int i = 0; i < ROW_GROUPS; i++)
        total += checksums->sums[i];
    return total;
}

void row_checksums_add(_Atomic uint64_t sums[ROW_GROUPS], const struct checksum *table,
                       int64_t rows, const struct block *block, const void *memory)
{
    int64_t height = group_rows(rows), end = block->row + block->rows;
    size_t row_bytes = (size_t)(block->cols * table->words) * sizeof(uint32_t);
    for (struct block part = *block; part.row < end; part.row += part.rows) {
        int64_t group = part.row / height;
        part.rows = min_i64((group + 1) * height, end) - part.row;
        sums[group] += checksum_block(
            table, &part, (const char *)memory + (size_t)(part.row - block->row) * row_bytes);
    }
}

/* All threads of all ranks take turns at the parts of a block. */
struct reader {
    const struct reading *reading;
    const struct comm *comm;
    struct store *store;
    struct checksum table;
    char *memory;
    _Atomic uint64_t sums[ROW_GROUPS];
};

static void read_block(struct reader *r, const struct block *block, struct error *err)
{
    const struct reading *what = r->reading;
    const struct block_cut cut = {READ_BYTES / (int64_t)scalar_size(what->type), 0, 0};
    int64_t parts = block_cut_parts(block, &cut), stride = what->threads * r->comm->size;
#pragma omp parallel for num_threads(what->threads) schedule(static, 1)
    for (int thread = 0; thread < what->threads; thread++) {
        struct error mine = {0};
        char *memory = r->memory + (size_t)thread * READ_BYTES;
        for (int64_t i = thread * r->comm->size + r->comm->rank; i < parts && !mine.code;
             i += stride) {
            struct block part = block_cut_part(block, &cut, i);
            if (what->stops && stop_level(r->comm->rank == 0) == STOP_END)
                mine.code = EXIT_STOPPED;
            else if (store_read(r->store, &part, memory, &mine) == 0) {
                row_checksums_add(r->sums, &r->table, what->source->matrix.rows, &part, memory);
                phase_count((double)(part.rows * part.cols * r->comm->size) *
                            (double)scalar_size(what->type));
            }
        }
#pragma omp critical
        if (mine.code)
            *err = mine;
    }
}

int row_checksums_read(const struct reading *what, const struct comm *comm,
                       struct row_checksums *checksums, struct error *err)
{
    struct reader r = {.reading = what, .comm = comm};
    struct error mine = {0};
    r.memory = malloc((size_t)what->threads * READ_BYTES);
    if (!r.memory)
        error_no_memory(&mine, "reading C back");
    else if (checksum_open(&r.table, what->type, what->source->matrix.cols, &mine) == 0)
        store_open(what->source, what->type, STORE_READ, STORE_BUFFERED, &r.store, &mine);
    for (int i = 0; i < what->count && !mine.code; i++)
        read_block(&r, &what->blocks[i], &mine);
    store_close(r.store);
    checksum_close(&r.table);
    free(r.memory);
    for (int i = 0; i < ROW_GROUPS; i++)
        checksums->sums[i] = comm_sum(comm, r.sums[i]);
    if (mine.code)
        *err = mine;
    return err->code;
}
