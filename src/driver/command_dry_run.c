/* --dry-run: a plan, and its simulated run. */
#include <stdio.h>

#include "command.h"
#include "device.h"
#include "error.h"
#include "launcher.h"
#include "notice.h"
#include "output_check.h"
#include "ozaki.h"
#include "plan_print.h"
#include "quantity.h"
#include "spread.h"

/* Complain or warn where a run on this computer would not have a GPU. */
static void check_gpu(const struct caller *caller, struct error *err)
{
    const struct options *o = caller->options;
    if (o->device == CHOOSE_GPU)
        error_add(err, EXIT_RESOURCES,
                  "no GPU can be used here: %s; give --machine to plan for one that is elsewhere",
                  device_gpu_absence());
    else if (o->device == CHOOSE_AUTO && o->algorithm == ALGORITHM_AUTO)
        hardware_warn_of_cpu();
}

/* Say what a GPU's running sums would take as a product in residues, with as many moduli as the
 * operands need, and how accurate that is; or that this would not be faster. */
static void suggest_residues(const struct invocation *c)
{
    enum { CLEARLY_PERCENT = 95 };
    const struct problem *p = &c->job.problem;
    const struct machine *machine = &c->hardware.machine;
    const double now = c->outlook.all.wall_s;
    struct options options = c->options;
    const struct caller caller = {.options = &options, .comm = c->caller.comm};
    struct job other = {.problem = *p};
    struct outlook outlook;
    struct spread spread = {0};
    struct error cannot = {0};
    if (!machine->gpu || p->moduli > 0 || problem_is_exact(p) || !problem_reads_ab(p) ||
        problem_scales(p))
        return;
    other.problem.moduli = ozaki_moduli(p->type, p->complex);
    if (spread_probe(&other.problem, &spread, &cannot))
        return;
    other.problem.moduli = (int)max_i64(spread.moduli, other.problem.moduli);
    options.algorithm = ALGORITHM_OZAKI;
    work_begin(&other.progress.left, &other.problem);
    if (job_foresee(&caller, machine, &other, &outlook, &cannot))
        return;
    if (100 * outlook.all.wall_s > CLEARLY_PERCENT * now)
        fprintf(c->out, "            --algo ozaki would not be faster\n");
    else if (spread.moduli == 0)
        fprintf(c->out,
                "            --algo ozaki does not suit these operands: their dynamic range is too "
                "wide\n");
    else
        fprintf(
            c->out,
            "            --algo ozaki:%d: %s instead of %s; error bound of a row: %.2g u |a| |B|\n",
            other.problem.moduli, quantity_time(outlook.all.wall_s), quantity_time(now),
            problem_proven(&other.problem));
    fflush(c->out);
}

/* Print what would make such a run faster; where its ranks would be is not known. */
static void advise(const struct invocation *c, int gpus)
{
    const struct attempt *attempt = &c->outlook.first;
    const struct machine *m = &c->hardware.machine;
    const struct advice advice = {.problem = &attempt->problem,
                                  .machine = m,
                                  .request = &attempt->request,
                                  .predicted = &attempt->predicted,
                                  .computers = (int)ceil_div(m->ranks, m->ranks_per_node),
                                  .gpus = gpus};
    advice_print(&advice, c->out);
}

/* Where a file has only the shape of an operand, its elements are to come. */
static void assume_written(struct job *job)
{
    for (enum operand i = 0; i < OPERAND_COUNT; i++) {
        struct matrix *matrix = &job->sources[i].matrix;
        matrix->by_offset |= matrix->never_written;
        job->problem.matrix[i].by_offset = matrix->by_offset;
    }
}

/* Describe the product and plan it, on a machine that is `here` or has its rates from a file. */
static void plan(struct invocation *c, bool here)
{
    const struct options *o = &c->options;
    struct job *job = &c->job;
    struct problem *p = &job->problem;
    struct machine *m = &c->hardware.machine;
    job_describe(&c->caller, job, &c->err);
    if (!job->described || output_check_dataset(o, p, &c->err) ||
        output_check_beside(&c->names, o, p, &c->err))
        return;
    const struct prober alone = {0, 1};
    assume_written(job);
    double computers = (double)ceil_div(m->ranks, m->ranks_per_node);
    if (here) {
        machine_see_disk(computers * machine_probe_disk(p, &alone, m), m);
        machine_see_products(machine_probe_products(p, m->ranks_per_node, m), p->type, m);
    }
    work_begin(&job->progress.left, p);
    job_foresee(&c->caller, m, job, &c->outlook, &c->err);
}

int command_dry_run(struct invocation *c)
{
    const struct options *o = &c->options;
    struct machine *m = &c->hardware.machine;
    const struct resources *r = &o->resources;
    struct device_info info;
    struct error refused = {0};
    const bool here = !r->machine[0];
    const int gpus = o->device != CHOOSE_CPU ? device_gpu_count() : 0;
    const bool gpu = gpus > 0 && device_gpu_info(0, &info, &c->err) == 0;
    struct share share = {.ranks = r->ranks ? r->ranks : launcher_size(),
                          .device = gpu ? &info : NULL};
    share.local_ranks = r->ranks_per_node ? r->ranks_per_node
                        : r->ranks        ? r->ranks
                                          : launcher_local_size();
    share.cpus = machine_cpus() / share.local_ranks;
    share.sharing = gpu ? (int)ceil_div(share.local_ranks, gpus) : 1;
    c->caller = (struct caller){.options = o, .comm = &c->comm};
    file_names_make(&c->names, o->output.file, &c->err);
    if (!gpu && here)
        check_gpu(&c->caller, &c->err);
    machine_probe(o, &share, m);
    if (gpu && share.sharing == 1)
        machine_see_link(device_gpu_link(0), m);
    if (!here)
        machine_read(r, m, &c->err);
    m->ranks = r->ranks ? r->ranks : m->ranks;
    m->ranks_per_node = r->ranks_per_node ? r->ranks_per_node : m->ranks_per_node;
    plan(c, here);
    if (c->err.code)
        return c->err.code;
    if (!o->show.quiet)
        plan_print(c->out, &c->job.problem, m, &c->outlook.first.plan, c->job.progress.left.count);
    simulate_print_time(c->out, &c->outlook.all, m->gpu);
    if (!o->show.quiet) {
        suggest_residues(c);
        advise(c, here && m->gpu ? gpus : 0);
    }
    if (here && machine_check_memory(r, &share, m, &refused))
        error_add(&refused, EXIT_RESOURCES, "a run with this limit would be refused");
    else if (here)
        command_warn_of_memory(c, share.local_ranks);
    if (here)
        output_check_room(&c->names, &c->job.problem, &refused);
    notice_error(&refused);
    return c->err.code;
}
