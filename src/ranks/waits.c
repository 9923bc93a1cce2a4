#include "waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "meter.h"
#include "notice.h"
#include "schedule.h"
#include "text.h"

enum {
    BEAT_SECONDS = 5, /* from which on a rank that has not looked is stopped */
    LINES = 8,        /* of a node's ranks, at most */
};

static struct waits unseen; /* of a process that has no others to see it */

static struct {
    struct waits *records, *mine;
    int count, first;   /* ranks */
    double limit, next; /* seconds */
} waits = {.mine = &unseen};

void waits_open(struct waits *records, int count, int mine, int first, double seconds)
{
    waits.records = records;
    waits.count = count;
    waits.first = first;
    waits.limit = waits.next = seconds;
    waits.mine = &records[mine];
    waits.mine->process = getpid();
    waits.mine->beat = clock_ms();
}

void waits_close(void)
{
    waits.mine = &unseen;
}

static void begin(struct waiting *w, enum wait what, int rank)
{
    w->rank = rank;
    w->since = clock_ms();
    w->what = what;
}

void wait_begin(enum wait what)
{
    begin(&waits.mine->main, what, -1);
}

void wait_begin_panel(const struct transfer *transfer, int from)
{
    waits.mine->main.operand = (int)transfer->operand;
    waits.mine->main.slab = transfer->slab;
    begin(&waits.mine->main, WAIT_FOR_PANEL, from);
}

void wait_begin_rank(int rank)
{
    begin(&waits.mine->main, WAIT_FOR_RANK, rank);
}

void wait_end(void)
{
    waits.mine->main.what = WAIT_FOR_NOTHING;
}

void wait_begin_message(int peer, bool comes)
{
    begin(&waits.mine->message, comes ? WAIT_TO_RECEIVE : WAIT_TO_SEND, peer);
}

void wait_end_message(void)
{
    waits.mine->message.what = WAIT_FOR_NOTHING;
}

void wait_file(int change)
{
    atomic_fetch_add(&waits.mine->files, change);
    waits.mine->moved = clock_ms();
}

static double seconds_since(const _Atomic int64_t *time)
{
    return (double)(clock_ms() - *time) * 1e-3;
}

static bool runs(const struct waits *r)
{
    return seconds_since(&r->beat) < BEAT_SECONDS;
}

/* For others: a device may take its time for a product. */
static bool waits_long(const struct waits *r, double limit)
{
    return r->main.what != WAIT_FOR_NOTHING && r->main.what != WAIT_FOR_DEVICE &&
           seconds_since(&r->main.since) >= limit;
}

static const char *name_of(const struct waiting *w)
{
    const int rank = w->rank;
    switch ((enum wait)w->what) {
    case WAIT_FOR_PANEL:
        return text_make("%c, step %lld%s", "ABC"[w->operand], (long long)w -> slab,
                         rank < 0 ? "" : text_make(", from rank %d", rank));
    case WAIT_FOR_SLOT: return "C to be written";
    case WAIT_FOR_DEVICE: return "its device";
    case WAIT_FOR_RANKS: return "other ranks to get as far";
    case WAIT_FOR_RANK: return text_make("rank %d to get as far", rank);
    case WAIT_TO_SEND: return text_make("rank %d to take a panel", rank);
    case WAIT_TO_RECEIVE: return text_make("rank %d to send a panel", rank);
    default: return "nothing any more";
    }
}

/* A line on one of the node's ranks. */
static int say_line(FILE *to, int index, const char *verb, const _Atomic int64_t *since,
                    const char *what)
{
    return fprintf(to, "\n  rank %d (process %d) has %s %.0f s%s%s", waits.first + index,
                   (int)waits.records[index].process, verb, seconds_since(since),
                   *what ? " for " : "", what) > 0;
}

/* What there is to say of one of them, in so many lines: of its slots' messages, if it is not what
 * it waits for itself. */
static int say_rank(FILE *to, int index, double limit)
{
    const struct waits *r = &waits.records[index];
    const struct waiting *main = &r->main, *message = &r->message;
    const bool is_said = main->what == WAIT_FOR_PANEL && message->what == WAIT_TO_RECEIVE &&
                         main->rank == message->rank;
    int lines = 0;
    if (!runs(r))
        return say_line(to, index, "been stopped for", &r->beat, "");
    if (r->files > 0 && seconds_since(&r->moved) >= limit)
        lines = say_line(to, index, "waited", &r->moved, "a file");
    else if (main->what != WAIT_FOR_NOTHING && r != waits.mine)
        lines = say_line(to, index, "waited", &main->since, name_of(main));
    if (message->what != WAIT_FOR_NOTHING && seconds_since(&message->since) >= limit && !is_said)
        lines += say_line(to, index, "waited", &message->since, name_of(message));
    return lines;
}

static void say(double limit)
{
    const struct waiting *mine = &waits.mine->main;
    char *others = NULL;
    size_t bytes;
    FILE *to = open_memstream(&others, &bytes);
    for (int i = 0, said = 0; i < waits.count && said < LINES && to; i++)
        said += say_rank(to, i, limit);
    if (to)
        fclose(to);
    notice("rank %d has waited %.0f s for %s%s%s", waits.first + (int)(waits.mine - waits.records),
           seconds_since(&mine->since), name_of(mine), others && *others ? "; on its node:" : "",
           others ? others : "");
    free(others);
}

void waits_look(void)
{
    struct waits *other = waits.records;
    bool ran = runs(waits.mine);
    waits.mine->beat = clock_ms();
    if (!waits_long(waits.mine, waits.limit))
        waits.next = waits.limit;
    while (other < waits.mine && !(runs(other) && waits_long(other, waits.limit)))
        other++;
    if (other < waits.mine || !ran || !waits_long(waits.mine, waits.next))
        return;
    say(waits.limit);
    waits.next *= 2;
}
