/* The names of the files that a run keeps, all made from the name of its output.  No other file
 * spells their endings. */
#pragma once

#include <limits.h>
#include <stddef.h>

struct error;

enum {
    FILE_NAMES_BESIDE = 5, /* beside the output; of them, */
    FILE_NAMES_LARGE = 3   /* the first ones, which hold elements of C */
};

/* Plain data. */
struct file_names {
    char output[PATH_MAX]; /* C, when it is complete */
    union {
        struct {
            char part[PATH_MAX];    /* C, while it is being written */
            char sums[2][PATH_MAX]; /* saved sums (save.h), which take turns */
            char journal[PATH_MAX]; /* journal.h */
            char lock[PATH_MAX];    /* lock.h */
        };
        char beside[FILE_NAMES_BESIDE][PATH_MAX]; /* all of these */
    };
};

/* Make the names for an output.  Complains (EXIT_INPUT) where one of them is too long. */
int file_names_make(struct file_names *names, const char *output, struct error *err);

/* Complain (EXIT_INPUT) where the system has no names that are so many bytes longer than this. */
int file_names_check_length(const char *path, size_t more, struct error *err);
