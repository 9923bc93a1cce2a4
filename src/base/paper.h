/* What a run leaves for people and programs to read: report, trace, page.  Each has a temporary
 * name until it is whole, which is never that of a link; or it goes to standard output. */
#ifndef DGEMM_OOC_PAPER_H
#define DGEMM_OOC_PAPER_H

#include <stdbool.h>
#include <stdio.h>

struct error;

/* Whether it is to go to standard output: "-", "/dev/stdout". */
bool paper_is_standard(const char *path);

/* A paper goes to standard output: all that is printed goes to standard error from here on, so that
 * a program which reads the paper reads nothing else.  To be called first. */
void paper_reserve(void);

/* `what` it is, for complaints.  Null when it cannot be made. */
FILE *paper_open(const char *path, const char *what, struct error *err);

/* Give it its name.  A null `file` was complained of. */
int paper_close(FILE *file, const char *path, const char *what, struct error *err);

#endif
