/* What a plan takes of the device: panels, the tile, what products work in; and what the memory is
 * used for beyond what the plan needs: more panels, a second tile. */
#include "check_size.h"
#include "embedding.h"
#include "integers.h"
#include "planner_impl.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "schedule.h"
#include "sums.h"

enum {
    RESIDUES_PART = 3, /* products in residues work in at most this part of its memory */
    BUFFERS_MAX = 4,   /* panels of what is not held, where there is memory for more than two */
};

size_t plan_buffer_bytes(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Rows on the device start 16 elements apart, and never a multiple of 4 KiB: that would send all
 * rows of a panel to the same few memory channels and cache sets. */
static int64_t pad_ld(int64_t cols, size_t element)
{
    int64_t ld = round_up(max_i64(cols, 1), GRANULE);
    return (size_t)ld * element % 4096 == 0 ? ld + GRANULE : ld;
}

/* The largest part of op(A) or op(B) that is multiplied at a time, as stored; the tile for C. */
static struct block largest_factor(const struct problem *p, const struct plan *plan,
                                   enum operand operand)
{
    int64_t rows = operand == OPERAND_B ? plan->slab : plan->tile_rows;
    int64_t cols = operand == OPERAND_A ? plan->slab : plan->tile_cols;
    bool trans = operand != OPERAND_C && p->trans[operand];
    return (struct block){0, 0, trans ? cols : rows, trans ? rows : cols};
}

void plan_panel_extents(const struct problem *p, const struct plan *plan, enum operand operand,
                        int64_t *rows, int64_t *cols)
{
    struct block factor = largest_factor(p, plan, operand);
    if (operand == OPERAND_B && plan_one_panel(plan))
        *(p->trans[OPERAND_B] ? &factor.rows : &factor.cols) = p->n;
    if (embedding_needed(p, operand))
        factor = embedding_in_file(p, operand, &factor);
    *rows = factor.rows;
    *cols = factor.cols;
}

void plan_set_lds(const struct problem *p, struct plan *plan)
{
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++) {
        int64_t rows, cols;
        plan_panel_extents(p, plan, operand, &rows, &cols);
        plan->ld[operand] =
            pad_ld(largest_factor(p, plan, operand).cols, problem_element(p, operand));
        if (operand != OPERAND_C)
            plan->ld_panel[operand] = pad_ld(cols, problem_element(p, operand));
    }
    if (plan_one_panel(plan))
        plan->ld_panel[OPERAND_A] = plan->ld_panel[OPERAND_B];
    for (enum operand operand = OPERAND_A; operand <= OPERAND_B; operand++)
        if (!embedding_needed(p, operand))
            plan->ld[operand] = plan->ld_panel[operand];
}

int64_t plan_tile_ld(const struct problem *p, const struct plan *plan, const struct block *tile)
{
    return problem_is_triangle(p) ? pad_ld(tile->cols, scalar_size(p->sums)) : plan->ld[OPERAND_C];
}

/* Of the largest tile. */
static size_t triangle_bytes(const struct problem *p, const struct plan *plan)
{
    int64_t most = 0;
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        struct block tile = schedule_triangle(p, plan, rank);
        most = max_i64(most, tile.rows * plan_tile_ld(p, plan, &tile));
    }
    return plan_buffer_bytes((size_t)most * scalar_size(p->sums));
}

size_t plan_panel_bytes(const struct problem *p, const struct plan *plan, enum operand operand)
{
    int64_t rows, cols;
    if (operand == OPERAND_C && problem_is_triangle(p))
        return triangle_bytes(p, plan);
    plan_panel_extents(p, plan, operand, &rows, &cols);
    int64_t ld = operand == OPERAND_C ? plan->ld[OPERAND_C] : plan->ld_panel[operand];
    return plan_buffer_bytes((size_t)rows * (size_t)ld * problem_element(p, operand));
}

size_t plan_kept_bytes(const struct problem *p, const struct plan *plan, enum operand operand)
{
    int64_t rows, cols;
    plan_panel_extents(p, plan, operand, &rows, &cols);
    return plan_buffer_bytes((size_t)(rows * cols) * problem_element(p, operand));
}

size_t plan_embedded_bytes(const struct problem *p, const struct plan *plan, enum operand operand)
{
    if (!embedding_needed(p, operand))
        return 0;
    int64_t numbers = largest_factor(p, plan, operand).rows * plan->ld[operand];
    return plan_buffer_bytes((size_t)numbers * scalar_size(p->type));
}

size_t plan_check_bytes(const struct problem *p, const struct plan *plan, enum algorithm algorithm)
{
    bool has_peaks = check_has_peaks(algorithm, p->type, plan->tile_cols);
    return plan_buffer_bytes(
        check_device_bytes(p, plan->tile_rows, plan->tile_cols, plan->slab, has_peaks));
}

size_t plan_line_bytes(const struct problem *p)
{
    return plan_buffer_bytes((size_t)scaling_lines(p) * sizeof(double));
}

