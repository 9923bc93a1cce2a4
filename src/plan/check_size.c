#include "check_size.h"

#include "freivalds.h"
#include "ozaki.h"
#include "plan.h"
#include "quantity.h"

enum {
    FEW_CLASSES = 4,     /* that rows may not all be alike in, by chance */
    FEW_COLUMNS = 32,    /* of a class, at least, where there are so few classes */
    CLASS_COLUMNS = 256, /* and where there are more */
    GROUP_LEAST = 512,   /* steps that are compared together */
    WIDE = 1 << 15,      /* columns of a tile, above which these are fewer */
    ROW_SUMS = 6,        /* of each class of a row: y, before, z, squares, odd, reach */
    CARRIED_SUMS = 2,    /* likewise where k is cut into blocks: sums, squares */
    STEP_SUMS = 3,       /* of each class of a step: op(B) x, its squares, their roots */
};

static int rounded_classes(int64_t cols)
{
    int classes = 1;
    while (classes < CLASSES_MAX &&
           cols / (2 * classes) >= (classes < FEW_CLASSES ? FEW_COLUMNS : CLASS_COLUMNS))
        classes *= 2;
    return classes;
}

int check_classes(const struct problem *p, int64_t cols)
{
    return problem_is_exact(p) ? 1 : rounded_classes(cols);
}

bool check_has_peaks(enum algorithm algorithm, enum scalar type, int64_t cols)
{
    return kernels[algorithm]->reports_peaks[type] && cols >= PEAK_ROWS * rounded_classes(cols);
}

size_t check_peak_numbers(int64_t rows, int64_t cols)
{
    int64_t floats = freivalds_parts(cols, PEAK_ROWS) * rows;
    return (size_t)freivalds_parts(floats, 2);
}

/* What an error of a typical element takes to be found grows with the square of the group, or with
 * the group where peaks are known, and with the root of a class's columns; what the comparisons
 * cost falls with it.  Sums of the finest type round so little that they need no groups, and
 * products in residues round once in a block of k. */
int64_t check_group_steps(const struct problem *p, int64_t cols, bool has_peaks)
{
    if (scalar_finer(p->type) == p->type || p->moduli > 0)
        return INT64_MAX;
    if (has_peaks)
        return p->k_whole < 1 << 14 ? 4096 : 8192;
    return cols > WIDE ? GROUP_LEAST : 2 * GROUP_LEAST;
}

double check_roundings(const struct problem *p, bool running, int64_t steps, int64_t slabs)
{
    if (p->moduli > 0)
        return (double)ceil_div(steps, OZAKI_BLOCK);
    return (double)steps + (running ? 0 : 2 * (double)slabs + 1);
}

size_t check_verdicts(int64_t rows)
{
    return 1 + (size_t)rows * VERDICTS + 2;
}

size_t check_parts(int64_t slab)
{
    return (size_t)(slab / GROUP_LEAST + 1);
}

int check_passes(const struct problem *p)
{
    return problem_is_triangle(p) ? STRIPS_MAX : 1;
}

size_t check_device_bytes(const struct problem *p, int64_t rows, int64_t cols, int64_t slab,
                          bool has_peaks)
{
    size_t classes = (size_t)check_classes(p, cols), parts = check_parts(slab);
    size_t row_sums = ROW_SUMS + (p->blocks.steps > 0 ? CARRIED_SUMS : 0);
    size_t numbers = 2 * ((size_t)cols + 1) + STEP_SUMS * (size_t)slab * classes +
                     (size_t)check_passes(p) * parts * classes + row_sums * (size_t)rows * classes +
                     (size_t)rows + project_partials(rows, slab, (int)classes) +
                     2 * check_verdicts(rows);
    return (numbers + (has_peaks ? check_peak_numbers(rows, cols) : 0)) * sizeof(double);
}

size_t check_host_bytes(int64_t rows, int64_t cols)
{
    size_t bytes = (2 * ((size_t)cols + 1) + check_verdicts(rows)) * sizeof(double);
    return (bytes + 4095) / 4096 * 4096;
}
