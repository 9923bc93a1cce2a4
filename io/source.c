#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

int source_complain_missing(const char *file, struct error *err)
{
    char name[PATH_MAX], folder[PATH_MAX];
    struct stat status;
    snprintf(name, sizeof name, "%s", file);
    for (char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (stat(name, &status) == 0 && S_ISREG(status.st_mode))
            return error_add(err, EXIT_INPUT, "%s: %s is a file; for a dataset of it write %s:/%s",
                             file, name, name, slash + 1);
        *slash = '/';
    }
    if (strchr(file, ':'))
        return error_add(err, EXIT_INPUT, "%s: no such file; if it is a dataset, write FILE.h5:/%s",
                         file, file);
    if (file[0] == '/' || !getcwd(folder, sizeof folder))
        return error_add(err, EXIT_INPUT, "%s: no such file", file);
    return error_add(err, EXIT_INPUT, "%s: no such file in %s; give its path", file, folder);
}

int source_open_file(const char *file, bool write, struct error *err)
{
    int descriptor = open(file, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0)
        return descriptor;
    if (errno == ENOENT || errno == ENOTDIR)
        source_complain_missing(file, err);
    else if (errno == EACCES || errno == EPERM || errno == EROFS)
        error_add(err, EXIT_INPUT, "%s: no permission to %s it (%s); ask its owner, or see chmod",
                  file, write ? "write" : "read", strerror(errno));
    else
        error_add(err, EXIT_INPUT, "%s cannot be opened: %s", file, strerror(errno));
    return -1;
}

int source_read_bytes(int descriptor, void *to, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(descriptor, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno != EINTR)
            return errno;
        if (got == 0)
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

int source_check_finished(const struct source *source, struct error *err)
{
    if (!source->unfinished)
        return 0;
    return error_add(err, EXIT_INPUT,
                     "%s is an unfinished output of dgemm_ooc, and elements of \"%s\" are missing: "
                     "give the command that makes it again",
                     source->file, source->dataset);
}

int source_complain_too_large(const struct source *source, enum scalar type, int64_t row,
                              int64_t col, struct error *err)
{
    const int64_t element = source->matrix.complex ? col / 2 : col;
    return error_add(err, EXIT_INPUT,
                     "%s:%s has an element that is too large for a %s, at row %" PRId64
                     ", column %" PRId64 " (from 0); %s",
                     source->file, source->dataset, scalar_name(type),
                     source->matrix.turned ? element : row, source->matrix.turned ? row : element,
                     type == SCALAR_DOUBLE    ? "scale the matrix, and store it as doubles"
                     : source->matrix.complex ? "give --type z, or scale the matrix"
                                              : "give --type d, or scale the matrix");
}

/* Where a text is in a range of the file, whose pieces overlap by its length; `end`: nowhere. */
static uint64_t find_text(int descriptor, const char *text, uint64_t begin, uint64_t end)
{
    enum { PIECE = 16 << 10 };
    char piece[PIECE];
    const size_t length = strlen(text);
    for (uint64_t at = begin; at + length <= end; at += PIECE - length) {
        const size_t bytes = end - at < PIECE ? (size_t)(end - at) : PIECE;
        if (source_read_bytes(descriptor, piece, bytes, at))
            return end;
        const char *found = memmem(piece, bytes, text, length);
        if (found)
            return at + (uint64_t)(found - piece);
    }
    return end;
}

int source_find_sign(const struct source *source, struct file_sign *sign, struct error *err)
{
    const uint64_t bytes =
        (uint64_t)matrix_elements(&source->matrix) * source->matrix.element_bytes;
    const uint64_t after = source->offset + bytes;
    const int descriptor = open(source->file, O_RDONLY | O_CLOEXEC);
    sign->at = source->file_bytes;
    if (descriptor >= 0) {
        sign->at = find_text(descriptor, sign->text, 0, source->offset);
        if (sign->at == source->offset)
            sign->at = find_text(descriptor, sign->text, after, source->file_bytes);
        close(descriptor);
    }
    if (sign->at < source->file_bytes)
        return 0;
    return error_add(err, EXIT_RUNTIME,
                     "%s: what this run has just written to the file is not there", source->file);
}
