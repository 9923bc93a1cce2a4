/* What is left to do of C: rectangles, in the order in which they are to be multiplied.  At first
 * one, all of it.  Each is planned by itself, so that a run which was interrupted resumes with
 * whatever ranks and memory it has then.  Pure. */
#ifndef DGEMM_OOC_WORK_H
#define DGEMM_OOC_WORK_H

#include "plan.h"

enum {
    PIECES_MAX = 64,
    MORE_PIECES = 2, /* that one can turn into, beside itself */
    BLOCKS_MAX = 4 * PIECES_MAX,
};

enum { PLACES = 2 }; /* files of saved sums, which take turns (save.h) */

struct piece {
    struct block block; /* of C */
    int64_t k;          /* so much of k has been summed and saved; 0: nothing */
    int place;          /* where it was saved: 0 or 1 */
    bool hashed;        /* `sum` is known */
    uint64_t sum;       /* the checksum of what was saved (checksum.h) */
    bool again;         /* it failed its check once */
};

/* Plain data; the same on all ranks. */
struct work {
    struct piece pieces[PIECES_MAX];
    int count;
};

void work_begin(struct work *work, const struct problem *problem);

/* Whether all pieces are parts of C and of k, and none overlaps another. */
bool work_is_valid(const struct work *work, const struct problem *problem);

/* The problem that a piece is: its part of C, and what is left of k. */
struct problem work_problem(const struct problem *problem, const struct piece *piece);

/* Whether a piece is this block. */
bool work_has(const struct work *work, const struct block *tile);

/* Add a tile that failed its check.  False when there is no room for more. */
bool work_again(struct work *work, const struct block *tile);

/* What is complete of a part of C, in rectangles.  Their number; -1 when they are too many. */
int work_complete(const struct work *work, const struct block *part,
                  struct block blocks[BLOCKS_MAX]);

/* Put back what is complete of it: it was damaged.  False, and nothing changed, when that would be
 * too many pieces. */
bool work_put_back(struct work *work, const struct block *part);

/* Whether a piece has saved sums in that file. */
bool work_refers(const struct work *work, int place);

/* What is left when of the first piece's plan so many super-blocks are complete, and of the next
 * one k has been summed up to `saved->k` (0: nothing) and saved as `saved` says.  A piece with
 * saved sums has one super-block (work_split).  False, and nothing changed, when that would be too
 * many pieces. */
bool work_advance(struct work *work, const struct plan *plan, int64_t supers,
                  const struct piece *saved);

/* Make pieces of the first piece's first super-block and of what is beside and below it, none of
 * them hashed. */
bool work_split(struct work *work, const struct plan *plan);

/* The part of all multiplications that is done. */
double work_done(const struct work *work, const struct problem *problem);

#endif
