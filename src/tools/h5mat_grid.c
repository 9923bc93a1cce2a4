#include "h5mat_grid.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "error.h"
#include "quantity.h"

enum {
    BLOCK_ELEMENTS = 512 << 10,
    MEMORY_BYTES = 128 << 20,
    THREADS_MIN = 4,
    THREADS_MAX = 16,
};

struct grid grid_make(int64_t rows, int64_t cols, int64_t chunk_rows, int64_t chunk_cols)
{
    int64_t unit_rows = max_i64(chunk_rows, 1), unit_cols = max_i64(chunk_cols, 1);
    struct grid g = {.rows = rows, .cols = cols};
    g.block_cols = max_i64(BLOCK_ELEMENTS / unit_rows / unit_cols, 1) * unit_cols;
    g.block_rows = unit_rows;
    if (g.block_cols >= cols) {
        g.block_cols = max_i64(cols, 1);
        g.block_rows = max_i64(BLOCK_ELEMENTS / g.block_cols / unit_rows, 1) * unit_rows;
    }
    g.block_rows = min_i64(g.block_rows, max_i64(rows, 1));
    return g;
}

int64_t grid_blocks(const struct grid *grid)
{
    return ceil_div(grid->rows, grid->block_rows) * ceil_div(grid->cols, grid->block_cols);
}

/* Block `index`, counted in row-major order. */
static struct block grid_block(const struct grid *grid, int64_t index)
{
    int64_t per_row = ceil_div(grid->cols, grid->block_cols);
    struct block b = {.row = index / per_row * grid->block_rows,
                      .col = index % per_row * grid->block_cols};
    b.rows = min_i64(grid->block_rows, grid->rows - b.row);
    b.cols = min_i64(grid->block_cols, grid->cols - b.col);
    return b;
}

static int thread_count(size_t buffer_bytes)
{
    int64_t fitting = max_i64((int64_t)(MEMORY_BYTES / buffer_bytes), 1);
    int64_t wanted = min_i64(max_i64(omp_get_max_threads() + 2, THREADS_MIN), THREADS_MAX);
    return (int)min_i64(fitting, wanted);
}

int grid_each(const struct grid *grid, size_t buffer_bytes, grid_work *work, void *context,
              struct error *err)
{
    size_t bytes = (size_t)(grid->block_rows * grid->block_cols) * buffer_bytes;
    int threads = thread_count(bytes);
    char *buffers = malloc((size_t)threads * bytes);
    if (!buffers)
        return error_add(err, EXIT_RESOURCES, "no memory for a block of %zu bytes", bytes);

    int64_t blocks = grid_blocks(grid);
    atomic_bool failed = false;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < blocks; i++) {
        if (failed)
            continue;
        struct error problem = {0};
        struct block block = grid_block(grid, i);
        void *buffer = buffers + (size_t)omp_get_thread_num() * bytes;
        if (work(context, i, &block, buffer, &problem) == 0)
            continue;
#pragma omp critical
        if (!atomic_exchange(&failed, true))
            *err = problem;
    }
    free(buffers);
    return failed ? err->code : 0;
}
