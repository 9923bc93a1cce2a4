#include "triangle.h"

#include <math.h>

#include "quantity.h"

/* Bands end at multiples of this, so that the kernels' blocks and the check's do. */
enum { BAND_STEP = PEAK_ROWS };

/* Of the first band the largest part lies above the diagonal: so much as its strips are high,
 * half of which counts for each row. */
int64_t triangle_edge(int64_t side, int ranks, int rank)
{
    double all = (double)side, strip = all / (STRIPS_MAX * sqrt(ranks));
    double area = all * (all + strip) * rank / ranks;
    double at = (sqrt(strip * strip + 4 * area) - strip) / 2;
    int64_t nearest = ((int64_t)at + BAND_STEP / 2) / BAND_STEP * BAND_STEP;
    return rank == ranks ? side : min_i64(side, nearest);
}

int64_t triangle_height(int64_t side, int ranks)
{
    int64_t height = 0;
    for (int rank = 0; rank < ranks; rank++)
        height = max_i64(height,
                         triangle_edge(side, ranks, rank + 1) - triangle_edge(side, ranks, rank));
    return height;
}

struct block triangle_band(const struct problem *p, const struct plan *plan, int rank)
{
    int64_t first = triangle_edge(p->m, plan->grid_rows, rank);
    int64_t end = triangle_edge(p->m, plan->grid_rows, rank + 1);
    return (struct block){p->row + first, p->col, end - first, first < end ? end : 0};
}

int64_t triangle_half(int64_t side)
{
    int64_t half = (side + 1) / 2;
    return min_i64(side, half > BAND_STEP ? round_up(half, BAND_STEP) : half);
}

int64_t triangle_columns(const struct block *tile, int64_t last)
{
    return min_i64(tile->cols, last + 1 - tile->col);
}

double triangle_area(const struct problem *p, const struct block *rows)
{
    double first = (double)(rows->row - p->row), end = first + (double)rows->rows;
    return (end * (end + 1) - first * (first + 1)) / 2;
}
