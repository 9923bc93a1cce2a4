/* Exact sums of the lines of centred matrices (statistics.h) and of their squares: each element is
 * added once, by any thread of any rank, in any order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "problem.h"

struct comm;
struct error;
struct statistics;
struct census;

enum { CENSUS_COPIES = 1 + 32 }; /* at most */

/* Host memory of one for so many lines, whose sums are there so many times. */
size_t census_bytes(int64_t lines, int copies);

/* For so many lines at a time, which `threads` of this process finish; null without memory.  Each
 * copy beyond the first is for one of the threads that add columns: with as many as these are, none
 * waits for the others. */
struct census *census_open(const struct problem *p, struct comm *comm, int threads, int64_t lines,
                           int copies, struct error *err);
void census_close(struct census *census);

/* Begin with some lines (problem_scaling.h). */
void census_begin(struct census *census, int64_t first, int64_t lines);

/* Add a part of them, a block of the operand's matrix, packed.  By any thread.  False, as
 * census_goes_on, after a NaN where nothing may be missing; and the complaint of that
 * (EXIT_INPUT). */
bool census_add(struct census *census, enum operand operand, const struct block *part,
                const void *memory);
bool census_goes_on(const struct census *census);
void census_complain(const struct census *census, struct error *err);

/* Collective, blocks.  All ranks have added their parts: set the statistics of these lines.
 * Complains as statistics_read does, or where an element was not added or added twice.  A rank that
 * has failed before, with `err`, makes all fail. */
int census_finish(struct census *census, struct statistics *statistics, struct error *err);
