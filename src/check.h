/* The online check of the product (after Freivalds): while the panels of a tile are on the
 * device, y = op(A) (op(B) x) is accumulated from the very same bytes for a vector x of signs,
 * and at the end acc x is compared with y.
 *
 * The limit is proven, not fitted.  With unit roundoff u of the product's type and v of double,
 * sums of k products in any order obey |acc - op(A) op(B)| <= k u |op(A)| |op(B)|, and the two
 * sides are evaluated in double with at most (2n + k) v of the same |op(A)| |op(B)| |x|, which
 * is accumulated too (Higham, Accuracy and Stability, 3.1 and 3.5; second-order terms are
 * covered by a factor 1.01).  So in every row
 *     |acc x - y| <= limit * u |op(A)| |op(B)| |x|,   limit = 1.01 (k + (2n + k) v / u). */
#ifndef DGEMM_OOC_CHECK_H
#define DGEMM_OOC_CHECK_H

#include "plan.h"

struct device;
struct event;
struct error;
struct tiles;

enum {
    CHECK_SUMS = 2,      /* vectors that grow with k: y and |y| */
    CHECK_AGAIN_MAX = 4, /* tiles of a rank that may fail before its device is not trusted */
};

struct check {
    bool on;
    const struct problem *problem;
    const struct plan *plan;
    struct device *device;
    double *x, *t, *rows; /* device: x; op(B) x and |op(B)| |x|; y, |y| and acc x */
    double *host;         /* pinned: x, then y, |y| and acc x */
    struct event *ready;  /* x is on the device */
    struct event *summed; /* the tile's sums are complete, and x is free */
    struct event *done;   /* they are on the host */
    struct block tile;    /* that is being multiplied */
    struct block judged;  /* whose sums are on their way to the host; empty when none is */

    struct tiles *tiles; /* set by the caller: to be told of every tile; may be null */

    bool patient; /* a tile that fails is noted, to be multiplied again, and no error yet */
    struct block failed[CHECK_AGAIN_MAX];
    int failures;
    double failed_residual; /* the largest of theirs */

    double residual;    /* largest |acc x - y| / (u |A||B||x|) so far */
    double limit;       /* that it may have */
    int64_t not_finite; /* rows of tiles with NaN, Inf or overflow in |A||B|: not judged */
};

/* +1 or -1 for a column of C, the same in every run. */
double check_sign(int64_t col);

/* The unit roundoff. */
double check_roundoff(enum scalar type);

/* That a residual may have. */
double check_limit(const struct problem *p);

/* `memory`: plan_check_bytes of device memory, which stay the caller's; null: no check. */
int check_open(struct check *check, const struct problem *p, const struct plan *plan,
               struct device *device, void *memory, struct error *err);
void check_close(struct check *check);

/* Of a tile: before its first slab, and after the products of each slab.  Before that, of the last
 * slab: after the product of some of its rows, the first of which `acc` points to.  These only
 * enqueue work on the device. */
int check_begin(struct check *check, const struct block *tile, struct error *err);
int check_rows(struct check *check, const struct block *rows, const void *acc, struct error *err);
int check_slab(struct check *check, int64_t slab, const void *panel_a, const void *panel_b,
               struct error *err);

/* With every strip of a tile that leaves, in order and after its products: take their sums to the
 * host.  Strips of the next tile may follow in its place, whole slabs only after the last one.  The
 * sums are judged when the next tile leaves, or by check_judge. */
int check_leave(struct check *check, const struct block *tile, const struct block *strip,
                struct error *err);

/* The sums of this tile begin with what has been saved of it: after check_begin, once `acc` is on
 * the device. */
int check_resume(struct check *check, const void *acc, struct error *err);

/* Compare the tile's sums as they are after a slab. */
int check_now(struct check *check, const void *acc, struct error *err);

/* Wait for the sums of the tile that ended last and compare them.  A row beyond the limit:
 * EXIT_VERIFY, or one more failure. */
int check_judge(struct check *check, struct error *err);

#endif
