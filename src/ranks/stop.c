#include "stop.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "leftovers.h"
#include "lock.h"
#include "meter.h"

/* A run stops so long before its limit, and so many times the planned duration of a stop, or the
 * measured one if that is earlier. */
enum { MARGIN_SECONDS = 5, PLANNED_STOPS = 3, MEASURED_STOPS = 2 };
enum { AGAIN_MS = 2000 }; /* within which a launcher may send one signal twice */

enum { BY_CALLER = -1 };

static bool listens;
static volatile sig_atomic_t end_asked, save_asked; /* the number of the signal that asked for it */
static _Atomic int64_t urged_ms; /* when the first of the others than SIGUSR2 came; 0: none has */
static double job_ends = INFINITY, limit_ends = INFINITY, limit_s; /* clock_now; seconds */
static double planned_s, measured_s;                               /* that a stop takes */
static double interval = INFINITY, saved_at;

static void ask_end(int number)
{
    if (number != SIGUSR2) {
        int64_t first = 0, now = clock_ms();
        if (!atomic_compare_exchange_strong(&urged_ms, &first, now) && now - first >= AGAIN_MS) {
            leftovers_remove();
            lock_abandon();
            signal(number, SIG_DFL);
            raise(number);
        }
    }
    end_asked = number;
}

static void ask_save(int number)
{
    save_asked = number;
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_NODEFER};
    sigaction(number, &action, NULL);
}

/* Seconds until the job ends, as Slurm says.  A time that is over is that of another job, or of one
 * that may go on. */
static double job_seconds(void)
{
    const char *text = getenv("SLURM_JOB_END_TIME");
    double left = text ? strtod(text, NULL) - (double)time(NULL) : 0;
    return left > 0 ? left : INFINITY;
}

void stop_listen(void)
{
    listens = true;
    handle(SIGUSR2, ask_end);
    handle(SIGUSR1, ask_save);
}

void stop_request(void)
{
    end_asked = BY_CALLER;
}

void stop_forget(void)
{
    end_asked = save_asked = 0;
    urged_ms = 0;
    job_ends = limit_ends = interval = INFINITY;
    limit_s = planned_s = measured_s = 0;
}

void stop_begin(double started, double max_s, double checkpoint_s, double stop_s)
{
    planned_s = stop_s;
    saved_at = clock_now();
    interval = checkpoint_s;
    job_ends = clock_now() + job_seconds();
    limit_s = max_s;
    limit_ends = max_s > 0 ? started + max_s : INFINITY;
    if (!listens)
        return;
    handle(SIGTERM, ask_end);
    handle(SIGINT, ask_end);
    handle(SIGHUP, ask_end);
}

void stop_measured(double stop_s)
{
    measured_s = stop_s;
}

/* Whether the time limit asks for a stop at this moment. */
static bool is_late(double now)
{
    const double margin =
        MARGIN_SECONDS + fmax(PLANNED_STOPS * planned_s, MEASURED_STOPS * measured_s);
    return now > fmin(job_ends - margin, limit_ends - fmin(margin, limit_s / 2));
}

enum stop_level stop_level(bool keeps_time)
{
    double now = clock_now();
    if (end_asked || (keeps_time && is_late(now)))
        return STOP_END;
    return save_asked || (keeps_time && now > saved_at + interval) ? STOP_SAVE : STOP_NOT;
}

void stop_saved(void)
{
    save_asked = 0;
    saved_at = clock_now();
}

bool stop_can_be_urged(void)
{
    return urged_ms != 0;
}

const char *stop_reason(void)
{
    if (!end_asked && !is_late(clock_now()))
        return "another rank";
    if (!end_asked)
        return limit_ends < job_ends ? "--max-time" : "the end of the job";
    return end_asked == BY_CALLER ? "the caller"
           : end_asked == SIGTERM ? "SIGTERM"
           : end_asked == SIGINT  ? "SIGINT"
           : end_asked == SIGHUP  ? "SIGHUP"
                                  : "SIGUSR2";
}
