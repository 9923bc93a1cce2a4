#include "journal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "error.h"
#include "file.h"
#include "leftovers.h"
#include "lock.h"
#include "notice.h"
#include "problem_scaling.h"

enum {
    HASH_DIGITS = 16,
    JOURNAL_BYTES = 1 << 30, /* at most, of which a line has at most: */
    LINE_BYTES = 1 << 20,
};

static json_t *hex(uint64_t value)
{
    return json_sprintf("%016" PRIx64, value);
}

/* `others`: a hash of the other files that the operand is read from, through links or as sources;
 * 0: there are none. */
static void add_operand(json_t *product, const char *letter, const struct source *source,
                        const struct operand_file *file, uint64_t others)
{
    char key[32];
    json_t *name = json_string(source->dataset); /* null where that is no UTF-8 */
    const struct {
        const char *name;
        json_t *value;
    } members[] = {
        {"dataset", name ? name : hex(XXH3_64bits(source->dataset, strlen(source->dataset)))},
        {"rows", json_integer(source->matrix.rows)},
        {"columns", json_integer(matrix_cols(&source->matrix))},
        {"file's size", json_integer((json_int_t)source->file_bytes)},
        {"file's modification time",
         json_sprintf("%lld.%09ld", (long long)file->changed.tv_sec, file->changed.tv_nsec)},
        {"file's content", hex(file->content)},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        snprintf(key, sizeof key, "%s's %s", letter, members[i].name);
        json_object_set_new(product, key, members[i].value);
    }
    if (others) {
        snprintf(key, sizeof key, "state of %s's other files", letter);
        json_object_set_new(product, key, hex(others));
    }
}

void journal_describe(struct journal *journal, const struct file_names *names,
                      const struct options *options, const struct problem *p,
                      const struct operand_state *operands)
{
    static const char *const letters[] = {"A", "B", "C"}, *const words[] = {"N", "T", "C"};
    json_t *product = json_object();
    *journal = (struct journal){.names = names, .product = product, .descriptor = -1, .bytes = -1};
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (problem_reads(p, (enum operand)i))
            add_operand(product, letters[i], &p->sources[i],
                        operand_state_file(operands, &p->sources[i]),
                        operand_state_others(operands, (enum operand)i, &p->sources[i]));
    json_object_set_new(product, "type", json_string(scalar_name(p->held[OPERAND_C])));
    if (p->narrows)
        json_object_set_new(product, "type of C", json_string(scalar_name(problem_written(p))));
    json_object_set_new(product, "alpha", json_real(p->alpha));
    json_object_set_new(product, "beta", json_real(p->beta));
    if (p->complex) {
        json_object_set_new(product, "complex", json_true());
        json_object_set_new(product, "alpha, imaginary", json_real(p->alpha_i));
        json_object_set_new(product, "beta, imaginary", json_real(p->beta_i));
    }
    json_object_set_new(product, "transa", json_string(words[p->trans[0] + p->conjugate[0]]));
    json_object_set_new(product, "transb", json_string(words[p->trans[1] + p->conjugate[1]]));
    json_object_set_new(product, "verify", json_string(options->check.verify ? "on" : "off"));
    if (problem_scales(p)) {
        const struct scaling *s = &p->scaling;
        json_object_set_new(product, "center", json_string(axis_names[scaling_center(s)]));
        json_object_set_new(product, "scale", json_string(axis_names[scaling_scale(s)]));
        json_object_set_new(product, "nan", json_string(missing_names[s->missing]));
        if (s->crossed)
            json_object_set_new(product, "lines of B", json_string(axis_names[s->axis[1]]));
        if (scaling_shifts(p))
            json_object_set_new(product, "shifted", json_true());
    }
    json_object_set_new(product, "kernels", json_string(problem_kernels(p, options)));
    if (p->normal)
        json_object_set_new(product, "normal", json_true());
    if (p->blocks.steps > 0)
        json_object_set_new(product, "steps of a block", json_integer(p->blocks.steps));
    if (p->lower)
        json_object_set_new(product, "triangle",
                            json_string(p->lower == LOWER_PACKED ? "packed" : "lower"));
    if (p->complex && p->symmetric) /* above the diagonal the general product has other bits */
        json_object_set_new(product, "symmetric", json_true());
}

