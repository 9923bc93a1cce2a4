/* What would keep the output from being written, before anything is touched. */
#include "error.h"
#include "file.h"
#include "lock.h"
#include "output.h"
#include "output_names.h"
#include "paper.h"
#include "quantity.h"
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

static const char *const endings[BESIDE] = {".part", ".journal", ".part.sums0", ".part.sums1",
                                            ".lock"};

const enum output_file output_roomy[ROOMY] = {PART, SUMS0, SUMS1};

bool output_name(const struct options *options, enum output_file which, char name[PATH_MAX])
{
    return snprintf(name, PATH_MAX, "%s%s", options->output.file, endings[which]) < PATH_MAX;
}

static int part_name(const char *file, char part[PATH_MAX], struct error *err)
{
    if (snprintf(part, PATH_MAX, "%s.part", file) >= PATH_MAX)
        return error_add(err, EXIT_INPUT, "the path %.60s... is too long", file);
    return 0;
}

int output_part_name(const struct options *options, char part[PATH_MAX], struct error *err)
{
    return part_name(options->output.file, part, err);
}

/* What `file_why_foreign` says, with the remedy. */
static const char foreign[] = "%s %s; remove it, or choose another output with --output";

static uint64_t output_bytes(const struct problem *p)
{
    return (uint64_t)p->m * (uint64_t)p->n * scalar_size(p->type);
}

/* Bytes on the disk that an earlier run has left in them. */
static double left_behind(const struct options *options)
{
    char name[PATH_MAX];
    struct stat status;
    double bytes = 0;
    for (int i = 0; i < ROOMY; i++)
        if (output_name(options, output_roomy[i], name) && lstat(name, &status) == 0 &&
            S_ISREG(status.st_mode))
            bytes += 512.0 * (double)status.st_blocks;
    return bytes;
}

/* `p`: the problem whose C is to find room there; null: it has. */
static void check_directory(const struct options *options, const struct problem *p,
                            struct error *err)
{
    char copy[PATH_MAX];
    struct statvfs fs;
    struct stat status;
    snprintf(copy, sizeof copy, "%s", options->output.file);
    const char *directory = dirname(copy);
    if (stat(directory, &status) == 0 && !S_ISDIR(status.st_mode))
        errno = ENOTDIR;
    else if (access(directory, W_OK | X_OK) == 0 && statvfs(directory, &fs) == 0)
        errno = 0;
    if (errno) {
        if (errno == ENOENT)
            error_add(err, EXIT_INPUT,
                      "the output's directory %s does not exist; make it, or choose another "
                      "with --output",
                      directory);
        else
            error_add(err, EXIT_INPUT,
                      "cannot write to the directory %s: %s; choose another with --output",
                      directory, strerror(errno));
        return;
    }
    double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize + left_behind(options);
    if (p && free_bytes < (double)output_bytes(p))
        error_add(err, EXIT_RESOURCES,
                  "C needs %s, but %s are free in %s; make room there, or choose another directory "
                  "with --output",
                  quantity_bytes((double)output_bytes(p)), quantity_bytes(free_bytes), directory);
}

/* `p`: null where what it says of the inputs is not known. */
static bool is_input(const struct options *options, const struct problem *p, const char *file)
{
    bool found = file_is_same(file, options->a.file) || file_is_same(file, options->b.file) ||
                 (options->beta != 0 && file_is_same(file, options->c.file));
    for (int i = 0; p && i < OPERAND_COUNT && !found; i++)
        found = problem_reads(p, (enum operand)i) && matfile_draws_on(&p->matrix[i], file);
    return found;
}

/* The part file is no input, and no other's: nobody's who would hold its lock, where its journal
 * has not said so, nor another user's. */
