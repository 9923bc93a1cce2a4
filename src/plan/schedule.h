/* The order of all work, as pure functions of the plan.
 *
 * Super-blocks go in serpentine order, so that at each turn one panel is the one before; within
 * a tile slabs go in ascending k.  The ranks of a node share what they read: one sequence of
 * transfers for each node (struct cursor), in which every panel comes once, for all the node's
 * ranks in that row of the grid (A) or column (B).  Each rank takes its part of the sequence in the
 * same order, so that no two of them can wait for each other.  A panel that several nodes need is
 * read in turns by them, and each part goes round from node to node: in at most once, out at most
 * once. */
#pragma once

#include "plan.h"

/* [first, end) */
struct stretch {
    int first, end;
};

/* Super-blocks of the whole of C; 1 or more for a plan that was made. */
int64_t schedule_supers(const struct plan *plan);

/* Where a rank is in the grid, and who is there.  The ranks of a node are a block of it where they
 * can be, so that few nodes share a panel. */
int schedule_row(const struct plan *plan, int rank);
int schedule_col(const struct plan *plan, int rank);
int schedule_rank(const struct plan *plan, int row, int col);
int schedule_node(const struct plan *plan, int rank);

/* The node's ranks that are in the grid. */
struct stretch schedule_ranks(const struct plan *plan, int node);

/* The tile of C that `rank` holds in super-block `super`; rows or cols are 0 where it lies
 * outside C or the rank is not in the grid. */
struct block schedule_tile(const struct problem *p, const struct plan *plan, int rank,
                           int64_t super);

/* That of a triangle, which is one super-block. */
struct block schedule_triangle(const struct problem *p, const struct plan *plan, int rank);

/* The part of op(A) or op(B) that the tile is multiplied by in one slab, transposed as its file
 * is. */
struct block schedule_factor(const struct problem *p, const struct plan *plan, enum operand operand,
                             const struct block *tile, int64_t slab);

/* What the file has for it: the panel of A or B, in the coordinates of its file. */
struct block schedule_panel(const struct problem *p, const struct plan *plan, enum operand operand,
                            const struct block *tile, int64_t slab);

/* The panel that all ranks of the tile's line of the grid share: the tile's own, but in a triangle,
 * where each rank needs a part of it. */
struct block schedule_line_panel(const struct problem *p, const struct plan *plan,
                                 enum operand operand, const struct block *tile, int64_t slab);

/* Slabs of a problem.  None crosses the end of a block of sums (sums.h). */
int64_t schedule_slabs(const struct problem *p, const struct plan *plan);

/* One of them. */
struct slab {
    int64_t first, size; /* of k, in the coordinates of the whole product */
    int64_t block;       /* of sums, from the problem's blocks.origin on */
    bool begins, ends;   /* it is the first, the last of its block */
};
struct slab schedule_slab(const struct problem *p, const struct plan *plan, int64_t slab);

/* Of k, what the first `slabs` slabs hold. */
int64_t schedule_k(const struct problem *p, const struct plan *plan, int64_t slabs);

/* Strip `index` of a tile, the rows that leave the device together; empty beyond the last. */
struct block schedule_strip(const struct problem *p, const struct plan *plan,
                            const struct block *tile, int64_t index);
int64_t schedule_strips(const struct plan *plan, const struct block *tile);

/* Where the mirror of a strip of a symmetric product goes, in two parts: that of its columns left
 * of the square of its own rows and, where the tile ends within that square, that of its rows below
 * the row of the tile's last column, in the square's columns.  Empty where there is nothing.  They
 * are written where problem_mirrors. */
enum { MIRRORS = 2 };
struct block schedule_mirror(const struct problem *p, const struct plan *plan,
                             const struct block *tile, int64_t index, int part);

/* The square of a strip's own rows, as far as the tile has it: it is multiplied out, also above the
 * diagonal.  Empty where the strip ends before the diagonal. */
struct block schedule_square(const struct problem *p, const struct plan *plan,
                             const struct block *tile, int64_t index);

/* Rows of op(A), or columns of op(B), that a tile's device gets of a panel.  Of a triangle's, which
 * serves both, all count as columns of op(B). */
int64_t schedule_lines(const struct problem *p, const struct plan *plan, enum operand operand,
                       const struct block *tile);

/* Elements of a tile that the kernels compute; that are written, with the mirrors that are; and of
 * some of its rows, those that are asked for: on and below the diagonal. */
double schedule_multiplied(const struct problem *p, const struct plan *plan,
                           const struct block *tile);
double schedule_written(const struct problem *p, const struct plan *plan, const struct block *tile);
double schedule_products(const struct problem *p, const struct block *rows);

