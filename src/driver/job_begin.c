/* C's file, and what has to be known of the elements of A and B before it is made. */
#include "error.h"
#include "first_read.h"
#include "job.h"
#include "phase.h"

static void share_output(const struct caller *caller, struct output *output)
{
    comm_share(caller->comm, &output->source, sizeof output->source, 0);
    comm_share(caller->comm, &output->beside, sizeof output->beside, 0);
}

int job_create_output(const struct caller *caller, struct job *job, struct error *err)
{
    const struct problem *p = &job->problem;
    struct output *output = &job->output;
    if (caller->comm->rank == 0 && journal_begin(&job->journal, err) == 0) {
        struct output_attributes attributes;
        output_attributes_make(&attributes, caller->options, p, journal_identity(&job->journal));
        output_create(output, caller->options, p, &attributes, job->resumed, err);
    }
    if (comm_agree(caller->comm, err) == 0)
        share_output(caller, output);
    return err->code;
}

/* Collective.  What has to be known of the elements of A and B, which is read once. */
static int read_statistics(const struct caller *caller, const struct machine *machine,
                           struct job *job, const struct outlook *outlook, struct error *err)
{
    const double predicted_s = outlook->all.before_s;
    if (job->problem.measures)
        return job->progress.saved ? 0 : job_measure(caller, machine, job, predicted_s, err);
    return first_read_is_product(&outlook->first.problem, &outlook->first.plan)
               ? job_begin_statistics(caller, machine, job, err)
               : job_read_statistics(caller, machine, job, predicted_s, err);
}

/* Rank 0: what lies beside C was written by an earlier run, as far as that knew it. */
static void compare_beside(const struct job *job, struct error *err)
{
    const struct problem *p = &job->problem;
    if (job->resumed && (!problem_scales(p) || job->statistics.known) &&
        (output_fill_statistics(&job->output, p, err) || output_compare_part(&job->output, p, err)))
        error_add(err, err->code,
                  "what is beside C in %s was damaged or changed; give --restart never to start "
                  "from the beginning",
                  job->output.names.part);
}

/* While statistics are read, which may take long, the output of an earlier run stays what it is,
 * and its journal, too. */
int job_begin(const struct caller *caller, const struct machine *machine, struct job *job,
              const struct outlook *outlook, struct error *err)
{
    struct output *output = &job->output;
    const bool first = caller->comm->rank == 0;
    if (read_statistics(caller, machine, job, outlook, err))
        return err->code;
    phase_begin("making C's file", 0);
    report_baseline();
    if (first)
        compare_beside(job, err);
    if (comm_agree(caller->comm, err) || (!job->resumed && job_create_output(caller, job, err)))
        return err->code;
    if (first)
        output_sign(output, err);
    if (comm_agree(caller->comm, err) == 0)
        share_output(caller, output);
    return err->code;
}
