#include "npy_notes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "flat.h"

/* The mark that they begin with, and then texts, each with the null at its end: of a string
 * NAME="VALUE, of a number NAME=VALUE. */
static const char mark[] = "\nMade by dgemm_ooc:\n";

enum { NOTES_BYTES = 32 << 10, HEADER_ALIGNMENT = 64 };

struct notes {
    char text[NOTES_BYTES];
    size_t bytes; /* 0: there are none */
    uint64_t at;  /* bytes from the start of the file */
};

static uint64_t end_of_elements(const struct source *source)
{
    const struct matrix *m = &source->matrix;
    return source->offset + (uint64_t)matrix_elements(m) * m->element_bytes;
}

static void read_notes(int descriptor, const struct source *source, struct notes *notes)
{
    notes->at = end_of_elements(source);
    const uint64_t bytes = source->file_bytes - notes->at;
    notes->bytes = 0;
    if (bytes <= sizeof mark || bytes > NOTES_BYTES ||
        source_read_bytes(descriptor, notes->text, bytes, notes->at) ||
        memcmp(notes->text, mark, sizeof mark) != 0)
        return;
    notes->text[bytes - 1] = '\0';
    notes->bytes = bytes;
}

/* The value; null: there is none of this name. */
static char *find(struct notes *notes, const char *name)
{
    const size_t length = strlen(name);
    for (size_t at = sizeof mark; at < notes->bytes; at += strlen(notes->text + at) + 1)
        if (strncmp(notes->text + at, name, length) == 0 && notes->text[at + length] == '=')
            return notes->text + at + length + 1;
    return NULL;
}

bool npy_is_unfinished(int descriptor, const struct source *source)
{
    struct notes notes;
    read_notes(descriptor, source, &notes);
    const char *value = find(&notes, FORMAT_MARK);
    return value && strcmp(value + 1, FORMAT_MARK_YES) != 0;
}

bool npy_is_packed(int descriptor, const struct source *source)
{
    struct notes notes;
    read_notes(descriptor, source, &notes);
    const char *value = find(&notes, FORMAT_TRIANGLE);
    return value && strcmp(value + 1, FORMAT_TRIANGLE_PACKED) == 0;
}

static int open_notes(const struct source *source, bool write, struct notes *notes,
                      struct error *err)
{
    const int descriptor = source_open_file(source->file, write, err);
    if (descriptor >= 0)
        read_notes(descriptor, source, notes);
    return descriptor;
}

int npy_get_attributes(const struct source *source, struct format_value *values, struct error *err)
{
    struct notes notes;
    const int descriptor = open_notes(source, false, &notes, err);
    if (descriptor < 0)
        return err->code;
    close(descriptor);
    for (; values->name; values++) {
        const char *value = find(&notes, values->name);
        values->found = value;
        if (!value)
            continue;
        if (*value != '"') {
            values->number = strtod(value, NULL);
            continue;
        }
        snprintf(values->text, sizeof values->text, "%s", value + 1);
        values->bytes = strlen(value + 1);
    }
    return 0;
}

int npy_replace_text(const struct source *source, const char *name, const char *text,
                     struct error *err)
{
    struct notes notes;
    const size_t length = strlen(text);
    const int descriptor = open_notes(source, true, &notes, err);
    if (descriptor < 0)
        return err->code;
    const char *value = find(&notes, name);
    const bool fits = value && *value == '"' && strlen(value + 1) == length;
    const off_t at = fits ? (off_t)(notes.at + (uint64_t)(value + 1 - notes.text)) : 0;
    if (!fits || pwrite(descriptor, text, length, at) != (ssize_t)length || fsync(descriptor))
        error_add(err, EXIT_RUNTIME, "%s: writing \"%s\" behind its elements failed", source->file,
                  name);
    close(descriptor);
    return err->code;
}

/* Write the notes, as `read_notes` finds them. */
static void make_notes(struct notes *notes, const struct format_attribute *attributes)
{
    memcpy(notes->text, mark, sizeof mark);
    notes->bytes = sizeof mark;
    for (const struct format_attribute *a = attributes; a && a->name; a++) {
        char *to = notes->text + notes->bytes;
        const size_t room = NOTES_BYTES - notes->bytes;
        const int length = a->text ? snprintf(to, room, "%s=\"%s", a->name, a->text)
                                   : snprintf(to, room, "%s=%a", a->name, a->number);
        if ((size_t)length < room)
            notes->bytes += (size_t)length + 1;
    }
}

/* What numpy.save writes before the elements, padded by spaces to a multiple of 64 bytes. */
static size_t make_header(const struct matrix *m, char header[4 * HEADER_ALIGNMENT])
{
    enum { START = 10 }; /* the magic, the version, and a length of two bytes */
    memcpy(header, "\x93NUMPY\x01\x00", START - 2);
    char shape[64];
    if (m->packed)
        snprintf(shape, sizeof shape, "%" PRId64 ",", matrix_elements(m) / (m->complex ? 2 : 1));
    else
        snprintf(shape, sizeof shape, "%" PRId64 ", %" PRId64, m->rows, matrix_cols(m));
    const int text =
        snprintf(header + START, 4 * HEADER_ALIGNMENT - START,
                 "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }",
                 m->element_bytes > 1 ? '<' : '|', flat_type(m->elements, m->complex), shape);
    const size_t end = START + (size_t)text,
                 bytes = (end / HEADER_ALIGNMENT + 1) * HEADER_ALIGNMENT;
    memset(header + end, ' ', bytes - end);
    header[bytes - 1] = '\n';
    header[START - 2] = (char)((bytes - START) & 255);
    header[START - 1] = (char)((bytes - START) >> 8);
    return bytes;
}

static bool write_all(int descriptor, struct source *source,
                      const struct format_attribute *attributes)
{
    char header[4 * HEADER_ALIGNMENT];
    struct notes notes;
    const size_t bytes = make_header(&source->matrix, header);
    make_notes(&notes, attributes);
    source->offset = bytes;
    return pwrite(descriptor, header, bytes, 0) == (ssize_t)bytes &&
           pwrite(descriptor, notes.text, notes.bytes, (off_t)end_of_elements(source)) ==
               (ssize_t)notes.bytes &&
           fsync(descriptor) == 0;
}

int npy_create(struct source *source, bool new_file, const struct format_layout *layout,
               const struct format_attribute *attributes, struct error *err)
{
    (void)new_file, (void)layout; /* a file is one matrix, and its elements are in one piece */
    const int descriptor =
        open(source->file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return error_add(err, EXIT_INPUT, "cannot create %s: %s", source->file, strerror(errno));
    source->matrix.element_bytes = scalar_size(source->matrix.elements);
    errno = 0;
    if (!write_all(descriptor, source, attributes))
        error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot write %s: %s", source->file,
                  error_disk_text(errno));
    close(descriptor);
    struct source made;
    if (!err->code && format_describe(source->file, source->dataset, &made, err) == 0)
        *source = made;
    else
        unlink(source->file);
    return err->code;
}
