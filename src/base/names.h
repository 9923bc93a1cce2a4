/* The names of the files that a run keeps, all made from the name of its output.  No other file
 * spells their endings. */
#pragma once

#include <limits.h>
#include <stddef.h>

struct error;

enum {
    NAMES_BESIDE = 5, /* beside the output; of them, */
    NAMES_LARGE = 3   /* the first ones, which hold elements of C */
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

/* Complain (EXIT_INPUT) where the system has no names that are so many bytes longer than this. */
int names_check_length(const char *path, size_t more, struct error *err);