uint64_t journal_identity(const struct journal *journal)
{
    char *text = json_dumps(journal->product, JSON_SORT_KEYS | JSON_COMPACT);
    uint64_t hash = text ? XXH3_64bits(text, strlen(text)) : 0;
    free(text);
    return hash;
}

/* The JSON of a line; null when the line is incomplete or damaged. */
static json_t *parse_line(const char *line)
{
    char *end;
    uint64_t hash = strtoull(line, &end, 16);
    if (end != line + HASH_DIGITS || *end != ' ')
        return NULL;
    const char *text = end + 1;
    size_t length = strcspn(text, "\n");
    if (text[length] != '\n' || XXH3_64bits(text, length) != hash)
        return NULL;
    return json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
}

static int append(struct journal *journal, json_t *line, struct error *err)
{
    if (!lock_is_held()) {
        json_decref(line);
        return error_add(err, EXIT_RUNTIME,
                         "another run has taken over %s, since this one did not renew its lock for "
                         "%d s; this run ends",
                         journal->names->lock, LOCK_STALE_SECONDS);
    }
    char *text = json_dumps(line, JSON_COMPACT), *whole = NULL;
    int length =
        text ? asprintf(&whole, "\n%016" PRIx64 " %s\n", XXH3_64bits(text, strlen(text)), text)
             : -1; /* the first newline ends a line that a killed run has left incomplete */
    struct stat before;
    if (length < 0 || fstat(journal->descriptor, &before))
        error_add(err, EXIT_RUNTIME, "cannot write the journal %s", journal->names->journal);
    else if (!file_write(journal->descriptor, whole, (size_t)length) ||
             fdatasync(journal->descriptor)) {
        error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot write the journal %s: %s",
                  journal->names->journal, error_disk_text(errno));
        if (ftruncate(journal->descriptor, before.st_size))
            error_add(err, EXIT_RUNTIME, "cannot undo the last write to it: %s", strerror(errno));
    }
    free(whole);
    free(text);
    json_decref(line);
    return err->code;
}

static json_t *piece_json(const struct piece *piece)
{
    const struct block *b = &piece->block;
    return json_pack("{s:[I,I,I,I], s:I, s:i, s:i, s:b, s:o, s:b, s:b}", "block",
                     (json_int_t)b->row, (json_int_t)b->col, (json_int_t)b->rows,
                     (json_int_t)b->cols, "k", (json_int_t)piece->k, "layers", piece->layers,
                     "place", piece->place, "hashed", piece->hashed, "sum", hex(piece->sum),
                     "again", piece->again, "sampled", piece->sampled);
}

static bool read_piece(json_t *json, struct piece *piece)
{
    json_int_t row, col, rows, cols, k;
    const char *sum;
    int layers, place, hashed, again, sampled = false;
    if (json_unpack(json, "{s:[I,I,I,I], s:I, s:i, s:i, s:b, s:s, s:b, s?b}", "block", &row, &col,
                    &rows, &cols, "k", &k, "layers", &layers, "place", &place, "hashed", &hashed,
                    "sum", &sum, "again", &again, "sampled", &sampled) ||
        row < 0 || col < 0 || rows < 1 || cols < 1 || k < 0 || place < 0 || place >= PLACES)
        return false;
    *piece = (struct piece){.block = {row, col, rows, cols},
                            .k = k,
                            .layers = layers,
                            .place = place,
                            .hashed = hashed,
                            .sum = strtoull(sum, NULL, 16),
                            .again = again,
                            .sampled = sampled};
    return true;
}

