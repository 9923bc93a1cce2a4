#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "matfile_impl.h"

enum { MEMBERS_LISTED = 5 };

hid_t h5_native(enum scalar type)
{
    const size_t bytes = scalar_size(type), exponent = scalar_table[type].exponent;
    const size_t fraction = 8 * bytes - 1 - exponent;
    hid_t made = H5Tcopy(exponent ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64);
    if (exponent) {
        H5Tset_fields(made, 8 * bytes - 1, fraction, exponent, 0, fraction);
        H5Tset_ebias(made, ((size_t)1 << (exponent - 1)) - 1);
    } else {
        H5Tset_sign(made, scalar_is_signed(type) ? H5T_SGN_2 : H5T_SGN_NONE);
    }
    H5Tset_size(made, bytes);
    return made;
}

bool h5_is_native(hid_t type, enum scalar scalar)
{
    hid_t native = scalar == SCALAR_OTHER ? -1 : h5_native(scalar);
    bool same = native >= 0 && H5Tequal(type, native) > 0;
    h5_close(native);
    return same;
}

/* The type in the byte order of the processor; of integers the one that has all of them. */
static hid_t in_native_order(hid_t type)
{
    if (H5Tget_class(type) == H5T_INTEGER)
        return H5Tget_native_type(type, H5T_DIR_ASCEND);
    hid_t native = H5Tcopy(type);
    if (H5Tget_class(type) == H5T_FLOAT)
        H5Tset_order(native, H5Tget_order(H5T_NATIVE_DOUBLE));
    return native;
}

enum scalar h5_scalar(hid_t type)
{
    hid_t native = in_native_order(type);
    enum scalar found = 0;
    while (found < SCALAR_COUNT &&
           (H5Tget_precision(type) != 8 * scalar_size(found) || !h5_is_native(native, found)))
        found++;
    h5_close(native);
    return found;
}

/* Of a complex matrix a pair of these, which takes the place of one. */
static hid_t of_parts(const struct source *source, hid_t part)
{
    const size_t size = H5Tget_size(part);
    if (!source->matrix.complex)
        return part;
    hid_t pair = H5Tcreate(H5T_COMPOUND, 2 * size);
    H5Tinsert(pair, source->parts[0], 0, part);
    H5Tinsert(pair, source->parts[1], size, part);
    h5_close(part);
    return pair;
}

hid_t h5_memory_type(const struct source *source, enum scalar type)
{
    return of_parts(source, h5_native(type));
}

hid_t h5_stored_type(const struct source *source)
{
    hid_t part = h5_native(source->matrix.elements);
    if (source->matrix.swapped)
        H5Tset_order(part, H5Tget_order(part) == H5T_ORDER_LE ? H5T_ORDER_BE : H5T_ORDER_LE);
    return of_parts(source, part);
}

/* Take the names of the members, if they are those of a real and an imaginary part, in any case:
 * of h5py and Julia, of MATLAB and Octave, of R's hdf5r, and others. */
static bool take_names(hid_t type, char parts[2][PART_NAME_MAX])
{
    static const char *const known[][2] = {
        {"r", "i"}, {"real", "imag"}, {"re", "im"}, {"x", "y"}, {"real", "imaginary"}};
    char *names[2] = {H5Tget_member_name(type, 0), H5Tget_member_name(type, 1)};
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known && names[0] && names[1]; i++)
        found |= strcasecmp(names[0], known[i][0]) == 0 && strcasecmp(names[1], known[i][1]) == 0;
    for (int i = 0; i < 2; i++) {
        if (found)
            snprintf(parts[i], PART_NAME_MAX, "%s", names[i]);
        H5free_memory(names[i]);
    }
    return found;
}

/* The type of the members of a compound of two equal floats or integers with such names, one behind
 * the other; negative where it is none. */
static hid_t pair_of(hid_t type, char parts[2][PART_NAME_MAX])
{
    if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != 2)
        return -1;
    H5T_class_t class = H5Tget_member_class(type, 0);
    if (class != H5T_FLOAT && class != H5T_INTEGER)
        return -1;
    hid_t real = H5Tget_member_type(type, 0), imaginary = H5Tget_member_type(type, 1);
    size_t size = H5Tget_size(real);
    bool fits = H5Tequal(real, imaginary) > 0 && H5Tget_member_offset(type, 0) == 0 &&
                H5Tget_member_offset(type, 1) == size && H5Tget_size(type) == 2 * size &&
                take_names(type, parts);
    h5_close(imaginary);
    if (fits)
        return real;
    h5_close(real);
    return -1;
}

