/* The page: one HTML file that shows a run, complete in itself, without scripts.  What it shows of
 * the run's course is collected in memory of a fixed size while the run lasts. */
#ifndef DGEMM_OOC_PAGE_H
#define DGEMM_OOC_PAGE_H

#include "options.h"
#include "report.h"
#include "tiles.h"
#include "timeline.h"

struct page {
    struct timeline timeline;
    struct tiles tiles;
    double end; /* of the last piece (work.h), on the host's clock */
};

/* What a page shows, beside what it has gathered itself. */
struct page_facts {
    const struct problem *problem;
    const struct machine *machine;
    const struct plan *plan; /* of the last piece */
    const struct report *report;
    const struct operand_name *output;
    const char *command;
};

/* A piece has ended. */
void page_end(struct page *page);

/* Collective.  Bring together what all ranks have collected; rank 0 writes it, under a temporary
 * name first. */
int page_write(struct page *page, const struct page_facts *facts, struct comm *comm,
               const char *path, struct error *err);

#endif
