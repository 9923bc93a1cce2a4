#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "error.h"
#include "quantity.h"

/* In the place of the checksum, while C is being written. */
static const char checksum_unknown[] = "----------------";
enum { DIGITS = sizeof checksum_unknown - 1 };

/* Removed if the process ends: files beside C's (journal.h, save.h); empty: nothing. */
static const char *const endings[] = {".part", ".journal", ".part.sums0", ".part.sums1"};
enum { LEFTOVERS = sizeof endings / sizeof *endings };
static char leftovers[LEFTOVERS][PATH_MAX];

void output_abandon(void)
{
    for (int i = 0; i < LEFTOVERS; i++)
        if (leftovers[i][0])
            unlink(leftovers[i]);
}

void output_keep(void)
{
    for (int i = 0; i < LEFTOVERS; i++)
        leftovers[i][0] = '\0';
}

static int part_name(const char *file, char part[PATH_MAX], struct error *err)
{
    if (snprintf(part, PATH_MAX, "%s.part", file) >= PATH_MAX)
        return error_add(err, EXIT_INPUT, "the path %.60s... is too long", file);
    return 0;
}

static void hex_text(uint64_t value, char text[DIGITS + 1])
{
    snprintf(text, DIGITS + 1, "%016" PRIx64, value);
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

/* Whether two paths are one name, however they are written. */
static bool same_name(const char *x, const char *y)
{
    char dir_x[PATH_MAX], dir_y[PATH_MAX];
    const char *slash_x = strrchr(x, '/'), *slash_y = strrchr(y, '/');
    if (strcmp(slash_x ? slash_x + 1 : x, slash_y ? slash_y + 1 : y) != 0)
        return false;
    snprintf(dir_x, sizeof dir_x, "%s", x);
    snprintf(dir_y, sizeof dir_y, "%s", y);
    return same_file(dirname(dir_x), dirname(dir_y));
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
 * hold its lock; where its journal has not said so. */
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
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK && !err->code)
        error_add(err, EXIT_INPUT, "another run is writing %s", part);
    close(fd);
}

/* Names of what a run has beside its output. */
static const char *const beside[] = {"part", "journal", "part.sums0", "part.sums1"};
enum { BESIDE = sizeof beside / sizeof *beside };

static bool beside_name(const struct options *options, int which, char name[PATH_MAX])
{
    return snprintf(name, PATH_MAX, "%s.%s", options->output.file, beside[which]) < PATH_MAX;
}

/* What the run removes at its end must not be anybody's input. */
static void check_names(const struct options *options, const struct problem *p, struct error *err)
{
    char name[PATH_MAX];
    struct stat status;
    for (int i = 1; i < BESIDE; i++) {
        if (!beside_name(options, i, name) || lstat(name, &status))
            continue;
        if (is_input(options, p, name))
            error_add(err, EXIT_INPUT,
                      "%s, which the run needs for itself, is one of the inputs; choose another "
                      "with --output",
                      name);
        else if (!S_ISREG(status.st_mode) || status.st_nlink != 1)
            error_add(err, EXIT_INPUT, "%s is a link, or no regular file; remove it", name);
    }
}

/* Whether the run's `what` can be written to `path`. */
static void check_beside(const struct options *options, const struct problem *p, const char *what,
                         const char *path, struct error *err)
{
    char copy[PATH_MAX];
    struct stat status;
    if (is_input(options, p, path))
        error_add(err, EXIT_INPUT, "the %s %s is one of the inputs", what, path);
    if (part_name(path, copy, err) == 0 && is_input(options, p, copy))
        error_add(err, EXIT_INPUT, "%s, which the %s is called at first, is one of the inputs",
                  copy, what);
    else if (same_name(copy, options->output.file))
        error_add(err, EXIT_INPUT, "%s, which the %s is called at first, is the output", copy,
                  what);
    if (same_file(path, options->output.file) || same_name(path, options->output.file))
        error_add(err, EXIT_INPUT, "the %s %s is the output", what, path);
    for (int i = 0; i < BESIDE; i++)
        if (beside_name(options, i, copy) && same_name(path, copy))
            error_add(err, EXIT_INPUT, "the %s %s is a name that the run needs", what, path);
    if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
        error_add(err, EXIT_INPUT, "the %s %s exists and is not a regular file", what, path);
    snprintf(copy, sizeof copy, "%s", path);
    if (access(dirname(copy), W_OK | X_OK))
        error_add(err, EXIT_INPUT, "cannot write the %s %s: %s", what, path, strerror(errno));
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
            if (j < i && same_name(papers[i].path, papers[j].path))
                error_add(err, EXIT_INPUT, "the %s %s is the %s", papers[i].what, papers[i].path,
                          papers[j].what);
            if (same_name(papers[i].path, part))
                error_add(err, EXIT_INPUT, "the %s %s is what the %s is called at first",
                          papers[i].what, papers[i].path, papers[j].what);
        }
    }
    return err->code;
}

