/* dgemm_ooc: a run, a check of an output that is there, or a dry run. */
#include <stdio.h>

#include "arguments.h"
#include "atomic_file.h"
#include "command.h"
#include "launcher.h"
#include "meter.h"
#include "notice.h"
#include "phase.h"
#include "process.h"

int main(int argc, char **argv)
{
    static struct invocation command;
    bool speaks = launcher_rank() == 0;
    command.out = stdout;
    command.started = command.step_ended = clock_now();
    command.text = command_join(argc, argv, &command.err);
    const struct options *o = &command.options;
    if (!command.text || process_begin(&command.err)) {
        notice_error(&command.err);
        return command.err.code;
    }
    const bool wrong =
        arguments_parse(argc, argv, speaks ? stdout : NULL, &command.options, &command.err);
    if (o->about)
        return EXIT_COMPLETE;
    if (wrong && (launcher_size() == 1 || o->files.from_report[0] || o->dry_run)) {
        if (speaks)
            notice_error(&command.err);
        return speaks ? command.err.code : EXIT_COMPLETE;
    }
    if (atomic_file_is_stdout(o->files.report) || atomic_file_is_stdout(o->files.trace) ||
        atomic_file_is_stdout(o->files.html))
        atomic_file_reserve_stdout();
    if (o->files.from_report[0])
        return speaks ? command_show_report(o, &command.err) : EXIT_COMPLETE;
    if (o->dry_run) {
        if (speaks) {
            command_dry_run(&command);
            command_report(&command);
            notice_error(&command.err);
        }
        return command.err.code;
    }
    if (process_join(&command.comm, &command.err) == 0)
        command_run(&command); /* in which the ranks agree on what is wrong */
    phases_close();
    if (command.comm.rank == 0)
        command_report(&command);
    if (command.comm.rank == 0 ||
        (command.comm.size == 1 && !launcher_is_srun())) /* of whose tasks one speaks */
        notice_error(&command.err);
    int code = command.err.code ? command.err.code : command.exit_code;
    process_leave(&command.comm);
    bool heard = command.comm.rank == 0 || command.comm.size == 1;
    return heard ? code : 0; /* a launcher kills all at the first code, also who has yet to speak */
}
