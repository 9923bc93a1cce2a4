/* The files that are to be removed if this process ends now: they are of no use to another run. */
#pragma once

/* Register a file by its name, of less than PATH_MAX bytes; at most LEFTOVERS_MAX.  With a
 * descriptor, which must stay open, the file is removed only if it still has this name; -1: none,
 * as of a file that is about to be made.  Adding a file again gives it another descriptor. */
enum { LEFTOVERS_MAX = 7 };
void leftovers_add(const char *name, int descriptor);

/* The file is another run's, or was not made. */
void leftovers_forget(const char *name);

/* Remove the registered files, the first one last, if this process still holds its run's lock
 * (lock.h): otherwise they are another run's.  May be called from any thread and from a signal
 * handler. */
void leftovers_remove(void);

/* Forget the registered files: another run can resume from them now. */
void leftovers_keep(void);