/* Whether a member of an enumeration of integers is FALSE, which is 0, or TRUE, which is 1. */
static bool is_truth_value(hid_t type, unsigned member)
{
    int64_t value[H5_ELEMENT_MAX / sizeof(int64_t)] = {0};
    char *name = H5Tget_member_name(type, member);
    hid_t integers = H5Tget_super(type);
    bool is = name && H5Tget_size(type) <= sizeof value &&
              H5Tget_member_value(type, member, value) >= 0 &&
              H5Tconvert(integers, H5T_NATIVE_INT64, 1, value, NULL, H5P_DEFAULT) >= 0 &&
              ((value[0] == 0 && strcasecmp(name, "FALSE") == 0) ||
               (value[0] == 1 && strcasecmp(name, "TRUE") == 0));
    h5_close(integers);
    H5free_memory(name);
    return is;
}

/* Whether it is the type of booleans as h5py and others store them, which are read as integers. */
static bool is_boolean(hid_t type)
{
    return H5Tget_class(type) == H5T_ENUM && H5Tget_nmembers(type) == 2 &&
           is_truth_value(type, 0) && is_truth_value(type, 1);
}

hid_t h5_part_type(hid_t type, char parts[2][PART_NAME_MAX])
{
    parts[0][0] = parts[1][0] = '\0';
#if H5_VERSION_GE(2, 0, 0)
    if (H5Tget_class(type) == H5T_COMPLEX) {
        strcpy(parts[0], "r");
        strcpy(parts[1], "i");
        return H5Tget_super(type);
    }
#endif
    if (is_boolean(type))
        return H5Tget_super(type);
    hid_t part = pair_of(type, parts);
    return part >= 0 ? part : H5Tcopy(type);
}

static const char *other_class_name(hid_t type)
{
    switch (H5Tget_class(type)) {
    case H5T_STRING: return "string";
    case H5T_COMPOUND: return "compound";
    case H5T_ENUM: return "enumeration";
    case H5T_ARRAY: return "array";
    case H5T_VLEN: return "variable-length";
    case H5T_REFERENCE: return "reference";
    case H5T_OPAQUE: return "opaque";
    case H5T_BITFIELD: return "bit field";
    default: return "unknown";
    }
}

static void real_type_text(hid_t type, char text[H5_TYPE_TEXT])
{
    H5T_class_t class = H5Tget_class(type);
    if (class != H5T_FLOAT && class != H5T_INTEGER) {
        snprintf(text, H5_TYPE_TEXT, "%s", other_class_name(type));
        return;
    }
    const char *letter = h5_scalar(type) == SCALAR_BFLOAT16  ? "bf"
                         : class == H5T_FLOAT                ? "f"
                         : H5Tget_sign(type) == H5T_SGN_NONE ? "u"
                                                             : "i";
    bool swapped = H5Tget_size(type) > 1 && H5Tget_order(type) == H5T_ORDER_BE;
    snprintf(text, H5_TYPE_TEXT, "%s%zu%s", letter, H5Tget_precision(type),
             swapped ? " big-endian" : "");
}

void h5_type_text(hid_t type, char text[H5_TYPE_TEXT])
{
    char parts[2][PART_NAME_MAX], real[H5_TYPE_TEXT];
    hid_t part = h5_part_type(type, parts);
    real_type_text(part, real);
    h5_close(part);
    text[0] = '\0';
    if (parts[0][0])
        h5_append(text, H5_TYPE_TEXT, "complex %s/%s ", parts[0], parts[1]);
    if (is_boolean(type))
        h5_append(text, H5_TYPE_TEXT, "boolean ");
    h5_append(text, H5_TYPE_TEXT, "%s", real);
}

bool h5_is_number(hid_t type)
{
    return H5Tget_class(type) == H5T_INTEGER || H5Tget_class(type) == H5T_FLOAT;
}

void h5_members_text(hid_t type, char *text, size_t size)
{
    const int count = H5Tget_nmembers(type);
    text[0] = '\0';
    for (int i = 0; i < count && i < MEMBERS_LISTED; i++) {
        char *name = H5Tget_member_name(type, (unsigned)i);
        h5_append(text, size, "%s%.40s", i ? ", " : "", name ? name : "?");
        H5free_memory(name);
    }
    if (count > MEMBERS_LISTED)
        h5_append(text, size, ", ...");
}