/* The rank's first tile in super-block *super or later, and *super set behind it; empty at the
 * end. */
struct block schedule_next_tile(const struct problem *p, const struct plan *plan, int rank,
                                int64_t *super);

/* Whether the tile finds its panels of A or B on the device, all of which the tile before it has
 * left there: it is in the same row of C, or column, and there are buffers for all of k.  `before`
 * is empty for the first tile. */
bool schedule_held(const struct plan *plan, enum operand operand, const struct block *before,
                   const struct block *tile);

/* The super-block's column. */
int64_t schedule_across(const struct plan *plan, int64_t super);

/* Whether the rank's tile in that super-block wants its panels of A or B from the host. */
bool schedule_needs(const struct problem *p, const struct plan *plan, enum operand operand,
                    int rank, int64_t super);

/* How what is read of an operand is cut into slots. */
struct block_cut schedule_cut(const struct problem *p, const struct plan *plan,
                              enum operand operand);

/* One slot's worth of a matrix, on its way to a node. */
struct transfer {
    enum operand operand;
    struct block block;
    int line;            /* row of the grid, for A; column, for B; rank, for C0 */
    int64_t super, slab; /* of A and B */
    int64_t step;        /* of A and B: the one before whose product it is taken */
    int64_t part;        /* which of its panel */
    int users;           /* the node's ranks that copy it */
    int from; /* the node that it comes from; -1: none, it is read, or is there already */
    int to;   /* the node that it goes on to; -1: none */
    /* Of a panel that the host keeps for later tiles (cache.h): */
    struct block whole; /* all of it */
    int64_t parts;      /* in which it comes */
    int64_t skip;       /* elements in the parts before this one */
    int64_t kept;       /* its place among those that are kept; -1: it is not */
    int64_t uses;       /* how often it comes again before another takes its place; of A */
    bool again;         /* it is there already, nothing is read */
};

/* Of the nodes that have ranks in a line of the grid (a row for A, a column for B), those which a
 * slab's panel comes to from the disk: some of their ranks need it, and they do not keep it.  In
 * their order along the line they form a ring, in which each part of the panel goes round. */
struct ring {
    int count;         /* nodes */
    int at;            /* the place of one of them, from 0; -1: it is none of them */
    int before, after; /* that node's neighbours; itself where it is alone */
};

/* The ring of a panel, of which `panel` states operand, line, super and slab, with the place of a
 * node in it. */
struct ring schedule_ring(const struct problem *p, const struct plan *plan,
                          const struct transfer *panel, int node);

/* Of a node's ranks, of `ranks` in the layer, the one that sends it to other nodes or gets it from
 * them. */
int schedule_server(const struct plan *plan, int ranks, int node, const struct transfer *t);

/* Whether it is for that rank of the node, too. */
bool schedule_is_for(const struct problem *p, const struct plan *plan, const struct transfer *t,
                     int rank);

/* Steps before a slab of a super-block, of all super-blocks in turn. */
static inline int64_t schedule_step(const struct plan *plan, int64_t super, int64_t slab)
{
    return super * plan->slabs + slab;
}

/* All transfers that come to a node, in order.  A step's panels are those of B, then those of A,
 * which may be ahead (plan_lead).  All are taken before the product of their step, which is the one
 * that needs them or an earlier one: those of a tile's first slab before C0 of the tile before, so
 * that the pipeline does not run empty while a tile leaves the device.  Panels of one operand for
 * several lines of the grid come in turns, part by part.  Of two panels all nodes that need both
 * get the same one first. */
struct cursor {
    const struct problem *problem;
    const struct plan *plan;
    int node;
    struct stretch lines[2]; /* of the grid, of A and of B, in which the node has ranks */
    int64_t super;           /* the super-block at work */
    int64_t stage, part;     /* within the super-block; of what comes in the stage */
    int line;                /* the one to look at next, from the node's first */
    int64_t number;          /* of the newest transfer; -1 before the first */
    struct transfer newest;
};

/* Begin before the first transfer that comes to the node.  The cursor keeps both pointers. */
void cursor_start(struct cursor *cursor, const struct problem *p, const struct plan *plan,
                  int node);

/* False at the end. */
bool cursor_next(struct cursor *cursor, struct transfer *transfer);

/* What a rank copies, computes and writes in the whole run. */
struct traffic schedule_traffic(const struct problem *p, const struct plan *plan, int rank);

/* Bytes that all nodes together read from files; those that they send each other. */
void schedule_shared(const struct problem *p, const struct plan *plan, double *read, double *sent);
