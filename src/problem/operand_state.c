#include "operand_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "error.h"
#include "file.h"

enum { SAMPLES = 64, SOURCE_SAMPLES = 4, SAMPLE_BYTES = 4096 };

/* The bytes of a piece that could be read; -1: none could. */
static ssize_t read_sample(int fd, char sample[SAMPLE_BYTES], off_t offset)
{
    size_t done = 0;
    for (ssize_t got = 1; got != 0 && done < SAMPLE_BYTES;) {
        got = pread(fd, sample + done, SAMPLE_BYTES - done, offset + (off_t)done);
        if (got < 0 && errno != EINTR)
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

/* The hash of pieces from the first to the last byte of the file.  False where they cannot be
 * read. */
static bool sample_hash(const struct operand_file *file, int fd, uint64_t *sum)
{
    char sample[SAMPLE_BYTES];
    XXH64_hash_t hash = file->bytes;
    ssize_t got = 0;
    uint64_t last = file->bytes > SAMPLE_BYTES ? file->bytes - SAMPLE_BYTES : 0;
    uint64_t apart = last / (uint64_t)(file->samples - 1);
    for (uint64_t i = 0; i < (uint64_t)file->samples && fd >= 0 && got >= 0; i++) {
        got = read_sample(fd, sample, (off_t)(apart * i));
        hash = XXH3_64bits_withSeed(sample, got > 0 ? (size_t)got : 0, hash);
    }
    *sum = hash;
    return fd >= 0 && got >= 0;
}

/* Look at the file of this name.  It is opened before: a network file system may answer stat from
 * memory, but looks again when a file is opened. */
static void look_at(struct operand_file *file, struct error *err)
{
    struct stat status;
    int fd = open(file->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK), number = errno;
    if ((fd >= 0 && fstat(fd, &status) == 0) || file_leads(file->name, &status, err)) {
        file->bytes = (uint64_t)status.st_size;
        file->changed = status.st_mtim;
    }
    file->sampled = sample_hash(file, fd, &file->content);
    file->number = fd >= 0 ? errno : number;
    if (fd >= 0)
        close(fd);
}

struct taking {
    struct operand_state *state;
    unsigned operand; /* its bit */
    int samples;
    struct error *err;
};

static void add_file(const char *name, void *context)
{
    struct taking *t = context;
    struct operand_state *state = t->state;
    for (int i = 0; i < state->count; i++)
        if (strcmp(state->files[i].name, name) == 0) {
            state->files[i].operands |= t->operand;
            return;
        }
    size_t bytes = (size_t)(state->count + 1) * sizeof *state->files;
    struct operand_file *files = realloc(state->files, bytes);
    state->files = files ? files : state->files;
    char *copy = files ? strdup(name) : NULL;
    if (!copy) {
        error_no_memory(t->err, "the names of the operands' files");
        return;
    }
    struct operand_file *file = &files[state->count++];
    *file = (struct operand_file){.name = copy, .operands = t->operand, .samples = t->samples};
    look_at(file, t->err);
}

int operand_state_take(struct operand_state *state, const struct problem *p, struct error *err)
{
    *state = (struct operand_state){.count = 0};
    struct taking t = {.state = state, .samples = SAMPLES, .err = err};
    for (enum operand i = 0; i < OPERAND_COUNT; i++) {
        t.operand = 1u << i;
        if (problem_reads(p, i))
            add_file(p->sources[i].file, &t);
    }
    state->named = state->count;
    t.samples = SOURCE_SAMPLES;
    for (enum operand i = 0; i < OPERAND_COUNT && !err->code; i++) {
        t.operand = 1u << i;
        if (problem_reads(p, i))
            format_each_file(&p->sources[i], add_file, &t, err);
    }
    return err->code;
}

int operand_state_take_matrix(struct operand_state *state, const struct source *source,
                              struct error *err)
{
    *state = (struct operand_state){.count = 0};
    struct taking t = {.state = state, .samples = SAMPLES, .err = err};
    add_file(source->file, &t);
    t.samples = SOURCE_SAMPLES;
    if (!source->matrix.by_offset) /* the others have no sources, and may be locked */
        format_each_file(source, add_file, &t, err);
    return err->code;
}

void operand_state_free(struct operand_state *state)
{
    for (int i = 0; i < state->count; i++)
        free(state->files[i].name);
    free(state->files);
    *state = (struct operand_state){.count = 0};
}

const struct operand_file *operand_state_file(const struct operand_state *state,
                                              const struct source *source)
{
    for (int i = 0; i < state->count; i++)
        if (strcmp(state->files[i].name, source->file) == 0)
            return &state->files[i];
    return NULL;
}

uint64_t operand_state_others(const struct operand_state *state, enum operand operand,
                              const struct source *source)
{
    uint64_t hash = 0;
    for (int i = 0; i < state->count; i++) {
        const struct operand_file *file = &state->files[i];
        if (!(file->operands >> operand & 1) || strcmp(file->name, source->file) == 0)
            continue;
        const uint64_t facts[] = {file->bytes, (uint64_t)file->changed.tv_sec,
                                  (uint64_t)file->changed.tv_nsec, file->content};
        hash = XXH3_64bits_withSeed(facts, sizeof facts, hash) | 1;
    }
    return hash;
}

static const char *operands_text(unsigned operands)
{
    static const char *const words[] = {"",  "A",       "B",       "A and B",
                                        "C", "A and C", "B and C", "A, B and C"};
    return words[operands];
}

static int complain(const struct operand_file *file, const char *how, struct error *err)
{
    return error_add(err, EXIT_INPUT,
                     "%s, which %s %s read from, changed while it was in use: %s; C would mix old "
                     "and new data, so the run ends without C",
                     file->name, operands_text(file->operands),
                     file->operands & (file->operands - 1) ? "are" : "is", how);
}

static void time_text(const struct timespec *time, char *text, size_t size)
{
    char day[40];
    struct tm local;
    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", localtime_r(&time->tv_sec, &local));
    snprintf(text, size, "%s.%09ld", day, time->tv_nsec);
}

static int glance_at(const struct operand_file *file, struct error *err)
{
    struct stat now;
    char how[200], was[64], is[64];
    if (stat(file->name, &now)) {
        snprintf(how, sizeof how, "it cannot be found any more (%s)", strerror(errno));
        return complain(file, how, err);
    }
    if ((uint64_t)now.st_size != file->bytes) {
        snprintf(how, sizeof how, "its size was %" PRIu64 " bytes and is %jd", file->bytes,
                 (intmax_t)now.st_size);
        return complain(file, how, err);
    }
    if (now.st_mtim.tv_sec == file->changed.tv_sec && now.st_mtim.tv_nsec == file->changed.tv_nsec)
        return 0;
    time_text(&file->changed, was, sizeof was);
    time_text(&now.st_mtim, is, sizeof is);
    snprintf(how, sizeof how, "its modification time was %s and is %s", was, is);
    return complain(file, how, err);
}

int operand_state_glance(const struct operand_state *state, struct error *err)
{
    for (int i = 0; i < state->named; i++)
        if (glance_at(&state->files[i], err))
            return err->code;
    return 0;
}

int operand_state_check(const struct operand_state *state, struct error *err)
{
    for (int i = 0; i < state->count; i++) {
        const struct operand_file *file = &state->files[i];
        struct operand_file now = *file;
        if (glance_at(file, err))
            return err->code;
        look_at(&now, err);
        if (file->sampled && !now.sampled)
            return error_add(err, EXIT_RUNTIME,
                             "%s, which %s is read from, cannot be read any more: %s", file->name,
                             operands_text(file->operands), strerror(now.number));
        if (file->sampled && now.content != file->content)
            return complain(
                file, "its size and modification time are the same, but its content has changed",
                err);
    }
    return 0;
}
