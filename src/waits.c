#include "waits.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "comm.h"
#include "error.h"
#include "meter.h"
#include "schedule.h"
#include "window.h"

enum {
    SECONDS = 60,     /* that a wait is long from */
    BEAT_SECONDS = 5, /* from which on a rank that has not looked is stopped */
    LINES = 8,        /* of a node's ranks, at most */
    NOTHING = -1,     /* beside enum wait */
};

/* In the window of the node; times as clock_now's, in milliseconds. */
struct record {
    pid_t process;
    _Atomic int what, operand, from;
    _Atomic int64_t slab, since;
    _Atomic int peer; /* of the oldest message, if there is one */
    atomic_bool comes;
    _Atomic int64_t oldest; /* since when it is that */
    _Atomic int files;      /* operations at work */
    _Atomic int64_t moved;  /* when the last of them began or ended */
    _Atomic int64_t beat;   /* when its rank looked last */
};

static struct record alone;
static struct {
    struct window window;
    struct record *records, *mine;
    int first, count;   /* ranks */
    double limit, next; /* seconds */
} waits = {.mine = &alone};

static int64_t now_ms(void)
{
    return (int64_t)(clock_now() * 1e3);
}

int waits_open(const struct comm *comm, struct error *err)
{
    const char *limit = getenv("DGEMM_OOC_TEST_WAIT");
    if (window_open(&waits.window, comm, (size_t)comm->node_size * sizeof alone, err))
        return err->code;
    waits.records = (struct record *)waits.window.memory;
    waits.first = comm->rank - comm->node_rank;
    waits.count = comm->node_size;
    waits.limit = waits.next = limit ? atof(limit) : SECONDS;
    waits.mine = &waits.records[comm->node_rank];
    waits.mine->process = getpid();
    waits.mine->what = NOTHING;
    waits.mine->peer = NOTHING;
    waits.mine->beat = now_ms();
    return 0;
}

void waits_close(void)
{
    waits.mine = &alone;
    waits.records = NULL;
    window_close(&waits.window);
}

static void begin(enum wait what, int operand, int64_t slab, int from)
{
    waits.mine->operand = operand;
    waits.mine->slab = slab;
    waits.mine->from = from;
    waits.mine->since = now_ms();
    waits.mine->what = what;
}

void wait_begin(enum wait what)
{
    begin(what, 0, 0, -1);
}

void wait_begin_panel(const struct transfer *transfer, int from)
{
    begin(WAIT_FOR_PANEL, (int)transfer->operand, transfer->slab, from);
}

void wait_begin_rank(int rank)
{
    begin(WAIT_FOR_RANK, 0, 0, rank);
}

void wait_end(void)
{
    waits.mine->what = NOTHING;
}

void wait_begin_message(int peer, bool comes)
{
    waits.mine->comes = comes;
    waits.mine->oldest = now_ms();
    waits.mine->peer = peer;
}

void wait_end_message(void)
{
    waits.mine->peer = NOTHING;
}

void wait_file(int change)
{
    atomic_fetch_add(&waits.mine->files, change);
    waits.mine->moved = now_ms();
}

static double seconds_since(const _Atomic int64_t *time)
{
    return (double)(now_ms() - *time) * 1e-3;
}

static bool runs(const struct record *r)
{
    return seconds_since(&r->beat) < BEAT_SECONDS;
}

/* For others: a device may take its time for a product. */
static bool waits_long(const struct record *r, double limit)
{
    return r->what != NOTHING && r->what != WAIT_FOR_DEVICE && seconds_since(&r->since) >= limit;
}

static void say_what(const struct record *r, char *text, size_t size)
{
    int used = 0;
    switch ((enum wait)r->what) {
    case WAIT_FOR_PANEL:
        used = snprintf(text, size, "%c, slab %lld",
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
    const struct record *r = &waits.records[index];
    char what[64];
    int rank = waits.first + index, process = (int)r->process;
    if (!runs(r))
        fprintf(to, "  rank %d (process %d) has been stopped for %.0f s\n", rank, process,
                seconds_since(&r->beat));
    else if (r->files > 0 && seconds_since(&r->moved) >= limit)
        fprintf(to, "  rank %d (process %d) has waited %.0f s for a file\n", rank, process,
                seconds_since(&r->moved));
    else if (r->what != NOTHING && r != waits.mine) {
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
    const struct record *r = &waits.records[index];
    bool is_said = r->what == WAIT_FOR_PANEL && r->comes && r->from == r->peer;
    bool late = r->peer != NOTHING && runs(r) && seconds_since(&r->oldest) >= limit && !is_said;
    if (late)
        fprintf(to, "  rank %d (process %d) has waited %.0f s for rank %d to %s a panel\n",
                waits.first + index, (int)r->process, seconds_since(&r->oldest), (int)r->peer,
                r->comes ? "send" : "take");
    return late;
}

static void say(double limit)
{
    char what[64], *others = NULL;
    size_t bytes;
    FILE *to = open_memstream(&others, &bytes);
    for (int i = 0, said = 0; i < waits.count && said < LINES && to; i++)
        said += say_rank(to, i, limit) + say_message(to, i, limit);
    if (to)
        fclose(to);
    say_what(waits.mine, what, sizeof what);
    fprintf(stderr, "dgemm_ooc: rank %d has waited %.0f s for %s%s%s",
            waits.first + (int)(waits.mine - waits.records), seconds_since(&waits.mine->since),
            what, others && *others ? "; on its node:\n" : "\n", others ? others : "");
    free(others);
}

void waits_look(void)
{
    struct record *other = waits.records;
    bool ran = runs(waits.mine);
    waits.mine->beat = now_ms();
    if (!waits_long(waits.mine, waits.limit))
        waits.next = waits.limit;
    while (other < waits.mine && !(runs(other) && waits_long(other, waits.limit)))
        other++;
    if (other < waits.mine || !ran || !waits_long(waits.mine, waits.next))
        return;
    say(waits.limit);
    waits.next *= 2;
}
