#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "matfile_impl.h"

hid_t h5_native(enum scalar type)
{
    switch (type) {
    case SCALAR_FLOAT: return H5T_NATIVE_FLOAT;
    case SCALAR_INT8: return H5T_NATIVE_INT8;
    case SCALAR_UINT8: return H5T_NATIVE_UINT8;
    case SCALAR_INT16: return H5T_NATIVE_INT16;
    case SCALAR_UINT16: return H5T_NATIVE_UINT16;
    case SCALAR_INT32: return H5T_NATIVE_INT32;
    case SCALAR_UINT32: return H5T_NATIVE_UINT32;
    case SCALAR_INT64: return H5T_NATIVE_INT64;
    default: return H5T_NATIVE_DOUBLE;
    }
}

enum scalar h5_scalar(hid_t type)
{
    hid_t native = H5Tget_native_type(type, H5T_DIR_ASCEND);
    enum scalar found = SCALAR_DOUBLE;
    for (enum scalar i = SCALAR_FLOAT; i < SCALAR_COUNT; i++)
        if (native >= 0 && H5Tget_precision(type) == H5Tget_precision(native) &&
            H5Tequal(native, h5_native(i)) > 0)
            found = i;
    h5_close(native);
    return found;
}

static bool member_is(hid_t type, unsigned index, char initial)
{
    char *name = H5Tget_member_name(type, index);
    bool same = name && tolower((unsigned char)name[0]) == initial;
    H5free_memory(name);
    return same && H5Tget_member_class(type, index) == H5T_FLOAT;
}

/* A compound of two floats named like h5py's {r, i}, MATLAB's {real, imag}, or {re, im}. */
static bool is_complex_compound(hid_t type)
{
    if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != 2)
        return false;
    return (member_is(type, 0, 'r') && member_is(type, 1, 'i')) ||
           (member_is(type, 0, 'i') && member_is(type, 1, 'r'));
}

static const char *other_class_name(hid_t type)
{
    switch (H5Tget_class(type)) {
    case H5T_STRING: return "string";
    case H5T_COMPOUND: return is_complex_compound(type) ? "complex" : "compound";
    case H5T_ENUM: return "enumeration";
    case H5T_ARRAY: return "array";
    case H5T_VLEN: return "variable-length";
    case H5T_REFERENCE: return "reference";
    case H5T_OPAQUE: return "opaque";
    case H5T_BITFIELD: return "bit field";
#if H5_VERSION_GE(2, 0, 0)
    case H5T_COMPLEX: return "complex";
#endif
    default: return "unknown";
    }
}

void h5_type_text(hid_t type, char text[H5_TYPE_TEXT])
{
    H5T_class_t class = H5Tget_class(type);
    if (class != H5T_FLOAT && class != H5T_INTEGER) {
        snprintf(text, H5_TYPE_TEXT, "%s", other_class_name(type));
        return;
    }
    char letter = class == H5T_FLOAT ? 'f' : H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i';
    bool swapped = H5Tget_size(type) > 1 && H5Tget_order(type) == H5T_ORDER_BE;
    snprintf(text, H5_TYPE_TEXT, "%c%zu%s", letter, H5Tget_precision(type),
             swapped ? " big-endian" : "");
}

bool h5_type_class(hid_t type, enum element_class *elements)
{
    H5T_class_t class = H5Tget_class(type);
    if (class == H5T_INTEGER)
        *elements = ELEMENT_INTEGER;
    else if (H5Tequal(type, H5T_IEEE_F32LE) > 0 || H5Tequal(type, H5T_IEEE_F32BE) > 0)
        *elements = ELEMENT_FLOAT;
    else if (H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F64BE) > 0)
        *elements = ELEMENT_DOUBLE;
    else
        *elements = ELEMENT_OTHER_REAL;
    return class == H5T_INTEGER || class == H5T_FLOAT;
}
