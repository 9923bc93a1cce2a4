/* What the parts of the planner share. */
#pragma once

#include "planner.h"

enum {
    GRANULE = 16,       /* tile edges, in elements, where the tile is larger */
    SLOT_MIN = 4 << 10, /* bytes */
};

/* What a plan is asked for. */
struct query {
    const struct problem *p;
    const struct machine *machine;
    const struct plan_request *request;
};

/* The best plan for the ranks of one layer of `plan`, of which only the layers are set. */
int plan_search(const struct query *q, struct plan *plan, struct error *err);

/* Whether a plan with layers is clearly better than one without, or with fewer. */
bool plan_prefers_layers(const struct plan *layers, const struct plan *plan);

/* What one of so many layers has of the machine: all of them read at once, only one writes. */
struct machine plan_layer_machine(const struct machine *machine, int layers);

/* Memory that a candidate needs, into the plan; whether the machine has it. */
bool plan_fits(const struct query *q, struct plan *plan);

/* Slots: as large as helps the disk and the bus, but no more than a fair part of the memory.  What
 * is left of that part may hold a tile on its way out.  Where files are read at the pace of memory
 * smaller slots are faster, which may stay in the CPU's cache. */
void plan_choose_slots(const struct query *q, struct plan *plan);

/* Let so many threads multiply and so many read; writers, and slots in, follow from them. */
void plan_set_threads(const struct query *q, struct plan *plan, int compute_threads, int readers);

/* Elements of a tile that the device computes. */
double plan_computed(const struct problem *p, const struct machine *machine,
                     const struct plan *plan, const struct block *tile);

/* The height of the strips of a triangle's tiles, by the grid and the height of these. */
int64_t plan_triangle_strip_rows(const struct query *q, const struct plan *plan);

/* Counts that follow from tile and slab. */
void plan_set_counts(const struct query *q, struct plan *plan);

/* Panels that later tiles need again stay in what is left of the host's memory: of A those of a row
 * of super-blocks, which every tile of the row needs; with what is then left, those of B.  An
 * element of A kept serves all tiles across, in every row; one of B one tile in every row.  The
 * ranks of a node pool their memory for it. */
void plan_keep_panels(const struct query *q, struct plan *plan);

/* How many panels of A and B the device has: of the one that it holds, all that a tile needs and
 * the next one, so that the next tile in that row (A) or column (B) needs none; OPERAND_COUNT: it
 * holds neither. */
void plan_set_held(struct plan *plan, enum operand held);

/* Set the elements between rows, on the device, of what the plan has there. */
void plan_set_lds(const struct problem *p, struct plan *plan);

/* What products in residues work in: enough for the whole tile in one block of k, as far as that is
 * no more than a fair part of the memory; otherwise they go by parts of the tile. */
size_t plan_residues_bytes(const struct query *q, const struct plan *plan);

/* Bytes of device memory that a plan takes. */
size_t plan_device_bytes(const struct query *q, const struct plan *plan);

/* Tiles of C on the device: two where it has room for the second beside all panels that it can use.
 * The finished one leaves at the pace of the file then, and neither products nor panels wait for
 * that.  C0 comes in the order of the strips, among the panels, so that they do. */
int plan_choose_tiles(const struct query *q, const struct plan *plan);

/* More panels of what is not held, and A's of a second row of super-blocks where those of one are
 * held (plan_holds_rows), as far as the plan leaves memory for them: they are read ahead while
 * there is little else to read, for when there is much, as where a row of C begins. */
void plan_deepen(const struct query *q, struct plan *plan);

/* Rows and columns, as stored, of the largest panel of A or B in its file; of the tile for C. */
void plan_panel_extents(const struct problem *p, const struct plan *plan, enum operand operand,
                        int64_t *rows, int64_t *cols);

/* Bytes a second, of all ranks together, at which the files of such panels are read and C is
 * written; and of each rank, at which readers copy panels that the host keeps. */
double plan_read_rate(const struct problem *p, const struct machine *machine,
                      const struct plan *plan, enum operand operand);
double plan_write_rate(const struct problem *p, const struct machine *machine,
                       const struct plan *plan);
