#include "output_check.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "atomic_file.h"
#include "error.h"
#include "file.h"
#include "lock.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "rlimits.h"

/* What `file_why_foreign` says, with the remedy. */
static const char foreign[] = "%s %s; remove it, or choose another output with --output";

/* Bytes on the disk that an earlier run has left in files which go before a new part file comes. */
static double left_behind(const struct file_names *names)
{
    struct stat status;
    double bytes = 0;
    for (int i = 0; i < FILE_NAMES_LARGE; i++)
        if (lstat(names->beside[i], &status) == 0 && S_ISREG(status.st_mode))
            bytes += 512.0 * (double)status.st_blocks;
    return bytes;
}

void output_check_room(const struct file_names *names, const struct problem *p, struct error *err)
{
    char copy[PATH_MAX];
    struct statvfs fs;
    snprintf(copy, sizeof copy, "%s", names->output);
    const char *directory = dirname(copy);
    if (statvfs(directory, &fs))
        return;
    const double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize + left_behind(names);
    const struct matrix c = problem_output(p);
    const double needed =
        (double)matrix_elements(&c) * (double)problem_written_element(p) +
        2 * (double)scaling_lines(p) * sizeof(double) +
        (p->normal ? (double)p->k * (double)p->n * (double)scalar_size(p->type) : 0);
    if ((double)rlimits_file_bytes() < needed)
        error_add(err, EXIT_RESOURCES,
                  "C needs %s, but a file may have only %s here; raise the limit (ulimit -f)",
                  quantity_bytes(needed), quantity_bytes((double)rlimits_file_bytes()));
    else if (free_bytes < needed)
        error_add(err, EXIT_RESOURCES,
                  "C needs %s, but %s are free in %s; make room there, or choose another directory "
                  "with --output",
                  quantity_bytes(needed), quantity_bytes(free_bytes), directory);
}

/* Whether files can be made in the output's directory; complains where they cannot. */
static bool check_directory(const struct file_names *names, struct error *err)
{
    char copy[PATH_MAX];
    struct stat status;
    snprintf(copy, sizeof copy, "%s", names->output);
    const char *directory = dirname(copy), *end = strrchr(directory, '.');
    if (stat(directory, &status) == 0 && !S_ISDIR(status.st_mode))
        errno = ENOTDIR;
    else if (access(directory, W_OK | X_OK) == 0)
        return true;
    if (errno == ENOTDIR || (errno == ENOENT && end && strcmp(end, ".h5") == 0))
        error_add(err, EXIT_INPUT,
                  "--output %s: for a dataset of a file write %s:%s; %s is no directory",
                  names->output, directory, strrchr(names->output, '/'), directory);
    else if (errno == ENOENT)
        error_add(err, EXIT_INPUT,
                  "the output's directory %s does not exist; make it, or choose another "
                  "with --output",
                  directory);
    else
        error_add(err, EXIT_INPUT,
                  "cannot write to the directory %s: %s; choose another with --output", directory,
                  strerror(errno));
    return false;
}

/* What must not be replaced: the inputs, the output, and the files of the run. */
struct guarded {
    const struct file_names *names;
    const struct options *options;
    const struct problem *problem; /* null where the operands could not be described */
};

static bool is_input(const struct guarded *g, const char *file, struct error *err)
{
    const struct options *options = g->options;
    const struct problem *p = g->problem;
    bool found =
        file_is_same(file, options->a.file, err) || file_is_same(file, options->b.file, err) ||
        (options_add_c(options) && file_is_same(file, options->c.file, err)) ||
        (options->resources.machine[0] && file_is_same(file, options->resources.machine, err));
    for (int i = 0; p && i < OPERAND_COUNT && !found; i++)
        found = problem_reads(p, (enum operand)i) && format_draws_on(&p->sources[i], file, err);
    return found;
}

/* Why a file that is in the place of one of the run's is not one that an earlier run has left; null
 * if it may be.  Runs make their journal first and remove it last. */
static const char *why_not_left(const struct file_names *names, const char *name,
                                const struct stat *status, struct error *err)
{
    struct stat journal;
    const char *why = file_why_foreign(name, status);
    const int before = err->complaints;
    if (why || status->st_size == 0 || file_exists(names->journal, &journal, err) ||
        err->complaints > before)
        return why;
    return "exists, but has no journal beside it, so no run left it";
}

/* The part file must not be a link, an input, another user's or of no run, or at work: a run that
 * holds its lock need not hold the journal's. */
