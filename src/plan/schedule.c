#include "schedule.h"

#include "embedding.h"
#include "quantity.h"
#include "schedule_impl.h"
#include "triangle.h"

int64_t schedule_supers(const struct plan *plan)
{
    return plan->supers_down * plan->supers_across;
}

/* Grid rows and columns come in blocks of block_rows x block_cols, row by row. */
int schedule_row(const struct plan *plan, int rank)
{
    int block = rank / (plan->block_rows * plan->block_cols),
        across = plan->grid_cols / plan->block_cols;
    return block / across * plan->block_rows +
           rank % (plan->block_rows * plan->block_cols) / plan->block_cols;
}

int schedule_col(const struct plan *plan, int rank)
{
    int block = rank / (plan->block_rows * plan->block_cols),
        across = plan->grid_cols / plan->block_cols;
    return block % across * plan->block_cols + rank % plan->block_cols;
}

int schedule_rank(const struct plan *plan, int row, int col)
{
    int across = plan->grid_cols / plan->block_cols;
    int block = row / plan->block_rows * across + col / plan->block_cols;
    return block * plan->block_rows * plan->block_cols + row % plan->block_rows * plan->block_cols +
           col % plan->block_cols;
}

int schedule_node(const struct plan *plan, int rank)
{
    return rank / plan->ranks_per_node;
}

struct stretch schedule_ranks(const struct plan *plan, int node)
{
    int64_t all = (int64_t)plan->grid_rows * plan->grid_cols,
            begin = (int64_t)node * plan->ranks_per_node;
    return (struct stretch){(int)min_i64(begin, all),
                            (int)min_i64(begin + plan->ranks_per_node, all)};
}

int64_t schedule_across(const struct plan *plan, int64_t super)
{
    int64_t across = super % plan->supers_across;
    return super / plan->supers_across % 2 ? plan->supers_across - 1 - across : across;
}

static void cut(int64_t extent, int64_t size, int64_t index, int64_t *start, int64_t *length)
{
    *start = min_i64(index * size, extent);
    *length = min_i64(size, extent - *start);
}

struct block schedule_triangle(const struct problem *p, const struct plan *plan, int rank)
{
    return triangle_tile(p, plan, schedule_row(plan, rank), schedule_col(plan, rank));
}

struct block schedule_tile(const struct problem *p, const struct plan *plan, int rank,
                           int64_t super)
{
    struct block tile = {0};
    if (rank >= plan->grid_rows * plan->grid_cols)
        return tile;
    if (problem_is_triangle(p))
        return schedule_triangle(p, plan, rank);
    int64_t down = super / plan->supers_across, across = schedule_across(plan, super);
    cut(p->m, plan->tile_rows, down * plan->grid_rows + schedule_row(plan, rank), &tile.row,
        &tile.rows);
    cut(p->n, plan->tile_cols, across * plan->grid_cols + schedule_col(plan, rank), &tile.col,
        &tile.cols);
    tile.row += p->row;
    tile.col += p->col;
    return tile;
}

/* Steps of k up to the end of the block of sums that is at work. */
static int64_t steps_of_first(const struct problem *p)
{
    return p->blocks.steps == 0
               ? p->k
               : min_i64(p->k, p->blocks.steps - (p->k_first - p->blocks.origin) % p->blocks.steps);
}

/* Slabs of these steps, the first of which may be shorter. */
static int64_t slabs_of_first(const struct problem *p, const struct plan *plan)
{
    return ceil_div(steps_of_first(p) + plan->slab_short, plan->slab);
}

int64_t schedule_slabs(const struct problem *p, const struct plan *plan)
{
    const int64_t more = p->k - steps_of_first(p);
    int64_t slabs = slabs_of_first(p, plan);
    if (more > 0)
        slabs += more / p->blocks.steps * ceil_div(p->blocks.steps, plan->slab) +
                 ceil_div(more % p->blocks.steps, plan->slab);
    return slabs;
}

