/* The conventions of netCDF for packed and missing elements, and of R for missing ones.  The HDF5
 * library ignores them and reads elements as stored. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "matfile_impl.h"

/* Read an attribute that is one number, of any type; false if it is anything else. */
static bool read_number(hid_t dataset, const char *name, double *value)
{
    hid_t id = H5Aopen(dataset, name, H5P_DEFAULT);
    hid_t type = id < 0 ? -1 : H5Aget_type(id), space = id < 0 ? -1 : H5Aget_space(id);
    bool read = type >= 0 && space >= 0 && H5Sget_simple_extent_npoints(space) == 1 &&
                h5_is_number(type) && H5Tget_size(type) <= H5_ELEMENT_MAX &&
                H5Aread(id, H5T_NATIVE_DOUBLE, value) >= 0;
    h5_close(space);
    h5_close(type);
    h5_close(id);
    return read;
}

/* NetCDF's default fill value of a type of more than one byte (NC_FILL_*). */
static double default_fill(hid_t type)
{
    size_t bits = 8 * H5Tget_size(type);
    if (H5Tget_class(type) == H5T_FLOAT)
        return 9.9692099683868690e+36;
    if (H5Tget_sign(type) != H5T_SGN_NONE)
        return 1 - ldexp(1, (int)bits - 1) + (bits == 64);
    return ldexp(1, (int)bits) - 1 - (bits == 64);
}

static bool is_of_netcdf(hid_t dataset)
{
    return H5Aexists_by_name(dataset, "/", "_NCProperties", H5P_DEFAULT) > 0 ||
           H5Aexists(dataset, "_Netcdf4Dimid") > 0 || H5Aexists(dataset, "DIMENSION_LIST") > 0;
}

static bool has_default_fill(hid_t dataset, const struct source *source, double fill[2])
{
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    hid_t type = H5Dget_type(dataset), plist = H5Dget_create_plist(dataset);
    H5Pfill_value_defined(plist, &defined);
    h5_fill_value(plist, source, SCALAR_DOUBLE, fill);
    bool same = defined == H5D_FILL_VALUE_USER_DEFINED && H5Tget_size(type) > 1 &&
                !source->matrix.complex && fill[0] == default_fill(type) && is_of_netcdf(dataset);
    h5_close(plist);
    h5_close(type);
    return same;
}

/* Whether rhdf5 says of integers that the least one stands for NA. */
static bool may_hold_na(hid_t dataset)
{
    double mark = 0;
    if (H5Aexists(dataset, "rhdf5-NA.OK") <= 0 || !read_number(dataset, "rhdf5-NA.OK", &mark))
        return false;
    hid_t type = H5Dget_type(dataset);
    bool fits = H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == sizeof(int32_t) &&
                H5Tget_sign(type) == H5T_SGN_2;
    h5_close(type);
    return fits && mark != 0;
}

/* Whether the attribute of netCDF's that tells the sign of integers is against that of the type. */
static bool has_contrary_sign(hid_t dataset, struct format_value *mark)
{
    hid_t type = H5Dget_type(dataset);
    const char *contrary = H5Tget_sign(type) == H5T_SGN_NONE ? "false" : "true";
    h5_read_attribute(dataset, mark);
    bool has =
        mark->found && H5Tget_class(type) == H5T_INTEGER && strcasecmp(mark->text, contrary) == 0;
    h5_close(type);
    return has;
}

/* An attribute for packed or missing elements, with the value that has no effect. */
struct mark {
    const char *name;
    double plain;
};

static const struct mark marks[] = {
    {"scale_factor", 1}, {"add_offset", 0}, {"_FillValue", NAN}, {"missing_value", NAN}, {NULL, 0}};

/* Other spellings, which are only noted.  They are looked up one by one, since a walk over all
 * attributes of a damaged header can crash the library. */
static const struct mark similar[] = {{"ScaleFactor", 1},        {"Scale_Factor", 1},
                                      {"SCALE_FACTOR", 1},       {"AddOffset", 0},
                                      {"Add_Offset", 0},         {"ADD_OFFSET", 0},
                                      {"FillValue", NAN},        {"Fill_Value", NAN},
                                      {"fill_value", NAN},       {"MissingValue", NAN},
                                      {"Missing_Value", NAN},    {"_MissingValue", NAN},
                                      {"CodeMissingValue", NAN}, {NULL, 0}};

/* List those that the dataset has, unless they have no effect. */
static void list_marks(hid_t dataset, const struct mark *mark, char *text, size_t size)
{
    text[0] = '\0';
    for (double value; mark->name; mark++) {
        const char *comma = text[0] ? ", " : "";
        if (H5Aexists(dataset, mark->name) == 0)
            continue;
        if (!read_number(dataset, mark->name, &value))
            h5_append(text, size, "%s%s (not one number)", comma, mark->name);
        else if (value != mark->plain && !(isnan(value) && isnan(mark->plain)))
            h5_append(text, size, "%s%s = %.*g", comma, mark->name,
                      fabs(value - mark->plain) < 1e-8 ? 17 : 9, value);
    }
}

void h5_netcdf(hid_t dataset, struct source *source)
{
    struct format_value sign = {.name = "_Unsigned"};
    char *text = source->netcdf;
    list_marks(dataset, marks, text, sizeof source->netcdf);
    list_marks(dataset, similar, source->similar, sizeof source->similar);
    if (has_contrary_sign(dataset, &sign))
        h5_append(text, sizeof source->netcdf, "%s_Unsigned = %s", text[0] ? ", " : "", sign.text);
    double fill[2];
    source->missing_by[0] = '\0';
    if (has_default_fill(dataset, source, fill)) {
        strcpy(source->missing_by, "netCDF");
        source->missing = fill[0];
    } else if (may_hold_na(dataset)) {
        strcpy(source->missing_by, "R");
        source->missing = INT32_MIN;
    }
}