static void check_part(const struct guarded *g, const char *part, struct error *err)
{
    struct stat status;
    const char *why = NULL;
    if (!file_exists(part, &status, err))
        return;
    int fd = open(part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && S_ISREG(status.st_mode))
        error_add(err, EXIT_INPUT,
                  "cannot tell whether another run is writing %s: %s; choose another output with "
                  "--output",
                  part, strerror(errno));
    const bool busy = fd >= 0 && lock_file(fd, LOCK_EX) == LOCK_BUSY;
    if (fd >= 0)
        close(fd);
    if (S_ISREG(status.st_mode) && status.st_nlink == 1 && !busy)
        why = why_not_left(g->names, part, &status, err);
    if (S_ISLNK(status.st_mode))
        error_add(err, EXIT_INPUT, "%s is a symbolic link; remove it", part);
    else if (is_input(g, part, err))
        error_add(err, EXIT_INPUT,
                  "%s, the temporary name of C, is one of the inputs; choose "
                  "another with --output",
                  part);
    else if (busy && !err->code)
        error_add(err, EXIT_INPUT,
                  "another run is writing %s; wait for its end, or choose another output with "
                  "--output",
                  part);
    else if (why)
        error_add(err, EXIT_INPUT, foreign, part, why);
}

/* A file that the run removes at its end must not be an input, nor of no run; a lock file is always
 * somebody's (lock.h). */
static void check_name(const struct guarded *g, const char *name, struct error *err)
{
    struct stat status;
    if (!file_exists(name, &status, err))
        return;
    const char *why = name == g->names->lock ? NULL : why_not_left(g->names, name, &status, err);
    if (is_input(g, name, err))
        error_add(err, EXIT_INPUT,
                  "%s, a file that the run itself needs, is one of the inputs; choose another with "
                  "--output",
                  name);
    else if (why)
        error_add(err, EXIT_INPUT, foreign, name, why);
}

/* Whether a path is, or leads to, a file that a process has open, as /dev/stderr does. */
static bool is_stream(const char *path, struct error *err)
{
    static const char streams[] = "/proc/";
    char copy[PATH_MAX], target[PATH_MAX] = "";
    snprintf(copy, sizeof copy, "%s", path);
    if (readlink(path, target, sizeof target - 1) > 0 &&
        strncmp(target, streams, sizeof streams - 1) == 0)
        return true;
    if (!realpath(dirname(copy), target) && errno != ENOENT && errno != ENOTDIR)
        error_add(err, EXIT_INPUT, "cannot tell where the folder of %.400s is: %s", path,
                  strerror(errno));
    return strncmp(target, streams, sizeof streams - 1) == 0;
}

/* A file that the run writes beside its output. */
struct beside {
    const char *what, *path, *mark; /* `mark`: what its first bytes have, and those of no other */
};

