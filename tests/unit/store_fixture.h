/* Matrices whose elements encode their positions, in files of a scratch directory. */
#pragma once

#include "scratch.h"

#include <fcntl.h>
#include <pthread.h>

#include "matfile.h"
#include "store.h"

static const struct format_layout contiguous = {0};

static inline double value_at(int64_t row, int64_t col)
{
    return (double)(row * 1000 + col) + 0.25;
}

static inline double get(enum scalar type, const void *data, int64_t i)
{
    return type == SCALAR_DOUBLE ? ((const double *)data)[i] : ((const float *)data)[i];
}

static inline void fill(enum scalar type, const struct block *b, void *to)
{
    for (int64_t row = 0, i = 0; row < b->rows; row++)
        for (int64_t col = 0; col < b->cols; col++, i++) {
            double value = value_at(b->row + row, b->col + col);
            if (type == SCALAR_DOUBLE)
                ((double *)to)[i] = value;
            else
                ((float *)to)[i] = (float)value;
        }
}

static inline void check(enum scalar type, const struct block *b, const void *data)
{
    for (int64_t row = 0, i = 0; row < b->rows; row++)
        for (int64_t col = 0; col < b->cols; col++, i++)
            if (get(type, data, i) != value_at(b->row + row, b->col + col))
                fail_msg("element %ld of block %ldx%ld at %ld, %ld is %g", (long)i, (long)b->rows,
                         (long)b->cols, (long)b->row, (long)b->col, get(type, data, i));
}

static inline struct source matrix(const char *file, int64_t rows, int64_t cols, enum scalar type)
{
    struct source source = {.matrix = {.rows = rows, .cols = cols}};
    source.matrix.elements = type;
    snprintf(source.file, sizeof source.file, "%s", file);
    snprintf(source.dataset, sizeof source.dataset, "/g/A");
    return source;
}

/* Creates `file` with a dataset /g/A filled by value_at. */
static inline struct source make(const char *file, int64_t rows, int64_t cols, enum scalar type,
                                 const struct format_layout *layout)
{
    struct error err = {0};
    struct source source = matrix(file, rows, cols, type);
    struct block whole = {.rows = rows, .cols = cols};
    void *data = malloc((size_t)(rows * cols) * sizeof(double) + 1);
    fill(type, &whole, data);
    unlink(file);
    succeed(matfile_create(&source, true, layout, NULL, &err), &err);
    if (source.matrix.by_offset) {
        struct store *store;
        succeed(store_open(&source, type, STORE_WRITE, STORE_AUTO, &store, &err), &err);
        succeed(store_reserve(store, &err), &err);
        int64_t parts = block_parts(&whole, 13);
        for (int64_t i = parts - 1, at; i >= 0; i--) {
            struct block part = block_part(&whole, 13, i);
            at = part.row * cols + part.col;
            succeed(store_write(store, &part, (char *)data + (size_t)at * scalar_size(type), &err),
                    &err);
        }
        succeed(store_sync(store, &err), &err);
        store_close(store);
    } else {
        void *out;
        succeed(matfile_open(&source, true, &out, &err), &err);
        succeed(matfile_write(out, type, &whole, data, &err), &err);
        succeed(matfile_sync(out, &err), &err);
        matfile_close(out);
        succeed(format_describe(file, "/g/A", &source, &err), &err);
    }
    free(data);
    return source;
}

static inline void read_blocks(const struct source *source, enum scalar type, enum store_way way)
{
    struct error err = {0};
    struct store *store;
    succeed(store_open(source, type, STORE_READ, way, &store, &err), &err);
    double *data = malloc((size_t)(source->matrix.rows * source->matrix.cols) * sizeof *data + 1);
    struct block whole = {.rows = source->matrix.rows, .cols = source->matrix.cols};
    succeed(store_read(store, &whole, data, &err), &err);
    check(type, &whole, data);
    for (int i = 0; i < 100 && source->matrix.rows > 0 && source->matrix.cols > 0; i++) {
        struct block b = random_block(source->matrix.rows, source->matrix.cols);
        succeed(store_read(store, &b, data, &err), &err);
        check(type, &b, data);
    }
    free(data);
    store_close(store);
}
