/* One run at a time is at work on an output.
 *
 * The system's locks (flock) ensure that, and end with their process.  Where a file system has
 * none, as NFS and Lustre may be mounted, a file OUTPUT.h5.lock replaces them: the run creates it,
 * touches it every 30 seconds and removes it at its end.  It is stale when its process is dead,
 * which can be known on the same computer only, or when it has not been touched for three
 * minutes. */
#pragma once

#include <stdbool.h>

struct error;

enum { LOCK_BEAT_SECONDS = 30, LOCK_STALE_SECONDS = 180 };

/* Lock an open file with flock's `operation`, without waiting. */
enum lock_state { LOCK_TAKEN, LOCK_BUSY, LOCK_UNSUPPORTED };
enum lock_state lock_file(int descriptor, int operation);

/* Complain (EXIT_INPUT) where the lock file `name` states that another run is at work. */
int lock_look(const char *name, struct error *err);

/* Create the lock file and touch it regularly.  A stale one is taken over, with a warning. */
int lock_take(const char *name, struct error *err);

/* Whether the lock is still this run's; true where none was needed. */
bool lock_is_held(void);

/* Remove the lock file, if this run has one.  lock_abandon may be called by any thread and by
 * signal handlers, just before the process ends. */
void lock_release(void);
void lock_abandon(void);
