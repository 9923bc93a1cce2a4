#include "advice.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "error.h"
#include "launcher.h"
#include "plan_print.h"
#include "quantity.h"

enum { THREADS_USEFUL = 16 }; /* more do not help a rank with a GPU */
static const double worthwhile =
                        0.8, /* of the time; a smaller gain is within the error of predictions */
    worthwhile_seconds = 2;
static const double mostly = 0.5, nearly_all = 0.9; /* of the time of a run */
static const double once = 1.05;
static const double memory_read_per_s = 40e9, memory_written_per_s = 20e9; /* by enough threads */

/* The predicted time on another machine; infinity where the product does not fit. */
static double seconds_on(const struct advice *a, const struct machine *machine)
{
    struct plan_request request = *a->request;
    struct plan plan = {0};
    struct error ignored = {0};
    if (machine->ranks != a->machine->ranks)
        request.grid_rows = request.grid_cols = 0;
    struct simulation predicted;
    if (plan_make(a->problem, machine, &request, &plan, &ignored))
        return INFINITY;
    simulate(a->problem, machine, &request, &plan, &predicted);
    return predicted.wall_s;
}

static bool is_worthwhile(const struct advice *a, double seconds)
{
    return seconds < worthwhile * a->predicted->wall_s &&
           seconds < a->predicted->wall_s - worthwhile_seconds;
}

static int ranks_of_a_computer(const struct advice *a)
{
    return (int)ceil_div(a->machine->ranks, a->computers);
}

/* The machine with more threads a rank: they move more and, on the CPU, multiply more. */
static struct machine with_threads(const struct machine *machine, int threads)
{
    struct machine more = *machine;
    double times = (double)threads / machine->threads;
    more.threads = threads;
    if (machine->files_in_memory) {
        double computers = (double)ceil_div(machine->ranks, machine->ranks_per_node);
        more.disk_read_bytes_per_s =
            fmax(machine->disk_read_bytes_per_s,
                 fmin(times * machine->disk_read_bytes_per_s, computers * memory_read_per_s));
        more.disk_write_bytes_per_s =
            fmax(machine->disk_write_bytes_per_s,
                 fmin(times * machine->disk_write_bytes_per_s, computers * memory_written_per_s));
    }
    for (int type = 0; type < 2 && !machine->gpu; type++)
        more.gemm_flops_per_s[type] *= times;
    return more;
}

static void advise_cpus(const struct advice *a, FILE *out)
{
    const struct placement *least = &a->placements[0];
    for (int rank = 1; rank < a->machine->ranks; rank++)
        if (a->placements[rank].threads < least->threads)
            least = &a->placements[rank];
    int share = least->online / ranks_of_a_computer(a);
    int useful = a->machine->gpu ? (int)min_i64(share, THREADS_USEFUL) : share;
    if (least->threads != a->machine->threads || useful <= least->threads)
        return;
    struct machine more = with_threads(a->machine, useful);
    double seconds = seconds_on(a, &more);
    if (!is_worthwhile(a, seconds))
        return;
    fprintf(out,
            "Note        a rank may use %d of %d CPUs: this takes about %s, limited by\n"
            "            %s; with %d for each about %s\n"
            "            (jobs/README.md, CPUs, says how)\n",
            least->threads, least->online, quantity_time(a->predicted->wall_s),
            stage_words(resource_stage(a->predicted->limit), a->machine->gpu), useful,
            quantity_time(seconds));
}

/* The machine with another number of ranks on each computer, one for each GPU. */
static void advise_ranks(const struct advice *a, FILE *out)
{
    const struct machine *m = a->machine;
    int local = ranks_of_a_computer(a);
    if (a->gpus == 0 || a->gpus == local || m->ranks % a->computers)
        return;
    struct machine other = *m;
    double each = (double)a->gpus / local; /* ranks, for every one that there is */
    other.ranks = a->gpus * a->computers;
    other.ranks_per_node = a->gpus;
    other.threads = (int)max_i64(1, (int64_t)(m->threads / each));
    other.host_memory = (size_t)((double)m->host_memory / each);
    if (a->gpus < local) {
        other.device_memory = (size_t)((double)m->device_memory / each);
        other.in_bytes_per_s /= each;
        other.out_bytes_per_s /= each;
        other.device_bytes_per_s /= each;
        for (int type = 0; type < 2; type++)
            other.gemm_flops_per_s[type] /= each;
        other.int8_ops_per_s /= each;
    }
    double seconds = seconds_on(a, &other);
    if (!is_worthwhile(a, seconds))
        return;
    fprintf(out, "Note        %d rank%s and %d GPU%s on a computer: this takes about %s,\n", local,
            local == 1 ? "" : "s", a->gpus, a->gpus == 1 ? "" : "s",
            quantity_time(a->predicted->wall_s));
    fprintf(out, "            with a rank for each GPU, -n %d, about %s\n", other.ranks,
            quantity_time(seconds));
}