struct slab schedule_slab(const struct problem *p, const struct plan *plan, int64_t slab)
{
    const int64_t head = steps_of_first(p), of_head = slabs_of_first(p, plan);
    int64_t start = slab * plan->slab - plan->slab_short, begin = 0, end = head;
    if (slab >= of_head && p->blocks.steps > 0) {
        const int64_t each = ceil_div(p->blocks.steps, plan->slab);
        begin = head + (slab - of_head) / each * p->blocks.steps;
        end = min_i64(p->k, begin + p->blocks.steps);
        start = begin + (slab - of_head) % each * plan->slab;
    }
    const int64_t next = min_i64(start + plan->slab, end);
    start = min_i64(max_i64(start, begin), end);
    const int64_t done = p->k_first + start - p->blocks.origin;
    return (struct slab){.first = p->k_first + start,
                         .size = next - start,
                         .block = p->blocks.steps > 0 ? done / p->blocks.steps : 0,
                         .begins = p->blocks.steps > 0 ? done % p->blocks.steps == 0 : done == 0,
                         .ends = next == end};
}

struct block schedule_factor(const struct problem *p, const struct plan *plan, enum operand operand,
                             const struct block *tile, int64_t slab)
{
    const struct slab k = schedule_slab(p, plan, slab);
    struct block panel = operand == OPERAND_A
                             ? (struct block){tile->row, k.first, tile->rows, k.size}
                             : (struct block){k.first, tile->col, k.size, tile->cols};
    if (p->trans[operand])
        panel = (struct block){panel.col, panel.row, panel.cols, panel.rows};
    return panel;
}

/* From a tile of a triangle's first column to its last row, as columns. */
static int64_t tile_columns(const struct problem *p, const struct block *tile)
{
    return (tile->row + tile->rows) * problem_width(p) - tile->col;
}

struct block schedule_panel(const struct problem *p, const struct plan *plan, enum operand operand,
                            const struct block *tile, int64_t slab)
{
    struct block all = *tile;
    if (operand == OPERAND_B && plan_one_panel(plan))
        all.cols = tile_columns(p, tile);
    const struct block factor = schedule_factor(p, plan, operand, &all, slab);
    return embedding_in_file(p, operand, &factor);
}

struct block schedule_line_panel(const struct problem *p, const struct plan *plan,
                                 enum operand operand, const struct block *tile, int64_t slab)
{
    const struct block whole = {p->row, p->col, p->m, p->n};
    return schedule_panel(p, plan, operand, problem_is_triangle(p) ? &whole : tile, slab);
}

struct block schedule_strip(const struct problem *p, const struct plan *plan,
                            const struct block *tile, int64_t index)
{
    int64_t start, rows, cols = tile->cols;
    cut(tile->rows, plan->strip_rows, index, &start, &rows);
    if (problem_is_triangle(p))
        cols = triangle_columns(p, tile, tile->row + start + rows - 1);
    return (struct block){tile->row + start, tile->col, rows, cols};
}

struct block schedule_mirror(const struct problem *p, const struct plan *plan,
                             const struct block *tile, int64_t index, int part)
{
    const struct block strip = schedule_strip(p, plan, tile, index);
    const int64_t width = problem_width(p), square = strip.row * width; /* where it begins */
    int64_t right = strip.col + strip.cols, bottom = strip.row + strip.rows, below = right / width;
    struct block of = {0};
    if (p->symmetric && part == 0)
        of = (struct block){strip.row, strip.col, strip.rows,
                            max_i64(0, min_i64(right, square) - strip.col)};
    else if (p->symmetric && right > square && below < bottom)
        of = (struct block){below, square, bottom - below, right - square};
    return triangle_mirror(&of, width);
}