bool output_is_complete(const struct options *options, uint64_t identity)
{
    enum { IDENTITY, PARTS };
    struct matfile_value values[] = {
        [IDENTITY] = {.name = "identity"}, [PARTS] = {.name = "k_parts"}, {.name = NULL}};
    struct matrix_info info;
    struct error ignored = {0};
    char text[DIGITS + 1];
    hex_text(identity, text);
    if (options->force || options->restart == RESTART_NEVER || access(options->output.file, R_OK) ||
        matfile_describe(options->output.file, options->output.dataset, &info, &ignored) ||
        matfile_get_attributes(&info, values, &ignored))
        return false;
    bool parts = options->layers == 0 || values[PARTS].number == options->layers;
    return values[IDENTITY].found && strcmp(values[IDENTITY].text, text) == 0 && parts;
}

void output_part(const struct options *options, char part[PATH_MAX])
{
    struct error ignored = {0};
    if (part_name(options->output.file, part, &ignored))
        part[0] = '\0';
}

bool output_is_there(const struct options *options)
{
    char part[PATH_MAX];
    output_part(options, part);
    return part[0] && access(part, R_OK | W_OK) == 0;
}

int output_check(const struct options *options, const struct problem *p, bool again,
                 struct error *err)
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
    check_directory(file, again ? NULL : p, err);
    check_part(options, p, err);
    check_names(options, p, err);
    return output_check_beside(options, p, err);
}

