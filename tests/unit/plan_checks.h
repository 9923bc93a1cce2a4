/* What holds for every plan: its schedule covers C and k, brings each rank what it needs, in order,
 * and moves what the plan says. */
#pragma once

#include "plan_fixture.h"

#include <math.h>
#include <stdio.h>

#include "quantity.h"
#include "schedule.h"
#include "triangle.h"

/* Count the elements of a block of C, which has `n` columns. */
static inline void count_block(unsigned char *count, int64_t n, const struct block *block)
{
    for (int64_t i = block->row; i < block->row + block->rows; i++)
        for (int64_t j = block->col; j < block->col + block->cols; j++)
            count[i * n + j]++;
}

/* A mirror of a strip, where it is written. */
static inline struct block written_mirror(const struct problem *p, const struct plan *plan,
                                          const struct block *tile, int64_t strip, int part)
{
    const struct block none = {0};
    return problem_mirrors(p) ? schedule_mirror(p, plan, tile, strip, part) : none;
}

/* Count what all ranks write of the piece `p` of a C of `n` columns: the strips of their tiles, and
 * the mirrors of these. */
static inline void count_written(unsigned char *count, int64_t n, const struct problem *p,
                                 const struct plan *plan)
{
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++)
        for (int64_t super = 0; super < schedule_supers(plan); super++) {
            struct block tile = schedule_tile(p, plan, rank, super);
            assert_true(tile.rows <= plan->tile_rows && tile.cols <= plan->tile_cols);
            for (int64_t i = 0; i < schedule_strips(plan, &tile); i++) {
                struct block strip = schedule_strip(p, plan, &tile, i);
                count_block(count, n, &strip);
                for (int part = 0; part < MIRRORS; part++) {
                    struct block mirror = written_mirror(p, plan, &tile, i, part);
                    count_block(count, n, &mirror);
                }
            }
        }
}

/* Every element of C is written exactly once, or at most once where it is 0 above the diagonal.
 * Returns how many are. */
static inline uint64_t check_counts(const struct problem *p, const unsigned char *count)
{
    uint64_t written = 0;
    for (int64_t i = 0; i < p->m * p->n; i++) {
        bool above = i % p->n / problem_width(p) > i / p->n;
        assert_true(count[i] == 1 || (p->lower && above && count[i] == 0));
        written += count[i];
    }
    return written;
}

/* The tiles of all ranks cover C, and write as much as planned. */
static inline void check_cover(const struct problem *p, const struct plan *plan)
{
    unsigned char *count = calloc((size_t)(p->m * p->n), 1);
    count_written(count, p->n, p, plan);
    assert_int_equal(check_counts(p, count) * scalar_size(p->type), plan->moves.total.write_bytes);
    free(count);
}

/* The slabs of a panel cover k in ascending order, edges at multiples of the quantum. */
static inline void check_slabs(const struct problem *p, const struct plan *plan,
                               const struct block *tile)
{
    int64_t reached = 0;
    for (int64_t slab = 0; slab < plan->slabs; slab++) {
        struct block a = schedule_factor(p, plan, OPERAND_A, tile, slab);
        struct block b = schedule_factor(p, plan, OPERAND_B, tile, slab);
        assert_int_equal(reached % GEMM_QUANTUM, 0);
        assert_int_equal(p->trans[0] ? a.row : a.col, reached);
        assert_int_equal(p->trans[1] ? b.col : b.row, reached);
        reached += p->trans[0] ? a.rows : a.cols;
        assert_int_equal(p->trans[0] ? a.cols : a.rows, tile->rows);
        assert_int_equal(p->trans[1] ? b.rows : b.cols, tile->cols);
    }
    if (plan->slabs)
        assert_int_equal(reached, p->k);
}

