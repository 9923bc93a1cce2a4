/* Files that the program keeps beside its output: opened, recognised, and given their names so that
 * no file of anybody else is written to or replaced, not even by what is printed; and what keeps
 * files in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct error;
struct statfs;

/* Occupy the standard streams that are closed: a file that is opened later would take the place of
 * one, and what is printed would go there.  Printing fails, as it should. */
void file_fill_streams(void);

/* Whether there is a file of this name, which may be a link; and whether the name leads to a file.
 * Only what the system knows not to be there is gone: where it cannot tell, that is a complaint
 * (EXIT_INPUT), and false.  So it is with all that has an `err` here. */
bool file_exists(const char *name, struct stat *status, struct error *err);
bool file_leads(const char *name, struct stat *status, struct error *err);

/* Whether two names lead to one file that exists. */
bool file_is_same(const char *x, const char *y, struct error *err);

/* Whether two paths are one name, however they are written, and whether or not it exists. */
bool file_is_same_name(const char *x, const char *y, struct error *err);

/* Whether `name` itself, which no link leads to, is the open file.  Also in a signal's handler. */
bool file_has_name(int descriptor, const char *name);

/* Whether the file system of this status keeps its files in memory: tmpfs or ramfs. */
bool file_is_in_memory(const struct statfs *status);

/* Write all of the bytes where the descriptor is, in spite of short and interrupted calls.  False,
 * with errno, where that fails. */
bool file_write(int descriptor, const char *bytes, size_t count);

/* A file that was made beside `name` a moment ago: its owner and its times are this process's user
 * and the time of day as the file system has them, which may be those of another computer. */
int file_sample(const char *name, struct stat *sample);

/* Why a file of this status, beside `name`, may not be taken for one that a run of this user has
 * made; null: it may.  A link, symbolic or hard, is elsewhere too. */
const char *file_why_foreign(const char *name, const struct stat *status);

/* Make a new file beside `name`, whose name nothing had, open to be written.  The descriptor, or -1
 * with errno.  `made` has room for PATH_MAX bytes. */
enum { FILE_BESIDE_BYTES = 7 }; /* that its name is longer */
int file_make_beside(const char *name, char *made);

/* Open a file that may be taken for one that a run of this user has made.  The descriptor, or -1
 * with errno: EMLINK for a link or what is no regular file, EPERM for another user's. */
int file_open_own(const char *name, int flags);

/* Give the file `part` another name.  Where that is taken: 0 when it is to be replaced, EEXIST
 * otherwise.  0 or an errno. */
int file_give_name(const char *part, const char *name, bool replace);

/* Make a file's name durable, where the file system can. */
void file_sync_name(const char *name);

/* For madvise: populate the pages of a mapping for writing.  In the headers since Linux 5.14. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
