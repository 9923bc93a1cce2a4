/* dgemm_ooc: a run, a check of an output that is there, or a dry run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "atomic_file.h"
#include "error.h"
#include "launcher.h"
#include "meter.h"
#include "phase.h"
#include "process.h"
#include "session.h"

/* Keep what was said on the command line, in a form that can be printed. */
static const char *join_command(int argc, char **argv)
{
    size_t bytes = 1;
    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    char *command = calloc(1, bytes), *end = command;
    for (int i = 0; i < argc && command; i++)
        end += sprintf(end, "%s%s", i ? " " : "", argv[i]);
    if (command)
        error_make_plain(command);
    return command ? command : argv[0];
}

int main(int argc, char **argv)
{
    static struct session session = {.output = {.lock = -1}, .journal = {.descriptor = -1}};
    bool speaks = launcher_rank() == 0;
    session.out = stdout;
    session.started = session.startup_ended = clock_now();
    session.record.command = join_command(argc, argv);
    const struct options *o = &session.options;
    if (process_begin(&session.err)) {
        error_print(&session.err, "dgemm_ooc");
        return session.err.code;
    }
    const bool wrong =
        arguments_parse(argc, argv, speaks ? stdout : NULL, &session.options, &session.err);
    if (o->about)
        return EXIT_COMPLETE;
    if (wrong && (launcher_size() == 1 || o->from_report[0] || o->dry_run)) {
        if (speaks)
            error_print(&session.err, "dgemm_ooc");
        return speaks ? session.err.code : EXIT_COMPLETE;
    }
    if (atomic_file_is_stdout(o->report) || atomic_file_is_stdout(o->trace) ||
        atomic_file_is_stdout(o->html))
        atomic_file_reserve_stdout();
    if (o->from_report[0])
        return speaks ? session_show_report(o, &session.err) : EXIT_COMPLETE;
    if (session.options.dry_run) {
        if (speaks) {
            session_dry_run(&session);
            session_report(&session);
        }
        return session.err.code;
    }
    if (process_join(&session.comm, &session.err) == 0)
        session_run(&session); /* in which the ranks agree on what is wrong */
    phases_close();
    if (session.comm.rank == 0)
        session_report(&session);
    else if (session.comm.size == 1 && !launcher_is_srun()) /* whose other tasks are as alone */
        error_print(&session.err, "dgemm_ooc");
    int code = session.err.code ? session.err.code : session.record.exit_code;
    process_leave(&session.comm);
    bool heard = session.comm.rank == 0 || session.comm.size == 1;
    return heard ? code : 0; /* a launcher kills all at the first code, also who has yet to speak */
}
