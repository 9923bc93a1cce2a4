/* The planner: a pure function from problem and machine to a plan.  No MPI, no CUDA, no files.
 *
 * C is cut into super-blocks, each a grid of P x Q tiles, one a rank; a tile's accumulators stay
 * in device memory while slabs of k stream past, so that C is written once and A and B are read
 * once per super-block column and row.  The planner looks at every grid of all ranks, and at some
 * that leave a few out, at slabs from one quantum to all of k and at tiles from all of C down to
 * what the memory holds, and takes the one with the least roofline (planner_roofline.c), under the
 * machine's rates and under lower ones; it never takes more memory than the machine's limits.
 * Traffic is judged against 2mnk/sqrt(S) + mn, the lower bound for a fast memory of S elements
 * (Smith et al., arXiv:1702.02017; Kwasniewski et al., arXiv:1908.09606). */
#ifndef DGEMM_OOC_PLANNER_H
#define DGEMM_OOC_PLANNER_H

#include "plan.h"

/* Choices that the user forces; 0 means that the planner chooses. */
struct plan_request {
    int grid_rows, grid_cols;
    int layers;
    bool whole; /* one super-block, where the devices hold it */
    int64_t tile_rows, tile_cols, slab;
    bool verify;              /* room for the online check */
    size_t record_bytes;      /* of host memory, for what is recorded of the run */
    enum algorithm algorithm; /* whose own memory and speed count */
};

/* Complains (EXIT_RESOURCES) when nothing fits, with what is needed, what there is and the
 * smallest limit that would work; EXIT_USAGE when a forced grid or tile is impossible. */
int plan_make(const struct problem *problem, const struct machine *machine,
              const struct plan_request *request, struct plan *plan, struct error *err);

/* Of a layer: its problem, with its part of k, the first of which takes alpha and beta; and its
 * plan, whose slabs are of that part. */
struct problem plan_layer_problem(const struct problem *problem, const struct plan *plan,
                                  int layer);
struct plan plan_layer(const struct plan *plan, const struct problem *part);

/* Largest panel of A or B on the device, in bytes. */
size_t plan_panel_bytes(const struct problem *problem, const struct plan *plan,
                        enum operand operand);

/* What the online check (check.h) takes of the device, in bytes. */
size_t plan_check_bytes(const struct problem *p, const struct plan *plan, enum algorithm algorithm);

/* Size of one device buffer, rounded as the planner counts it. */
size_t plan_buffer_bytes(size_t bytes);

#endif
