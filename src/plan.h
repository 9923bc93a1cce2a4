/* The planner: a pure function from problem and machine to a plan.  No MPI, no CUDA, no files.
 *
 * C is cut into super-blocks, each a grid of P x Q tiles, one a rank; a tile's accumulators stay
 * in device memory while slabs of k stream past, so that C is written once and A and B are read
 * once per super-block column and row.  The planner looks at every grid of all ranks, and at some
 * that leave a few out, at slabs from one quantum to all of k and at tiles from all of C down to
 * what the memory holds, predicts the time of each link and takes the least; it never takes more
 * memory than the machine's limits.
 * Traffic is judged against 2mnk/sqrt(S) + mn, the lower bound for a fast memory of S elements
 * (Smith et al., arXiv:1702.02017; Kwasniewski et al., arXiv:1908.09606). */
#ifndef DGEMM_OOC_PLAN_H
#define DGEMM_OOC_PLAN_H

#include "machine.h"
#include "problem.h"

enum {
    PANEL_BUFFERS = 2, /* of A and of B on the device at least: one is filled, the other used */
    STRIPS_MAX = 16,   /* strips of a tile */
};

enum link { LINK_READ, LINK_NETWORK, LINK_IN, LINK_GEMM, LINK_OUT, LINK_WRITE, LINK_COUNT };

/* What moves and what is computed; doubles, since all ranks together may come to more than 2^64. */
struct traffic {
    double in_bytes, out_bytes, write_bytes, flops;
};

/* Plain data; the same on every rank. */
struct plan {
    int layers;                 /* of ranks, each with a part of k (layers.h); all else: of each */
    int64_t layer_k;            /* its part; the last may have less */
    int grid_rows, grid_cols;   /* ranks over C's rows and columns */
    int ranks_per_node;         /* consecutive ranks, which share what they read */
    int block_rows, block_cols; /* of the grid, that they are; 1 x 1 where they fill none */
    int64_t node_lines[2];      /* rows, columns of the grid in which a node has ranks, at most */
    int64_t tile_rows, tile_cols,
        slab; /* the largest of each; slab is a multiple of GEMM_QUANTUM */
    int64_t supers_down, supers_across; /* super-blocks */
    int64_t slabs;                      /* pieces of k; 0 when A and B are not read */
    int64_t ld[OPERAND_COUNT]; /* elements between the rows of a device panel, of the tile */
    int64_t slot_elements;     /* a slot holds a part of a panel or of a strip */
    int64_t strip_rows;        /* a finished tile leaves in strips of so many rows */
    int slots_in, slots_out;   /* staging slots of each direction */
    int64_t turn[2];           /* parts of A, of B that a node reads in a row for others, too */
    size_t spare_bytes;        /* of host memory, for more slots out */
    int64_t buffers[2];        /* device panels of A, of B */
    int64_t kept[2];           /* panels of A, of B that a node keeps of each line (cache.h) */
    size_t kept_bytes[2];      /* of each of them */
    size_t cache_bytes;        /* of all of them, on a node */
    int compute_threads;       /* of the CPU device; fewer than there are where memory is little */
    int readers, writers;      /* threads */
    int preparers; /* writers that prepare C's file while they have nothing else, at most */

    size_t slot_bytes;
    size_t device_bytes, host_bytes; /* peak of each rank; the CPU device's memory is host memory */
    struct traffic total, worst;     /* of all ranks; the largest of any rank */
    double read_bytes, sent_bytes;   /* of all layers: from files; between nodes and layers */
    double passes[OPERAND_COUNT];    /* how often each matrix is read, by all ranks together */
    double gemm_flops_per_s;         /* of each rank, with this algorithm */
    double link_s[LINK_COUNT];       /* time that each link needs */
    enum link limit;                 /* the one that needs most */
    double add_s;                    /* of that, for adding the layers' products */
    double wall_s;                   /* predicted, with filling and draining the pipeline */
    double cost;                     /* what the planner makes least */
    double bound_bytes;              /* least traffic with the disk for device memory and cache */
    double factor;                   /* planned traffic over it */
    int idle_ranks;                  /* ranks that never have a tile */
};

/* Choices that the user forces; 0 means that the planner chooses. */
struct plan_request {
    int grid_rows, grid_cols;
    int layers;
    bool whole; /* one super-block, where the devices hold it */
    int64_t tile_rows, tile_cols, slab;
    bool verify;              /* room for the online check */
    bool trace;               /* and for the trace */
    bool page;                /* and for what the page shows */
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

/* Whether the device has room for an operand's panels of all slabs, and for the next one. */
static inline bool plan_holds(const struct plan *plan, enum operand operand)
{
    return plan->buffers[operand] > plan->slabs;
}

/* Whether something is added to the product on the device: C0, or another layer's. */
static inline bool plan_adds(const struct problem *problem, const struct plan *plan)
{
    return problem_reads_c(problem) || plan->layers > 1;
}

/* Print problem and plan, in at most 80 columns. */
void plan_print(const struct problem *problem, const struct machine *machine,
                const struct plan *plan);

/* Print, under a title, what the plan predicts; it may be the sum of those of so many pieces. */
void plan_print_time(const char *title, const struct plan *plan, int pieces);

const char *plan_link_name(enum link link);

#endif
