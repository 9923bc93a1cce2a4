#include "work.h"

#include <math.h>
#include <string.h>

#include "quantity.h"
#include "schedule.h"
#include "sums.h"
#include "triangle.h"

void work_begin(struct work *work, const struct problem *p)
{
    *work = (struct work){
        .pieces = {{.block = {0, 0, p->m, p->n}}},
        .count = 1,
        .symmetric = p->symmetric,
        .width = problem_width(p),
    };
}

static bool is_triangle(const struct work *work, const struct block *b)
{
    return work->symmetric && b->row * work->width == b->col;
}

static bool overlap(const struct block *x, const struct block *y)
{
    return x->row < y->row + y->rows && y->row < x->row + x->rows && x->col < y->col + y->cols &&
           y->col < x->col + x->cols;
}

/* Whether it is a triangle or below the diagonal. */
static bool fits_symmetric(const struct work *work, const struct block *b)
{
    return is_triangle(work, b) ? b->rows * work->width == b->cols
                                : b->row * work->width >= b->col + b->cols;
}

/* Whether each of the layers that have saved sums has more to do. */
static bool fits_in_k(const struct problem *p, const struct piece *piece)
{
    const int layers = piece->layers;
    const bool fits = layers > 1 && layers <= FOLD_BLOCKS && (layers & (layers - 1)) == 0;
    const int64_t blocks = fits && p->blocks.steps > 0 ? sums_layer_blocks(p, piece->layers) : 0;
    const int64_t last = (piece->layers - 1) * blocks * p->blocks.steps;
    return (piece->layers == 1 || blocks > 0) && piece->k < p->k - last;
}

bool work_is_valid(const struct work *work, const struct problem *p)
{
    if (work->symmetric && !problem_is_of_one_matrix(p))
        return false;
    for (int i = 0; i < work->count; i++) {
        const struct piece *piece = &work->pieces[i];
        const struct block *b = &piece->block;
        if (b->row > p->m - b->rows || b->col > p->n - b->cols ||
            (piece->k > 0 && !fits_in_k(p, piece)) || (work->symmetric && !fits_symmetric(work, b)))
            return false;
        for (int j = 0; j < i; j++)
            if (overlap(b, &work->pieces[j].block))
                return false;
    }
    return true;
}

struct problem work_problem(const struct problem *p, const struct piece *piece)
{
    struct problem part = *p;
    part.row = piece->block.row;
    part.col = piece->block.col;
    part.m = piece->block.rows;
    part.n = piece->block.cols;
    part.k_first = piece->k;
    part.k = p->k - piece->k;
    part.continues = piece->k > 0;
    return part;
}

static void add(struct work *work, struct block block, const struct piece *like)
{
    if (block_empty(&block))
        return;
    struct piece *piece = &work->pieces[work->count++];
    *piece = *like;
    piece->block = block;
}

/* The others stay behind what the first piece has become. */
static void add_others(struct work *work, const struct work *before)
{
    for (int i = 1; i < before->count; i++)
        add(work, before->pieces[i].block, &before->pieces[i]);
}

bool work_halve(struct work *work)
{
    const struct work before = *work;
    struct piece first = before.pieces[0];
    const struct block *b = &before.pieces[0].block;
    int64_t half = triangle_half(b->rows), rest = b->rows - half, width = work->width;
    if (rest == 0 || before.count + MORE_PIECES > PIECES_MAX)
        return false;
    work->count = 0;
    first.halved = first.k > 0;
    const struct block left = {b->row, b->col, half, half * width};
    add(work, left, &first);
    add(work, (struct block){b->row + half, b->col, rest, left.cols}, &first);
    add(work, (struct block){b->row + half, b->col + left.cols, rest, rest * width}, &first);
    add_others(work, &before);
    return true;
}

void work_drop(struct work *work)
{
    work->count--;
    memmove(&work->pieces[0], &work->pieces[1], (size_t)work->count * sizeof work->pieces[0]);
}

bool work_has(const struct work *work, const struct block *tile)
{
    for (int i = 0; i < work->count; i++)
        if (block_equal(&work->pieces[i].block, tile))
            return true;
    return false;
}

bool work_again(struct work *work, const struct block *tile)
{
    if (work->count == PIECES_MAX)
        return false;
    work->pieces[work->count++] = (struct piece){.block = *tile, .again = true};
    return true;
}

/* What is left of a block without another one, above, below and beside it; their number. */
static int subtract(const struct block *from, const struct block *hole, struct block parts[4])
{
    int64_t end = from->row + from->rows, right = from->col + from->cols;
    int64_t top = max_i64(from->row, hole->row), bottom = min_i64(end, hole->row + hole->rows);
    int64_t left = max_i64(from->col, hole->col),
            hole_right = min_i64(right, hole->col + hole->cols);
    if (top >= bottom || left >= hole_right) {
        parts[0] = *from;
        return 1;
    }
    const struct block around[] = {
        {from->row, from->col, top - from->row, from->cols},
        {top, from->col, bottom - top, left - from->col},
        {top, hole_right, bottom - top, right - hole_right},
        {bottom, from->col, end - bottom, from->cols},
    };
    int count = 0;
    for (int i = 0; i < 4; i++)
        if (!block_empty(&around[i]))
            parts[count++] = around[i];
    return count;
}

