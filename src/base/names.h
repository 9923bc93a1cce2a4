/* The names of the files that a run keeps, all made from the name of its output.  No other file
 * spells their endings. */
#pragma once

#include <limits.h>

struct error;

enum {
    NAMES_BESIDE = 5,            /* beside the output; of them, */
    NAMES_LARGE = 3,             /* the first ones, which hold elements of C */
    TEMPORARY_MAX = PATH_MAX + 8 /* bytes of a temporary name */
};

/* Plain data. */
struct names {
    char output[PATH_MAX]; /* C, when it is complete */
    union {
        struct {
            char part[PATH_MAX];    /* C, while it is being written */
            char sums[2][PATH_MAX]; /* saved sums (save.h), which take turns */
            char journal[PATH_MAX]; /* journal.h */
            char lock[PATH_MAX];    /* lock.h */
        };
        char beside[NAMES_BESIDE][PATH_MAX]; /* all of these */
    };
};

/* Make the names for an output.  Complains (EXIT_INPUT) where one of them is too long. */
int names_make(struct names *names, const char *output, struct error *err);

/* The name that a file has until it is complete.  Returns its length; from PATH_MAX on, the system
 * accepts no such name. */
int names_temporary(const char *file, char temporary[TEMPORARY_MAX]);
