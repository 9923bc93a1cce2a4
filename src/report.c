#include "report.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "quantity.h"

enum { VALUES = 2 * STAGE_COUNT + 5 };

static size_t baseline_bytes, baseline_shared;

/* A line "Name:   123 kB" of /proc/self/status, in bytes. */
static size_t process_memory(const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "re");
    if (!status)
        return 0;
    while (fgets(line, sizeof line, status))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %zu", &kib);
    fclose(status);
    return kib * 1024;
}

void report_baseline(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t reset = write(fd, "5", 1); /* VmHWM starts again from here */
        (void)reset;
        close(fd);
    }
    baseline_bytes = process_memory("VmRSS");
    baseline_shared = process_memory("RssShmem");
}

/* The most host memory that this rank has used since the baseline, and its part of what the node's
 * ranks share. */
static double peak_memory(const struct comm *comm)
{
    size_t peak = process_memory("VmHWM"), shared = process_memory("RssShmem");
    double others = shared > baseline_shared ? (double)(shared - baseline_shared) *
                                                   (comm->node_size - 1) / comm->node_size
                                             : 0;
    return peak > baseline_bytes ? (double)(peak - baseline_bytes) - others : 0;
}

static void name_ways(const struct run *run, struct report *report)
{
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        if (run->stores[operand])
            report->ways[operand] = store_way_name(run->stores[operand]);
    report->ways[OPERAND_COUNT] = store_way_name(run->output);
}

void report_gather(const struct run *run, const struct machine *machine, struct report *report)
{
    double mine[VALUES], least[VALUES], sum[VALUES], most[VALUES];
    struct tally tally;
    tally_take(run, &tally);
    bool works = tally.amount[STAGE_GEMM] + tally.amount[STAGE_WRITE] > 0;
    for (int i = 0; i < STAGE_COUNT; i++) {
        mine[i] = 1e-9 * (double)tally.busy_ns[i];
        mine[STAGE_COUNT + i] = (double)tally.amount[i];
    }
    double *rest = mine + 2 * STAGE_COUNT;
    rest[0] = works;
    rest[1] = peak_memory(run->comm);
    rest[2] = (double)run->plan->device_bytes;
    rest[3] = run->check.residual;
    rest[4] = (double)run->check.not_finite;
    comm_statistics(mine, VALUES, least, sum, most);
    for (int i = 0; i < STAGE_COUNT; i++) {
        struct stage_report *stage = &report->stages[i];
        stage->busy_s[0] += sum[2 * STAGE_COUNT] < machine->ranks ? 0 : least[i];
        stage->busy_s[1] += sum[2 * STAGE_COUNT] > 0 ? sum[i] / sum[2 * STAGE_COUNT] : 0;
        stage->busy_s[2] += most[i];
        stage->amount += sum[STAGE_COUNT + i];
        if (stage->busy_s[2] > report->stages[report->limit].busy_s[2])
            report->limit = (enum stage)i;
    }
    report->host_bytes = fmax(report->host_bytes, most[2 * STAGE_COUNT + 1]);
    report->device_bytes = fmax(report->device_bytes, most[2 * STAGE_COUNT + 2]);
    report->residual = fmax(report->residual, most[2 * STAGE_COUNT + 3]);
    report->not_finite += sum[2 * STAGE_COUNT + 4];
    report->residual_limit = run->check.limit;
    report->saves += run->saver.saves;
    report->saves_s += run->saver.saves_s;
    name_ways(run, report);
}
