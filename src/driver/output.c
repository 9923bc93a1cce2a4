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
#include "file.h"
#include "leftovers.h"
#include "lock.h"
#include "output_names.h"
#include "paper.h"
#include "quantity.h"

/* In the place of the checksum, while C is being written. */
static const char checksum_unknown[] = "----------------";
enum { DIGITS = sizeof checksum_unknown - 1 };

static void hex_text(uint64_t value, char text[DIGITS + 1])
{
    snprintf(text, DIGITS + 1, "%016" PRIx64, value);
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
    if (output_part_name(options, part, &ignored))
        part[0] = '\0';
}

bool output_is_there(const struct options *options)
{
    char part[PATH_MAX];
    output_part(options, part);
    return part[0] && access(part, R_OK | W_OK) == 0;
}

enum { ATTRIBUTES = 12 };

/* All that C says of itself, but for the checksum: that is recorded when it is known. */
static void describe_product(const struct options *options, const struct problem *p,
                             const char *formula, const char *identity, int layers,
                             struct matfile_attribute attributes[ATTRIBUTES])
{
    const struct matrix_info *a = &p->matrix[OPERAND_A], *b = &p->matrix[OPERAND_B];
    const struct matfile_attribute all[ATTRIBUTES] = {
        {.name = "formula", .text = formula},
        {.name = "alpha", .number = p->alpha},
        {.name = "beta", .number = p->beta},
        {.name = "A_file", .text = a->file},
        {.name = "A_dataset", .text = a->dataset},
        {.name = "B_file", .text = b->file},
        {.name = "B_dataset", .text = b->dataset},
        {.name = "program", .text = "dgemm_ooc " DGEMM_OOC_VERSION},
        {.name = "identity", .text = identity},
        {.name = "k_parts", .number = layers},
        {.name = options->verify ? "checksum" : NULL, .text = checksum_unknown, .fixed = true},
        {.name = NULL},
    };
    memcpy(attributes, all, sizeof all);
}

static int create_dataset(struct output *output, const struct options *options,
                          const struct problem *p, uint64_t identity, int layers, struct error *err)
{
    char formula[128], made_from[DIGITS + 1], name[PATH_MAX];
    struct matfile_attribute attributes[ATTRIBUTES];
    hex_text(identity, made_from);
    snprintf(formula, sizeof formula, "C = alpha A%s B%s%s", p->trans[0] ? "^T" : "",
             p->trans[1] ? "^T" : "", problem_reads_c(p) ? " + beta C0" : "");
    describe_product(options, p, formula, made_from, layers, attributes);
    struct matfile_layout layout = {0};
    struct matrix_info *info = &output->info;
    *info =
        (struct matrix_info){.rows = p->m,
                             .cols = p->n,
                             .elements = p->type == SCALAR_DOUBLE ? ELEMENT_DOUBLE : ELEMENT_FLOAT};
    snprintf(info->dataset, sizeof info->dataset, "%s", options->output.dataset);
    if (output_part_name(options, info->file, err))
        return err->code;
    /* What is there was left behind by a run that was killed: output_check has seen that none is
     * alive. */
    for (int i = 0; i < ROOMY; i++)
        if (output_name(options, output_roomy[i], name))
            unlink(name);
    return matfile_create(info, true, &layout, attributes, err);
}

/* Whether all attributes of the part file can be read, its identity is this product's, and its
 * checksum can be replaced: of a damaged file, that would be noticed only at the end. */
static bool has_attributes(const struct matrix_info *info, const struct options *options,
                           const struct problem *p, uint64_t identity)
{
    char made_from[DIGITS + 1];
    struct matfile_attribute attributes[ATTRIBUTES];
    struct matfile_value values[ATTRIBUTES] = {0};
    struct error ignored = {0};
    bool good = true;
    hex_text(identity, made_from);
    describe_product(options, p, "", made_from, 0, attributes);
    for (int i = 0; attributes[i].name; i++)
        values[i].name = attributes[i].name;
    if (matfile_get_attributes(info, values, &ignored))
        return false;
    for (int i = 0; attributes[i].name; i++) {
        bool same = strcmp(attributes[i].name, "identity") != 0 ||
                    strcmp(values[i].text, attributes[i].text) == 0;
        bool fits = !attributes[i].fixed || values[i].bytes == DIGITS;
        good &= values[i].found && same && fits;
    }
    return good;
}

/* The part file that an earlier run has left. */
static int find_dataset(struct output *output, const struct options *options,
                        const struct problem *p, uint64_t identity, struct error *err)
{
    struct matrix_info *info = &output->info;
    char part[PATH_MAX];
    struct stat status;
    struct error why = {0};
    if (output_part_name(options, part, err))
        return err->code;
    if (matfile_describe(part, options->output.dataset, info, &why))
        return error_add(err, EXIT_INPUT, "%s; give --restart never to start from the beginning",
                         why.text);
    if (lstat(part, &status) || file_why_foreign(part, &status) || strcmp(info->file, part) != 0 ||
        info->rows != p->m || info->cols != p->n || !info->by_offset ||
        info->element_bytes != scalar_size(p->type) || !has_attributes(info, options, p, identity))
        return error_add(err, EXIT_INPUT,
                         "%s is not what its journal says, or is damaged; give --restart never "
                         "to start from the beginning",
                         part);
    return 0;
}