struct block schedule_square(const struct problem *p, const struct plan *plan,
                             const struct block *tile, int64_t index)
{
    const struct block strip = schedule_strip(p, plan, tile, index);
    const int64_t width = problem_width(p), square = strip.row * width;
    int64_t cols = max_i64(0, strip.col + strip.cols - square);
    if (!problem_is_triangle(p))
        cols = 0;
    return (struct block){strip.row, square, cols / width, cols};
}

double schedule_multiplied(const struct problem *p, const struct plan *plan,
                           const struct block *tile)
{
    double elements = 0;
    if (!problem_is_triangle(p))
        return (double)tile->rows * (double)tile->cols;
    for (int64_t i = 0; i < schedule_strips(plan, tile); i++) {
        struct block strip = schedule_strip(p, plan, tile, i);
        elements += (double)(strip.rows * strip.cols);
    }
    return elements;
}

double schedule_written(const struct problem *p, const struct plan *plan, const struct block *tile)
{
    double elements = schedule_multiplied(p, plan, tile);
    if (!problem_mirrors(p))
        return elements;
    if (!problem_is_triangle(p))
        return 2 * elements;
    for (int64_t i = 0; i < MIRRORS * schedule_strips(plan, tile); i++) {
        struct block mirror = schedule_mirror(p, plan, tile, i / MIRRORS, (int)(i % MIRRORS));
        elements += (double)(mirror.rows * mirror.cols);
    }
    return elements;
}

int64_t schedule_lines(const struct problem *p, const struct plan *plan, enum operand operand,
                       const struct block *tile)
{
    if (!plan->triangle)
        return operand == OPERAND_A ? tile->rows : tile->cols;
    int64_t both =
        plan_one_panel(plan) ? tile_columns(p, tile) : tile->cols + tile->rows * problem_width(p);
    return operand == OPERAND_A ? 0 : both;
}

double schedule_products(const struct problem *p, const struct block *rows)
{
    return problem_is_triangle(p) ? triangle_area(rows, problem_width(p))
                                  : problem_passes(p) * (double)rows->rows * (double)rows->cols;
}

int64_t schedule_strips(const struct plan *plan, const struct block *tile)
{
    return block_empty(tile) ? 0 : ceil_div(tile->rows, plan->strip_rows);
}

int schedule_server(const struct plan *plan, int ranks, int node, const struct transfer *t)
{
    int64_t first = (int64_t)node * plan->ranks_per_node;
    int64_t there = min_i64(plan->ranks_per_node, ranks - first);
    return (int)(first + (t->line + t->slab + t->part) % there);
}

struct block schedule_next_tile(const struct problem *p, const struct plan *plan, int rank,
                                int64_t *super)
{
    struct block tile = {0};
    while (block_empty(&tile) && *super < schedule_supers(plan))
        tile = schedule_tile(p, plan, rank, (*super)++);
    return tile;
}

bool schedule_held(const struct plan *plan, enum operand operand, const struct block *before,
                   const struct block *tile)
{
    bool same = operand == OPERAND_A ? before->row == tile->row : before->col == tile->col;
    return plan_holds(plan, operand) && !block_empty(before) && same;
}

/* The rank's last tile before a super-block; empty when there is none. */
static struct block tile_before(const struct problem *p, const struct plan *plan, int rank,
                                int64_t super)
{
    struct block tile = {0};
    while (block_empty(&tile) && super > 0)
        tile = schedule_tile(p, plan, rank, --super);
    return tile;
}

bool schedule_needs(const struct problem *p, const struct plan *plan, enum operand operand,
                    int rank, int64_t super)
{
    struct block tile = schedule_tile(p, plan, rank, super);
    if (block_empty(&tile) || plan->slabs == 0 || !problem_has_panels(p, operand))
        return false;
    if (!plan_holds(plan, operand))
        return true;
    struct block before = tile_before(p, plan, rank, super);
    return !schedule_held(plan, operand, &before, &tile);
}

