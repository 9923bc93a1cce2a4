/* The planner: a pure function from problem and machine to a plan.  No MPI, no CUDA, no files.
 *
 * C is cut into super-blocks, each a grid of P x Q tiles, one a rank; a tile's accumulators stay
 * in device memory while slabs of k stream past, so that C is written once and A and B are read
 * once per super-block column and row.  The planner looks at every grid of all ranks, and at
 * some that leave a few out, at slabs from one quantum to all of k and at tiles from all of C
 * down to what the memory holds, and takes the one with the least roofline (planner_roofline.c),
 * under the machine's rates and under lower ones; it never takes more memory than the machine's
 * limits.  Traffic is judged against 2mnk/sqrt(S) + mn, the lower bound for a fast memory of S
 * elements (Smith et al., arXiv:1702.02017; Kwasniewski et al., arXiv:1908.09606); that of a
 * triangle against nnk/sqrt(2S) + nn (Beaumont et al., arXiv:2202.10217). */
#pragma once

#include "plan.h"

/* Choices of the user; where they are 0 the planner chooses. */
struct plan_request {
    int grid_rows, grid_cols;
    bool whole; /* one super-block, if the devices can hold it: sums of it were saved, ... */
    int layers; /* ... by so many layers, which go on with them if they can be formed */
    int64_t tile_rows, tile_cols, slab;
    bool verify;              /* room for the online check */
    size_t record_bytes;      /* host memory for what is recorded of the run */
    enum algorithm algorithm; /* whose workspace and rate are counted */
};

/* Make the plan.  Pure.  Complains when nothing fits (EXIT_RESOURCES), with what is needed, what
 * there is and the smallest limit that would do, and when a grid or tile that was asked for is
 * impossible (EXIT_USAGE). */
int plan_make(const struct problem *problem, const struct machine *machine,
              const struct plan_request *request, struct plan *plan, struct error *err);

/* The problem of a layer, which is its part of k; the first layer applies alpha and beta.  And the
 * plan of a layer, whose slabs are those of that part. */
struct problem plan_layer_problem(const struct problem *problem, const struct plan *plan,
                                  int layer);
struct plan plan_layer(const struct plan *plan, const struct problem *part);

/* The largest panel of an operand on the device, in bytes; and that of what it becomes
 * (embedding.h), 0 where it stays as it is. */
size_t plan_panel_bytes(const struct problem *problem, const struct plan *plan,
                        enum operand operand);
size_t plan_embedded_bytes(const struct problem *problem, const struct plan *plan,
                           enum operand operand);

/* What the host takes of a panel that it keeps for later tiles (cache.h), in bytes. */
size_t plan_kept_bytes(const struct problem *problem, const struct plan *plan,
                       enum operand operand);

/* Elements between the rows of the accumulators of a tile. */
int64_t plan_tile_ld(const struct problem *problem, const struct plan *plan,
                     const struct block *tile);

/* The plan of problem_inner: a tile for each slab, which is one slab. */
struct plan plan_inner(const struct problem *p, const struct plan *plan);

/* What the online check (check.h) takes of the device, in bytes. */
size_t plan_check_bytes(const struct problem *p, const struct plan *plan, enum algorithm algorithm);

/* What a number for each line of a centred or scaled product takes of the device; 0 where it is
 * none. */
size_t plan_line_bytes(const struct problem *p);

/* The size of one device buffer in bytes, rounded as the planner counts it. */
size_t plan_buffer_bytes(size_t bytes);