/* The strips of a tile are its rows, from the first to the last. */
static inline void check_strips(const struct problem *p, const struct plan *plan,
                                const struct block *tile)
{
    int64_t strips = schedule_strips(plan, tile), reached = tile->row;
    assert_in_range(strips, 1, STRIPS_MAX);
    for (int64_t i = 0; i < strips; i++) {
        struct block strip = schedule_strip(p, plan, tile, i);
        assert_true(strip.row == reached && strip.rows > 0);
        reached += strip.rows;
        int64_t before = reached * problem_width(p) - tile->col;
        int64_t diagonal = problem_is_triangle(p) ? min_i64(tile->cols, before) : tile->cols;
        assert_true(strip.col == tile->col && strip.cols == diagonal);
    }
    struct block beyond = schedule_strip(p, plan, tile, strips);
    assert_int_equal(reached, tile->row + tile->rows);
    assert_true(block_empty(&beyond));
}

/* What a rank needs, in pipeline order: `place` grows from step to step, and in a step from B to A
 * to the A of later super-blocks to C0.  Of the block the parts from `first` to `end`. */
struct wanted {
    struct wanted_item {
        int64_t place;
        enum operand operand;
        struct block block;
        int64_t first, end;
    } items[1 << 19];
    int64_t count;
};

enum { STEP_PLACES = 5, PLACE_C = STEP_PLACES - 1 };

static inline void want(struct wanted *w, struct wanted_item item)
{
    int64_t at = w->count++;
    assert_in_range(at, 0, (1 << 19) - 1);
    for (; at > 0 && w->items[at - 1].place > item.place; at--)
        w->items[at] = w->items[at - 1];
    w->items[at] = item;
}

/* A panel comes in so many shares; more than one where the device holds a row's panels, and has
 * room for those of the next one. */
static inline int64_t shares_of(const struct plan *plan, enum operand operand, int64_t super)
{
    int64_t row = super / plan->supers_across, across = plan->supers_across;
    bool whole = operand == OPERAND_B || row == 0 || plan->slabs < 2 || across < 2 ||
                 plan->buffers[OPERAND_A] < 2 * plan->slabs;
    return whole ? 1 : across - (row == 1);
}

/* The step in which a share of a panel comes, and its place. */
static inline int64_t step_of(const struct plan *plan, enum operand operand, int64_t super,
                              int64_t slab, int64_t share)
{
    int64_t row = super / plan->supers_across, across = plan->supers_across;
    if (operand == OPERAND_B || row == 0 || plan->buffers[OPERAND_A] <= plan->slabs)
        return super * plan->slabs + slab;
    if (plan->buffers[OPERAND_A] < 2 * plan->slabs || plan->slabs < 2)
        return super * plan->slabs + slab - plan->slabs / 2;
    return share + (row == 1 ? plan->slabs + slab * (across - 1)
                             : (row - 1) * across * plan->slabs + slab * across);
}

static inline int64_t place_of(const struct plan *plan, enum operand operand, int64_t super,
                               int64_t slab, int64_t share)
{
    int64_t step = step_of(plan, operand, super, slab, share), here = super * plan->slabs;
    bool second = plan->buffers[OPERAND_A] >= 2 * plan->slabs && super % plan->supers_across > 0;
    return STEP_PLACES * step + (operand == OPERAND_B ? 0 : step < here ? 2 + second : 1);
}

static inline void want_panel(struct wanted *w, const struct problem *p, const struct plan *plan,
                              enum operand operand, const struct block *tile, int64_t super,
                              int64_t slab)
{
    const struct block_cut cut = schedule_cut(p, plan, operand);
    const struct block panel = schedule_line_panel(p, plan, operand, tile, slab);
    int64_t shares = shares_of(plan, operand, super), parts = block_cut_parts(&panel, &cut);
    for (int64_t i = 0; i < shares; i++)
        if (parts * i / shares < parts * (i + 1) / shares)
            want(w, (struct wanted_item){.place = place_of(plan, operand, super, slab, i),
                                         .operand = operand,
                                         .block = panel,
                                         .first = parts * i / shares,
                                         .end = parts * (i + 1) / shares});
}

static inline void want_panels(struct wanted *w, const struct problem *p, const struct plan *plan,
                               const struct block *before, const struct block *tile, int64_t super)
{
    for (int64_t slab = 0; slab < plan->slabs; slab++)
        for (enum operand operand = OPERAND_A; operand <= OPERAND_B; operand++)
            if (!schedule_held(plan, operand, before, tile) && problem_has_panels(p, operand))
                want_panel(w, p, plan, operand, tile, super, slab);
}