static json_t *row_checksums_json(const struct row_checksums *checksums)
{
    json_t *sums = json_array();
    for (int i = 0; i < ROW_GROUPS; i++)
        json_array_append_new(sums, hex(checksums->sums[i]));
    return sums;
}

static bool read_row_checksums(json_t *json, struct row_checksums *checksums)
{
    json_t *sum;
    size_t i;
    if (json_array_size(json) != ROW_GROUPS)
        return false;
    json_array_foreach(json, i, sum)
    {
        if (!json_is_string(sum))
            return false;
        checksums->sums[i] = strtoull(json_string_value(sum), NULL, 16);
    }
    return true;
}

/* False, with nothing changed, when this program writes no such line. */
static bool read_progress(json_t *line, struct progress *progress)
{
    struct progress found = {.saved = true};
    json_t *left, *piece, *checksums;
    struct findings *f = &found.findings;
    int trusted, symmetric = 0;
    size_t i;
    if (json_unpack(line, "{s:o, s:o, s:[F,F,F,F,F,F,F,F,F], s:F, s:b, s?b}", "left", &left,
                    "checksums", &checksums, "findings", &f->ratio, &f->size, &f->alone,
                    &f->rounded, &f->squares, &f->elements, &f->rows, &f->not_finite,
                    &f->not_judged, "seconds", &found.seconds, "trusted", &trusted, "symmetric",
                    &symmetric) ||
        json_array_size(left) > PIECES_MAX || !read_row_checksums(checksums, &found.checksums))
        return false;
    json_array_foreach(left, i, piece) if (!read_piece(piece, &found.left.pieces[i])) return false;
    found.left.count = (int)json_array_size(left);
    found.left.symmetric = symmetric;
    found.trusted = trusted;
    *progress = found;
    return true;
}

int journal_save(struct journal *journal, const struct progress *progress, struct error *err)
{
    json_t *left = json_array();
    for (int i = 0; i < progress->left.count; i++)
        json_array_append_new(left, piece_json(&progress->left.pieces[i]));
    const struct findings *f = &progress->findings;
    json_t *line = json_pack("{s:o, s:o, s:[f,f,f,f,f,f,f,f,f], s:f, s:b, s:b}", "left", left,
                             "checksums", row_checksums_json(&progress->checksums), "findings",
                             f->ratio, f->size, f->alone, f->rounded, f->squares, f->elements,
                             f->rows, f->not_finite, f->not_judged, "seconds", progress->seconds,
                             "trusted", progress->trusted, "symmetric", progress->left.symmetric);
    if (append(journal, line, err) == 0)
        journal->saved = true;
    return err->code;
}

/* Complain about a member that differs; null: it is not there.  False where both are alike. */
static bool complain_member(const char *path, const char *key, json_t *then, json_t *now,
                            struct error *err)
{
    if (json_equal(then, now))
        return false;
    char *was = then ? json_dumps(then, JSON_ENCODE_ANY) : NULL,
         *is = now ? json_dumps(now, JSON_ENCODE_ANY) : NULL;
    error_add(err, EXIT_INPUT,
              "%s is the journal of another product: %s was %s and is %s now; give --restart never "
              "to discard its checkpoint",
              path, key, was ? was : "not there", is ? is : "not there");
    free(was);
    free(is);
    return true;
}

static void complain_difference(const char *path, json_t *theirs, json_t *ours, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(ours, key, value)
    {
        if (complain_member(path, key, json_object_get(theirs, key), value, err))
            return;
    }
    json_object_foreach(theirs, key, value)
    {
        if (complain_member(path, key, value, json_object_get(ours, key), err))
            return;
    }
}

