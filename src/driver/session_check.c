#include <inttypes.h>

#include "error.h"
#include "session.h"
#include "stop.h"
#include "verify.h"

/* Find the output that there is, and the operands that it says it was made from. */
static int find_output(struct session *s, struct verify *full)
{
    struct recall recall = {0};
    const struct problem *p = &s->problem;
    const struct matrix_info *c = &recall.info;
    if (s->comm.rank == 0 && output_recall(&s->options, &recall, &s->err) == 0 &&
        (s->described = problem_open(&s->options, &s->problem, &s->err) == 0) &&
        operand_state_take(&s->operands, &s->problem, &s->err) == 0 &&
        output_check_beside(&s->options, &s->problem, &s->err) == 0 &&
        (c->rows != p->m || c->cols != p->n))
        error_add(&s->err, EXIT_INPUT,
                  "%s:%s is %" PRId64 "x%" PRId64 ", but op(A) op(B) is %" PRId64 "x%" PRId64,
                  c->file, c->dataset, c->rows, c->cols, p->m, p->n);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    comm_share(&recall, sizeof recall, 0);
    comm_share(&s->problem, sizeof s->problem, 0);
    s->output.info = recall.info;
    *full = (struct verify){.seed = s->options.check_seed,
                            .has_expected = recall.has_checksum,
                            .expected = recall.checksum};
    return 0;
}

int session_check_output(struct session *s)
{
    struct verify *full = &s->report.full;
    if (find_output(s, full))
        return s->err.code;
    place_bind(&s->comm, "", s->options.bind, &s->place);
    machine_probe(&s->options, s->comm.size, s->comm.local_size, s->place.threads, NULL, 1,
                  &s->machine);
    machine_check_memory(&s->options, s->comm.local_size, NULL, 1, &s->machine, &s->err);
    session_check_visible(&s->problem, &s->err);
    verify_fits(&s->problem, &s->machine, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    verify_files(&s->problem, &s->output.info, &s->machine, &s->comm, full, &s->err);
    if (session_check_operands(s)) {
        if (s->err.code == EXIT_STOPPED)
            error_add(&s->err, EXIT_STOPPED, "stopped by %s before all was read", stop_reason());
        return s->err.code;
    }
    if (s->comm.rank == 0) {
        s->done = 1;
        if (!s->options.quiet)
            report_full_check(full);
        s->verdict = report_check_result(full);
    }
    return comm_agree(&s->comm, &s->err);
}
