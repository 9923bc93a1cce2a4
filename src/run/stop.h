/* When to save and when to stop: signals, the time limit, the time between saves.
 *
 * SIGTERM, SIGINT, SIGHUP and SIGUSR2 ask for a stop; one of the first three at least 2 seconds
 * after another ends the process at once.  SIGUSR1 asks for a save. */
#ifndef DGEMM_OOC_STOP_H
#define DGEMM_OOC_STOP_H

#include <stdbool.h>

/* What a rank asks for; all do the most that any asks for. */
enum stop_level { STOP_NOT, STOP_SAVE, STOP_END };

/* From here on SIGUSR1 and SIGUSR2 are requests, for whoever will heed them; nothing is there yet
 * that the other signals would cut short. */
void stop_listen(void);

/* From here on all of the signals are.  Time counts from `started` (clock_now) to `max_s` seconds,
 * if that is not 0, or until the end of the job that SLURM_JOB_END_TIME states; `checkpoint_s`
 * between saves, of which one takes about `save_s`. */
void stop_begin(double started, double max_s, double checkpoint_s, double save_s);

/* What this rank asks for now.  Times are asked for by the rank that `keeps_time`. */
enum stop_level stop_level(bool keeps_time);

/* Something has been saved: what asked for it is done. */
void stop_saved(void);

/* Why the run is to end: "SIGTERM", "the time limit"; what this rank knows of it. */
const char *stop_reason(void);

#endif
