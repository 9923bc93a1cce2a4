#include "triangle.h"

#include <math.h>

#include "quantity.h"

/* Bands end at multiples of this, so that the kernels' blocks and the check's do. */
enum { BAND_STEP = PEAK_ROWS };

struct block triangle_mirror(const struct block *b, int64_t width)
{
    return (struct block){b->col / width, b->row * width, b->cols / width, b->rows * width};
}

static int64_t nearest(double at, int64_t step)
{
    return ((int64_t)at + step / 2) / step * step;
}

/* The first row of a band, or the side behind the last one.  A row is multiplied up to the end of
 * its strip, on average half a strip beyond the diagonal. */
static int64_t row_edge(int64_t side, const struct plan *plan, int band)
{
    double all = (double)side, strip = all / (STRIPS_MAX * sqrt(plan->grid_rows));
    double area = all * (all + strip) * band / plan->grid_rows;
    double at = (sqrt(strip * strip + 4 * area) - strip) / 2;
    return band == plan->grid_rows ? side : min_i64(side, nearest(at, BAND_STEP));
}

int64_t triangle_height(int64_t side, const struct plan *plan)
{
    int64_t height = 0;
    for (int band = 0; band < plan->grid_rows; band++)
        height = max_i64(height, row_edge(side, plan, band + 1) - row_edge(side, plan, band));
    return height;
}

/* A band, rows [first, end) of the triangle, whose columns are cut. */
struct band {
    int64_t first, end, strip;
    int parts;
};

/* Where a part begins, of parts of equal areas. */
static int64_t column_edge(const struct band *b, int index)
{
    const int64_t first = b->first, end = b->end;
    double height = (double)(end - first), left = (double)first * height;
    double high = fmin((double)b->strip, height);
    double all = left + height * (height + high) / 2, area = all * index / b->parts;
    if (index == b->parts || height == 0)
        return end;
    if (area <= left)
        return min_i64(first, nearest(area / height, BAND_STEP));
    double right = (sqrt(high * high + 8 * (all - area)) - high) / 2; /* up to the last row */
    return min_i64(end, nearest(fmax((double)first, (double)end - right), BAND_STEP));
}

struct block triangle_tile(const struct problem *p, const struct plan *plan, int row, int col)
{
    int64_t first = row_edge(p->m, plan, row), end = row_edge(p->m, plan, row + 1);
    const struct band band = {first, end, plan->strip_rows, plan->grid_cols};
    int64_t left = column_edge(&band, col), right = column_edge(&band, col + 1);
    int64_t top = max_i64(first, left), width = problem_width(p);
    if (top >= end || left >= right)
        return (struct block){p->row, p->col, 0, 0};
    return (struct block){p->row + top, p->col + left * width, end - top, (right - left) * width};
}

int64_t triangle_half(int64_t side)
{
    int64_t half = (side + 1) / 2;
    return min_i64(side, half > BAND_STEP ? round_up(half, BAND_STEP) : half);
}

int64_t triangle_columns(const struct problem *p, const struct block *tile, int64_t last)
{
    return min_i64(tile->cols, (last + 1) * problem_width(p) - tile->col);
}

double triangle_area(const struct block *b, int64_t width)
{
    double left = (double)(b->col / width), right = left + (double)(b->cols / width);
    double first = (double)b->row, end = first + (double)b->rows;
    double full = fmin(end, fmax(first, right)); /* from this row on all columns */
    double area = (full * (full + 1) - first * (first + 1)) / 2 - (full - first) * left +
                  (end - full) * (right - left);
    return area * (double)width;
}