static inline void want_strip(struct wanted *w, const struct problem *p, const struct plan *plan,
                              int64_t place, const struct block *strip)
{
    const struct block_cut cut = schedule_cut(p, plan, OPERAND_C);
    if (!block_empty(strip))
        want(w, (struct wanted_item){.place = place,
                                     .operand = OPERAND_C,
                                     .block = *strip,
                                     .end = block_cut_parts(strip, &cut)});
}

/* C0 of a tile comes after the first panels of the next super-block. */
static inline void want_c0(struct wanted *w, const struct problem *p, const struct plan *plan,
                           const struct block *tile, int64_t super)
{
    int64_t place = STEP_PLACES * (super + 1) * max_i64(plan->slabs, 1) + PLACE_C;
    for (int64_t i = 0; problem_reads_c(p) && i < schedule_strips(plan, tile); i++) {
        for (int part = 0; part < MIRRORS; part++) {
            struct block mirror = written_mirror(p, plan, tile, i, part);
            want_strip(w, p, plan, place, &mirror);
        }
        struct block strip = schedule_strip(p, plan, tile, i);
        want_strip(w, p, plan, place, &strip);
    }
}

static inline void want_all(struct wanted *w, const struct problem *p, const struct plan *plan,
                            int rank)
{
    int64_t found = 0;
    struct block before = {0}, tile = schedule_next_tile(p, plan, rank, &found);
    w->count = 0;
    while (!block_empty(&tile)) {
        int64_t super = found - 1;
        struct block next = schedule_next_tile(p, plan, rank, &found);
        want_panels(w, p, plan, &before, &tile, super);
        want_c0(w, p, plan, &tile, super);
        before = tile;
        tile = next;
    }
}

/* All transfers of a node, in order. */
struct sequence {
    struct transfer *items; /* lives until the program ends */
    int64_t count, room;
};

static inline void list_transfers(struct sequence *s, const struct problem *p,
                                  const struct plan *plan, int node)
{
    struct cursor cursor;
    struct transfer t;
    cursor_start(&cursor, p, plan, node);
    for (s->count = 0; cursor_next(&cursor, &t); s->items[s->count++] = t) {
        if (s->count < s->room)
            continue;
        s->room = 2 * s->room + 1000;
        s->items = realloc(s->items, (size_t)s->room * sizeof *s->items);
        assert_non_null(s->items);
    }
}

/* A rank finds what it needs in its node's sequence, in order, part by part, and nothing else. */
static inline void check_order_of(int rank, const struct sequence *s, const struct wanted *w,
                                  const struct problem *p, const struct plan *plan)
{
    int64_t at = 0, part = w->items[0].first, elements = 0;
    for (const struct transfer *t = s->items; t < s->items + s->count; t++) {
        if (!schedule_is_for(p, plan, t, rank))
            continue;
        const struct wanted_item *item = &w->items[at];
        assert_true(at < w->count && t->operand == item->operand);
        assert_true(block_equal(&t->whole, &item->block));
        assert_int_equal(t->part, part++);
        if (part > item->first + 1 || t->part == 0)
            assert_int_equal(t->skip, t->part == 0 ? 0 : elements);
        elements = t->skip + t->block.rows * t->block.cols;
        if (part < item->end)
            continue;
        if (part == t->parts)
            assert_int_equal(elements, t->whole.rows * t->whole.cols);
        if (++at < w->count)
            part = w->items[at].first;
    }
    assert_int_equal(at, w->count);
}

/* Which share of its panel it is. */
static inline int64_t share_of(const struct plan *plan, const struct transfer *t)
{
    int64_t shares = shares_of(plan, t->operand, t->super), share = 0;
    while (t->parts * (share + 1) / shares <= t->part)
        share++;
    return share;
}

/* Panels come in an order that does not depend on the node, none after its step. */
static inline void check_steps(const struct sequence *s, const struct plan *plan)
{
    int64_t before = 0;
    for (const struct transfer *t = s->items; t < s->items + s->count; t++) {
        if (t->operand == OPERAND_C)
            continue;
        int64_t share = share_of(plan, t);
        int64_t place = place_of(plan, t->operand, t->super, t->slab, share);
        assert_int_equal(t->step, step_of(plan, t->operand, t->super, t->slab, share));
        assert_true(place >= before && t->step <= schedule_step(plan, t->super, t->slab));
        before = place;
    }
}

