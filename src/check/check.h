/* The online check of the product (after Freivalds).  While the panels of a tile are on the device,
 * y = op(A) (op(B) x) is accumulated from the same bytes for random vectors x, and compared with
 * acc x.  kernels/freivalds.h has the operations, freivalds_judge.h the limit and its proof.
 *
 * - Sums of integers are compared modulo 2^64, without a limit: all below is of others.
 * - x is drawn anew in every run.  The proof of the limit needs its random signs, and an error that
 *   one vector does not see is seen by another one in the next run.
 * - The columns of a tile are dealt to up to CLASSES_MAX vectors.
 * - Where k is cut into blocks (sums.h), each block is compared from zero on.  What it has come to
 *   is carried to the end of k, and compared with the sum of all blocks.
 * - The sums of floats are compared after groups of steps of k, since the bound of their rounding
 *   errors grows with the square of these steps; the groups are larger where the algorithm reports
 *   the peaks of its sums.  The sums of doubles are compared at the end of a block of k, of
 *   the tile and at checkpoints.
 * - Columns of op(B) with NaN, Inf or huge elements lose their weight before the slab that has them
 *   is multiplied, so that the other columns are checked without them.  These columns, and the rows
 *   of op(A) with NaN or Inf, are checked for being NaN or Inf in C. */
#pragma once

#include "check_size.h"
#include "findings.h"
#include "freivalds.h"
#include "plan.h"

struct device;
struct event;
struct error;
struct tile_map;

enum {
    CHECK_AGAIN_MAX = 4, /* failed tiles of a rank, after which its device is not trusted */
};

/* Each check has weights of its own. */
enum check_kind { CHECK_ONLINE, CHECK_FULL };

/* What it has on the device. */
struct check_memory {
    double *weights;           /* a column */
    int *left_out;             /* of each column; then the newest slab that left columns out */
    double *t, *t_squares;     /* steps of a slab x classes: op(B) x, squares of op(B), */
    double *t_roots;           /* and their roots */
    double *y, *before;        /* tile rows x classes: expected, and squares when the group began */
    double *z, *squares, *odd; /* likewise: of the accumulators */
    double *reach;             /* likewise: |op(A)| t_roots, in the group */
    double *carried, *carried_squares; /* likewise, of complete blocks of k (sums.h); or null */
    void *const *waiting; /* sums of the tile that wait, by their levels; set by the caller */
    double *row_squares, *norms;
    double *parts;       /* of sums, for project to work with */
    float *peaks;        /* of each group, tile rows each; null where the algorithm reports none */
    double *verdicts[2]; /* behind the number of wrong residues; tiles take turns: one is on its way
                          * to the host */
};

/* The slab whose products are in flight. */
struct slab_check {
    int64_t index;       /* -1: none of this tile */
    const void *panel_b; /* its panel of op(B), and the accumulators of the tile */
    const void *acc;
    int64_t passed;        /* columns of it that t has */
    int64_t steps;         /* of k, in it */
    bool begins, compares; /* it begins, ends a group */
    bool ends;             /* it ends a block of k */
    int64_t blocks;        /* of k, that are complete before it */
    bool fresh;            /* the group begins with a block of k */
};

/* What came of the tiles so far. */
struct check_verdict {
    bool retry_on_failure; /* set by the caller: a tile that fails is noted, to be multiplied again,
                              and no error yet */
    struct block tile;     /* whose verdicts are on their way to the host; empty: none */
    struct block failed[CHECK_AGAIN_MAX];
    int failures;
    double failed_ratio;      /* the largest of theirs */
    struct findings findings; /* of whole tiles */
    struct findings partial;  /* of the tile at work, as check_now has last seen it */
};

struct check {
    /* Set by the caller, who owns them: */
    const struct problem *problem;
    const struct plan *plan;
    struct device *device;
    uint64_t seed;        /* of the weights */
    double rounded;       /* findings.rounded of the sums that were saved */
    struct tile_map *map; /* to be told of every tile; may be null */
    struct check_verdict verdict;

    bool on;
    bool running;        /* each element is one running sum: of products, or of blocks of k */
    double inputs;       /* the bound on the error of these blocks: ozaki_error, or 0 */
    int classes, deal;   /* for a tile */
    int64_t group_steps; /* of k, after about which sums are compared, where a slab ends */
    struct check_memory memory;
    double *host;         /* pinned: weights, and zeros for left_out; then the verdicts */
    struct event *ready;  /* the weights are on the device */
    struct event *summed; /* the tile has been judged, and its weights are free */
    struct event *done;   /* the verdicts are on the host */

