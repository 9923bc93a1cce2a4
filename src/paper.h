/* What a run leaves for people and programs to read: report, trace, page.  Each has a temporary
 * name until it is whole, which is never that of a link. */
#ifndef DGEMM_OOC_PAPER_H
#define DGEMM_OOC_PAPER_H

#include <stdio.h>

struct error;

/* `what` it is, for complaints.  Null when it cannot be made. */
FILE *paper_open(const char *path, const char *what, struct error *err);

/* Give it its name.  A null `file` was complained of. */
int paper_close(FILE *file, const char *path, const char *what, struct error *err);

#endif
