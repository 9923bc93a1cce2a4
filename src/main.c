/* dgemm_ooc: a run, a check of an output that is there, or a dry run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "atomic_file.h"
#include "command.h"
#include "error.h"
#include "launcher.h"
#include "meter.h"
#include "phase.h"
#include "process.h"

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
    static struct invocation command;
    bool speaks = launcher_rank() == 0;
    command.out = stdout;
    command.started = command.step_ended = clock_now();
    command.text = join_command(argc, argv);
    const struct options *o = &command.options;
    if (process_begin(&command.err)) {
        error_print(&command.err, "dgemm_ooc");
        return command.err.code;
    }
    const bool wrong =
        arguments_parse(argc, argv, speaks ? stdout : NULL, &command.options, &command.err);
    if (o->about)
        return EXIT_COMPLETE;
    if (wrong && (launcher_size() == 1 || o->files.from_report[0] || o->dry_run)) {
        if (speaks)
            error_print(&command.err, "dgemm_ooc");
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
        }
        return command.err.code;
    }
    if (process_join(&command.comm, &command.err) == 0)
        command_run(&command); /* in which the ranks agree on what is wrong */
    phases_close();
    if (command.comm.rank == 0)
        command_report(&command);
    else if (command.comm.size == 1 && !launcher_is_srun()) /* whose other tasks are as alone */
        error_print(&command.err, "dgemm_ooc");
    int code = command.err.code ? command.err.code : command.exit_code;
    process_leave(&command.comm);
    bool heard = command.comm.rank == 0 || command.comm.size == 1;
    return heard ? code : 0; /* a launcher kills all at the first code, also who has yet to speak */
}