int schedule_line(const struct plan *plan, enum operand operand, int rank)
{
    if (plan->triangle) /* all ranks share one panel */
        return 0;
    return operand == OPERAND_A ? schedule_row(plan, rank) : schedule_col(plan, rank);
}

int schedule_users(const struct problem *p, const struct plan *plan, enum operand operand, int node,
                   int line, int64_t super)
{
    const struct stretch ranks = schedule_ranks(plan, node);
    int users = 0;
    for (int rank = ranks.first; rank < ranks.end; rank++)
        users += schedule_line(plan, operand, rank) == line &&
                 schedule_needs(p, plan, operand, rank, super);
    return users;
}

int64_t schedule_kept_index(const struct plan *plan, enum operand operand, int64_t super,
                            int64_t slab)
{
    int64_t index = operand == OPERAND_A ? slab : schedule_across(plan, super) * plan->slabs + slab;
    return index < plan->kept[operand] ? index : -1;
}

int64_t schedule_tiles_across(const struct problem *p, const struct plan *plan, int node, int row)
{
    const struct stretch ranks = schedule_ranks(plan, node);
    int left = plan->grid_cols;
    for (int rank = ranks.first; rank < ranks.end; rank++)
        if (schedule_row(plan, rank) == row)
            left = (int)min_i64(left, schedule_col(plan, rank));
    return ceil_div(ceil_div(p->n, plan->tile_cols) - left, plan->grid_cols);
}

bool schedule_had(const struct problem *p, const struct plan *plan, enum operand operand, int node,
                  int line, int64_t super)
{
    int64_t down = super / plan->supers_across, across = schedule_across(plan, super);
    if (operand == OPERAND_B)
        return down > 0;
    return down % 2 ? across + 1 < schedule_tiles_across(p, plan, node, line) : across > 0;
}

static int line_length(const struct plan *plan, enum operand operand)
{
    if (plan->triangle)
        return plan->grid_rows * plan->grid_cols;
    return operand == OPERAND_A ? plan->grid_cols : plan->grid_rows;
}

int schedule_rank_in_line(const struct plan *plan, enum operand operand, int line, int at)
{
    if (plan->triangle)
        return at;
    return operand == OPERAND_A ? schedule_rank(plan, line, at) : schedule_rank(plan, at, line);
}

struct ring schedule_ring(const struct problem *p, const struct plan *plan,
                          const struct transfer *panel, int node)
{
    const enum operand operand = panel->operand;
    const int64_t super = panel->super;
    const int line = panel->line;
    bool kept = schedule_kept_index(plan, operand, super, panel->slab) >= 0;
    struct ring ring = {.at = -1};
    int seen = -1, first = -1, last = -1;
    for (int at = 0; at < line_length(plan, operand); at++) {
        int rank = schedule_rank_in_line(plan, operand, line, at), here = schedule_node(plan, rank);
        if (here == seen || !schedule_needs(p, plan, operand, rank, super))
            continue;
        seen = here; /* along a line each node's ranks come together */
        if (kept && schedule_had(p, plan, operand, here, line, super))
            continue;
        if (here == node) {
            ring.at = ring.count;
            ring.before = last;
        }
        if (last == node)
            ring.after = here;
        first = ring.count++ ? first : here;
        last = here;
    }
    if (ring.at == 0)
        ring.before = last;
    if (last == node)
        ring.after = first;
    return ring;
}

struct block_cut schedule_cut(const struct problem *p, const struct plan *plan,
                              enum operand operand)
{
    const struct matrix *matrix = &p->matrix[operand];
    return (struct block_cut){plan_slot_elements(p, plan, operand), matrix->chunk_rows,
                              matrix->chunk_cols};
}

int64_t schedule_k(const struct problem *p, const struct plan *plan, int64_t slabs)
{
    return slabs > 0 ? schedule_slab(p, plan, slabs).first - p->k_first : 0;
}

