/* Blocks of a packed triangle (matrix.h): of a row what is on and below the diagonal lies in the
 * file. */
#include <string.h>

#include "error.h"
#include "store_impl.h"

/* Rows that all reach the diagonal in the block, or none of which does.  A library knows the file's
 * one row. */
static int move_rows(struct store *s, const struct block *rows, char *to, const char *from,
                     struct error *err)
{
    if (from)
        return s->backend->write(s, rows, from, err);
    if (s->backend == &store_posix)
        return s->backend->read(s, rows, to, err);
    const struct runs runs = store_runs(s, rows);
    const size_t element = scalar_size(s->type);
    for (int64_t i = 0; i < runs.count && !err->code; i++) {
        const int64_t first = matrix_before(&s->source.matrix, rows->row + i) + rows->col;
        const struct block run = {0, first, 1, (int64_t)(runs_bytes(&runs, i) / element)};
        s->backend->read(s, &run, to + (size_t)i * runs.pitch, err);
    }
    return err->code;
}

int store_move_packed(struct store *s, const struct block *b, void *to, const void *from,
                      struct error *err)
{
    const int64_t width = s->source.matrix.complex ? 2 : 1;
    const size_t pitch = (size_t)b->cols * scalar_size(s->type);
    /* From the first row on the diagonal is in the block, from the second one on to its right. */
    const int64_t right = max_i64((b->col + b->cols) / width - 1 - b->row, 0),
                  starts[] = {min_i64(max_i64(b->col / width - b->row, 0), b->rows),
                              min_i64(right, b->rows), b->rows};
    for (int64_t i = 0; to && i < starts[1]; i++) {
        const int64_t first = (b->row + i + 1) * width - b->col;
        const size_t there = first > 0 ? (size_t)first * scalar_size(s->type) : 0;
        memset((char *)to + (size_t)i * pitch + there, 0, pitch - there);
    }
    for (int part = 0; part < 2 && !err->code; part++) {
        const int64_t count = starts[part + 1] - starts[part];
        const struct block rows = {b->row + starts[part], b->col, count, b->cols};
        const size_t at = (size_t)starts[part] * pitch;
        if (count > 0)
            move_rows(s, &rows, to ? (char *)to + at : NULL, from ? (const char *)from + at : NULL,
                      err);
    }
    return err->code;
}
