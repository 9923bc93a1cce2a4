/* What is to be multiplied, and how much of it is done already. */
#include <inttypes.h>
#include <stdio.h>

#include "device.h"
#include "error.h"
#include "job.h"
#include "notice.h"
#include "output_check.h"
#include "phase.h"
#include "problem_open.h"
#include "spread.h"

int job_check_operands(const struct caller *caller, const struct job *job, struct error *err)
{
    struct error changed = {0};
    if (err->code == EXIT_STOPPED)
        return err->code;
    phase_begin("looking at the files again", 0);
    if (caller->comm->local_rank == 0)
        operand_state_check(&job->operands, &changed);
    if (comm_agree(caller->comm, &changed))
        *err = changed;
    return err->code;
}

/* Rank 0: what earlier runs have left of this product. */
static void look_back(const struct options *o, struct job *job, struct error *err)
{
    const struct file_names *names = &job->output.names;
    const struct problem *p = &job->problem;
    struct journal *journal = &job->journal;
    struct progress *progress = &job->progress;
    if (operand_state_take(&job->operands, p, err))
        return;
    journal_describe(journal, names, o, p, &job->operands);
    const enum output_state state = output_state(o, journal_identity(journal), err);
    job->complete = state == OUTPUT_COMPLETE && !o->force && o->saving.restart != RESTART_NEVER;
    if (job->complete) {
        output_check_beside(names, o, p, err);
        return;
    }
    journal_read(journal, o->saving.restart, p, progress, err);
    job->output.left = !progress->saved                 ? LEFT_NOTHING
                       : output_part_exists(names, err) ? LEFT_PART
                       : state == OUTPUT_UNFINISHED     ? LEFT_MISPLACED
                                                        : LEFT_NOTHING;
    if (job->output.left == LEFT_NOTHING) /* it was given its name, or away */
        *progress = (struct progress){0};
    output_check(names, o, p, job->output.left, err);
    if (progress->saved)
        job->problem.symmetric = progress->left.symmetric; /* its pieces go on as they are */
    else
        work_begin(&progress->left, p);
}

/* Of a product in residues: as many moduli as the operands need, unless the options say how many;
 * a warning where these are too few. */
static int choose_moduli(const struct caller *caller, struct problem *p, struct error *err)
{
    struct spread spread;
    if (p->moduli == 0 || !problem_reads_ab(p) || problem_scales(p) ||
        spread_probe(p, &spread, err))
        return err->code;
    if (caller->options->moduli == 0)
        p->moduli = spread.moduli > 0 ? spread.moduli : RESIDUES_MOST;
    if (spread.moduli == 0)
        notice("the dynamic range of A or B is so wide that even %d moduli may be less "
               "accurate than plain sums of products; leave --algo at auto",
               RESIDUES_MOST);
    else if (spread.moduli > p->moduli)
        notice("%d moduli are too few for the dynamic range of A and B: sampled errors reach "
               "%.2g u |A| |B|, over an eighth of the bound of plain sums, %" PRId64
               "; give --algo ozaki:%d, or ozaki",
               p->moduli, spread.units, p->k, spread.moduli);
    return 0;
}

int job_describe(const struct caller *caller, struct job *job, struct error *err)
{
    job->described = problem_open(caller->options, job->sources, &job->problem, err) == 0 &&
                     choose_moduli(caller, &job->problem, err) == 0;
    return err->code;
}

void job_share_problem(const struct caller *caller, struct job *job)
{
    comm_share(caller->comm, &job->problem, sizeof job->problem, 0);
    comm_share(caller->comm, job->sources, sizeof job->sources, 0);
    job->problem.sources = job->sources;
}

int job_open(const struct caller *caller, struct job *job, struct error *err)
{
    const struct options *o = caller->options;
    const struct comm *comm = caller->comm;
    *job = (struct job){.output = {.lock = -1}, .journal = {.descriptor = -1}};
    phase_begin("opening A and B", 0);
    file_names_make(&job->output.names, o->output.file, err);
    if (comm->rank == 0) {
        job_describe(caller, job, err);
        if (job->described)
            look_back(o, job, err);
        else
            output_check(&job->output.names, o, NULL, LEFT_NOTHING, err);
        if (o->io == STORE_MAPPED && comm->computers > 1) /* whole pages are written */
            error_add(err, EXIT_USAGE, "--io mapped works on one node only; leave --io at auto");
    }
    comm_share(comm, &job->described, sizeof job->described, 0);
    job_share_problem(caller, job);
    comm_share(comm, &job->progress, sizeof job->progress, 0);
    comm_share(comm, &job->complete, sizeof job->complete, 0);
    return err->code;
}

void job_close(struct job *job)
{
    operand_state_free(&job->operands);
    statistics_free(&job->statistics);
    json_decref(job->journal.product); /* of a job that did not come to its end */
    job->journal.product = NULL;
}
