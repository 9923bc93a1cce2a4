/* What all ranks have in common before the first step: the command line, and the folder of its
 * relative names. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "draw.h"
#include "error.h"
#include "phase.h"

/* 0 stands for none. */
static void draw_check_seed(struct options *o)
{
    while (o->check.seed == 0)
        o->check.seed = draw_random();
}

/* Collective.  Complain on ranks that were asked for another product, as those of a task farm are.
 * The padding of the options is alike, since options_begin sets all of it. */
static void compare_options(struct invocation *c)
{
    uint64_t bytes = strlen(c->text) + 1;
    comm_share(&c->comm, &bytes, sizeof bytes, 0);
    struct options *first = malloc(sizeof *first);
    char *command = malloc(bytes);
    if (!first || !command)
        comm_no_memory(&c->comm, "the options of rank 0");
    if (c->comm.rank == 0) {
        *first = c->options;
        memcpy(command, c->text, bytes);
    }
    comm_share(&c->comm, first, sizeof *first, 0);
    comm_share(&c->comm, command, bytes, 0);
    if (memcmp(first, &c->options, sizeof *first) != 0)
        error_add(&c->err, EXIT_USAGE,
                  "this rank has another command line, or other DGEMM_OOC_ variables, than rank 0: "
                  "\"%.500s\", not \"%.500s\"; all ranks work on one product: start a run for each",
                  c->text, command);
    free(command);
    free(first);
}

/* Collective.  Relative names are those of rank 0's working folder, which this rank enters: names
 * inside of files may be relative, too.  A guest stays where it is.  Where it has another one, the
 * names that it was given are other files.  Where it cannot find rank 0's, what it sees decides
 * (same_files.h). */
static void share_folder(struct invocation *c)
{
    const struct options *o = &c->options;
    const struct comm *comm = &c->comm;
    const char *const names[] = {o->a.file, o->b.file, o->c.file, o->output.file};
    char folder[PATH_MAX] = "";
    struct stat mine, first;
    bool relative = false;
    if (comm->rank == 0 && !getcwd(folder, sizeof folder))
        folder[0] = '\0';
    comm_share(comm, folder, sizeof folder, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        relative |= names[i][0] && names[i][0] != '/';
    if (comm->rank == 0 || stat(".", &mine) || stat(folder, &first))
        return;
    if (!c->guest && chdir(folder))
        return;
    if (relative && (mine.st_dev != first.st_dev || mine.st_ino != first.st_ino))
        error_add(&c->err, EXIT_INPUT,
                  "this rank was started in another folder than rank 0, which was in %s; give the "
                  "files' whole paths",
                  folder);
}

/* Not before MPI has started, which changes the environment: no thread may look at that then. */
static void show_phases(const struct options *o)
{
    const bool always = o->show.progress == PROGRESS_ALWAYS;
    if (always || (o->show.progress == PROGRESS_AUTO && !o->show.quiet))
        phases_open(always || isatty(STDERR_FILENO));
    phase_begin("starting the ranks", 0);
}

/* Who listens is known now. */
static void make_caller(struct invocation *c)
{
    const bool first = c->comm.rank == 0;
    c->caller = (struct caller){.options = &c->options,
                                .comm = &c->comm,
                                .notes = first && !c->options.show.quiet ? c->out : NULL,
                                .details = first && c->options.show.verbose ? c->out : NULL};
}

int command_agree(struct invocation *c)
{
    struct options *o = &c->options;
    if (c->comm.rank == 0 && !c->guest)
        show_phases(o);
    compare_options(c);
    share_folder(c);
    draw_check_seed(o);
    comm_share(&c->comm, o, sizeof *o, 0);
    c->record.report.check_seed = o->check.seed;
    file_names_make(&c->names, o->output.file, &c->err);
    make_caller(c);
    return comm_agree(&c->comm, &c->err);
}
