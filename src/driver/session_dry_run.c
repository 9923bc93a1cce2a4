/* --dry-run: a plan, and its simulated run. */
#include <stdio.h>

#include "advice.h"
#include "device.h"
#include "error.h"
#include "launcher.h"
#include "output_check.h"
#include "ozaki.h"
#include "plan_print.h"
#include "problem_open.h"
#include "quantity.h"
#include "session.h"
#include "spread.h"

/* Complain or warn where a run on this computer would not have a GPU. */
static void check_gpu(const struct options *o, struct error *err)
{
    if (o->device == CHOOSE_GPU)
        error_add(err, EXIT_RESOURCES,
                  "no GPU can be used here: %s; give --machine to plan for one that is elsewhere",
                  device_gpu_absence());
    else if (o->device == CHOOSE_AUTO && o->algorithm == ALGORITHM_AUTO)
        session_warn_of_cpu();
}

/* Say what a GPU's running sums would take as a product in residues, with as many moduli as the
 * operands need, and how accurate that is; or that this would not be faster. */
static void suggest_residues(const struct session *s)
{
    enum { CLEARLY_PERCENT = 95 };
    const struct problem *p = &s->problem;
    struct session other = *s;
    struct spread spread = {0};
    if (!s->hardware.machine.gpu || p->moduli > 0 || problem_is_exact(p) || !problem_reads_ab(p) ||
        p->scaling.axis)
        return;
    other.problem.moduli = ozaki_moduli(p->type, p->complex);
    if (spread_probe(&other.problem, &spread, &other.err))
        return;
    other.problem.moduli = (int)max_i64(spread.moduli, other.problem.moduli);
    other.options.algorithm = ALGORITHM_OZAKI;
    work_begin(&other.progress.left, &other.problem);
    session_plan_all(&other);
    double seconds = other.record.predicted.wall_s;
    if (other.err.code)
        return;
    if (100 * seconds > CLEARLY_PERCENT * s->record.predicted.wall_s)
        fprintf(s->out, "            --algo ozaki would not be faster\n");
    else if (spread.moduli == 0)
        fprintf(s->out,
                "            --algo ozaki does not suit these operands: their dynamic range is too "
                "wide\n");
    else
        fprintf(
            s->out,
            "            --algo ozaki:%d: %s instead of %s; error bound of a row: %.2g u |a| |B|\n",
            other.problem.moduli, quantity_time(seconds), quantity_time(s->record.predicted.wall_s),
            problem_proven(&other.problem));
    fflush(s->out);
}

/* Print what would make such a run faster; where its ranks would be is not known. */
static void advise(const struct session *s, int gpus)
{
    const struct attempt *attempt = &s->attempt;
    const struct machine *m = &s->hardware.machine;
    const struct advice advice = {.problem = &attempt->problem,
                                  .machine = m,
                                  .request = &attempt->request,
                                  .predicted = &attempt->predicted,
                                  .computers = (int)ceil_div(m->ranks, m->ranks_per_node),
                                  .gpus = gpus};
    advice_print(&advice, s->out);
}

/* Where a file has only the shape of an operand, its elements are to come. */
static void assume_written(struct session *s)
{
    for (enum operand i = 0; i < OPERAND_COUNT; i++) {
        struct matrix *matrix = &s->sources[i].matrix;
        matrix->by_offset |= matrix->never_written;
        s->problem.matrix[i].by_offset = matrix->by_offset;
    }
}

int session_dry_run(struct session *s)
{
    const struct options *o = &s->options;
    struct file_names *names = &s->output.names;
    struct machine *m = &s->hardware.machine;
    struct device_info info;
    struct error refused = {0};
    const bool here = !o->machine[0];
    int ranks = o->ranks ? o->ranks : launcher_size();
    int launched = o->ranks ? ranks : launcher_local_size();
    int local = o->ranks_per_node ? o->ranks_per_node : launched;
    int gpus = o->device != CHOOSE_CPU ? device_gpu_count() : 0;
    bool gpu = gpus > 0 && device_gpu_info(0, &info, &s->err) == 0;
    const struct device_info *known = gpu ? &info : NULL;
    int sharing = gpu ? (int)ceil_div(local, gpus) : 1;
    file_names_make(names, o->output.file, &s->err);
    if (!gpu && here)
        check_gpu(o, &s->err);
    machine_probe(o, ranks, local, machine_cpus() / local, known, sharing, m);
    if (gpu && sharing == 1)
        machine_see_link(device_gpu_link(0), m);
    if (!here)
        machine_read(o, m, &s->err);
    m->ranks = o->ranks ? o->ranks : m->ranks;
    m->ranks_per_node = o->ranks_per_node ? o->ranks_per_node : m->ranks_per_node;
    s->described = problem_open(o, s->sources, &s->problem, &s->err) == 0 &&
                   session_choose_moduli(o, &s->problem, &s->err) == 0;
    if (s->described && output_check_dataset(o, &s->problem, &s->err) == 0 &&
        output_check_beside(names, o, &s->problem, &s->err) == 0) {
        const struct prober alone = {0, 1};
        assume_written(s);
        double computers = (double)ceil_div(m->ranks, m->ranks_per_node);
        if (here)
            machine_see_disk(computers * machine_probe_disk(&s->problem, &alone, m), m);
        work_begin(&s->progress.left, &s->problem);
        session_plan_all(s);
    }
    if (s->err.code)
        return s->err.code;
    if (!o->quiet) {
        plan_print(s->out, &s->problem, m, &s->attempt.plan, s->progress.left.count);
        simulate_print(s->out, &s->record.predicted, m->gpu);
    }
    simulate_print_time(s->out, &s->record.predicted, m->gpu);
    if (!o->quiet) {
        suggest_residues(s);
        advise(s, here && m->gpu ? gpus : 0);
    }
    if (here && machine_check_memory(o, local, known, sharing, m, &refused))
        error_add(&refused, EXIT_RESOURCES, "a run with this limit would be refused");
    else if (here)
        session_warn_of_memory(&s->attempt.plan, local);
    if (here)
        output_check_room(names, &s->problem, &refused);
    error_print(&refused, "dgemm_ooc");
    return s->err.code;
}
