#include <stdio.h>

#include "quantity.h"
#include "simulate.h"

const char *const resource_names[] = {
    "disk read",      "disk to node", "network send",   "network receive", "host cache",
    "host to device", "multiply",     "device to host", "node to disk",    "disk write"};

enum stage resource_stage(enum resource resource)
{
    static const enum stage stages[RESOURCE_COUNT] = {
        [RESOURCE_READ] = STAGE_READ,      [RESOURCE_LINK_IN] = STAGE_READ,
        [RESOURCE_SEND] = STAGE_NETWORK,   [RESOURCE_RECEIVE] = STAGE_NETWORK,
        [RESOURCE_CACHE] = STAGE_CACHE,    [RESOURCE_IN] = STAGE_IN,
        [RESOURCE_GEMM] = STAGE_GEMM,      [RESOURCE_OUT] = STAGE_OUT,
        [RESOURCE_LINK_OUT] = STAGE_WRITE, [RESOURCE_WRITE] = STAGE_WRITE};
    return stages[resource];
}

static const char *title_of(enum resource resource, bool gpu)
{
    const bool copies = resource == RESOURCE_IN || resource == RESOURCE_OUT;
    return copies ? stage_title(resource_stage(resource), gpu) : resource_names[resource];
}

static void print_usage(FILE *out, const struct simulation *s, enum resource resource, bool gpu)
{
    const struct usage *u = &s->usage[resource];
    double amount = u->amount;
    char count[16] = "";
    if (u->count > 1)
        snprintf(count, sizeof count, "%d x", u->count);
    fprintf(out, "  %-15s %8s %12s  busy %10s %4.0f %%\n", title_of(resource, gpu), count,
            resource == RESOURCE_GEMM ? quantity_work(amount) : quantity_bytes(amount),
            quantity_time(u->busy_s), 100 * u->busy_s / s->wall_s);
}

void simulate_print(FILE *out, const struct simulation *s, bool gpu)
{
    fprintf(out, "Simulated   on %d node%s: what is moved in all, how long the busiest is busy\n",
            s->nodes, s->nodes == 1 ? "" : "s");
    for (int i = 0; i < RESOURCE_COUNT; i++)
        if (s->usage[i].busy_s > 0)
            print_usage(out, s, (enum resource)i, gpu);
}

void simulate_print_time(FILE *out, const struct simulation *s, bool gpu)
{
    fprintf(out, "Predicted   %s", quantity_time(s->wall_s));
    if (s->pieces > 1)
        fprintf(out, " for all %d pieces that are left", s->pieces);
    if (s->before_s > 0)
        fprintf(out, ", %s of it before the product", quantity_time(s->before_s));
    fprintf(out,
            "%slimited by %s; disk traffic %s,\n"
            "            %.2f x the lower bound for this much memory (%s)\n",
            s->before_s > 0 ? ",\n            " : ", ", stage_words(resource_stage(s->limit), gpu),
            quantity_bytes(s->disk_bytes), s->disk_bytes / s->bound_bytes,
            quantity_bytes(s->bound_bytes));
    fflush(out);
}
