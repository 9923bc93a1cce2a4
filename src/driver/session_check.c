/* --check-only: an existing output is checked against its operands. */
#include <inttypes.h>
#include <stdio.h>

#include "error.h"
#include "output_check.h"
#include "phase.h"
#include "problem_open.h"
#include "same_files.h"
#include "session.h"
#include "stop.h"
#include "verify.h"

/* Rank 0: describe the output, the operands that it says it was made from, and their files. */
static int describe(struct session *s, struct recall *recall)
{
    const struct problem *p = &s->problem;
    const struct source *c = &recall->source;
    const struct file_names *names = &s->output.names;
    output_recall(&s->options, recall, &s->err);
    if (output_check_beside(names, &s->options, NULL, &s->err))
        return s->err.code;
    s->described = problem_open(&s->options, s->sources, &s->problem, &s->err) == 0;
    if (s->described)
        output_compare_standard(recall, p, &s->err);
    if (!s->described || operand_state_take(&s->operands, p, &s->err) ||
        output_check_beside(names, &s->options, p, &s->err))
        return s->err.code;
    if (!matrix_holds(&c->matrix, p->held[OPERAND_C]))
        error_add(&s->err, EXIT_INPUT, "%s:%s (%s) is not %s, as the product of A and B is",
                  c->file, c->dataset, c->layout, scalar_name(p->held[OPERAND_C]));
    if (!s->err.code)
        output_compare_attributes(recall, &s->options, p, &s->err);
    if (c->matrix.rows != p->m || c->matrix.cols != p->n)
        error_add(&s->err, EXIT_INPUT,
                  "%s:%s is %" PRId64 "x%" PRId64 ", but op(A) op(B) is %" PRId64 "x%" PRId64
                  "; name the operands of this C by -a and -b, or C by -o",
                  c->file, c->dataset, c->matrix.rows, matrix_cols(&c->matrix), p->m,
                  p->n / problem_width(p));
    return s->err.code;
}

static void print_operands(FILE *out, const struct problem *p)
{
    const struct source *a = &p->sources[OPERAND_A], *b = &p->sources[OPERAND_B];
    fprintf(out, "Operands    A = %s:%s, B = %s:%s\n", a->file, a->dataset, b->file, b->dataset);
}

static int complain_stopped(struct session *s)
{
    if (s->err.code == EXIT_STOPPED)
        error_add(&s->err, EXIT_STOPPED, "stopped by %s before all was read", stop_reason());
    return s->err.code;
}

int session_check_output(struct session *s)
{
    struct machine *m = &s->hardware.machine;
    struct verify *full = &s->record.report.full;
    struct recall recall = {0};
    phase_begin("opening A, B and C", 0);
    if (s->comm.rank == 0)
        describe(s, &recall);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    comm_share(&s->comm, &recall, sizeof recall, 0);
    session_share_problem(s);
    *full = (struct verify){.seed = s->options.check_seed,
                            .statistics = &s->statistics,
                            .has_expected = recall.has_checksum,
                            .expected = recall.checksum};
    placement_bind(&s->comm, "", s->options.bind, &s->hardware.placement);
    machine_probe(&s->options, s->comm.size, s->comm.local_size, s->hardware.placement.threads,
                  NULL, 1, m);
    machine_check_memory(&s->options, s->comm.local_size, NULL, 1, m, &s->err);
    same_files_check(&s->problem, &s->operands, &s->comm, &s->err);
    same_files_check_matrix(&recall.source, &s->comm, &s->err);
    verify_fits(&s->problem, m, &s->err);
    if (comm_agree(&s->comm, &s->err) || session_read_statistics(s))
        return complain_stopped(s);
    if (s->comm.rank == 0 && recall.ours)
        output_compare_statistics(&recall.source, &s->statistics, &s->problem, true, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    verify_files(&s->problem, &recall.source, m, &s->comm, full, &s->err);
    if (session_check_operands(s))
        return complain_stopped(s);
    phase_end();
    if (s->comm.rank == 0) {
        s->record.done = 1;
        if (!s->options.quiet) {
            print_operands(s->out, &s->problem);
            report_full_check(s->out, full);
        }
        s->record.exit_code = report_check_result(s->out, full, &s->problem);
    }
    return comm_agree(&s->comm, &s->err);
}
