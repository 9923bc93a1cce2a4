/* Files that a process has made and that are worth nothing if it ends now. */
#ifndef DGEMM_OOC_LEFTOVERS_H
#define DGEMM_OOC_LEFTOVERS_H

/* Remember a file by its name, of less than PATH_MAX bytes, up to LEFTOVERS_MAX of them.  Where a
 * descriptor is given, which stays open, the file is removed only while it still has the name;
 * else -1. */
enum { LEFTOVERS_MAX = 4 };
void leftovers_add(const char *name, int descriptor);

/* Remove them, if this process still holds its run's lock (lock.h): what another run has is not
 * this one's to remove.  From any thread, or a signal's handler. */
void leftovers_remove(void);

/* They are worth something now: another run can resume from them. */
void leftovers_keep(void);

#endif