static void check_part(const struct options *options, const struct problem *p, struct error *err)
{
    char part[PATH_MAX];
    struct stat status;
    const char *why = NULL;
    if (output_part_name(options, part, err) || lstat(part, &status))
        return;
    if (S_ISREG(status.st_mode) && status.st_nlink == 1)
        why = file_why_foreign(part, &status);
    if (S_ISLNK(status.st_mode))
        error_add(err, EXIT_INPUT, "%s is a symbolic link; remove it", part);
    else if (is_input(options, p, part))
        error_add(err, EXIT_INPUT,
                  "%s, the temporary name of C, is one of the inputs; choose "
                  "another with --output",
                  part);
    else if (why)
        error_add(err, EXIT_INPUT, foreign, part, why);
    int fd = open(part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (lock_file(fd, LOCK_EX) == LOCK_BUSY && !err->code)
        error_add(err, EXIT_INPUT,
                  "another run is writing %s; wait for its end, or choose another output with "
                  "--output",
                  part);
    close(fd);
}

/* What the run removes at its end must not be anybody's input. */
static void check_names(const struct options *options, const struct problem *p, struct error *err)
{
    char name[PATH_MAX];
    struct stat status;
    for (enum output_file i = JOURNAL; i < BESIDE; i++) {
        if (!output_name(options, i, name) || lstat(name, &status))
            continue;
        const char *why = i == LOCK ? NULL : file_why_foreign(name, &status); /* it has an owner */
        if (is_input(options, p, name))
            error_add(err, EXIT_INPUT,
                      "%s, which the run needs for itself, is one of the inputs; choose another "
                      "with --output",
                      name);
        else if (why)
            error_add(err, EXIT_INPUT, foreign, name, why);
    }
}

/* Whether it is, or leads to, what a process has open, as /dev/stderr does. */
static bool is_stream(const char *path)
{
    static const char streams[] = "/proc/";
    char copy[PATH_MAX], target[PATH_MAX] = "";
    snprintf(copy, sizeof copy, "%s", path);
    if (readlink(path, target, sizeof target - 1) > 0 &&
        strncmp(target, streams, sizeof streams - 1) == 0)
        return true;
    return realpath(dirname(copy), target) && strncmp(target, streams, sizeof streams - 1) == 0;
}

/* Whether nothing is there but what may be an earlier report, trace or page, by its first byte; or
 * a link, which is replaced itself. */
static bool is_paper(const char *path)
{
    int first, fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    first = getc(file);
    fclose(file);
    return first == EOF || first == '{' || first == '<';
}

/* Whether the run's `what` can be written to `path`. */
static void check_beside(const struct options *options, const struct problem *p, const char *what,
                         const char *path, struct error *err)
{
    char copy[PATH_MAX];
    struct stat status;
    if (paper_is_standard(path))
        return;
    const bool input = is_input(options, p, path);
    const bool output =
        file_is_same(path, options->output.file) || file_is_same_name(path, options->output.file);
    if (input)
        error_add(err, EXIT_INPUT, "the %s %s is one of the inputs", what, path);
    if (part_name(path, copy, err) == 0 && is_input(options, p, copy))
        error_add(err, EXIT_INPUT, "%s, the temporary name of the %s, is one of the inputs", copy,
                  what);
    else if (file_is_same_name(copy, options->output.file))
        error_add(err, EXIT_INPUT, "%s, the temporary name of the %s, is the output", copy, what);
    if (output)
        error_add(err, EXIT_INPUT, "the %s %s is the output", what, path);
    for (enum output_file i = 0; i < BESIDE; i++)
        if (output_name(options, i, copy) && file_is_same_name(path, copy))
            error_add(err, EXIT_INPUT, "the %s %s is a name that the run needs", what, path);
    if (lstat(path, &status) == 0 && (stat(path, &status) || !S_ISREG(status.st_mode)))
        error_add(err, EXIT_INPUT, "the %s %s exists and is not a regular file, nor leads to one",
                  what, path);
    else if (is_stream(path))
        error_add(err, EXIT_INPUT,
                  "the %s %s is an open stream and not a file; give - for standard output", what,
                  path);
    else if (!input && !output && !is_paper(path))
        error_add(err, EXIT_INPUT,
                  "the %s %s exists and is no %s; choose another name, or remove that file", what,
                  path, what);
    snprintf(copy, sizeof copy, "%s", path);
    if (access(dirname(copy), W_OK | X_OK))
        error_add(err, EXIT_INPUT, "cannot write the %s %s: %s; choose another name", what, path,
                  errno == ENOENT ? "its directory does not exist" : strerror(errno));
}

int output_check_beside(const struct options *options, const struct problem *p, struct error *err)
{
    const struct {
        const char *what, *path;
    } papers[] = {{"report", options->report}, {"trace", options->trace}, {"page", options->html}};
    char part[PATH_MAX + 8];
    for (int i = 0; i < 3; i++) {
        if (papers[i].path[0])
            check_beside(options, p, papers[i].what, papers[i].path, err);
        for (int j = 0; j < 3; j++) {
            if (i == j || !papers[i].path[0] || !papers[j].path[0])
                continue;
            snprintf(part, sizeof part, "%s.part", papers[j].path);
            if (j < i && (file_is_same_name(papers[i].path, papers[j].path) ||
                          (paper_is_standard(papers[i].path) && paper_is_standard(papers[j].path))))
                error_add(err, EXIT_INPUT, "the %s %s is the %s", papers[i].what, papers[i].path,
                          papers[j].what);
            if (file_is_same_name(papers[i].path, part))
                error_add(err, EXIT_INPUT, "the %s %s is the temporary name of the %s",
                          papers[i].what, papers[i].path, papers[j].what);
        }
    }
    return err->code;
}

/* A link is only a name. */
int output_check_replaced(const struct options *options, struct error *err)
{
    const char *file = options->output.file;
    struct error why = {0};
    struct stat status;
    char others[1000];
    if (lstat(file, &status) || !S_ISREG(status.st_mode) || status.st_size == 0)
        return 0;
    if (matfile_others(file, options->output.dataset, others, sizeof others, &why))
        return error_add(err, EXIT_INPUT,
                         "%s; --force replaces only what holds C and nothing else: choose another "
                         "output with --output, or remove it yourself",
                         why.text);
    if (others[0])
        return error_add(err, EXIT_INPUT,
                         "the output %s holds more than %s, which --force would remove as well: "
                         "%s; choose another file with --output",
                         file, options->output.dataset, others);
    return 0;
}

int output_complain_exists(const char *file, struct error *err)
{
    return error_add(
        err, EXIT_INPUT,
        "the output %s exists; give --force to replace it, or choose another with --output", file);
}

/* Of the product that is asked for there is no complaint, unless it is to be made again. */
static int complain_exists(const struct options *options, const struct problem *p,
                           struct error *err)
{
    const char *file = options->output.file;
    if (!p || options->restart == RESTART_NEVER)
        return output_complain_exists(file, err);
    return error_add(err, EXIT_INPUT,
                     "the output %s exists; give --force to replace it, or choose another with "
                     "--output (it was not made from these operands, as they are now, with these "
                     "options)",
                     file);
}

int output_check(const struct options *options, const struct problem *p, bool again,
                 struct error *err)
{
    const char *file = options->output.file;
    struct stat status, target;
    if (lstat(file, &status) == 0) {
        bool leads = S_ISLNK(status.st_mode) && stat(file, &target) == 0;
        if (is_input(options, p, file))
            error_add(err, EXIT_INPUT,
                      "the output %s is one of the inputs; choose another with --output", file);
        else if (leads ? !S_ISREG(target.st_mode)
                       : !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
            error_add(err, EXIT_INPUT,
                      "the output %s exists and is not a regular file; name a file, such as %s.h5",
                      file, file);
        else if (output_check_replaced(options, err) == 0 && !options->force)
            complain_exists(options, p, err);
    }
    check_directory(options, again ? NULL : p, err);
    check_part(options, p, err);
    check_names(options, p, err);
    return output_check_beside(options, p, err);
}
