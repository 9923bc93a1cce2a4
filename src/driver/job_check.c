/* An existing output is checked against its operands. */
#include <inttypes.h>

#include "error.h"
#include "job.h"
#include "output_check.h"
#include "phase.h"
#include "problem_open.h"
#include "same_files.h"
#include "verify.h"

/* Rank 0: describe the output, the operands that it says it was made from, and their files.
 * `options` become those that it was made with. */
static int describe(struct options *options, struct job *job, struct recall *recall,
                    struct error *err)
{
    struct problem *p = &job->problem;
    const struct source *c = &recall->source;
    const struct file_names *names = &job->output.names;
    output_recall(options, recall, err);
    if (output_check_beside(names, options, NULL, err))
        return err->code;
    job->described = problem_open(options, job->sources, p, err) == 0;
    if (job->described)
        output_compare_standard(recall, p, err);
    if (!job->described || operand_state_take(&job->operands, p, err) ||
        output_check_beside(names, options, p, err))
        return err->code;
    if (!matrix_holds(&c->matrix, problem_written(p)))
        error_add(err, EXIT_INPUT, "%s:%s (%s) is not %s, as the product of A and B is", c->file,
                  c->dataset, c->layout, scalar_name(problem_written(p)));
    if (!err->code)
        output_compare_attributes(recall, options, p, err);
    if (c->matrix.turned)
        error_add(err, EXIT_INPUT,
                  "%s is in Fortran's order, in which C is not checked: store it in C's order",
                  c->file);
    else if (c->matrix.rows != p->m || c->matrix.cols != p->n)
        error_add(err, EXIT_INPUT,
                  "%s:%s is %" PRId64 "x%" PRId64 ", but op(A) op(B) is %" PRId64 "x%" PRId64
                  "; name the operands of this C by -a and -b, or C by -o",
                  c->file, c->dataset, c->matrix.rows, matrix_cols(&c->matrix), p->m,
                  p->n / problem_width(p));
    return err->code;
}

int job_verify(const struct caller *caller, const struct machine *machine, const struct job *job,
               const struct source *c, struct verify *found, struct error *err)
{
    const struct problem *p = &job->problem;
    const struct source *beside = &job->output.beside;
    if (!p->normal)
        return verify_files(p, c, machine, caller->comm, found, err);
    const struct problem inner = problem_inner(p);
    struct source sources[OPERAND_COUNT] = {p->sources[OPERAND_A], *beside};
    struct problem outer = *p;
    struct verify of_inner = *found;
    of_inner.has_expected = false;
    of_inner.inner = true;
    outer.normal = false;
    outer.sources = sources;
    outer.matrix[OPERAND_B] = beside->matrix;
    if (verify_files(&inner, beside, machine, caller->comm, &of_inner, err) == 0)
        verify_files(&outer, c, machine, caller->comm, found, err);
    found->bytes += of_inner.bytes;
    found->seconds += of_inner.seconds;
    return err->code;
}

static int complain_stopped(struct error *err)
{
    if (err->code == EXIT_STOPPED)
        error_add(err, EXIT_STOPPED, "stopped by %s before all was read", stop_reason());
    return err->code;
}

int job_check(const struct caller *caller, struct hardware *hardware, struct job *job,
              struct verify *found, struct error *err)
{
    struct comm *comm = caller->comm;
    const struct machine *m = &hardware->machine;
    struct problem *p = &job->problem;
    struct options options = *caller->options;
    struct recall recall = {0};
    *job = (struct job){.output = {.lock = -1}, .journal = {.descriptor = -1}};
    phase_begin("opening A, B and C", 0);
    file_names_make(&job->output.names, options.output.file, err);
    if (comm->rank == 0)
        describe(&options, job, &recall, err);
    if (comm_agree(comm, err))
        return err->code;
    comm_share(comm, &recall, sizeof recall, 0);
    job_share_problem(caller, job);
    *found = (struct verify){.seed = options.check.seed,
                             .statistics = &job->statistics,
                             .has_expected = recall.has_checksum,
                             .expected = recall.checksum};
    hardware_find_host(caller, hardware, err);
    same_files_check(p, &job->operands, comm, err);
    same_files_check_matrix(&recall.source, comm, err);
    verify_fits(p, m, err);
    if (comm_agree(comm, err) || job_read_statistics(caller, m, job, 0, err))
        return complain_stopped(err);
    if (comm->rank == 0 && recall.ours)
        output_compare_statistics(&recall.source, &job->statistics, p, true, err);
    if (comm_agree(comm, err))
        return err->code;
    if (comm->rank == 0 && p->normal)
        output_describe_inner(&recall.source, p, &job->output.beside, err);
    if (comm_agree(comm, err))
        return err->code;
    comm_share(comm, &job->output.beside, sizeof job->output.beside, 0);
    job_verify(caller, m, job, &recall.source, found, err);
    if (job_check_operands(caller, job, err))
        return complain_stopped(err);
    phase_end();
    return 0;
}