struct traffic schedule_traffic(const struct problem *p, const struct plan *plan, int rank)
{
    struct traffic t = {0};
    const double c = (double)problem_element(p, OPERAND_C);
    double copied = 0, written = 0, products = 0;
    struct block last = {0};
    int64_t k = plan->slabs ? p->k : 0;
    for (int64_t super = 0; super < schedule_supers(plan); super++) {
        struct block tile = schedule_tile(p, plan, rank, super);
        if (block_empty(&tile))
            continue;
        for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
            if (!schedule_held(plan, i, &last, &tile) &&
                (plan->triangle || problem_has_panels(p, i)))
                copied += (double)(schedule_lines(p, plan, i, &tile) * k) * embedding_stored(p, i) *
                          (double)problem_element(p, i);
        double out = schedule_written(p, plan, &tile);
        if (problem_reads_c(p))
            copied += c * out;
        written += out;
        products += schedule_products(p, &tile);
        last = tile;
    }
    t.in_bytes = copied;
    t.out_bytes = c * written;
    t.write_bytes = (double)problem_written_element(p) * written;
    t.flops = plan->slabs > 0 ? 2 * products * (double)p->k : 0;
    return t;
}

/* The rows or columns of C that a line of the grid has in a super-block. */
static int64_t line_extent(const struct problem *p, const struct plan *plan, enum operand operand,
                           int line, int64_t super)
{
    struct block tile =
        schedule_tile(p, plan, schedule_rank_in_line(plan, operand, line, 0), super);
    if (problem_is_triangle(p))
        return operand == OPERAND_B && line == 0 ? p->n : 0;
    return operand == OPERAND_A ? tile.rows : tile.cols;
}

/* Add what one line of the grid gets in one super-block, in bytes: the panels of all slabs. */
static void add_line(const struct problem *p, const struct plan *plan, struct transfer panel,
                     double *read, double *sent)
{
    const enum operand operand = panel.operand;
    int64_t before = operand == OPERAND_A ? 0 : schedule_across(plan, panel.super) * plan->slabs;
    int64_t kept = min_i64(max_i64(plan->kept[operand] - before, 0), plan->slabs);
    int64_t k_kept = schedule_k(p, plan, kept);
    int64_t extent = line_extent(p, plan, operand, panel.line, panel.super);
    const int64_t size[] = {extent * k_kept, extent * (p->k - k_kept)};
    const int64_t slab[] = {0, kept};
    for (int i = 0; i < 2; i++) {
        if (size[i] == 0)
            continue;
        panel.slab = slab[i];
        struct ring ring = schedule_ring(p, plan, &panel, -1);
        const double bytes =
            (double)size[i] * embedding_stored(p, operand) * (double)problem_element(p, operand);
        *read += ring.count ? bytes : 0;
        *sent += ring.count ? bytes * (ring.count - 1) : 0;
    }
}

/* Elements of C0 that all ranks read: as many as they write. */
static double c0_elements(const struct problem *p, const struct plan *plan)
{
    double elements = 0;
    if (!problem_reads_c(p))
        return 0;
    if (!p->lower || !problem_is_triangle(p))
        return problem_elements(p);
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        struct block tile = schedule_triangle(p, plan, rank);
        elements += schedule_written(p, plan, &tile);
    }
    return elements;
}

void schedule_shared(const struct problem *p, const struct plan *plan, double *read, double *sent)
{
    *read = c0_elements(p, plan) * (double)problem_element(p, OPERAND_C);
    *sent = 0;
    for (int64_t super = 0; super < schedule_supers(plan) && plan->slabs; super++) {
        for (int row = 0; row < plan->grid_rows; row++)
            add_line(p, plan, (struct transfer){OPERAND_A, .line = row, .super = super}, read,
                     sent);
        for (int col = 0; col < plan->grid_cols; col++)
            add_line(p, plan, (struct transfer){OPERAND_B, .line = col, .super = super}, read,
                     sent);
    }
}