double plan_cache_rate(const struct plan *plan);

/* Nodes that have ranks in the grid, whose ranks all read. */
double plan_nodes(const struct plan *plan);

/* A line of the grid lies on so many nodes, more or less, each of which has its own copy of its
 * panels. */
double plan_nodes_of_line(const struct plan *plan, enum operand operand);

/* The part of an operand that comes by the network to the node with most lines. */
double plan_part_received(const struct plan *plan, enum operand operand);

/* How many parts of a panel a node reads in a row: one, where the slots hold a part of each node of
 * the line, which then all send at once; otherwise so many that the turns' ends cost little, but
 * several nodes read at the same time. */
void plan_set_turns(const struct problem *p, struct plan *plan);

/* What comes of the network's rate: at each end of a longer turn a link waits for one part. */
double plan_turn_rate(const struct problem *p, const struct plan *plan, enum operand operand);

/* Seconds that the first parts take from node to node to the last, beyond the `seconds` in which
 * all that comes with them comes. */
double plan_hops_seconds(const struct problem *p, const struct machine *machine,
                         const struct plan *plan, enum operand operand, double seconds);

/* Seconds from when a first slab begins to come, which takes `feed` and is multiplied in `device`,
 * until a tile could be multiplied without a stop: all of them, or where a triangle's rows come one
 * after the other, as many as let each of its strips have what it needs after those before it.
 * *last: of `device`, what waits for the last part.  Where a file is chunked its parts may come in
 * another order, and it takes longer. */
double plan_first_wait(const struct problem *p, const struct plan *plan, const struct block *tile,
                       double feed, double device, double *last);

/* The longest one of any tile of the first super-block.  *last: the largest. */
double plan_longest_wait(const struct problem *p, const struct plan *plan, double feed,
                         double device, double *last);

/* What a device multiplies in some slabs of a tile: `k` is theirs together. */
struct tile_product {
    int64_t rows, cols, k, slabs;
};

/* The tile that takes longest, in all slabs; and what most is written of a tile, in elements. */
struct tile_product plan_tile_product(const struct problem *p, const struct machine *machine,
                                      const struct plan *plan);
double plan_tile_written(const struct problem *p, const struct plan *plan);

/* Products of bytes for each product of integers (integers.h). */
int plan_plane_products(const struct problem *p);

/* Seconds that it takes, the online check included. */
double plan_product_seconds(const struct problem *p, const struct machine *machine,
                            const struct plan_request *request, const struct plan *plan,
                            const struct tile_product *product);

/* Seconds that a step, a slab of a super-block, costs on its way to the devices, whatever its size;
 * and bytes of A and of B that all ranks need for it. */
double plan_step_seconds(const struct plan *plan);
double plan_step_bytes(const struct problem *p, const struct plan *plan);

/* The pace at which files in memory are read while C is written there, which takes bandwidth, and
 * CPUs where there are fewer than readers and writers. */
double plan_pace_beside_writing(const struct machine *machine, const struct plan *plan);

/* Seconds in which all ranks write so many bytes. */
double plan_write_seconds(const struct query *q, const struct plan *plan, double bytes);

/* What is done with a super-block's panels, in seconds. */
struct work_needs {
    double gemm, slab; /* the products of a tile, of one of its slabs */
    double out, write; /* a tile from the device; the super-block into the file */
    double lost;       /* of a disk, which does not read while it writes that */
};

/* What each of a kind of super-blocks needs. */
struct super_needs {
    double count;
    bool first;                 /* it is the first one of all */
    double read, network;       /* seconds: from the files, between nodes */
    double again, in;           /* from what the hosts keep; to the device */
    double part[OPERAND_COUNT]; /* of each operand, that comes from the files */
    struct work_needs work;
};

enum { NEEDS_MOST = 4 };

/* What the kinds of a plan's super-blocks need.  Returns their number. */
int plan_needs(const struct query *q, const struct plan *plan,
               struct super_needs kinds[NEEDS_MOST]);

/* Set the time of each link, how often operands are read and the roofline of the whole. */
void plan_roofline(const struct query *q, struct plan *plan);
