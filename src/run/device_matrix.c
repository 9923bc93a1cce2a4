#include "device_matrix.h"

#include <assert.h>

#include "error.h"

void *device_matrix_at(const struct device_matrix *matrix, int64_t row, int64_t col)
{
    return (char *)matrix->memory + (size_t)(row * matrix->ld + col) * scalar_size(matrix->type);
}

static void *part_at(const struct device_matrix *matrix, const struct block *part)
{
    const struct block *all = &matrix->block;
    int64_t row = part->row - all->row, col = part->col - all->col;
    assert(row >= 0 && row + part->rows <= all->rows && col >= 0 && col + part->cols <= all->cols);
    return device_matrix_at(matrix, row, col);
}

struct copy device_matrix_copy_in(const struct device_matrix *to, const struct block *part,
                                  const void *from)
{
    size_t size = scalar_size(to->type), width = (size_t)part->cols * size;
    return (struct copy){.dst = part_at(to, part),
                         .src = from,
                         .dst_pitch = (size_t)to->ld * size,
                         .src_pitch = width,
                         .width = width,
                         .rows = (size_t)part->rows};
}

struct copy device_matrix_copy_common(const struct device_matrix *to, const struct block *packed,
                                      const void *from, struct block *part)
{
    size_t size = scalar_size(to->type);
    *part = block_common(&to->block, packed);
    if (block_empty(part))
        return (struct copy){.dst = to->memory, .src = from};
    struct copy copy = device_matrix_copy_in(to, part, from);
    int64_t skip = (part->row - packed->row) * packed->cols + part->col - packed->col;
    copy.src = (const char *)from + (size_t)skip * size;
    copy.src_pitch = (size_t)packed->cols * size;
    return copy;
}

struct copy device_matrix_copy_out(void *to, const struct device_matrix *from,
                                   const struct block *part)
{
    size_t size = scalar_size(from->type), width = (size_t)part->cols * size;
    return (struct copy){.dst = to,
                         .src = part_at(from, part),
                         .dst_pitch = width,
                         .src_pitch = (size_t)from->ld * size,
                         .width = width,
                         .rows = (size_t)part->rows};
}

int events_create(struct device *dev, struct event **events, int count, struct error *err)
{
    for (int i = 0; i < count; i++)
        if (dev->event_create(dev, &events[i], err))
            return err->code;
    return 0;
}

void events_destroy(struct device *dev, struct event **events, int count)
{
    for (int i = 0; i < count; i++) {
        if (events[i])
            dev->event_destroy(dev, events[i]);
        events[i] = NULL;
    }
}
