/* Genotypes of PLINK (.bed, with its .fam and .bim): two bits an element, which count the copies of
 * the first allele, 0, 1 or 2, or say that it is missing, which becomes NaN.
 *
 * Users see a row a sample and a column a variant.  The file has a row a variant. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "format.h"
#include "slice.h"

static const unsigned char magic[] = {0x6c, 0x1b, 0x01}; /* the last one: a row a variant */

enum { MAGIC_BYTES = sizeof magic, OF_BYTE = 4, PIECE = 1 << 20 };

/* An open file, and the elements that each byte stands for. */
struct bed {
    struct source source;
    int descriptor;
    float floats[256][OF_BYTE];
    double doubles[256][OF_BYTE];
};

static size_t row_bytes(const struct matrix *matrix)
{
    return (size_t)ceil_div(matrix->cols, OF_BYTE);
}

/* The file beside it, of this ending. */
static void name_beside(const char *file, const char *ending, char name[PATH_MAX])
{
    snprintf(name, PATH_MAX, "%.*s%s", (int)(strrchr(file, '.') - file), file, ending);
}

/* Lines of the file beside it that are not blank; negative after a complaint. */
static int64_t count_lines(const char *file, const char *ending, struct error *err)
{
    char name[PATH_MAX], piece[1 << 14];
    bool blank = true;
    int64_t lines = 0;
    ssize_t bytes;
    name_beside(file, ending, name);
    const int descriptor = source_open_file(name, false, err);
    if (descriptor < 0)
        return -1;
    while ((bytes = read(descriptor, piece, sizeof piece)) > 0)
        for (ssize_t i = 0; i < bytes; i++) {
            lines += blank && !isspace((unsigned char)piece[i]);
            blank = piece[i] == '\n' || (blank && isspace((unsigned char)piece[i]));
        }
    close(descriptor);
    if (bytes < 0)
        return error_add(err, EXIT_INPUT, "reading %s failed: %s", name, strerror(errno)), -1;
    return lines;
}

static int check_file(int descriptor, struct source *source, struct error *err)
{
    const struct matrix *m = &source->matrix;
    unsigned char start[MAGIC_BYTES] = {0};
    struct stat status;
    if (fstat(descriptor, &status))
        return error_add(err, EXIT_INPUT, "%s: %s", source->file, strerror(errno));
    if (source_read_bytes(descriptor, start, MAGIC_BYTES, 0) ||
        memcmp(start, magic, MAGIC_BYTES) != 0)
        return error_add(err, EXIT_INPUT,
                         "%s does not begin as a .bed file with a row a variant; make one by "
                         "plink --make-bed",
                         source->file);
    source->file_bytes = (uint64_t)status.st_size;
    if ((source->file_bytes - MAGIC_BYTES) / row_bytes(m) != (uint64_t)m->rows ||
        (source->file_bytes - MAGIC_BYTES) % row_bytes(m) != 0)
        return error_add(err, EXIT_INPUT,
                         "%s has not the bytes of %" PRId64 " variants of %" PRId64
                         " samples, which its .bim and .fam file have: is it truncated, or of "
                         "other data?",
                         source->file, m->rows, m->cols);
    source->matrix.object[0] = status.st_dev;
    source->matrix.object[1] = status.st_ino;
    return 0;
}

static int describe(struct source *source, struct error *err)
{
    struct matrix *m = &source->matrix;
    if (source->dataset[slice_base(source->dataset)])
        return error_add(err, EXIT_INPUT,
                         "%s holds genotypes, of which no part is read: select it by plink --keep "
                         "or --extract",
                         source->file);
    m->rows = count_lines(source->file, ".bim", err);
    m->cols = m->rows < 0 ? -1 : count_lines(source->file, ".fam", err);
    if (m->cols < 0)
        return err->code;
    if (m->rows == 0 || m->cols == 0)
        return error_add(err, EXIT_INPUT, "%s has no variant or no sample", source->file);
    matrix_set_type(m, SCALAR_FLOAT);
    m->element_bytes = scalar_size(SCALAR_FLOAT);
    m->turned = true;
    strcpy(source->layout, "PLINK: read by two bits an element");
    const int descriptor = source_open_file(source->file, false, err);
    if (descriptor < 0)
        return err->code;
    check_file(descriptor, source, err);
    close(descriptor);
    return err->code;
}

