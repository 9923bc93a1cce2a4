/* When to save and when to stop: signals, the time limit, the time between checkpoints.
 *
 * SIGTERM, SIGINT, SIGHUP and SIGUSR2 ask for a stop; one of the first three at least 2 seconds
 * after another ends the process at once.  SIGUSR1 asks for a save. */
#pragma once

#include <stdbool.h>

/* What a rank asks for; all ranks do the most that any of them asks for. */
enum stop_level { STOP_NOT, STOP_SAVE, STOP_END };

/* Listen to signals, which a program does that is its own master: from now on SIGUSR1 and SIGUSR2
 * are requests, which are kept until stop_level is called.  The other signals still end the
 * process, which has nothing to save yet. */
void stop_listen(void);

/* The caller of the product asks for a stop.  From any thread and from signal handlers. */
void stop_request(void);

/* Forget all requests and limits: those were of another run. */
void stop_forget(void);

/* From now on all of these signals are requests, if this process listens.  The run is to end
 * `max_s` seconds after `started` (clock_now), if max_s is not 0, and before the end of the job
 * that SLURM_JOB_END_TIME states.  Checkpoints are `checkpoint_s` seconds apart; a stop is planned
 * to take `stop_s` seconds, of which only the rank that keeps time need know. */
void stop_begin(double started, double max_s, double checkpoint_s, double stop_s);

/* By what the run has measured so far, a stop takes `stop_s` seconds.  On the rank that keeps time,
 * which stops earlier if that is longer than was planned. */
void stop_measured(double stop_s);

/* What this rank asks for now.  Only the rank that `keeps_time` looks at the clock. */
enum stop_level stop_level(bool keeps_time);

/* A checkpoint is complete: requests for one are served. */
void stop_saved(void);

/* Whether one of the signals that end the process, when they come again, has come. */
bool stop_can_be_urged(void);

/* Why the run is to end, as far as this rank knows: "SIGTERM", "--max-time". */
const char *stop_reason(void);
