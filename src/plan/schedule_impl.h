/* What the parts of the schedule share. */
#pragma once

#include "schedule.h"

/* The line of the grid that the rank shares panels with: its row for A, its column for B. */
int schedule_line(const struct plan *plan, enum operand operand, int rank);
int schedule_rank_in_line(const struct plan *plan, enum operand operand, int line, int at);

/* The node's ranks in a line of the grid that need its panels. */
int schedule_users(const struct problem *p, const struct plan *plan, enum operand operand, int node,
                   int line, int64_t super);

/* The place of a panel among those of its line that a node keeps; -1: it is not kept. */
int64_t schedule_kept_index(const struct plan *plan, enum operand operand, int64_t super,
                            int64_t slab);

/* Super-blocks of a row, all within C's rows, in which the node has tiles in a row of the grid: as
 * many as its rank furthest to the left has. */
int64_t schedule_tiles_across(const struct problem *p, const struct plan *plan, int node, int row);

/* Whether the node has needed the same panels before: those of A in this row of super-blocks, of B
 * in an earlier one. */
bool schedule_had(const struct problem *p, const struct plan *plan, enum operand operand, int node,
                  int line, int64_t super);