/* The step of the last product that reads a panel which came for a super-block. */
static inline int64_t last_read(const struct problem *p, const struct plan *plan, int rank,
                                const struct transfer *t)
{
    int64_t found = t->super, super;
    struct block before, tile = schedule_next_tile(p, plan, rank, &found);
    do {
        super = found - 1;
        before = tile;
        tile = schedule_next_tile(p, plan, rank, &found);
    } while (!block_empty(&tile) && schedule_held(plan, t->operand, &before, &tile));
    return schedule_step(plan, super, t->slab);
}

/* When a panel comes, the product that last reads the one in its buffer has been enqueued; those of
 * a super-block's first two steps may come before the product of the slab before (prefetch and
 * leave_strip in run.c). */
static inline void check_buffers(int rank, const struct sequence *s, const struct problem *p,
                                 const struct plan *plan, enum operand operand)
{
    static int64_t reads[1 << 19];
    int64_t count = 0, buffers = plan->buffers[operand];
    for (const struct transfer *t = s->items; t < s->items + s->count && buffers > 0; t++) {
        if (t->operand != operand || t->part > 0 || !schedule_is_for(p, plan, t, rank))
            continue;
        assert_in_range(count, 0, (1 << 19) - 1);
        reads[count++] = last_read(p, plan, rank, t);
        if (count > buffers)
            assert_true(reads[count - 1 - buffers] < t->step - (t->step % plan->slabs <= 1));
    }
}

static inline void check_order(const struct problem *p, const struct machine *m,
                               const struct plan *plan)
{
    static struct wanted w;
    static struct sequence s;
    for (int rank = 0; rank < m->ranks; rank++) {
        if (rank == 0 || schedule_node(plan, rank) != schedule_node(plan, rank - 1)) {
            list_transfers(&s, p, plan, schedule_node(plan, rank));
            check_steps(&s, plan);
        }
        want_all(&w, p, plan, rank);
        check_order_of(rank, &s, &w, p, plan);
        check_buffers(rank, &s, p, plan, OPERAND_A);
        check_buffers(rank, &s, p, plan, OPERAND_B);
    }
}

/* The grid lines of a slab's panels alternate, part by part of their shares. */
static inline void check_turns(const struct plan *plan, const struct transfer *before,
                               const struct transfer *t)
{
    if (t->operand == OPERAND_C || t->operand != before->operand || t->super != before->super ||
        t->slab != before->slab || t->step != before->step)
        return;
    int64_t shares = shares_of(plan, t->operand, t->super), share = share_of(plan, t);
    int64_t part = t->part - t->parts * share / shares;
    int64_t earlier = before->part - before->parts * share / shares;
    assert_true(part == earlier ? t->line > before->line : part == earlier + 1);
}

/* Elements of a transfer that the node's ranks copy: all of it, each that needs it; but in a
 * triangle as much as its band is wide. */
static inline int64_t copied_elements(const struct problem *p, const struct plan *plan, int node,
                                      const struct transfer *t)
{
    const struct stretch ranks = schedule_ranks(plan, node);
    int64_t all = t->block.rows * t->block.cols * t->users, copied = 0;
    if (!problem_is_triangle(p) || t->operand == OPERAND_C)
        return all;
    for (int rank = ranks.first; rank < ranks.end; rank++) {
        struct block tile = schedule_tile(p, plan, rank, t->super);
        struct block panel = schedule_panel(p, plan, t->operand, &tile, t->slab);
        struct block rows = schedule_panel(p, plan, OPERAND_A, &tile, t->slab);
        struct block part = block_common(&panel, &t->block), other = block_common(&rows, &t->block);
        if (block_empty(&tile))
            continue;
        copied += part.rows * part.cols;
        copied += plan->buffers[OPERAND_A] > 0 ? other.rows * other.cols : 0;
    }
    return copied;
}

