#include "faster.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "error.h"
#include "quantity.h"
#include "text.h"

static const double mostly = 0.5, nearly_all = 0.9; /* of the time */
static const double worthwhile = 0.9;               /* of the bytes: a smaller gain hardly shows */
static const double once = 1.05;

enum { DOUBLINGS = 30 }; /* of memory */

/* What goes through the limiting stage, as far as it depends on the memory. */
static double bytes_through(enum stage stage, const struct plan *plan)
{
    return stage == STAGE_READ      ? plan->moves.read_bytes
           : stage == STAGE_NETWORK ? plan->moves.sent_bytes
                                    : plan->moves.total.in_bytes;
}

static size_t doubled(size_t given, size_t most, int times)
{
    const double bytes = fmin(ldexp((double)given, times), (double)most);
    return (size_t)bytes >> 20 << 20; /* as it is printed */
}

/* The machine with the limits that were given doubled so often, as far as there is memory. */
static struct machine with_memory(const struct machine *m, int times)
{
    struct machine more = *m;
    if (m->host_unlimited > m->host_memory)
        more.host_memory = doubled(m->host_memory, m->host_unlimited, times);
    if (m->device_unlimited > m->device_memory)
        more.device_memory = doubled(m->device_memory, m->device_unlimited, times);
    return more;
}

/* Infinity where that cannot be planned. */
static double bytes_with(const struct advice *a, enum stage stage, int times)
{
    const struct machine more = with_memory(a->machine, times);
    struct plan plan = {0};
    struct error ignored = {0};
    if (plan_make(a->problem, &more, a->request, &plan, &ignored))
        return INFINITY;
    return bytes_through(stage, &plan);
}

/* How often the limits have to be doubled for about as few bytes as with all memory; 0 where that
 * would not help.  Bisects, since with many ranks a plan takes a while. */
static int doublings(const struct advice *a, enum stage stage, double now, double *then)
{
    int low = 0, high = DOUBLINGS;
    const double least = bytes_with(a, stage, high);
    *then = least;
    if (!(least < worthwhile * now))
        return 0;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        const double bytes = bytes_with(a, stage, middle);
        if (bytes <= once * least) {
            high = middle;
            *then = bytes;
        } else {
            low = middle;
        }
    }
    return high;
}

static void __attribute__((format(printf, 2, 3))) say(struct report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->advice, sizeof r->advice, format, arguments);
    va_end(arguments);
}

/* "--host-memory 64M"; both limits where both were given. */
static const char *options_of(const struct machine *m, const struct machine *more)
{
    const bool host = more->host_memory > m->host_memory;
    const bool device = more->device_memory > m->device_memory;
    const char *first = host ? text_make("--host-memory %zuM", more->host_memory >> 20) : "";
    return device ? text_make("%s%s--gpu-memory %zuM", first, host ? " and " : "",
                              more->device_memory >> 20)
                  : first;
}

/* Bytes of what is read, each element once. */
static double bytes_of_files(const struct problem *p)
{
    double bytes = 0;
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        if (problem_reads(p, i) && !(p->symmetric && i == OPERAND_B)) /* which is A */
            bytes += problem_bytes(p, i);
    return bytes;
}

/* Whether more memory makes the limiting stage move less, which it then says. */
static bool advise_more_memory(const struct advice *a, const struct plan *plan, enum stage stage,
                               struct report *r)
{
    double then;
    const double now = bytes_through(stage, plan), files = bytes_of_files(a->problem);
    const int times = doublings(a, stage, now, &then);
    const struct machine more = with_memory(a->machine, times);
    const char *options = options_of(a->machine, &more);
    if (times == 0)
        return false;
    if (stage == STAGE_READ && then <= once * files)
        say(r, "with %s the files would be read once, not %.1f times", options, now / files);
    else if (stage == STAGE_READ)
        say(r, "with %s the files would be read %.1f times, not %.1f", options, then / files,
            now / files);
    else
        say(r, "with %s %.0f %% fewer bytes would be %s", options, 100 * (1 - then / now),
            stage == STAGE_NETWORK ? "sent" : "copied");
    return true;
}

/* Reading includes decoding. */
static bool is_compressed(const struct problem *p)
{
    bool compressed = false;
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        compressed |= problem_reads(p, i) && p->matrix[i].pipeline.count > 0;
    return compressed;
}

static void advise_reading(const struct advice *a, const struct plan *plan, bool whole,
                           struct report *r)
{
    const double times = bytes_through(STAGE_READ, plan) / bytes_of_files(a->problem);
    if (!whole)
        return;
    if (times <= once)
        say(r,
            is_compressed(a->problem)
                ? "with more CPUs, or files that are not compressed: all is read and decoded once"
                : "only with faster storage: every byte is read once");
    else if (!advise_more_memory(a, plan, STAGE_READ, r))
        say(r, "with faster storage, or more memory: the files are read %.1f times", times);
}

void faster_advise(const struct advice *a, const struct plan *plan, bool whole, struct report *r)
{
    const double busy = r->stages[r->limit].busy_s[2] / r->wall_s;
    if (busy < mostly)
        return;
    switch (r->limit) {
    case STAGE_READ: advise_reading(a, plan, whole, r); break;
    case STAGE_CACHE:
    case STAGE_NETWORK:
    case STAGE_IN:
        if (whole)
            advise_more_memory(a, plan, r->limit, r);
        break;
    case STAGE_GEMM:
        if (busy >= nearly_all)
            say(r, "only with more or faster %s: it multiplied nearly all the time",
                a->machine->gpu ? "GPUs" : "processors");
        break;
    case STAGE_WRITE: say(r, "only with faster storage: C is written once"); break;
    default: break;
    }
}
