#include "waits.h"

#include <unistd.h>

#include "meter.h"
#include "schedule.h"

static struct waits unseen, *mine = &unseen;

void waits_note(struct waits *record)
{
    mine = record ? record : &unseen;
    mine->process = getpid();
    mine->what = WAIT_FOR_NOTHING;
    mine->peer = WAIT_FOR_NOTHING;
    mine->beat = clock_ms();
}

static void begin(enum wait what, int operand, int64_t slab, int from)
{
    mine->operand = operand;
    mine->slab = slab;
    mine->from = from;
    mine->since = clock_ms();
    mine->what = what;
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
    mine->what = WAIT_FOR_NOTHING;
}

void wait_begin_message(int peer, bool comes)
{
    mine->comes = comes;
    mine->oldest = clock_ms();
    mine->peer = peer;
}

void wait_end_message(void)
{
    mine->peer = WAIT_FOR_NOTHING;
}

void wait_file(int change)
{
    atomic_fetch_add(&mine->files, change);
    mine->moved = clock_ms();
}
