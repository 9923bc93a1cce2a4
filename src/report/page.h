/* The page: one HTML file that shows a run in a browser, complete in itself.  It is page.html with
 * page.css and page.js, into which the report is embedded and, of a run, its course.  The memory
 * for the course is the same for any run. */
#pragma once

#include "report.h"
#include "tile_map.h"
#include "timeline.h"

struct page {
    struct timeline timeline;
    struct tile_map map;
    double end; /* of the last piece (work.h), on the host's clock; set by the caller */
};

/* Collective.  Gather what all ranks have collected; rank 0, which alone needs the account, writes
 * it, under a temporary name first. */
int page_write(struct page *page, const struct account *account, struct comm *comm,
               const char *path, struct error *err);

/* Write the page of a report that was saved before, which has nothing of the run's course. */
int page_write_saved(const char *report, const char *path, struct error *err);
