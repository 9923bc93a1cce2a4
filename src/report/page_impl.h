/* The parts of the page, each of which writes itself. */
#ifndef DGEMM_OOC_PAGE_IMPL_H
#define DGEMM_OOC_PAGE_IMPL_H

#include <stdio.h>

#include "page.h"
#include "quantity.h"

enum { SHEET_ROWS = 32 }; /* of the timeline: ranks, or groups of equally many of them */

/* All that there is to write. */
struct sheet {
    FILE *file;
    const struct page_facts *facts;
    const struct tiles *tiles;
    int rows;
    int first, bins;      /* of the timeline: those of the run */
    double bin_s;         /* seconds of each */
    const double *busy_s; /* of all ranks of a row; [rows][STAGE_COUNT][TIMELINE_BINS] */
    const double *amount; /* of all ranks; [STAGE_COUNT][TIMELINE_BINS] */
};

/* The row that a rank is in, and a row's first rank. */
static inline int sheet_row(int rank, int ranks, int rows)
{
    return (int)((int64_t)rank * rows / ranks);
}

static inline int sheet_first_rank(int row, int ranks, int rows)
{
    return (int)ceil_div((int64_t)row * ranks, rows);
}

/* Write `text` with what HTML would take for markup escaped, and nothing that is no text. */
void sheet_text(const struct sheet *sheet, const char *text);

/* Ticks of an axis from 0 to `end`: their distance, a round number, for about so many of them. */
double sheet_tick(double end, int about);

/* The unit that suits times up to `end`, and its seconds. */
const char *sheet_time_unit(double end, double *unit_s);

void page_head(const struct sheet *sheet);
void page_timeline(const struct sheet *sheet);
void page_roofline(const struct sheet *sheet);
void page_progress(const struct sheet *sheet);
void page_plan(const struct sheet *sheet);
void page_map(const struct sheet *sheet);
void page_details(const struct sheet *sheet);

extern const char page_style[];

#endif
