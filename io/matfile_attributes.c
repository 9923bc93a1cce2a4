/* The attributes of a dataset. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "matfile_impl.h"

herr_t h5_write_attribute(hid_t dataset, const struct matfile_attribute *attribute)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t type = H5Tcopy(attribute->text ? H5T_C_S1 : H5T_NATIVE_DOUBLE);
    const void *value = attribute->text ? (const void *)&attribute->text : &attribute->number;
    if (attribute->text) {
        H5Tset_size(type, attribute->fixed ? strlen(attribute->text) : H5T_VARIABLE);
        H5Tset_cset(type, H5T_CSET_UTF8);
    }
    if (attribute->fixed) {
        H5Tset_strpad(type, H5T_STR_NULLPAD); /* without a terminating null */
        value = attribute->text;
    }
    hid_t id = H5Acreate2(dataset, attribute->name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    herr_t status = id < 0 ? -1 : H5Awrite(id, type, value);
    if (status < 0)
        h5_why();
    h5_close(id);
    h5_close(type);
    h5_close(space);
    return status;
}

static int replace_text(hid_t file, const struct source *source, const char *name, const char *text,
                        struct error *err)
{
    int rc = 0;
    hid_t dataset = H5Dopen2(file, source->dataset, H5P_DEFAULT);
    hid_t id = dataset < 0 ? -1 : H5Aopen(dataset, name, H5P_DEFAULT);
    hid_t type = id < 0 ? -1 : H5Aget_type(id);
    if (type < 0 || H5Tget_size(type) != strlen(text) || H5Awrite(id, type, text) < 0)
        rc = error_add(err, EXIT_RUNTIME, "%s: writing the attribute \"%s\" of \"%s\" failed",
                       source->file, name, source->dataset);
    h5_close(type);
    h5_close(id);
    h5_close(dataset);
    return rc ? rc : h5_sync(file, source->file, err);
}

int matfile_replace_text(const struct source *source, const char *name, const char *text,
                         struct error *err)
{
    h5_enter();
    hid_t file = h5_open_file(source->file, H5_WRITE, err);
    int rc = file < 0 ? EXIT_INPUT : replace_text(file, source, name, text, err);
    if (file >= 0) {
        int close_rc = h5_close_written(file, source->file, err);
        rc = rc ? rc : close_rc;
    }
    h5_leave();
    return rc;
}

/* Where a text is in a range of the file, whose pieces overlap by its length; `end`: nowhere. */
static uint64_t find_text(int descriptor, const char *text, uint64_t begin, uint64_t end)
{
    enum { PIECE = 16 << 10 };
    char piece[PIECE];
    const size_t length = strlen(text);
    for (uint64_t at = begin; at + length <= end; at += PIECE - length) {
        const size_t bytes = end - at < PIECE ? (size_t)(end - at) : PIECE;
        if (h5_read_bytes(descriptor, piece, bytes, at))
            return end;
        const char *found = memmem(piece, bytes, text, length);
        if (found)
            return at + (uint64_t)(found - piece);
    }
    return end;
}

int matfile_find_sign(const struct source *source, struct file_sign *sign, struct error *err)
{
    const uint64_t bytes = (uint64_t)source->matrix.rows * (uint64_t)source->matrix.cols *
                           source->matrix.element_bytes;
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

/* Read a string of variable or fixed length.  One in a character set that does not exist is
 * damaged, and is taken for an empty one. */
static bool read_text(hid_t id, hid_t type, struct matfile_value *value)
{
    if (H5Tget_cset(type) > H5T_CSET_UTF8)
        return true;
    char *text = NULL, fixed[sizeof value->text] = "";
    hid_t memory = H5Tcopy(H5T_C_S1);
    bool variable = H5Tis_variable_str(type) > 0;
    H5Tset_size(memory, variable ? H5T_VARIABLE : sizeof fixed);
    H5Tset_cset(memory, H5Tget_cset(type));
    bool read = H5Aread(id, memory, variable ? (void *)&text : (void *)fixed) >= 0;
    if (read)
        snprintf(value->text, sizeof value->text, "%s", variable ? text ? text : "" : fixed);
    if (variable && read)
        H5free_memory(text);
    h5_close(memory);
    return read;
}

static bool read_value(hid_t dataset, struct matfile_value *value)
{
    hid_t id = H5Aopen(dataset, value->name, H5P_DEFAULT);
    hid_t type = H5Aget_type(id), space = H5Aget_space(id);
    bool single = H5Sget_simple_extent_npoints(space) == 1, found = false;
    value->bytes = H5Tget_size(type);
    if (single && H5Tget_class(type) == H5T_STRING)
        found = read_text(id, type, value);
    else if (single && H5Tget_class(type) == H5T_FLOAT)
        found = H5Aread(id, H5T_NATIVE_DOUBLE, &value->number) >= 0;
    h5_close(space);
    h5_close(type);
    h5_close(id);
    return found;
}

void h5_read_attribute(hid_t dataset, struct matfile_value *value)
{
    value->found = H5Aexists(dataset, value->name) > 0 && read_value(dataset, value);
}

bool h5_is_unfinished(hid_t dataset)
{
    struct matfile_value mark = {.name = MATFILE_MARK}, sum = {.name = MATFILE_CHECKSUM};
    h5_read_attribute(dataset, &mark);
    h5_read_attribute(dataset, &sum);
    if (mark.found && strcmp(mark.text, MATFILE_MARK_YES) == 0)
        return false;
    return (mark.found && strcmp(mark.text, MATFILE_MARK_NO) == 0) ||
           (sum.found && strcmp(sum.text, MATFILE_CHECKSUM_UNKNOWN) == 0);
}

int matfile_check_finished(const struct source *source, struct error *err)
{
    if (!source->unfinished)
        return 0;
    return error_add(err, EXIT_INPUT,
                     "%s is an unfinished output of dgemm_ooc, and elements of \"%s\" are missing: "
                     "give the command that makes it again",
                     source->file, source->dataset);
}

int matfile_get_attributes(const struct source *source, struct matfile_value *values,
                           struct error *err)
{
    int rc = 0;
    h5_enter();
    hid_t file = h5_open_file(source->file, H5_READ, err);
    hid_t dataset = file < 0 ? -1 : H5Dopen2(file, source->dataset, H5P_DEFAULT);
    if (file < 0)
        rc = EXIT_INPUT;
    else if (dataset < 0)
        rc = error_add(err, EXIT_INPUT, "%s: dataset \"%s\" cannot be opened: %s", source->file,
                       source->dataset, h5_why());
    for (; !rc && values->name; values++)
        h5_read_attribute(dataset, values);
    h5_close(dataset);
    h5_close(file);
    rc = h5_settle(rc, source->file, err);
    h5_leave();
    return rc;
}
