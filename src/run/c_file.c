#include "c_file.h"

#include <inttypes.h>
#include <string.h>

#include "comm.h"
#include "error.h"
#include "phase.h"
#include "quantity.h"
#include "store.h"
#include "vector.h"

enum { PIECE = 4 << 20 }; /* bytes that are prepared at a time */

int c_file_open(struct c_file *file, bool checked, struct error *err)
{
    const struct problem *p = file->problem;
    phase_begin("reserving space for C", 0);
    if (store_open(file->source, problem_written(p), STORE_WRITE, p->io, &file->store, err) ||
        (file->comm->rank == 0 && store_reserve(file->store, err)) ||
        (checked &&
         checksum_open(&file->checksum, p->held[OPERAND_C], file->source->matrix.cols, err)))
        return err->code;
    store_widen(file->store, file->plan->window_bytes);
    return 0;
}

void c_file_close(struct c_file *file)
{
    checksum_close(&file->checksum);
    store_close(file->store);
}

/* Make a packed block 0 above the diagonal of C. */
static void clear_above(const struct problem *p, const struct block *block, void *memory)
{
    const size_t size = problem_element(p, OPERAND_C);
    for (int64_t i = 0; i < block->rows; i++) {
        int64_t end = (block->row + i + 1) * problem_width(p);
        int64_t keep = min_i64(max_i64(end - block->col, 0), block->cols);
        memset((char *)memory + (size_t)(i * block->cols + keep) * size, 0,
               (size_t)(block->cols - keep) * size);
    }
}

static int complain_overflow(const struct c_file *file, const struct block *block,
                             const int64_t *elements, struct error *err)
{
    for (int64_t i = 0; i < block->rows * block->cols; i++)
        if (elements[i] == INT64_OVERFLOW)
            return error_add(err, EXIT_INPUT,
                             "%s: element (%" PRId64 ", %" PRId64
                             ") of alpha op(A) op(B) + beta C does not fit into int64; give --type "
                             "d for a C of doubles",
                             file->source->dataset, block->row + i / block->cols,
                             block->col + i % block->cols);
    return 0;
}

int c_file_write(struct c_file *file, const struct block *block, void *memory, struct error *err)
{
    if (file->problem->lower)
        clear_above(file->problem, block, memory);
    if (problem_adds_integers(file->problem) && complain_overflow(file, block, memory, err))
        return err->code;
    if (file->problem->narrows)
        file->infinite += scalar_narrow(memory, block->rows * block->cols);
    if (file->checksum.weights) {
        const struct checksum table = checksum_of(&file->checksum, problem_written(file->problem));
        row_checksums_add(file->written, &table, file->source->matrix.rows, block, memory);
    }
    return store_write(file->store, block, memory, err);
}

double c_file_not_judged(const struct c_file *file)
{
    return file->checksum.weights ? (double)file->infinite : 0;
}

bool c_file_prepare(struct c_file *file)
{
    const struct problem *p = file->problem;
    const struct plan *plan = file->plan;
    int64_t row_bytes = file->source->matrix.cols * (int64_t)problem_written_element(p);
    int64_t rows = max_i64(PIECE / max_i64(row_bytes, 1), 1);
    int64_t pieces = ceil_div(plan->tile_rows, rows), lines = plan->grid_rows;
    int64_t piece = file->prepared++ * file->comm->size + file->comm->rank;
    int64_t super = piece / (pieces * lines), skip = piece / lines % pieces * rows;
    int64_t tile = (super * lines + piece % lines) * plan->tile_rows;
    rows = min_i64(min_i64(rows, plan->tile_rows - skip), p->m - tile - skip);
    return super < plan->supers_down &&
           (rows <= 0 || store_prepare(file->store, p->row + tile + skip, rows));
}