/* Whether its path is free, or is a link, which is replaced itself, or has an earlier one. */
static bool is_replaceable(const struct beside *file, struct error *err)
{
    char begin[256];
    int fd = open(file->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return true;
    ssize_t length = fd < 0 ? -1 : read(fd, begin, sizeof begin - 1);
    if (length < 0)
        error_add(err, EXIT_INPUT, "cannot tell whether %.400s is a %s: %s; choose another name",
                  file->path, file->what, strerror(errno));
    if (fd >= 0)
        close(fd);
    begin[length > 0 ? length : 0] = '\0';
    return length <= 0 || strstr(begin, file->mark);
}

/* Complain where the file cannot be written, or only at the loss of another file. */
static void check_beside(const struct guarded *g, const struct beside *file, struct error *err)
{
    const struct file_names *names = g->names;
    const char *what = file->what, *path = file->path;
    char copy[PATH_MAX];
    struct stat status, target;
    if (atomic_file_is_stdout(path) || file_names_check_length(path, FILE_BESIDE_BYTES, err))
        return;
    const bool input = is_input(g, path, err);
    const bool output =
        file_is_same(path, names->output, err) || file_is_same_name(path, names->output, err);
    if (input)
        error_add(err, EXIT_INPUT, "the %s %s is one of the inputs; choose another name", what,
                  path);
    if (output)
        error_add(err, EXIT_INPUT, "the %s %s is the output; choose another name", what, path);
    for (int i = 0; i < FILE_NAMES_BESIDE; i++)
        if (file_is_same_name(path, names->beside[i], err))
            error_add(err, EXIT_INPUT,
                      "the %s %s is a file that the run itself needs; choose another name", what,
                      path);
    if (file_exists(path, &status, err) &&
        (!file_leads(path, &target, err) || !S_ISREG(target.st_mode)))
        error_add(
            err, EXIT_INPUT,
            "the %s %s exists and is not a regular file or a link to one; choose another name",
            what, path);
    else if (is_stream(path, err))
        error_add(err, EXIT_INPUT,
                  "the %s %s is an open stream and not a file; give - for standard output", what,
                  path);
    else if (!input && !output && !is_replaceable(file, err))
        error_add(err, EXIT_INPUT,
                  "the %s %s exists and is no %s; choose another name, or remove that file", what,
                  path, what);
    snprintf(copy, sizeof copy, "%s", path);
    if (access(dirname(copy), W_OK | X_OK))
        error_add(err, EXIT_INPUT, "cannot write the %s %s: %s; choose another name", what, path,
                  errno == ENOENT ? "its directory does not exist" : strerror(errno));
}

static void check_pair(const struct beside *x, const struct beside *y, struct error *err)
{
    if (file_is_same_name(x->path, y->path, err) ||
        (atomic_file_is_stdout(x->path) && atomic_file_is_stdout(y->path)))
        error_add(err, EXIT_INPUT, "the %s %s is the %s; choose another name", y->what, y->path,
                  x->what);
}

int output_check_dataset(const struct options *options, const struct problem *p, struct error *err)
{
    const char *longest = p->scaling.crossed  ? OUTPUT_DEVIATION_B
                          : problem_scales(p) ? OUTPUT_DEVIATION
                          : p->normal         ? OUTPUT_INNER
                                              : "";
    if (p->normal && !format_of(options->output.file)->add_vector)
        return error_add(err, EXIT_INPUT,
                         "--product normal writes two matrices: give -o a file of HDF5");
    if (!*longest || strlen(options->output.dataset) + strlen(longest) < DATASET_NAME_MAX)
        return 0;
    return error_add(err, EXIT_INPUT,
                     "the dataset name %.40s... is too long, since the run appends %s; choose a "
                     "shorter one with --output",
                     options->output.dataset, longest);
}

int output_check_beside(const struct file_names *names, const struct options *options,
                        const struct problem *p, struct error *err)
{
    const struct guarded g = {names, options, p};
    struct beside files[] = {{"report", options->files.report, "\"program\": \"dgemm_ooc"},
                             {"trace", options->files.trace, "\"traceEvents\""},
                             {"page", options->files.html, "<!-- The page of a run."}};
    for (int i = 0; i < 3; i++) {
        if (!files[i].path[0])
            continue;
        check_beside(&g, &files[i], err);
        for (int j = 0; j < i; j++)
            if (files[j].path[0])
                check_pair(&files[j], &files[i], err);
    }
    return err->code;
}

int output_check_replaced(const struct options *options, struct error *err)
{
    const char *file = options->output.file;
    struct error why = {0};
    struct stat status;
    char others[1000];
    if (!file_exists(file, &status, err))
        return err->code;
    if (!S_ISREG(status.st_mode) || status.st_size == 0)
        return 0;
    if (format_of(file)->others(file, options->output.dataset, others, sizeof others, &why))
        return error_add(err, EXIT_INPUT,
                         "%s; --force replaces only a file with C and nothing else: choose another "
                         "output with --output, or remove the file",
                         why.text);
    if (others[0])
        return error_add(
            err, EXIT_INPUT,
            "the output %s holds other objects than %s, which --force would remove, too: "
            "%s; choose another file with --output, which h5py.ExternalLink can link "
            "into this one",
            file, options->output.dataset, others);
    return 0;
}

/* Complain of an output that exists and may not be replaced. */
static void complain_taken(const struct file_names *names, const struct options *options,
                           bool compared, struct error *err)
{
    const char *file = names->output;
    struct source source;
    struct error ignored = {0};
    if (format_describe(file, options->output.dataset, &source, &ignored) || !source.unfinished)
        output_complain_exists(file, compared, err);
    else
        error_add(
            err, EXIT_INPUT,
            "the output %s is unfinished (a run resumes from %s, with its journal beside it); "
            "give --force to replace it, or choose another with --output",
            file, names->part);
}

int output_complain_exists(const char *file, bool compared, struct error *err)
{
    return error_add(
        err, EXIT_INPUT,
        "the output %s exists; give --force to replace it, or choose another with "
        "--output%s",
        file,
        compared ? " (it was made from other or since changed operands, or with other options)"
                 : "");
}

int output_check(const struct file_names *names, const struct options *options,
                 const struct problem *p, enum left_part left, struct error *err)
{
    const struct guarded g = {names, options, p};
    const char *file = names->output, *why;
    struct stat status, target;
    if (file_exists(file, &status, err)) {
        bool leads = S_ISLNK(status.st_mode) && file_leads(file, &target, err);
        if (is_input(&g, file, err))
            error_add(err, EXIT_INPUT,
                      "the output %s is one of the inputs; choose another with --output", file);
        else if (S_ISDIR(leads ? target.st_mode : status.st_mode))
            error_add(err, EXIT_INPUT,
                      "the output %s is a directory; name a file in it, such as %s/C.h5", file,
                      file);
        else if (leads ? !S_ISREG(target.st_mode)
                       : !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
            error_add(err, EXIT_INPUT,
                      "the output %s exists and is not a regular file; choose another with "
                      "--output",
                      file);
        else if (left == LEFT_MISPLACED && (why = file_why_foreign(file, &status)))
            error_add(err, EXIT_INPUT, foreign, file, why);
        else if (left != LEFT_MISPLACED && output_check_replaced(options, err) == 0 &&
                 !options->force)
            complain_taken(names, options, p && options->saving.restart != RESTART_NEVER, err);
    }
    if (p)
        output_check_dataset(options, p, err);
    if (p || options->given.output) /* else it is that of INPUT.h5, of which it is said */
        if (check_directory(names, err) && p && left == LEFT_NOTHING)
            output_check_room(names, p, err);
    check_part(&g, names->part, err);
    for (int i = 1; i < FILE_NAMES_BESIDE; i++)
        check_name(&g, names->beside[i], err);
    return output_check_beside(names, options, p, err);
}