static int each_file(const struct source *source, format_file_visit *visit, void *context,
                     struct error *err)
{
    static const char *const endings[] = {".bim", ".fam"};
    char name[PATH_MAX];
    (void)err;
    visit(source->file, context);
    for (int i = 0; i < 2; i++) {
        name_beside(source->file, endings[i], name);
        visit(name, context);
    }
    return 0;
}

static int open_bed(const struct source *source, bool write, void **file, struct error *err)
{
    static const float counts[] = {2, NAN, 1, 0};
    struct bed *m = malloc(sizeof *m);
    (void)write;
    *file = NULL;
    if (!m)
        return error_add(err, EXIT_RESOURCES, "no memory to open %s", source->file);
    m->source = *source;
    m->descriptor = source_open_file(source->file, false, err);
    if (m->descriptor < 0) {
        free(m);
        return err->code;
    }
    for (int byte = 0; byte < 256; byte++)
        for (int i = 0; i < OF_BYTE; i++)
            m->doubles[byte][i] = m->floats[byte][i] = counts[byte >> (2 * i) & 3];
    *file = m;
    return 0;
}

static void close_bed(void *file)
{
    struct bed *m = file;
    if (!m)
        return;
    close(m->descriptor);
    free(m);
}

/* Elements of a row from column `col` on; `bytes` begin with the one that has the first. */
static void decode(const struct bed *m, enum scalar type, const unsigned char *bytes, int64_t col,
                   int64_t count, char *to)
{
    const size_t size = scalar_size(type);
    const char *table = type == SCALAR_FLOAT ? (const char *)m->floats : (const char *)m->doubles;
    int64_t skip = col % OF_BYTE;
    while (count > 0) {
        const int64_t some = min_i64(OF_BYTE - skip, count);
        const char *from = table + ((size_t)*bytes++ * OF_BYTE + (size_t)skip) * size;
        if (some < OF_BYTE)
            memcpy(to, from, (size_t)some * size);
        else if (type == SCALAR_FLOAT)
            memcpy(to, from, sizeof m->floats[0]);
        else
            memcpy(to, from, sizeof m->doubles[0]);
        to += (size_t)some * size;
        count -= some;
        skip = 0;
    }
}

/* Rows are read together, but for a few columns of long ones. */
static int read_bed(void *file, enum scalar type, const struct block *b, void *to,
                    struct error *err)
{
    const struct bed *m = file;
    const size_t pitch = row_bytes(&m->source.matrix);
    const size_t first = (size_t)b->col / OF_BYTE;
    const size_t needed = (size_t)(b->col + b->cols - 1) / OF_BYTE - first + 1;
    const int64_t together = needed < pitch / 8 ? 1 : max_i64(1, (int64_t)(PIECE / pitch));
    unsigned char *bytes = malloc((size_t)(together - 1) * pitch + needed);
    if (!bytes)
        return error_add(err, EXIT_RESOURCES, "no memory to read %s", m->source.file);
    char *row = to;
    for (int64_t done = 0; done < b->rows && !err->code; done += together) {
        const int64_t rows = min_i64(together, b->rows - done);
        const uint64_t at = MAGIC_BYTES + (uint64_t)(b->row + done) * pitch + first;
        const int number =
            source_read_bytes(m->descriptor, bytes, (size_t)(rows - 1) * pitch + needed, at);
        if (number)
            error_add(err, EXIT_RUNTIME, "reading %s failed: %s", m->source.file,
                      number > 0 ? strerror(number) : "it ends before its elements do");
        for (int64_t i = 0; i < rows && !number; i++) {
            decode(m, type, bytes + (size_t)i * pitch, b->col, b->cols, row);
            row += (size_t)b->cols * scalar_size(type);
        }
    }
    free(bytes);
    return err->code;
}

static size_t read_overhead(const struct matrix *matrix)
{
    return sizeof(struct bed) + PIECE + row_bytes(matrix);
}

const struct format format_bed = {.name = "PLINK",
                                  .endings = ".bed",
                                  .read_bytes_per_s = 8e9,
                                  .describe = describe,
                                  .each_file = each_file,
                                  .open = open_bed,
                                  .close = close_bed,
                                  .read = read_bed,
                                  .read_overhead = read_overhead};