/* The same of products of integers. */
static size_t integers_bytes(const struct query *q, const struct plan *plan, size_t most)
{
    const enum scalar a = q->p->held[OPERAND_A], b = q->p->held[OPERAND_B];
    if (!q->machine->gpu)
        return plan_buffer_bytes(integers_cpu_workspace(b, a, most));
    struct integers_part part =
        integers_part(b, a, most, plan->tile_cols, plan->tile_rows, plan->slab);
    return plan_buffer_bytes(integers_workspace(b, a, part.rows, part.cols, part.steps));
}

size_t plan_residues_bytes(const struct query *q, const struct plan *plan)
{
    const size_t most = q->machine->device_memory / RESIDUES_PART;
    if (problem_of_bytes(q->p) && plan->slabs > 0)
        return integers_bytes(q, plan, most);
    if (q->p->moduli == 0 || plan->slabs == 0)
        return 0;
    if (!q->machine->gpu)
        return plan_buffer_bytes(ozaki_cpu_workspace());
    struct ozaki_part part =
        ozaki_part(q->p->moduli, q->p->complex, most, plan->tile_cols, plan->tile_rows, plan->slab);
    return plan_buffer_bytes(ozaki_workspace(q->p->moduli, q->p->complex, part.rows, part.cols,
                                             min_i64(plan->slab, OZAKI_BLOCK)));
}

struct plan plan_inner(const struct problem *p, const struct plan *plan)
{
    struct plan inner = *plan;
    inner.layers = inner.grid_rows = 1;
    inner.tiles = 2; /* one leaves while the next is multiplied */
    inner.tile_rows = inner.strip_rows = plan->slab;
    inner.slab = round_up(p->m, GEMM_QUANTUM);
    inner.slab_short = 0;
    inner.slabs = 1;
    inner.ld[OPERAND_B] = plan->ld[OPERAND_C];
    inner.ld[OPERAND_C] = plan->ld[OPERAND_B];
    return inner;
}

/* X, and what checks its product. */
static size_t normal_bytes(const struct query *q, const struct plan *plan)
{
    const struct problem problem = problem_inner(q->p);
    const struct plan inner = plan_inner(q->p, plan);
    return plan_panel_bytes(q->p, plan, OPERAND_C) +
           (q->request->verify ? plan_check_bytes(&problem, &inner, q->request->algorithm) : 0);
}

/* Everything on the device; run_open.c carves it up. */
size_t plan_device_bytes(const struct query *q, const struct plan *plan)
{
    const struct problem *p = q->p;
    size_t bytes = kernels[q->request->algorithm]->workspace +
                   (size_t)(plan->tiles + sums_waiting(p, plan->layers)) *
                       plan_panel_bytes(p, plan, OPERAND_C);
    if (plan->slabs > 0) {
        for (enum operand operand = OPERAND_A; operand <= OPERAND_B; operand++)
            bytes += (size_t)plan->buffers[operand] * plan_panel_bytes(p, plan, operand) +
                     plan_embedded_bytes(p, plan, operand);
        bytes += plan->residues_bytes;
        if (q->request->verify)
            bytes += plan_check_bytes(p, plan, q->request->algorithm);
        if (p->normal)
            bytes += normal_bytes(q, plan);
    }
    if (plan_adds(p, plan))
        bytes += 2 * plan_buffer_bytes(plan->slot_bytes);
    if (p->symmetric)
        bytes += plan_buffer_bytes(plan->slot_bytes);
    const int scales = scaling_shifts(p) ? 2 : 1;
    return bytes +
           (size_t)(2 * p->scaling.centers + scales * p->scaling.scales) * plan_line_bytes(p);
}

int plan_choose_tiles(const struct query *q, const struct plan *plan)
{
    struct plan two = *plan;
    if (!machine_has_own_memory(q->machine) || problem_reads_c(q->p) || plan->triangle ||
        plan->layers > 1 || plan->slabs < 2 || schedule_supers(plan) < 2)
        return 1;
    two.tiles = 2;
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        two.buffers[i] = max_i64(plan->buffers[i], min_i64(BUFFERS_MAX, plan->slabs));
    return plan_device_bytes(q, &two) <= q->machine->device_memory ? 2 : 1;
}

/* Whether a plan with more panels on the device fits, with its bytes. */
static bool fits_deeper(const struct query *q, const struct plan *plan, struct plan *deeper)
{
    deeper->device_bytes = plan_device_bytes(q, deeper);
    deeper->host_bytes += q->machine->gpu ? 0 : deeper->device_bytes - plan->device_bytes;
    return deeper->device_bytes <= q->machine->device_memory &&
           deeper->host_bytes <= q->machine->host_memory;
}

void plan_deepen(const struct query *q, struct plan *plan)
{
    for (int64_t depth = PANEL_BUFFERS + 1; depth <= min_i64(BUFFERS_MAX, plan->slabs); depth++) {
        struct plan deeper = *plan;
        for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
            if (!plan_holds(plan, i) && plan->buffers[i] > 0 && !(q->p->normal && i == OPERAND_B))
                deeper.buffers[i] = depth;
        if (!fits_deeper(q, plan, &deeper))
            break;
        *plan = deeper;
    }
    struct plan rows = *plan;
    rows.buffers[OPERAND_A] = 2 * plan->slabs;
    if (plan_comes_ahead(plan, schedule_supers(plan) - 1) && plan_holds_rows(&rows) &&
        fits_deeper(q, plan, &rows))
        *plan = rows;
}
