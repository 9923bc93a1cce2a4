/* What the parts of the planner share. */
#ifndef DGEMM_OOC_PLAN_IMPL_H
#define DGEMM_OOC_PLAN_IMPL_H

#include "plan.h"

/* Rows and columns, as stored, of the largest panel of A or B; of the tile for C. */
void plan_panel_extents(const struct problem *p, const struct plan *plan, enum operand operand,
                        int64_t *rows, int64_t *cols);

/* Whether each node reads files at the pace of memory. */
bool plan_reads_memory(const struct machine *machine);

/* Bytes a second, of all ranks together, at which the files of such panels are read and C is
 * written; and of each rank, at which readers copy panels that the host keeps. */
double plan_read_rate(const struct problem *p, const struct machine *machine,
                      const struct plan *plan, enum operand operand);
double plan_write_rate(const struct problem *p, const struct machine *machine,
                       const struct plan *plan);
double plan_cache_rate(const struct plan *plan);

/* Seconds that writing so many bytes takes from reading where both are the memory's work. */
double plan_written_in_memory(const struct machine *machine, double bytes);

/* What a device multiplies in some slabs of a tile: `k` is theirs together. */
struct product {
    int64_t rows, cols, k, slabs;
};

/* Seconds that it takes, the online check included. */
double plan_product_seconds(const struct problem *p, const struct machine *machine,
                            const struct plan_request *request, const struct plan *plan,
                            const struct product *product);

/* Set the predicted time of each link and of the whole, and the link that limits. */
void plan_predict(const struct problem *p, const struct machine *machine,
                  const struct plan_request *request, struct plan *plan);

#endif
