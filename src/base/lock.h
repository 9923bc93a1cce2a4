/* One run at a time is at work on an output.
 *
 * The system's locks (flock) see to that, which go with their process.  Where a file system has
 * none, as NFS and Lustre may be mounted, a file OUTPUT.h5.lock stands in: made by the run, which
 * touches it every 30 seconds, and removed at its end.  It holds no more when its process is dead,
 * which is only known on the same computer, or when it has not been touched for three minutes. */
#ifndef DGEMM_OOC_LOCK_H
#define DGEMM_OOC_LOCK_H

#include <stdbool.h>

struct error;

enum { LOCK_BEAT_SECONDS = 30, LOCK_STALE_SECONDS = 180 };

/* Lock an open file with flock's `operation`, without waiting. */
enum lock_state { LOCK_TAKEN, LOCK_BUSY, LOCK_UNSUPPORTED };
enum lock_state lock_file(int descriptor, int operation);

/* Complain (EXIT_INPUT) where the file `name` says that another run is at work. */
int lock_look(const char *name, struct error *err);

/* Make that file, and keep it fresh; one that holds no more is taken over, with a word. */
int lock_take(const char *name, struct error *err);

/* Whether no other run has taken it over since; true where none was needed. */
bool lock_is_held(void);

/* Remove it, if this run has one.  The second, for any thread or a signal's handler, before the
 * process ends. */
void lock_release(void);
void lock_abandon(void);

#endif
