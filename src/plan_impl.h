/* What the parts of the planner share. */
#ifndef DGEMM_OOC_PLAN_IMPL_H
#define DGEMM_OOC_PLAN_IMPL_H

#include "plan.h"

/* Rows and columns, as stored, of the largest panel of A or B; of the tile for C. */
void plan_panel_extents(const struct problem *p, const struct plan *plan, enum operand operand,
                        int64_t *rows, int64_t *cols);

/* Whether each node reads files at the pace of memory. */
bool plan_reads_memory(const struct machine *machine);

/* Set the predicted time of each link and of the whole, and the link that limits. */
void plan_predict(const struct problem *p, const struct machine *machine,
                  const struct plan_request *request, struct plan *plan);

#endif
