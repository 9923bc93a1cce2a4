/* How the workspace of a product in residues (ozaki.h), or of integers (integers.h), is divided. */
#include "ozaki_part.h"

#include "integers.h"

#include "quantity.h"

/* Of C at a time: residues of a part stay few beside those of op(A).  Larger parts were slower, at
 * a lower clock, and smaller ones too. */
enum { COLS_MOST = 2048 };

/* Columns of a part of C, and steps of its planes, of integers: tiles of 64 columns and of 128
 * steps are no more than 65535, which a grid of blocks has in its second dimension. */
enum { EXTENT_MOST = 1 << 21 };

/* Bytes of the scale of a row or column: its exponent, shift and squares. */
enum { SCALE_BYTES = 2 * sizeof(int32_t) + sizeof(uint64_t), SUM_BYTES = sizeof(int) };

static int64_t whole_tiles(int64_t count)
{
    return round_up(count, OZAKI_TILE);
}

/* Lines or steps of planes, which have one for two of the real matrices of a complex product. */
static int64_t plane_extent(int64_t count, bool complex)
{
    return whole_tiles(complex ? ceil_div(count, 2) : count);
}

size_t ozaki_workspace(int moduli, bool complex, int64_t rows, int64_t cols, int64_t steps)
{
    const int64_t m = plane_extent(rows, complex), n = whole_tiles(cols),
                  k = plane_extent(steps, complex), planes = complex ? 2 * moduli : moduli;
    return (size_t)((m + n) * SCALE_BYTES + m + planes * ((m + n) * k + m * n + k + n * SUM_BYTES));
}

/* Halve the longer side; false where both are one tile. */
static bool halve(int64_t *rows, int64_t *cols)
{
    int64_t *longer = *rows > *cols ? rows : cols;
    if (*longer <= OZAKI_TILE)
        return false;
    *longer = whole_tiles(ceil_div(*longer, 2));
    return true;
}

size_t integers_workspace(enum scalar a, enum scalar b, int64_t rows, int64_t cols, int64_t steps)
{
    const int64_t m = whole_tiles(rows), n = whole_tiles(cols);
    return (size_t)((m * integers_planes(a) + n * integers_planes(b)) * whole_tiles(steps));
}

struct integers_part integers_part(enum scalar a, enum scalar b, size_t bytes, int64_t m, int64_t n,
                                   int64_t k)
{
    struct integers_part part = {whole_tiles(m), whole_tiles(min_i64(n, EXTENT_MOST)),
                                 min_i64(k, EXTENT_MOST)};
    if (integers_workspace(a, b, part.rows, part.cols, part.steps) > bytes)
        part.steps = min_i64(k, INTEGERS_BLOCK);
    while (integers_workspace(a, b, part.rows, part.cols, part.steps) > bytes &&
           halve(&part.rows, &part.cols))
        ;
    return part;
}

struct ozaki_part ozaki_part(int moduli, bool complex, size_t bytes, int64_t m, int64_t n,
                             int64_t k)
{
    const int64_t steps = min_i64(k, OZAKI_BLOCK), width = complex ? 2 : 1;
    int64_t lines = plane_extent(m, complex), cols = whole_tiles(min_i64(n, COLS_MOST));
    while (ozaki_workspace(moduli, complex, width * lines, cols, steps) > bytes &&
           halve(&lines, &cols))
        ;
    return (struct ozaki_part){width * lines, cols};
}

/* Take the scales and planes of one operand from the workspace, which goes on behind them. */
static int8_t *take_operand(unsigned char **at, struct ozaki_scales *scales, int64_t count,
                            int64_t bytes)
{
    scales->squares = (unsigned long long *)(void *)*at;
    scales->exponents = (int *)(void *)(scales->squares + count);
    scales->shifts = scales->exponents + count;
    int8_t *planes = (int8_t *)(scales->shifts + count);
    *at = (unsigned char *)planes + bytes;
    return planes;
}

struct ozaki_planes ozaki_planes_at(const struct ozaki *o, int64_t rows, int64_t cols,
                                    int64_t steps)
{
    const bool complex = o->residues->complex;
    struct ozaki_planes planes = {.m = plane_extent(rows, complex),
                                  .n = whole_tiles(cols),
                                  .k = plane_extent(steps, complex)};
    const int64_t count = ozaki_plane_count(o->residues);
    unsigned char *at = o->workspace;
    planes.a = take_operand(&at, &planes.scales_a, planes.m, count * planes.m * planes.k);
    planes.signs = (int8_t *)at;
    planes.projected = planes.signs + planes.m;
    at += planes.m + count * planes.k;
    planes.b = take_operand(&at, &planes.scales_b, planes.n, count * planes.n * planes.k);
    planes.c = (int8_t *)at;
    planes.sums = (int *)(void *)(planes.c + count * planes.m * planes.n);
    return planes;
}