static void complain_owner(const char *path, json_t *owner, struct error *err)
{
    const char *host, *since;
    int process;
    if (json_unpack(owner, "{s:s, s:i, s:s}", "host", &host, "process", &process, "since", &since))
        error_add(err, EXIT_INPUT,
                  "another run is writing this output (%s is locked); wait until it ends, or "
                  "choose another with --output",
                  path);
    else
        error_add(err, EXIT_INPUT,
                  "another run is writing this output: process %d on %s, since %s (%s); wait until "
                  "it ends, or choose another with --output",
                  process, host, since, path);
}

/* What the lines say that are complete. */
struct lines {
    json_t *product, *owner;
    struct progress progress;
    bool unknown; /* the newest line of progress has another format */
};

/* A line that is longer than any that is written is read in parts, none of which has its hash. */
static void read_lines(FILE *file, struct lines *lines)
{
    static char text[LINE_BYTES];
    while (fgets(text, sizeof text, file)) {
        json_t *line = parse_line(text), *product = json_object_get(line, "product"),
               *owner = json_object_get(line, "owner");
        if (product && !lines->product)
            lines->product = json_incref(product);
        if (owner) {
            json_decref(lines->owner);
            lines->owner = json_incref(owner);
        }
        if (json_object_get(line, "left"))
            lines->unknown = !read_progress(line, &lines->progress);
        json_decref(line);
    }
}

/* Whether a file begins like a journal, as far as it goes: with a newline and a hash (append). */
static bool begins_like_journal(int fd)
{
    char start[1 + HASH_DIGITS];
    const ssize_t got = pread(fd, start, sizeof start, 0);
    bool right = got < 1 || start[0] == '\n';
    for (ssize_t i = 1; i < got; i++)
        right &= isxdigit((unsigned char)start[i]) != 0;
    return right;
}

static void complain_unread(const char *path, const char *why, struct error *err)
{
    error_add(err, EXIT_INPUT, "cannot read the journal %s: %s", path, why);
}

/* Open the journal to be read.  Null where there is none, or after a complaint. */
static FILE *open_to_read(struct journal *journal, struct error *err)
{
    const char *path = journal->names->journal, *why = NULL;
    struct stat status;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    FILE *file = fd >= 0 && fstat(fd, &status) == 0 ? fdopen(fd, "r") : NULL;
    if (!file && errno != ENOENT && errno != ENOTDIR) /* output_check complains of these */
        complain_unread(path, errno == ELOOP ? "it is a symbolic link" : strerror(errno), err);
    if (!file && fd >= 0)
        close(fd);
    if (!file)
        return NULL;
    why = file_why_foreign(path, &status);
    if (!why && status.st_size > JOURNAL_BYTES)
        why = "is too large for a journal";
    if (!why && !begins_like_journal(fd))
        why = "is no journal of a run";
    if (!why) {
        journal->bytes = status.st_size;
        return file;
    }
    error_add(err, EXIT_INPUT, "%s %s; remove it, or choose another output with --output", path,
              why);
    fclose(file);
    return NULL;
}

int journal_read(struct journal *journal, enum restart restart, const struct problem *p,
                 struct progress *progress, struct error *err)
{
    const char *path = journal->names->journal;
    struct lines lines = {0};
    *progress = (struct progress){0};
    journal->bytes = 0;
    lock_look(journal->names->lock, err);
    FILE *file = open_to_read(journal, err);
    if (file) {
        bool busy = lock_file(fileno(file), LOCK_SH) == LOCK_BUSY;
        read_lines(file, &lines);
        if (ferror(file))
            complain_unread(path, strerror(errno), err);
        journal->earlier = lines.progress.saved || lines.unknown;
        if (busy)
            complain_owner(path, lines.owner, err);
        fclose(file);
    }
    if (lines.unknown && restart != RESTART_NEVER && !err->code)
        error_add(err, EXIT_INPUT,
                  "%s was written by another version of this program; give --restart never to "
                  "start from the beginning",
                  path);
    if (lines.progress.saved && restart != RESTART_NEVER && !err->code) {
        if (!json_equal(journal->product, lines.product))
            complain_difference(path, lines.product, journal->product, err);
        *progress = lines.progress;
        progress->left.width = problem_width(p);
    }
    if (progress->saved && !err->code && !work_is_valid(&progress->left, p))
        error_add(err, EXIT_INPUT,
                  "%s is damaged; give --restart never to start from the beginning", path);
    if (!progress->saved && restart == RESTART_REQUIRE)
        error_add(err, EXIT_INPUT,
                  "--restart require: there is no checkpoint in %s; leave --restart out to start "
                  "from the beginning",
                  path);
    json_decref(lines.product);
    json_decref(lines.owner);
    return err->code;
}

