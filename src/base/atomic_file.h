/* Files that people and other programs read after a run: report, trace, page.  Each is written
 * under a name that nothing had and renamed when it is complete, so that nobody reads half of one,
 * and no other file is touched.  A link with the final name is replaced itself.  Such a file may
 * also go to standard output. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct error;

struct atomic_file {
    FILE *to;                 /* null: it could not be opened */
    const char *path, *what;  /* the caller's */
    char temporary[PATH_MAX]; /* empty: standard output */
};

/* Whether a path stands for standard output: "-", "/dev/stdout". */
bool atomic_file_is_stdout(const char *path);

/* Reserve standard output for the file whose path stands for it: whatever else is printed goes to
 * standard error from here on.  To be called once, before anything is printed. */
void atomic_file_reserve_stdout(void);

/* Open the file to be written, which is returned; null after a complaint.  `path`, and `what`,
 * which names it in complaints, have to stay.  atomic_file_close is due. */
FILE *atomic_file_open(struct atomic_file *file, const char *path, const char *what,
                       struct error *err);

/* Close it and give it its final name, or remove it where it could not be written. */
int atomic_file_close(struct atomic_file *file, struct error *err);