    struct block tile; /* that is being multiplied */
    int turn;          /* whose verdicts are its */
    struct slab_check slab;
    int64_t steps, slabs; /* of the group so far */
    int tag, first_tag;   /* of the newest slab, and of the tile's first */
    bool judged_before;   /* the tile has been, after an earlier slab */
    bool expects;         /* y holds what earlier slabs, or earlier runs, have summed up */
    bool resumed;         /* the tile's sums began with what had been saved */
};

/* The weight of a column of C: its sign is random, its magnitude from 1/2 to 1. */
double check_weight(uint64_t seed, enum check_kind kind, int64_t col);

/* The check's own: put those of all columns of the tile into its host memory. */
void check_set_weights(struct check *check);

/* Open a check of the algorithm's product, whose first members are set; it works in `memory`,
 * check_device_bytes of device memory, which stays the caller's; null: nothing is checked.  After a
 * failure check_close is still due. */
int check_open(struct check *check, enum algorithm algorithm, void *memory, struct error *err);
void check_close(struct check *check);

/* The product of some rows of the tile with a part of the newest slab. */
struct check_product {
    struct block rows; /* of C */
    int64_t first, k;  /* steps of the slab, as check_part cuts it */
    const void *a;     /* their elements of the panel of A */
    const void *acc;   /* and accumulators, at the first of the rows */
};

/* The operations of a tile, in the order in which they are due.  They only enqueue work on the
 * device.
 *   check_begin     before the first slab
 *   check_resume    then, where sums begin with saved ones, once `acc` and the waiting sums have
 *                   these
 *   check_slab      before the products of each slab; `acc` is all of the tile, and both stay in
 *                   place until the products are done
 *   check_columns   before the products of some rows: for the columns that these have and the rows
 *                   above do not, in a triangle
 *   check_part      the steps of k of each part into which the slab is cut, from its first one on:
 *                   a part may be multiplied by several products, a product belongs to one part
 *   check_peaks     what the product that begins with step `first` is to report of its sums
 *   check_rows      after the last product of each part
 *   check_whole     where k is cut into blocks, when all of them are added up in `acc`: for some
 *                   rows of the tile */
int check_begin(struct check *check, const struct block *tile, struct error *err);
int check_resume(struct check *check, const void *acc, struct error *err);
int check_slab(struct check *check, int64_t slab, const void *panel_b, const void *acc,
               struct error *err);
int check_columns(struct check *check, const struct block *rows, struct error *err);
int64_t check_part(const struct check *check, int64_t k);
struct peaks check_peaks(const struct check *check, const struct block *rows, int64_t first);
int check_rows(struct check *check, const struct check_product *product, struct error *err);
int check_whole(struct check *check, const struct block *rows, const void *acc, struct error *err);

/* Where products in residues count those that are wrong (ozaki.h), on the device; null where
 * nothing is checked. */
unsigned long long *check_wrong(const struct check *check);

/* Judge a strip of the tile that is drained: each strip, in order, when STREAM_OUT waits for its
 * products.  With the last one the verdicts go to the host.  Strips of the next tile may follow in
 * its place, but whole slabs only after the last strip.  The verdicts are examined when the next
 * tile is drained, or by check_judge. */
int check_drain(struct check *check, const struct block *tile, const struct block *strip,
                struct error *err);

/* Compare the tile's sums as they are after a slab, and examine the verdicts.  Blocks. */
int check_now(struct check *check, const void *acc, struct error *err);

/* Layers of ranks (layers.h) each have checked their own part of k, and check the sum of all of
 * them.  All block, and follow each other in this order, but for the second and third, which are
 * needed where a layer has left out columns.
 *   check_fetch      bring the verdicts of the tile's last comparison to the host
 *   check_left_out   bring the reasons to leave columns out (freivalds.h) to the host
 *   check_leave_out  leave out what they are there now; `acc` is the sum of this layer
 *   check_pack       the verdicts on some rows, counted from the tile's first, in VERDICTS numbers
 *                    each
 *   check_merge      the verdicts of another layer on these rows, as those on other groups of steps
 *   check_layers     compare the sum of so many layers: `acc`, memory.carried and carried_squares
 *                    have been added up over them, and verdicts merged */
int check_fetch(struct check *check, struct error *err);
int check_left_out(struct check *check, int **columns, struct error *err);
int check_leave_out(struct check *check, const void *acc, struct error *err);
void check_pack(const struct check *check, int64_t first, int64_t rows, double *to);
void check_merge(struct check *check, int64_t first, int64_t rows, const double *from);
int check_layers(struct check *check, int layers, const void *acc, struct error *err);

/* Whether columns of the tile were left out.  Valid after check_fetch. */
bool check_leaves_out(const struct check *check);

/* Wait for the verdicts of the tile that was drained last and examine them.  Blocks.  A row beyond
 * its limit is EXIT_VERIFY, or with retry_on_failure one more failed tile. */
int check_judge(struct check *check, struct error *err);