/* The nodes' sequences read, send and copy exactly what the plan promised, slot by slot. */
static inline void check_traffic(const struct problem *p, const struct machine *m,
                                 const struct plan *plan)
{
    uint64_t read = 0, sent = 0, copied = 0, element = scalar_size(p->type);
    int nodes = (int)ceil_div(m->ranks, plan->ranks_per_node);
    for (int node = 0; node < nodes; node++) {
        struct cursor cursor;
        struct transfer t, before = {.super = -1};
        cursor_start(&cursor, p, plan, node);
        for (; cursor_next(&cursor, &t); before = t) {
            check_turns(plan, &before, &t);
            uint64_t bytes = (uint64_t)(t.block.rows * t.block.cols) * element;
            if (p->matrix[t.operand].complex)
                assert_true(t.block.col % 2 == 0 && t.block.cols % 2 == 0);
            assert_true(bytes > 0 && bytes <= plan->slot_bytes);
            assert_true(t.block.row >= 0 &&
                        t.block.row + t.block.rows <= p->matrix[t.operand].rows);
            assert_true(t.block.col >= 0 &&
                        t.block.col + t.block.cols <= p->matrix[t.operand].cols);
            assert_true(problem_reads(p, t.operand));
            assert_true(t.users >= 1 && t.users <= plan->ranks_per_node);
            copied += (uint64_t)copied_elements(p, plan, node, &t) * element;
            if (t.again)
                continue;
            read += t.from < 0 ? bytes : 0;
            sent += t.to >= 0 ? bytes : 0;
        }
    }
    assert_int_equal(read, plan->moves.read_bytes);
    assert_int_equal(sent, plan->moves.sent_bytes);
    assert_int_equal(copied, plan->moves.total.in_bytes);
    if (p->lower)
        assert_true(plan->moves.total.write_bytes >= problem_elements(p) * (double)element);
    else
        assert_int_equal(plan->moves.total.write_bytes, (uint64_t)problem_elements(p) * element);
    assert_true(plan_factor(plan) >= 0.9); /* the matrices are small; the bound omits terms of S */
}

/* Each rank of the grid has one position, and a node covers few rows and columns. */
static inline void check_grid(const struct plan *plan)
{
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        int row = schedule_row(plan, rank), col = schedule_col(plan, rank);
        assert_in_range(row, 0, plan->grid_rows - 1);
        assert_in_range(col, 0, plan->grid_cols - 1);
        assert_int_equal(schedule_rank(plan, row, col), rank);
        const struct stretch node = schedule_ranks(plan, schedule_node(plan, rank));
        assert_in_range(rank, node.first, node.end - 1);
        int64_t rows = 0, cols = 0;
        for (int line = 0; line < plan->grid_rows + plan->grid_cols; line++) {
            bool row_here = false, col_here = false;
            for (int other = node.first; other < node.end; other++) {
                row_here |= schedule_row(plan, other) == line;
                col_here |= schedule_col(plan, other) == line;
            }
            rows += row_here;
            cols += col_here;
        }
        assert_true(plan->triangle ||
                    (rows <= plan->node_lines[OPERAND_A] && cols <= plan->node_lines[OPERAND_B]));
    }
}

static inline void check_plan(const struct problem *p, const struct machine *m,
                              const struct plan *plan)
{
    assert_true(plan->device_bytes <= m->device_memory);
    assert_true(plan->host_bytes <= m->host_memory);
    assert_true(plan->grid_rows * plan->grid_cols <= m->ranks);
    assert_int_equal(plan->slab % GEMM_QUANTUM, 0);
    assert_int_equal(plan->slabs, problem_reads_ab(p) ? ceil_div(p->k, plan->slab) : 0);
    assert_true(plan->slots_in >= 4 && plan->slots_out >= 2);
    check_grid(plan);
    if (problem_is_triangle(p) || !p->symmetric)
        check_cover(p, plan);
    check_order(p, m, plan);
    check_traffic(p, m, plan);
    for (int64_t super = 0; super < schedule_supers(plan); super++) {
        struct block tile = schedule_tile(p, plan, 0, super);
        if (block_empty(&tile))
            continue;
        check_slabs(p, plan, &tile);
        check_strips(p, plan, &tile);
    }
}
