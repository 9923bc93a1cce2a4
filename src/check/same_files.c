#include "same_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "comm.h"
#include "error.h"

/* What is compared of a file.  Nothing but numbers. */
struct file_view {
    uint64_t name, bytes, content;
    int64_t second, nanosecond;
};

static struct file_view view_of(const struct operand_file *file)
{
    return (struct file_view){.name = XXH3_64bits(file->name, strlen(file->name)),
                              .bytes = file->bytes,
                              .content = file->sampled ? file->content : 0,
                              .second = file->changed.tv_sec,
                              .nanosecond = file->changed.tv_nsec};
}

static int complain(const char *file, const char *how, struct error *err)
{
    return error_add(err, EXIT_INPUT,
                     "this rank does not see the %s that rank 0 sees%s; is it on node-local "
                     "storage, or does this rank's environment lead elsewhere?",
                     file, how);
}

/* Where this rank finds the matrix to be another one, or elsewhere in its file. */
static int check_matrix(const struct source *theirs, struct error *err)
{
    struct source mine;
    struct error why = {0};
    char how[sizeof why.text + 4];
    if (format_describe(theirs->file, theirs->dataset, &mine, &why)) {
        if (why.code == EXIT_RUNTIME) { /* it is there, and cannot be read */
            error_append(err, &why);
            return err->code;
        }
        snprintf(how, sizeof how, " (%s)", why.text);
        return complain(theirs->file, how, err);
    }
    if (mine.matrix.rows != theirs->matrix.rows || mine.matrix.cols != theirs->matrix.cols ||
        mine.file_bytes != theirs->file_bytes || mine.offset != theirs->offset ||
        strcmp(mine.layout, theirs->layout) != 0 || strcmp(mine.file, theirs->file) != 0)
        return complain(theirs->file, "", err);
    return 0;
}

static int check_read(const struct operand_state *mine, struct error *err)
{
    for (int i = 0; i < mine->count; i++) {
        const struct operand_file *file = &mine->files[i];
        if (!file->sampled && file->number == ENOENT)
            return complain(file->name, " (it is not there)", err);
        if (!file->sampled)
            return error_add(err, EXIT_RUNTIME, "%s cannot be read: %s", file->name,
                             strerror(file->number));
    }
    return 0;
}

/* Compare the files that this rank has found, in the order of their search, with rank 0's. */
static int check_files(const struct operand_state *mine, const struct file_view *theirs, int count,
                       struct error *err)
{
    for (int i = 0; i < mine->count && i < count; i++) {
        const struct operand_file *file = &mine->files[i];
        const struct file_view view = view_of(file);
        if (view.name != theirs[i].name)
            return complain(mine->files[0].name, "'s sources, or finds them elsewhere", err);
        if (view.bytes != theirs[i].bytes)
            return complain(file->name, " (another size)", err);
        if (view.content != theirs[i].content)
            return complain(file->name, " (another content)", err);
        if (view.second != theirs[i].second || view.nanosecond != theirs[i].nanosecond)
            return complain(file->name,
                            " (another modification time; copy files with cp -p, which keeps it)",
                            err);
    }
    return mine->count == count ? 0 : complain(mine->files[0].name, "'s sources", err);
}

/* What rank 0 has described, as this rank sees it. */
static int look_again(const struct problem *p, struct operand_state *mine, struct error *err)
{
    for (enum operand i = 0; i < OPERAND_COUNT && !err->code; i++)
        if (problem_reads(p, i))
            check_matrix(&p->sources[i], err);
    return err->code ? err->code : operand_state_take(mine, p, err);
}

/* Collective. */
static void compare(const struct operand_state *mine, const struct comm *comm, struct error *err)
{
    int count = mine->count;
    comm_share(comm, &count, sizeof count, 0);
    struct file_view *views = calloc((size_t)count + 1, sizeof *views);
    if (!views)
        comm_no_memory(comm, "what rank 0 sees of the files");
    for (int i = 0; comm->rank == 0 && i < count; i++)
        views[i] = view_of(&mine->files[i]);
    comm_share(comm, views, (size_t)count * sizeof *views, 0);
    if (!err->code)
        check_read(mine, err);
    if (comm->rank > 0 && mine->count > 0 && !err->code)
        check_files(mine, views, count, err);
    free(views);
}

void same_files_check(const struct problem *p, struct operand_state *state, const struct comm *comm,
                      struct error *err)
{
    if (comm->size == 1)
        return;
    if (comm->rank > 0)
        look_again(p, state, err);
    compare(state, comm, err);
    if (comm->local_rank > 0)
        operand_state_free(state);
}

void same_files_check_matrix(const struct source *source, const struct comm *comm,
                             struct error *err)
{
    struct operand_state mine = {.count = 0};
    if (comm->size > 1) {
        operand_state_take_matrix(&mine, source, err);
        compare(&mine, comm, err);
    }
    operand_state_free(&mine);
}