/* Take a block out of `blocks`.  Their number then, or -1 when there would be too many. */
static int take_out(struct block blocks[BLOCKS_MAX], int count, const struct block *hole)
{
    struct block before[BLOCKS_MAX];
    int left = 0;
    memcpy(before, blocks, sizeof before);
    for (int i = 0; i < count; i++) {
        if (left > BLOCKS_MAX - 4)
            return -1;
        left += subtract(&before[i], hole, &blocks[left]);
    }
    return left;
}

int work_complete(const struct work *work, const struct block *part,
                  struct block blocks[BLOCKS_MAX])
{
    int count = block_empty(part) ? 0 : 1;
    blocks[0] = *part;
    for (int i = 0; i < work->count && count > 0; i++) {
        const struct block *b = &work->pieces[i].block, mirror = triangle_mirror(b, work->width);
        count = take_out(blocks, count, b);
        if (work->symmetric && !is_triangle(work, b) && count > 0)
            count = take_out(blocks, count, &mirror);
    }
    return count;
}

bool work_put_back(struct work *work, const struct block *part)
{
    const struct piece anew = {0};
    struct block blocks[BLOCKS_MAX];
    int count = work_complete(work, part, blocks);
    if (count < 0 || count > PIECES_MAX - work->count)
        return false;
    for (int i = 0; i < count; i++)
        add(work, blocks[i], &anew);
    return true;
}

bool work_refers(const struct work *work, int place)
{
    for (int i = 0; i < work->count; i++)
        if (work->pieces[i].k > 0 && work->pieces[i].place == place)
            return true;
    return false;
}

/* The next super-block of the first piece's plan, and what comes after it. */
struct cut {
    struct block next, rest, below;
};

static struct cut cut_piece(const struct block *all, const struct plan *plan, int64_t supers)
{
    int64_t down = supers / plan->supers_across, across = schedule_across(plan, supers);
    int64_t height = plan->grid_rows * plan->tile_rows, width = plan->grid_cols * plan->tile_cols;
    int64_t top = min_i64(down * height, all->rows), bottom = min_i64(top + height, all->rows);
    int64_t left = min_i64(across * width, all->cols), right = min_i64(left + width, all->cols);
    return (struct cut){
        .next = {all->row + top, all->col + left, bottom - top, right - left},
        .rest = {all->row + top, down % 2 ? all->col : all->col + right, bottom - top,
                 down % 2 ? left : all->cols - right},
        .below = {all->row + bottom, all->col, all->rows - bottom, all->cols},
    };
}

bool work_advance(struct work *work, const struct plan *plan, int64_t supers,
                  const struct piece *saved)
{
    const struct work before = *work;
    const struct piece *first = &before.pieces[0];
    bool complete = supers == schedule_supers(plan);
    if (!complete && before.count + MORE_PIECES > PIECES_MAX)
        return false;
    work->count = 0;
    if (supers == 0 && saved->k == 0) {
        add(work, first->block, first);
    } else if (!complete) {
        struct cut cut = cut_piece(&first->block, plan, supers);
        if (saved->k == 0) { /* one piece with the rest of the row */
            cut.rest.col = min_i64(cut.rest.cols ? cut.rest.col : cut.next.col, cut.next.col);
            cut.rest.cols += cut.next.cols;
        } else {
            add(work, cut.next, saved);
        }
        add(work, cut.rest, first);
        add(work, cut.below, first);
    }
    add_others(work, &before);
    return true;
}

bool work_split(struct work *work, const struct plan *plan)
{
    const struct work before = *work;
    struct piece part = before.pieces[0];
    struct cut cut = cut_piece(&part.block, plan, 0);
    if (before.count + MORE_PIECES > PIECES_MAX)
        return false;
    part.hashed = false;
    work->count = 0;
    add(work, cut.next, &part);
    add(work, cut.rest, &part);
    add(work, cut.below, &part);
    add_others(work, &before);
    return true;
}

double work_done(const struct work *work, const struct problem *p)
{
    double left = 0, all = problem_products(p);
    for (int i = 0; i < work->count; i++) {
        const struct problem part = work_problem(p, &work->pieces[i]);
        const double done = (double)work->pieces[i].k * fmax(1, work->pieces[i].layers);
        double k_left = p->k > 0 ? fmax(0, 1 - done / (double)p->k) : 1;
        left += problem_products(&part) * k_left;
    }
    return all > 0 ? 1 - left / all : 0;
}
