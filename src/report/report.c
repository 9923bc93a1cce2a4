#include "report.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "proc.h"

/* What is brought together of all ranks. */
enum {
    BUSY,
    BUSY_IF_IT_WORKS = BUSY + STAGE_COUNT,       /* for the mean */
    MINUS_BUSY = BUSY_IF_IT_WORKS + STAGE_COUNT, /* of those that work, for the least */
    AMOUNT = MINUS_BUSY + STAGE_COUNT,
    WORKS = AMOUNT + STAGE_COUNT, /* has tiles; others read for those that have */
    HOST_BYTES,
    DEVICE_BYTES,
    VALUES
};

static size_t baseline_bytes, baseline_shared;

/* Of this process, in bytes. */
static size_t process_memory(const char *name)
{
    uint64_t kib = 0;
    proc_number("/proc/self/status", name, &kib);
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

void report_plan(const struct plan *plan, double predicted_s, struct report *report)
{
    struct planned *planned = &report->planned;
    const double amounts[STAGE_COUNT] = {
        [STAGE_READ] = plan->moves.read_bytes,     [STAGE_NETWORK] = plan->moves.sent_bytes,
        [STAGE_IN] = plan->moves.total.in_bytes,   [STAGE_GEMM] = plan->moves.total.flops,
        [STAGE_OUT] = plan->moves.total.out_bytes, [STAGE_WRITE] = plan->moves.total.write_bytes};
    for (int i = 0; i < STAGE_COUNT; i++) {
        planned->busy_s[i] += plan->roofline.link_s[i];
        planned->amount[i] += amounts[i];
    }
    planned->wall_s += predicted_s;
    planned->pieces++;
}

bool report_is_planned(enum stage stage)
{
    return stage != STAGE_CACHE && stage != STAGE_CHECK;
}

static void name_ways(const struct run *run, struct report *report)
{
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        if (run->stores[operand])
            report->ways[operand] = store_way_name(run->stores[operand]);
    report->ways[OPERAND_COUNT] = store_way_name(run->c.store);
}

void report_gather(const struct run *run, struct report *report)
{
    double sum[VALUES], most[VALUES];
    struct run_totals done;
    run_totals(run, &done);
    bool works = done.amount[STAGE_GEMM] + done.amount[STAGE_WRITE] > 0;
    for (int i = 0; i < STAGE_COUNT; i++) {
        double busy = done.busy_s[i];
        sum[BUSY + i] = busy;
        sum[BUSY_IF_IT_WORKS + i] = works ? busy : 0;
        sum[MINUS_BUSY + i] = works ? -busy : -INFINITY;
        sum[AMOUNT + i] = done.amount[i];
    }
    sum[WORKS] = works;
    sum[HOST_BYTES] = peak_memory(run->comm);
    sum[DEVICE_BYTES] = (double)run->plan->device_bytes;
    memcpy(most, sum, sizeof most);
    comm_sum_vector(run->comm, sum, VALUES);
    comm_most_vector(run->comm, most, VALUES);
    for (int i = 0; i < STAGE_COUNT; i++) {
        struct stage_report *stage = &report->stages[i];
        stage->busy_s[0] += sum[WORKS] > 0 ? -most[MINUS_BUSY + i] : 0;
        stage->busy_s[1] += sum[WORKS] > 0 ? sum[BUSY_IF_IT_WORKS + i] / sum[WORKS] : 0;
        stage->busy_s[2] += most[BUSY + i];
        stage->amount += sum[AMOUNT + i];
        if (stage->busy_s[2] > report->stages[report->limit].busy_s[2])
            report->limit = (enum stage)i;
    }
    report->host_bytes = fmax(report->host_bytes, most[HOST_BYTES]);
    report->device_bytes = fmax(report->device_bytes, most[DEVICE_BYTES]);
    struct findings findings = run->check.verdict.findings;
    findings_gather(run->comm, &findings);
    findings_merge(&report->findings, &findings);
    report->saves += run->saver.saves;
    report->saves_s += run->saver.saves_s;
    name_ways(run, report);
}
