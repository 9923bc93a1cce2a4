/* What a run does now: its phases, one after the other, and how much of each is done, in a line on
 * standard error, or told to a listener.  One process of a run shows it.  On a terminal it is one
 * live line, drawn at most four times a second; elsewhere a line a minute, for a batch log.  A
 * thread draws it, so that it is there in a call that takes long, too. */
#pragma once

#include <stdbool.h>

/* What is known of a phase that counts other things than bytes; plain data. */
struct phase {
    const char *what;    /* a few words, which stay valid */
    double amount, done; /* floating-point operations */
    double tail_s;       /* that the phase is expected to take when all of them are done */
    const char *details; /* to follow, where there is room: fields, each behind two spaces */
};

/* From now on this process shows its phases.  `live`: as on a terminal. */
void phases_open(bool live);

/* Or it tells somebody of them, some times a second, in a thread of its own, until phases_close. */
struct phase_now {
    const char *what;
    double share, seconds_left; /* of the phase; negative: nobody knows */
};
typedef void phase_listener(void *user, const struct phase_now *now);
void phases_open_to(phase_listener *listener, void *user);

/* The newest phase ends, and no other is shown. */
void phases_close(void);

/* The main thread begins a phase, which ends the one before: what it does, in a few words, and how
 * many bytes that are, over all ranks; 0: nobody knows. */
void phase_begin(const char *what, double bytes);

/* Any thread: so many bytes more are done, over all ranks as far as this one can tell. */
void phase_count(double bytes);

/* The main thread: how far a phase is that counts otherwise; it begins with the first call. */
void phase_tell(const struct phase *now);

/* The phase ends, so that something else can be printed. */
void phase_end(void);

/* Take the line off the terminal for a moment: something else is printed now, and the phase goes
 * on. */
void phase_hide(void);
