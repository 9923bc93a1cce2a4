#include "stalls.h"

#include <stdio.h>
#include <stdlib.h>

#include "comm.h"
#include "error.h"
#include "meter.h"
#include "notice.h"
#include "problem.h"
#include "waits.h"
#include "window.h"

enum {
    BEAT_SECONDS = 5, /* from which on a rank that has not looked is stopped */
    LINES = 8,        /* of a node's ranks, at most */
};

static struct {
    struct window window;
    struct waits *records, *mine;
    int first, count;   /* ranks */
    double limit, next; /* seconds */
} stalls;

int stalls_open(const struct comm *comm, double seconds, struct error *err)
{
    size_t bytes = (size_t)comm->node_size * sizeof *stalls.records;
    if (window_open(&stalls.window, comm, bytes, err))
        return err->code;
    stalls.records = (struct waits *)stalls.window.memory;
    stalls.first = comm->rank - comm->node_rank;
    stalls.count = comm->node_size;
    stalls.limit = stalls.next = seconds;
    stalls.mine = &stalls.records[comm->node_rank];
    waits_note(stalls.mine);
    return 0;
}

void stalls_close(void)
{
    waits_note(NULL);
    stalls.records = NULL;
    window_close(&stalls.window);
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
    return r->what != WAIT_FOR_NOTHING && r->what != WAIT_FOR_DEVICE &&
           seconds_since(&r->since) >= limit;
}

static void say_what(const struct waits *r, char *text, size_t size)
{
    int used = 0;
    switch ((enum wait)r->what) {
    case WAIT_FOR_PANEL:
        used = snprintf(text, size, "%c, step %lld",
                        r->operand == OPERAND_C ? 'C' : 'A' + r->operand, (long long)r->slab);
        if (r->from >= 0)
            snprintf(text + used, size - (size_t)used, ", from rank %d", r->from);
        break;
    case WAIT_FOR_SLOT: snprintf(text, size, "C to be written"); break;
    case WAIT_FOR_DEVICE: snprintf(text, size, "its device"); break;
    case WAIT_FOR_RANKS: snprintf(text, size, "other ranks to get as far"); break;
    case WAIT_FOR_RANK: snprintf(text, size, "rank %d to get as far", (int)r->from); break;
    default: snprintf(text, size, "nothing any more");
    }
}

/* One of the node's ranks.  False when there is nothing else to say of it. */
static bool say_rank(FILE *to, int index, double limit)
{
    const struct waits *r = &stalls.records[index];
    char what[64];
    int rank = stalls.first + index, process = (int)r->process;
    if (!runs(r))
        fprintf(to, "  rank %d (process %d) has been stopped for %.0f s\n", rank, process,
                seconds_since(&r->beat));
    else if (r->files > 0 && seconds_since(&r->moved) >= limit)
        fprintf(to, "  rank %d (process %d) has waited %.0f s for a file\n", rank, process,
                seconds_since(&r->moved));
    else if (r->what != WAIT_FOR_NOTHING && r != stalls.mine) {
        say_what(r, what, sizeof what);
        fprintf(to, "  rank %d (process %d) has waited %.0f s for %s\n", rank, process,
                seconds_since(&r->since), what);
    } else
        return false;
    return true;
}

/* What its slots wait for, if it is not what it waits for itself. */
static bool say_message(FILE *to, int index, double limit)
{
    const struct waits *r = &stalls.records[index];
    bool is_said = r->what == WAIT_FOR_PANEL && r->comes && r->from == r->peer;
    bool late =
        r->peer != WAIT_FOR_NOTHING && runs(r) && seconds_since(&r->oldest) >= limit && !is_said;
    if (late)
        fprintf(to, "  rank %d (process %d) has waited %.0f s for rank %d to %s a panel\n",
                stalls.first + index, (int)r->process, seconds_since(&r->oldest), (int)r->peer,
                r->comes ? "send" : "take");
    return late;
}

static void say(double limit)
{
    char what[64], *others = NULL;
    size_t bytes;
    FILE *to = open_memstream(&others, &bytes);
    for (int i = 0, said = 0; i < stalls.count && said < LINES && to; i++)
        said += say_rank(to, i, limit) + say_message(to, i, limit);
    if (to)
        fclose(to);
    say_what(stalls.mine, what, sizeof what);
    if (others && *others)
        others[strlen(others) - 1] = '\0'; /* the end of the last line */
    notice("rank %d has waited %.0f s for %s%s%s",
           stalls.first + (int)(stalls.mine - stalls.records), seconds_since(&stalls.mine->since),
           what, others && *others ? "; on its node:\n" : "", others ? others : "");
    free(others);
}

void stalls_look(void)
{
    struct waits *other = stalls.records;
    bool ran = runs(stalls.mine);
    stalls.mine->beat = clock_ms();
    if (!waits_long(stalls.mine, stalls.limit))
        stalls.next = stalls.limit;
    while (other < stalls.mine && !(runs(other) && waits_long(other, stalls.limit)))
        other++;
    if (other < stalls.mine || !ran || !waits_long(stalls.mine, stalls.next))
        return;
    say(stalls.limit);
    stalls.next *= 2;
}
