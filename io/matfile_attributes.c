/* The attributes of a dataset. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "matfile_impl.h"

herr_t h5_write_attribute(hid_t dataset, const struct format_attribute *attribute)
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

/* Read a string of variable or fixed length.  One in a character set that does not exist is
 * damaged, and is taken for an empty one. */
static bool read_text(hid_t id, hid_t type, struct format_value *value)
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

static bool read_value(hid_t dataset, struct format_value *value)
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

void h5_read_attribute(hid_t dataset, struct format_value *value)
{
    value->found = H5Aexists(dataset, value->name) > 0 && read_value(dataset, value);
}

bool h5_is_unfinished(hid_t dataset)
{
    struct format_value mark = {.name = FORMAT_MARK}, sum = {.name = FORMAT_CHECKSUM};
    h5_read_attribute(dataset, &mark);
    h5_read_attribute(dataset, &sum);
    if (mark.found && strcmp(mark.text, FORMAT_MARK_YES) == 0)
        return false;
    return (mark.found && strcmp(mark.text, FORMAT_MARK_NO) == 0) ||
           (sum.found && strcmp(sum.text, FORMAT_CHECKSUM_UNKNOWN) == 0);
}

bool h5_is_packed(hid_t dataset)
{
    struct format_value triangle = {.name = FORMAT_TRIANGLE};
    hid_t space = H5Dget_space(dataset);
    const int rank = H5Sget_simple_extent_ndims(space);
    h5_close(space);
    if (rank == 1)
        h5_read_attribute(dataset, &triangle);
    return triangle.found && strcmp(triangle.text, FORMAT_TRIANGLE_PACKED) == 0;
}

int matfile_get_attributes(const struct source *source, struct format_value *values,
                           struct error *err)
{
    int rc = 0;
    h5_enter();
    hid_t file = h5_open_file(source->file, H5_READ, err);
    hid_t dataset = file < 0 ? -1 : h5_open_dataset(file, source, H5P_DEFAULT);
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