/* Mode and group of a file that is replaced, which may be a private one; meanwhile its ranks can
 * open it. */
static void take_mode(int descriptor, const char *file, mode_t also)
{
    struct stat status;
    if (lstat(file, &status) || !S_ISREG(status.st_mode))
        return;
    mode_t mode = (status.st_mode & 07777) | also;
    if (fchown(descriptor, (uid_t)-1, status.st_gid)) /* another group has no right to it */
        mode &= ~(mode_t)S_IRWXG;
    fchmod(descriptor, mode);
}

static void close_part(struct output *output)
{
    if (output->lock >= 0)
        close(output->lock);
    output->lock = -1;
}

int output_create(struct output *output, const struct options *options, const struct problem *p,
                  uint64_t identity, int layers, bool again, struct error *err)
{
    const char *file = options->output.file;
    struct stat status;
    output->lock = -1;
    bool exists = lstat(file, &status) == 0;
    if (exists && !options->force) /* it has appeared since output_check */
        return output_complain_exists(file, err);
    bool replaces = exists && S_ISREG(status.st_mode);
    /* A private file's successor is private from its first moment. */
    mode_t mask = replaces ? umask(S_IRWXG | S_IRWXO) : 0;
    int code = again ? find_dataset(output, options, p, identity, err)
                     : create_dataset(output, options, p, identity, layers, err);
    if (replaces)
        umask(mask);
    if (code)
        return code;
    output->lock = open(output->info.file, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (output->lock < 0 || lock_file(output->lock, LOCK_EX) == LOCK_BUSY) {
        error_add(err, EXIT_INPUT, "cannot take %s for this run: %s", output->info.file,
                  strerror(errno));
        if (output->lock < 0 && !again)
            unlink(output->info.file);
        close_part(output); /* which is another run's, where it has a lock */
        return err->code;
    }
    take_mode(output->lock, file, S_IRUSR | S_IWUSR);
    char name[PATH_MAX];
    for (enum output_file i = 0; i < LOCK && !again; i++)
        if (output_name(options, i, name))
            leftovers_add(name, i == PART ? output->lock : -1);
    return 0;
}

static bool is_ours(const struct output *output)
{
    return lock_is_held() && file_has_name(output->lock, output->info.file);
}

static int check_ours(const struct output *output, struct error *err)
{
    if (is_ours(output))
        return 0;
    return error_add(err, EXIT_RUNTIME, "%s is not this run's any more: another one has taken it",
                     output->info.file);
}

int output_sync(const struct output *output, struct error *err)
{
    if (check_ours(output, err) == 0 && fsync(output->lock))
        error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot make %s durable: %s",
                  output->info.file, strerror(errno));
    return err->code;
}

int output_finish(struct output *output, const struct options *options, struct error *err)
{
    const char *file = options->output.file, *part = output->info.file;
    const char *again = options->restart == RESTART_NEVER
                            ? "the same command without --restart never is given"
                            : "the same command is given again";
    if (options->force && output_check_replaced(options, err))
        return error_add(err, EXIT_INPUT, "C is complete in %s, and gets its name when %s", part,
                         again);
    if (options->force)
        take_mode(output->lock, file, 0);
    int number = file_give_name(part, file, options->force);
    if (number == EEXIST)
        return error_add(
            err, EXIT_INPUT,
            "the output %s has appeared during the run; C is complete in %s, and gets "
            "its name when %s once that file is out of the way, or with --force if it holds "
            "nothing but C",
            file, part, again);
    if (number)
        return error_add(err, error_of_disk(number, EXIT_RUNTIME),
                         "cannot give %s its name %s: %s; C is complete in it, and gets its name "
                         "when %s",
                         part, file, strerror(number), again);
    leftovers_keep();
    file_sync_name(file);
    close_part(output);
    return 0;
}

int output_record(const struct output *output, uint64_t checksum, struct error *err)
{
    char text[DIGITS + 1];
    hex_text(checksum, text);
    if (check_ours(output, err))
        return err->code;
    flock(output->lock, LOCK_UN); /* the library takes it, and gives it back */
    if (matfile_replace_text(&output->info, "checksum", text, err))
        return err->code;
    if (lock_file(output->lock, LOCK_EX) == LOCK_BUSY)
        return error_add(err, EXIT_RUNTIME, "another run took %s", output->info.file);
    return 0;
}

void output_drop(struct output *output)
{
    leftovers_remove();
    leftovers_keep();
    if (output->lock >= 0 && is_ours(output))
        unlink(output->info.file);
    close_part(output);
}