/* The machine without the limits that were given of its memory. */
static void advise_memory(const struct advice *a, FILE *out)
{
    const struct machine *m = a->machine;
    const bool device = m->device_unlimited > 0, host = m->host_unlimited > 0;
    struct machine whole = *m;
    if (!device && !host)
        return;
    whole.device_memory = device ? m->device_unlimited : m->device_memory;
    whole.host_memory = host ? m->host_unlimited : m->host_memory;
    double seconds = seconds_on(a, &whole);
    if (!is_worthwhile(a, seconds))
        return;
    fprintf(out, "Note        ");
    if (device)
        fprintf(out, "--gpu-memory of %s%s", quantity_bytes((double)m->device_memory),
                host ? " and " : "");
    if (host)
        fprintf(out, "--host-memory of %s", quantity_bytes((double)m->host_memory));
    fprintf(out, ": this takes\n            about %s; with ", quantity_time(a->predicted->wall_s));
    if (device)
        fprintf(out, "%s%s", quantity_bytes((double)whole.device_memory), host ? " and " : "");
    if (host)
        fprintf(out, "%s", quantity_bytes((double)whole.host_memory));
    fprintf(out, " about %s\n", quantity_time(seconds));
}

/* The machine whose copies to its GPUs run at the usual rate. */
static void advise_link(const struct advice *a, FILE *out)
{
    const struct machine *m = a->machine;
    const double usual = machine_usual_link(m->compute_capability);
    struct machine faster = *m;
    if (m->in_bytes_per_s >= usual ||
        strcmp(machine_source(m, &m->in_bytes_per_s), "measured") != 0)
        return;
    faster.in_bytes_per_s = faster.out_bytes_per_s = usual;
    double seconds = seconds_on(a, &faster);
    if (!is_worthwhile(a, seconds))
        return;
    fprintf(out, "Note        copies to a GPU reach %s: this takes about %s;\n",
            quantity_rate(m->in_bytes_per_s), quantity_time(a->predicted->wall_s));
    fprintf(out, "            at %s, usual for such a GPU, about %s: its slot, a\n",
            quantity_rate(usual), quantity_time(seconds));
    fprintf(out, "            switch before it, or its lanes may be fewer or older (lspci -vv)\n");
}

static void advise_placement(const struct advice *a, FILE *out)
{
    int far = 0, first_far = 0;
    for (int rank = a->machine->ranks - 1; rank >= 0; rank--) {
        const struct placement *placement = &a->placements[rank];
        if (*placement->gpu && placement->nearby == 0) {
            far++;
            first_far = rank;
        }
    }
    if (far > 0)
        fprintf(out,
                "Note        the CPUs of rank %d%s are far from its GPU: copies are slow;\n"
                "            let the program bind it (--cpu-bind=none, --bind-to none)\n",
                first_far, far > 1 ? " and others" : "");
}

static void advise_tasks(FILE *out)
{
    int tasks = launcher_tasks_left();
    if (tasks > 1)
        fprintf(out,
                "Note        this Slurm job has %d tasks, and this run is one rank, outside them:\n"
                "            start it with srun to use them all\n",
                tasks);
}

void advice_print(const struct advice *advice, FILE *out)
{
    advise_tasks(out);
    if (advice->placements)
        advise_cpus(advice, out);
    advise_ranks(advice, out);
    advise_memory(advice, out);
    advise_link(advice, out);
    if (advice->placements)
        advise_placement(advice, out);
    fflush(out);
}

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

void advice_after(const struct problem *p, const struct plan *plan, bool gpu, struct report *r)
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
