#include <fcntl.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
#include "paper.h"
#include "session.h"

/* Whether a report may take the place of what is there.  Where it is not known what the operands
 * lead to, only of another report. */
static bool may_report(const struct session *s)
{
    const struct options *o = &s->options;
    const struct problem *known = s->described ? &s->problem : NULL;
    struct error why = {0};
    char first = '{';
    int fd = known || paper_is_standard(o->report)
                 ? -1
                 : open(o->report, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && read(fd, &first, 1) <= 0)
        first = '\0';
    if (fd >= 0)
        close(fd);
    return o->report[0] && first == '{' && output_check_beside(o, known, &why) == 0;
}

struct account session_account(const struct session *s)
{
    return (struct account){.command = s->command,
                            .err = &s->err,
                            .ending = s->options.dry_run      ? "simulated"
                                      : s->options.check_only ? "checked"
                                                              : "complete",
                            .done = s->done,
                            .verdict = s->verdict,
                            .report = &s->report,
                            .predicted = s->all.pieces > 0 ? &s->all : NULL,
                            .problem = s->described ? &s->problem : NULL,
                            .output = &s->options.output,
                            .machine = s->machine.ranks > 0 ? &s->machine : NULL,
                            .plan = s->plan.grid_rows > 0 ? &s->plan : NULL,
                            .places = s->places};
}

void session_tell(struct session *s)
{
    struct error why = s->err;
    struct account account = session_account(s);
    account.err = &why;
    if (may_report(s))
        report_write(s->options.report, &account, &s->err);
    error_print(&s->err, "dgemm_ooc");
}

int session_show_report(const struct options *options, struct error *err)
{
    if (file_is_same(options->from_report, options->html))
        error_add(err, EXIT_INPUT, "the page %s is the report", options->html);
    else if (output_check_beside(options, NULL, err) == 0)
        page_write_saved(options->from_report, options->html, err);
    error_print(err, "dgemm_ooc");
    return err->code;
}
