/* dgemm_ooc: a run, a check of an output that is there, or a dry run. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "atomic_file.h"
#include "error.h"
#include "file.h"
#include "launcher.h"
#include "leftovers.h"
#include "meter.h"
#include "phase.h"
#include "rlimits.h"
#include "session.h"
#include "stop.h"
#include "watch.h"

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
    file_fill_streams();
    /* What a phase frees goes back to the system, or the next phase's memory would come on top.  By
     * default this threshold grows with what is freed. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    session.started = session.startup_ended = clock_now();
    session.record.command = join_command(argc, argv);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    signal(SIGPIPE, SIG_IGN); /* and so is a log that nobody reads, at the end */
    const struct options *o = &session.options;
    if (rlimits_raise(&session.err)) { /* MPI would crash */
        error_print(&session.err, "dgemm_ooc");
        return session.err.code;
    }
    const bool wrong = arguments_parse(argc, argv, !speaks, &session.options, &session.err);
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
    stop_listen();
    leftovers_guard();
    session_run(&session); /* in which the ranks agree on what is wrong */
    phases_close();
    if (session.comm.rank == 0)
        session_report(&session);
    else if (session.comm.size == 1 && !launcher_is_srun()) /* whose other tasks are as alone */
        error_print(&session.err, "dgemm_ooc");
    int code = session.err.code ? session.err.code : session.record.exit_code;
    comm_barrier();
    watch_end();
    comm_barrier(); /* nobody leaves while another still watches */
    comm_close();
    leftovers_unguard();
    bool heard = session.comm.rank == 0 || session.comm.size == 1;
    return heard ? code : 0; /* a launcher kills all at the first code, also who has yet to speak */
}
