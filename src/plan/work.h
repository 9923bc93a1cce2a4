/* What is left to do of C: pieces, in the order in which they are to be multiplied; at first one,
 * which is all of C.  Each piece is planned by itself, so that an interrupted run can resume on
 * other ranks and with other memory.  Pure. */
#pragma once

#include "plan.h"

enum {
    PIECES_MAX = 64,
    MORE_PIECES = 2, /* pieces that one can be cut into, beside itself */
    BLOCKS_MAX = 4 * PIECES_MAX,
};

enum { PLACES = 2 }; /* files of saved sums, which are used in turn (save.h) */

struct piece {
    struct block block; /* of C */
    int64_t k;          /* steps that are in its saved sums, of each layer; 0: there are none */
    int layers;         /* of ranks, which have saved these */
    int place;          /* where it was saved: 0 or 1 */
    bool hashed;        /* `sum` is known */
    uint64_t sum;       /* the checksum of what was saved (checksum.h) */
    bool again;         /* it failed its check once */
    bool sampled;       /* its sums are of shifts that no means were known for (statistics.h) */
    bool halved;        /* `sum` is that of the triangle that it was a part of when it was saved */
};

/* Plain data; the same on all ranks. */
struct work {
    struct piece pieces[PIECES_MAX];
    int count;
    bool symmetric; /* each piece is a triangle, or a rectangle that stands for its mirror, too */
    int64_t width;  /* columns of an element (problem_width) */
};

/* All of the product is left, in one piece. */
void work_begin(struct work *work, const struct problem *problem);

/* Whether all pieces are parts of C and of k, and none overlaps another. */
bool work_is_valid(const struct work *work, const struct problem *problem);

/* Halve the first piece, a triangle, into two triangles and the rectangle between them.  The saved
 * sums of a triangle are those of the whole square, so that they serve all three.  False, and
 * nothing is changed, where it is a single element, or that would be too many pieces. */
bool work_halve(struct work *work);

/* Take the first piece out. */
void work_drop(struct work *work);

/* A piece as a problem of its own: its part of C, and what is left of k. */
struct problem work_problem(const struct problem *problem, const struct piece *piece);

/* Whether a piece is this block. */
bool work_has(const struct work *work, const struct block *tile);

/* Add a tile that failed its check.  False when there is no room for more. */
bool work_again(struct work *work, const struct block *tile);

/* Find the rectangles of a part of C that are complete.  Returns their number, or -1 when there are
 * too many. */
int work_complete(const struct work *work, const struct block *part,
                  struct block blocks[BLOCKS_MAX]);

/* Add what is complete of a part of C, which was damaged, to what is left.  False, and nothing is
 * changed, when that would be too many pieces. */
bool work_put_back(struct work *work, const struct block *part);

/* Whether a piece has saved sums in that file. */
bool work_refers(const struct work *work, int place);

/* Take out what is complete: the first `supers` super-blocks of the first piece's plan.  Of the
 * next super-block k has been summed up to `saved->k` (0: not at all) and saved as `saved` states.
 * A piece with saved sums has one super-block (work_split).  False, and nothing is changed, when
 * that would be too many pieces. */
bool work_advance(struct work *work, const struct plan *plan, int64_t supers,
                  const struct piece *saved);

/* Cut the first piece into its first super-block and what is beside and below that; none of them is
 * hashed. */
bool work_split(struct work *work, const struct plan *plan);

/* The part of all multiplications that is done. */
double work_done(const struct work *work, const struct problem *problem);