static int create_dataset(struct output *output, const struct options *options,
                          const struct problem *p, uint64_t identity, int layers, struct error *err)
{
    char formula[128], made_from[DIGITS + 1];
    hex_text(identity, made_from);
    const struct matrix_info *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    snprintf(formula, sizeof formula, "C = alpha A%s B%s%s", p->trans[0] ? "^T" : "",
             p->trans[1] ? "^T" : "", problem_reads_c(p) ? " + beta C0" : "");
    const struct matfile_attribute attributes[] = {
        {.name = "formula", .text = formula},
        {.name = "alpha", .number = p->alpha},
        {.name = "beta", .number = p->beta},
        {.name = "A_file", .text = a->file},
        {.name = "A_dataset", .text = a->dataset},
        {.name = "B_file", .text = b->file},
        {.name = "B_dataset", .text = b->dataset},
        {.name = "program", .text = "dgemm_ooc " DGEMM_OOC_VERSION},
        {.name = "identity", .text = made_from},
        {.name = "k_parts", .number = layers},
        {.name = options->verify ? "checksum" : NULL, .text = checksum_unknown, .fixed = true},
        {.name = NULL},
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

/* The part file that an earlier run has left. */
static int find_dataset(struct output *output, const struct options *options,
                        const struct problem *p, struct error *err)
{
    struct matrix_info *info = &output->info;
    char part[PATH_MAX];
    struct stat status;
    if (part_name(options->output.file, part, err) ||
        matfile_describe(part, options->output.dataset, info, err))
        return err->code;
    if (lstat(part, &status) || !S_ISREG(status.st_mode) || status.st_nlink != 1 ||
        strcmp(info->file, part) != 0 || info->rows != p->m || info->cols != p->n ||
        !info->by_offset || info->element_bytes != scalar_size(p->type))
        return error_add(err, EXIT_INPUT,
                         "%s is not what its journal says; --restart never "
                         "starts anew",
                         part);
    return 0;
}

int output_create(struct output *output, const struct options *options, const struct problem *p,
                  uint64_t identity, int layers, bool again, struct error *err)
{
    output->lock = -1;
    if (again ? find_dataset(output, options, p, err)
              : create_dataset(output, options, p, identity, layers, err))
        return err->code;
    for (int i = 0; i < LEFTOVERS && !again; i++)
        snprintf(leftovers[i], PATH_MAX, "%.*s%s", (int)(PATH_MAX - 1 - strlen(endings[i])),
                 options->output.file, endings[i]);
    output->lock = open(output->info.file, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (output->lock < 0 || (flock(output->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)) {
        error_add(err, EXIT_INPUT, "cannot take %s for this run: %s", output->info.file,
                  strerror(errno));
        if (output->lock >= 0) {
            output_keep(); /* it is another run's */
            close(output->lock);
            output->lock = -1;
        }
        return err->code;
    }
    return 0;
}

int output_open_beside(const char *file, int flags)
{
    struct stat status;
    int fd = open(file, flags | O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd >= 0 && (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_nlink != 1)) {
        close(fd);
        errno = EMLINK;
        return -1;
    }
    return fd;
}

void output_sync_name(const char *file)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", file);
    int directory = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        fsync(directory);
        close(directory);
    }
}

int output_finish(struct output *output, const struct options *options, struct error *err)
{
    const char *file = options->output.file;
    if (fsync(output->lock) || rename(output->info.file, file))
        return error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot give %s its name %s: %s",
                         output->info.file, file, strerror(errno));
    output_keep();
    output_sync_name(file);
    close(output->lock);
    output->lock = -1;
    return 0;
}

int output_record(const struct output *output, uint64_t checksum, struct error *err)
{
    char text[DIGITS + 1];
    struct stat locked, named;
    hex_text(checksum, text);
    flock(output->lock, LOCK_UN); /* the library takes it, and gives it back */
    if (matfile_replace_text(&output->info, "checksum", text, err))
        return err->code;
    if ((flock(output->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) ||
        fstat(output->lock, &locked) || stat(output->info.file, &named) ||
        locked.st_dev != named.st_dev || locked.st_ino != named.st_ino)
        return error_add(err, EXIT_RUNTIME, "another run took %s", output->info.file);
    return 0;
}

/* A scalar or transposition, as recorded. */
static void recall_scalar(const char *what, const struct matfile_value *value, bool given,
                          double *option, struct error *err)
{
    if (given && value->found && *option != value->number)
        error_add(err, EXIT_INPUT, "C was made with --%s %.15g, --%s %.15g says otherwise", what,
                  value->number, what, *option);
    else if (value->found)
        *option = value->number;
}

static void recall_trans(const char *what, const char *transposed,
                         const struct matfile_value *formula, bool given, bool *option,
                         struct error *err)
{
    bool trans = strstr(formula->text, transposed) != NULL;
    if (given && formula->found && *option != trans)
        error_add(err, EXIT_INPUT, "C was made with %s %c, %s %c says otherwise", what,
                  trans ? 'T' : 'N', what, *option ? 'T' : 'N');
    else if (formula->found)
        *option = trans;
}

/* Files move, so that only the dataset's name counts; with or without its first slash. */
static void recall_operand(const char *what, const char *letter,
                           const struct matfile_value *dataset, bool given,
                           const struct operand_name *operand, struct error *err)
{
    const char *made = dataset->text + (dataset->text[0] == '/');
    const char *asked = operand->dataset + (operand->dataset[0] == '/');
    if (!given && dataset->found && strcmp(made, asked) != 0)
        error_add(err, EXIT_INPUT, "C was made from %s = \"%s\"; say with -%s where that is", what,
                  dataset->text, letter);
}

/* The product's type is that of C. */
static void recall_type(struct options *options, const struct matrix_info *c, struct error *err)
{
    enum scalar type = c->elements == ELEMENT_FLOAT ? SCALAR_FLOAT : SCALAR_DOUBLE;
    if (c->elements != ELEMENT_FLOAT && c->elements != ELEMENT_DOUBLE)
        error_add(err, EXIT_INPUT, "%s:%s (%s) does not hold floats or doubles", c->file,
                  c->dataset, c->layout);
    else if (options->convert && options->type != type)
        error_add(err, EXIT_INPUT, "C is %s, but --type %c is given", scalar_name(type),
                  options->type == SCALAR_DOUBLE ? 'd' : 's');
    options->type = type;
    options->convert = true;
}

static void recall_checksum(const struct matfile_value *value, struct recall *recall,
                            struct error *err)
{
    bool valid = strlen(value->text) == DIGITS && strspn(value->text, "0123456789abcdef") == DIGITS;
    recall->has_checksum = value->found;
    if (value->found && !valid)
        error_add(err, EXIT_VERIFY, "%s: the checksum that is recorded for C is damaged",
                  recall->info.file);
    else if (value->found)
        recall->checksum = strtoull(value->text, NULL, 16);
}

int output_recall(struct options *o, struct recall *recall, struct error *err)
{
    enum { ALPHA, BETA, FORMULA, A_DATASET, B_DATASET, CHECKSUM };
    struct matfile_value values[] = {
        [ALPHA] = {.name = "alpha"},
        [BETA] = {.name = "beta"},
        [FORMULA] = {.name = "formula"},
        [A_DATASET] = {.name = "A_dataset"},
        [B_DATASET] = {.name = "B_dataset"},
        [CHECKSUM] = {.name = "checksum"},
        {.name = NULL},
    };
    if (matfile_describe(o->output.file, o->output.dataset, &recall->info, err) ||
        matfile_get_attributes(&recall->info, values, err))
        return err->code;
    recall_scalar("alpha", &values[ALPHA], o->given.alpha, &o->alpha, err);
    recall_scalar("beta", &values[BETA], o->given.beta, &o->beta, err);
    recall_trans("--transa", "A^T", &values[FORMULA], o->given.trans_a, &o->trans_a, err);
    recall_trans("--transb", "B^T", &values[FORMULA], o->given.trans_b, &o->trans_b, err);
    recall_operand("A", "a", &values[A_DATASET], o->given.a, &o->a, err);
    recall_operand("B", "b", &values[B_DATASET], o->given.b, &o->b, err);
    recall_type(o, &recall->info, err);
    recall_checksum(&values[CHECKSUM], recall, err);
    if (o->report[0])
        check_beside(o, NULL, "report", o->report, err);
    return err->code;
}

void output_drop(struct output *output)
{
    output_abandon();
    output_keep();
    if (output->lock < 0)
        return;
    unlink(output->info.file);
    close(output->lock);
    output->lock = -1;
}