static int record_owner(struct journal *journal, struct error *err)
{
    char host[256] = "?", since[32];
    time_t now = time(NULL);
    struct tm utc;
    gethostname(host, sizeof host - 1);
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return append(journal,
                  json_pack("{s:{s:s, s:i, s:s}}", "owner", "host", host, "process", (int)getpid(),
                            "since", since),
                  err);
}

/* Make it that of this run alone, which removes it where it ends before it has saved anything. */
static int begin(struct journal *journal, struct error *err)
{
    const char *path = journal->names->journal;
    if (journal->bytes != 0 && ftruncate(journal->descriptor, 0))
        return error_add(err, EXIT_RUNTIME, "cannot empty the journal %s: %s", path,
                         strerror(errno));
    journal->earlier = false;
    leftovers_add(path, journal->descriptor);
    if (append(journal, json_pack("{s:i, s:O}", "journal", 1, "product", journal->product), err))
        return err->code;
    return record_owner(journal, err);
}

/* Lock the journal, which one run has at a time. */
static int take(struct journal *journal, struct error *err)
{
    const char *path = journal->names->journal;
    enum lock_state state = lock_file(journal->descriptor, LOCK_EX);
    if (state == LOCK_UNSUPPORTED) {
        notice("%s cannot be locked (%s); %s is used as its lock file", path, strerror(errno),
               journal->names->lock);
        if (lock_take(journal->names->lock, err))
            return err->code;
    }
    if (state == LOCK_BUSY || !file_has_name(journal->descriptor, path))
        return error_add(err, EXIT_INPUT, "another run has just taken %s: wait until it ends",
                         path);
    return 0;
}

int journal_open(struct journal *journal, bool resumed, struct error *err)
{
    const char *path = journal->names->journal;
    struct stat status;
    struct error ignored = {0}; /* a disk that is full now need not be when it is saved */
    journal->saved = resumed;
    journal->earlier &= !resumed;
    journal->descriptor = file_open_own(path, O_APPEND | O_CREAT);
    if (journal->descriptor < 0 || fstat(journal->descriptor, &status))
        return error_add(err, EXIT_INPUT, "cannot open the journal %s: %s", path, strerror(errno));
    if (take(journal, err))
        return err->code;
    if (fstat(journal->descriptor, &status) ||
        (journal->bytes >= 0 && status.st_size != journal->bytes))
        return error_add(err, EXIT_INPUT, "another run has just written %s; give the command again",
                         path);
    journal->locked = true;
    file_sync_name(path); /* of the part file, too, which is beside it */
    if (!resumed && !journal->earlier)
        return begin(journal, err);
    record_owner(journal, &ignored);
    return 0;
}

int journal_begin(struct journal *journal, struct error *err)
{
    return journal->earlier ? begin(journal, err) : 0;
}

void journal_close(struct journal *journal, bool keep)
{
    if (!keep && !journal->earlier && journal->locked && lock_is_held() &&
        file_has_name(journal->descriptor, journal->names->journal))
        unlink(journal->names->journal);
    if (journal->descriptor >= 0)
        close(journal->descriptor);
    lock_release();
    json_decref(journal->product);
    *journal = (struct journal){.descriptor = -1};
}
