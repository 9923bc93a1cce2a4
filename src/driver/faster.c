#include "faster.h"

#include <stdarg.h>
#include <stdio.h>

static const double mostly = 0.5, nearly_all = 0.9; /* of the time */
static const double once = 1.05;

static void __attribute__((format(printf, 2, 3))) say(struct report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->advice, sizeof r->advice, format, arguments);
    va_end(arguments);
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

/* Reading includes decoding. */
static bool is_compressed(const struct problem *p)
{
    bool compressed = false;
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        compressed |= problem_reads(p, i) && p->matrix[i].pipeline.count > 0;
    return compressed;
}

static void advise_reading(const struct problem *p, const struct plan *plan, struct report *r)
{
    const double times = plan->moves.read_bytes / bytes_of_files(p);
    if (times > once)
        say(r, "with faster storage, or more memory: the files are read %.1f times", times);
    else
        say(r,
            is_compressed(p)
                ? "with more CPUs, or files that are not compressed: all is read and decoded once"
                : "only with faster storage: every byte is read once");
}

void faster_advise(const struct problem *p, const struct plan *plan, bool gpu, struct report *r)
{
    const double busy = r->stages[r->limit].busy_s[2] / r->wall_s;
    if (busy < mostly)
        return;
    switch (r->limit) {
    case STAGE_READ:
        if (plan)
            advise_reading(p, plan, r);
        break;
    case STAGE_GEMM:
        if (busy >= nearly_all)
            say(r, "only with more or faster %s: it multiplied nearly all the time",
                gpu ? "GPUs" : "processors");
        break;
    case STAGE_WRITE: say(r, "only with faster storage: C is written once"); break;
    default: break;
    }
}
