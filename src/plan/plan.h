/* What the planner has chosen (planner.h). */
#pragma once

#include "machine.h"
#include "problem.h"

enum {
    PANEL_BUFFERS = 2, /* buffers of A and of B, at least: one is filled while the other is read */
    STRIPS_MAX = 24,   /* strips of a tile: of the highest one of a triangle so many */
};

/* What the pipeline consists of.  The cache and the check are parts of other stages' plans. */
enum stage {
    STAGE_READ,
    STAGE_CACHE,
    STAGE_NETWORK,
    STAGE_IN,
    STAGE_GEMM,
    STAGE_CHECK,
    STAGE_OUT,
    STAGE_WRITE,
    STAGE_COUNT
};

/* Bytes that move and operations; doubles, since those of all ranks may be more than 2^64. */
struct traffic {
    double in_bytes, out_bytes, write_bytes, flops;
};

/* About how long a plan takes, by which plans are ranked (planner_roofline.c). */
struct roofline {
    double seconds;
    double link_s[STAGE_COUNT];   /* seconds that each stage's link is busy; 0: it has none */
    double passes[OPERAND_COUNT]; /* how often each matrix is read, by all ranks together */
    double steps_s;               /* seconds that steps cost, whatever their size */
    double add_s;                 /* seconds to add the layers' products */
    double cost;                  /* what the planner minimises */
};

/* What the chosen plan moves, exactly as its schedule will. */
struct moves {
    struct traffic total, worst;   /* of all ranks; the largest of any rank */
    double read_bytes, sent_bytes; /* of all layers: from files; between nodes and layers */
    double bound_bytes;            /* least traffic with the disk for device memory and cache */
    int idle_ranks;                /* ranks that never have a tile */
};

/* Plain data; the same on every rank. */
struct plan {
    int layers;                 /* of ranks (layers.h); what follows is of each layer */
    int64_t layer_k;            /* its part of k; the last layer may have less */
    bool triangle;              /* it is the plan of one (triangle.h) */
    int grid_rows, grid_cols;   /* ranks over C's rows and columns */
    int ranks_per_node;         /* consecutive ranks, which share what they read */
    int block_rows, block_cols; /* the block of the grid that these are; 1 x 1: they are none */
    int64_t node_lines[2];      /* the most rows, columns of the grid in which a node has ranks */
    int64_t tile_rows, tile_cols,
        slab;           /* the largest of each; slab is a multiple of GEMM_QUANTUM */
    int64_t slab_short; /* steps of k by which the first slab is shorter than the others */
    int64_t supers_down, supers_across; /* super-blocks */
    int64_t slabs;                      /* pieces of k; 0 when A and B are not read */
    int64_t ld[OPERAND_COUNT]; /* elements between the rows of what is multiplied, of the tile */
    int64_t ld_panel[2];       /* between those of a device panel; the same, if none is embedded */
    int64_t strip_rows;        /* a finished tile is drained in strips of so many rows */
    int slots_in, slots_out;   /* staging slots of each direction */
    int64_t turn[2];           /* consecutive parts of A, of B that a node reads for all nodes */
    size_t spare_bytes;        /* host memory for more slots out */
    int64_t buffers[2];        /* device panels of A, of B */
    int tiles;                 /* of C on the device (plan_choose_tiles) */
    int64_t kept[2];           /* panels of A, of B that a node keeps of each line (cache.h) */
    size_t cache_bytes;        /* of all of them, on a node */
    int compute_threads;       /* of the CPU device; fewer where the memory is small */
    int readers, writers;      /* threads */
    int preparers; /* the most writers that prepare C's file while they have nothing to write */

    size_t slot_bytes;     /* a multiple of an element of C; a part of a panel or of a strip */
    size_t residues_bytes; /* of the device, where products of residues, integers work */
    size_t device_bytes, host_bytes; /* peak of each rank; the CPU device's memory is host memory */
    size_t window_bytes;             /* of C's file that a rank keeps mapped, where it maps it */
    double gemm_flops_per_s;         /* of each rank, with this algorithm */
    struct roofline roofline;
    struct moves moves;
};

/* So many elements of A, B or C are in a slot. */
static inline int64_t plan_slot_elements(const struct problem *problem, const struct plan *plan,
                                         enum operand operand)
{
    const size_t c = problem_element(problem, OPERAND_C);
    return (int64_t)(plan->slot_bytes / c * (c / problem_element(problem, operand)));
}

/* Whether the device has room for an operand's panels of all slabs, and for the next one. */
static inline bool plan_holds(const struct plan *plan, enum operand operand)
{
    return plan->buffers[operand] > plan->slabs;
}

/* Where the device holds A's panels for a row of super-blocks, only the first tile of a row needs
 * any from the host.  So that reading is spread evenly, those of the next row come ahead: with room
 * for two rows' panels during the row before, one in supers_across steps, of a slab each, a share
 * of it in every step (in the first row after its first tile, one in supers_across - 1 steps);
 * otherwise plan_lead steps before their own. */
static inline bool plan_holds_rows(const struct plan *plan)
{
    return plan_holds(plan, OPERAND_A) && plan->slabs > 1 && plan->supers_across > 1 &&
           plan->buffers[OPERAND_A] >= 2 * plan->slabs;
}

static inline int64_t plan_lead(const struct plan *plan)
{
    return plan_holds(plan, OPERAND_A) ? plan->slabs / 2 : 0;
}

/* Whether A's panels of the super-block's row do so. */
static inline bool plan_comes_ahead(const struct plan *plan, int64_t super)
{
    return plan_lead(plan) > 0 && super >= plan->supers_across;
}

/* Device panels of each operand that has any of its own. */
static inline int64_t plan_depth(const struct plan *plan)
{
    int64_t a = plan->buffers[OPERAND_A], b = plan->buffers[OPERAND_B];
    return a > 0 && a < b ? a : b;
}

/* About how many slabs have products that are enqueued on the device at the same time. */
static inline int64_t plan_enqueued(const struct plan *plan)
{
    int64_t depth = plan_depth(plan), most = 2 * PANEL_BUFFERS;
    int64_t slabs = plan->slabs < most ? plan->slabs : most;
    return depth < slabs ? depth : slabs;
}

/* Whether the panels of a triangle come in the order of C's rows, of which each strip needs no more
 * than those up to its last one: a row of the file is of one row of C. */
static inline bool plan_comes_by_rows(const struct problem *problem, const struct plan *plan)
{
    return plan->triangle && problem->trans[OPERAND_B];
}

/* Whether a triangle's tiles find their rows' panel in their columns' one, which goes on to their
 * last row: where the grid has one row or one column there is nothing between. */
static inline bool plan_one_panel(const struct plan *plan)
{
    return plan->triangle && plan->buffers[OPERAND_A] == 0;
}

/* Whether something is added to the product on the device: C0, or another layer's. */
static inline bool plan_adds(const struct problem *problem, const struct plan *plan)
{
    return problem_reads_c(problem) || plan->layers > 1;
}

/* Planned traffic with the disk over the least. */
static inline double plan_factor(const struct plan *plan)
{
    return (plan->moves.read_bytes + plan->moves.total.write_bytes) / plan->moves.bound_bytes;
}
