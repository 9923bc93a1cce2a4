#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "error.h"
#include "quantity.h"

/* What is to be removed if the process ends; empty: nothing. */
static char part_path[PATH_MAX];

void output_abandon(void)
{
    if (part_path[0])
        unlink(part_path);
}

static void remove_part(int signal_number)
{
    output_abandon();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int part_name(const char *file, char part[PATH_MAX], struct error *err)
{
    if (snprintf(part, PATH_MAX, "%s.part", file) >= PATH_MAX)
        return error_add(err, EXIT_INPUT, "the path %.60s... is too long", file);
    return 0;
}

static uint64_t output_bytes(const struct problem *p)
{
    return (uint64_t)p->m * (uint64_t)p->n * scalar_size(p->type);
}

static void check_directory(const char *file, const struct problem *p, struct error *err)
{
    char copy[PATH_MAX];
    struct statvfs fs;
    snprintf(copy, sizeof copy, "%s", file);
    const char *directory = dirname(copy);
    if (access(directory, W_OK | X_OK) || statvfs(directory, &fs)) {
        error_add(err, EXIT_INPUT,
                  "cannot write to the directory %s: %s; choose another with --output", directory,
                  strerror(errno));
        return;
    }
    double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
    if (p && free_bytes < (double)output_bytes(p))
        error_add(err, EXIT_RESOURCES, "C needs %s, %s are free in %s",
                  quantity_bytes((double)output_bytes(p)), quantity_bytes(free_bytes), directory);
}

static bool same_file(const char *x, const char *y)
{
    struct stat sx, sy;
    return stat(x, &sx) == 0 && stat(y, &sy) == 0 && sx.st_dev == sy.st_dev &&
           sx.st_ino == sy.st_ino;
}

/* `p`: null where what it says of the inputs is not known. */
static bool is_input(const struct options *options, const struct problem *p, const char *file)
{
    bool found = same_file(file, options->a.file) || same_file(file, options->b.file) ||
                 (options->beta != 0 && same_file(file, options->c.file));
    for (int i = 0; p && i < OPERAND_COUNT && !found; i++)
        found = problem_reads(p, (enum operand)i) && matfile_draws_on(&p->matrix[i], file);
    return found;
}

/* Whether the part file may be replaced: it is no input, and no run is at work on it, which would
 * hold its lock. */
static void check_part(const struct options *options, const struct problem *p, struct error *err)
{
    char part[PATH_MAX];
    if (part_name(options->output.file, part, err))
        return;
    int fd = open(part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ELOOP)
        error_add(err, EXIT_INPUT, "%s is a symbolic link; remove it", part);
    else if (is_input(options, p, part))
        error_add(err, EXIT_INPUT,
                  "%s, which C is called until it is complete, is one of the inputs; choose "
                  "another with --output",
                  part);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        error_add(err, EXIT_INPUT, "another run is writing %s", part);
    close(fd);
}

/* Whether the run's `what` can be written to `path`. */
static void check_beside(const struct options *options, const struct problem *p, const char *what,
                         const char *path, struct error *err)
{
    char copy[PATH_MAX];
    if (is_input(options, p, path))
        error_add(err, EXIT_INPUT, "the %s %s is one of the inputs", what, path);
    if (same_file(path, options->output.file) || strcmp(path, options->output.file) == 0)
        error_add(err, EXIT_INPUT, "the %s %s is the output", what, path);
    snprintf(copy, sizeof copy, "%s", path);
    if (access(dirname(copy), W_OK | X_OK))
        error_add(err, EXIT_INPUT, "cannot write the %s %s: %s", what, path, strerror(errno));
}

int output_check(const struct options *options, const struct problem *p, struct error *err)
{
    const char *file = options->output.file;
    struct stat status;
    if (lstat(file, &status) == 0) {
        if (is_input(options, p, file))
            error_add(err, EXIT_INPUT,
                      "the output %s is one of the inputs; choose another with --output", file);
        else if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
            error_add(err, EXIT_INPUT, "the output %s exists and is not a regular file", file);
        else if (!options->force)
            error_add(err, EXIT_INPUT, "the output %s exists; give --force to replace it", file);
    }
    check_directory(file, p, err);
    check_part(options, p, err);
    if (options->report[0])
        check_beside(options, p, "report", options->report, err);
    if (options->trace[0])
        check_beside(options, p, "trace", options->trace, err);
    if (options->trace[0] && strcmp(options->trace, options->report) == 0)
        error_add(err, EXIT_INPUT, "the trace %s is the report", options->trace);
    return err->code;
}

static int create_dataset(struct output *output, const struct options *options,
                          const struct problem *p, struct error *err)
{
    char formula[128];
    const struct matrix_info *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    snprintf(formula, sizeof formula, "C = alpha A%s B%s%s", p->trans[0] ? "^T" : "",
             p->trans[1] ? "^T" : "", problem_reads_c(p) ? " + beta C0" : "");
    const struct matfile_attribute attributes[] = {
        {"formula", formula, 0},
        {"alpha", NULL, p->alpha},
        {"beta", NULL, p->beta},
        {"A_file", a->file, 0},
        {"A_dataset", a->dataset, 0},
        {"B_file", b->file, 0},
        {"B_dataset", b->dataset, 0},
        {"program", "dgemm_ooc " DGEMM_OOC_VERSION, 0},
        {NULL, NULL, 0},
    };
    struct matfile_layout layout = {0};
    struct matrix_info *info = &output->info;
    *info =
        (struct matrix_info){.rows = p->m,
                             .cols = p->n,
                             .elements = p->type == SCALAR_DOUBLE ? ELEMENT_DOUBLE : ELEMENT_FLOAT};
    snprintf(info->dataset, sizeof info->dataset, "%s", options->output.dataset);
    if (part_name(options->output.file, info->file, err))
        return err->code;
    /* A part file that is there was left behind by a run that was killed: output_check has seen
     * that none is alive. */
    unlink(info->file);
    return matfile_create(info, true, &layout, attributes, err);
}

int output_create(struct output *output, const struct options *options, const struct problem *p,
                  struct error *err)
{
    output->lock = -1;
    if (create_dataset(output, options, p, err))
        return err->code;
    snprintf(part_path, sizeof part_path, "%s", output->info.file);
    struct sigaction action = {.sa_handler = remove_part};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    output->lock = open(output->info.file, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (output->lock < 0 || (flock(output->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)) {
        if (output->lock >= 0)
            part_path[0] = '\0'; /* it is another run's */
        return error_add(err, EXIT_INPUT, "cannot take %s for this run: %s", output->info.file,
                         strerror(errno));
    }
    return 0;
}

int output_finish(struct output *output, const struct options *options, struct error *err)
{
    char copy[PATH_MAX];
    const char *file = options->output.file;
    if (fsync(output->lock) || rename(output->info.file, file))
        return error_add(err, errno == ENOSPC || errno == EDQUOT ? EXIT_RESOURCES : EXIT_RUNTIME,
                         "cannot give %s its name %s: %s", output->info.file, file,
                         strerror(errno));
    part_path[0] = '\0';
    snprintf(copy, sizeof copy, "%s", file);
    int directory = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        fsync(directory);
        close(directory);
    }
    close(output->lock);
    output->lock = -1;
    return 0;
}

void output_drop(struct output *output)
{
    output_abandon();
    part_path[0] = '\0';
    if (output->lock >= 0)
        close(output->lock);
    output->lock = -1;
}
