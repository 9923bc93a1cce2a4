/* Who asks for a product: what for, on which ranks, and where what is said of it goes;
 * warnings are the process's (notice.h). */
#pragma once

#include <stdio.h>

#include "comm.h"
#include "options.h"

/* The pointers stay the caller's.  Streams may be null: nobody wants to know. */
struct caller {
    const struct options *options; /* the same on all ranks, check.seed drawn */
    struct comm *comm;
    FILE *notes;   /* rank 0: of what may not have been expected */
    FILE *details; /* rank 0: of what is done, and how long it took */
};

/* Print to one of the streams. */
void caller_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
