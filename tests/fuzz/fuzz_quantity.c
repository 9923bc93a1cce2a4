/* Sizes and extents as people write them, and what is printed of them. */
#include <string.h>

#include "fuzz_input.h"
#include "quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[128];
    uint64_t size;
    int64_t extents[3];
    double value;
    if (bytes >= sizeof text)
        return -1;
    snprintf(text, sizeof text, "%.*s", (int)bytes, bytes ? (const char *)data : "");
    if (quantity_parse_bytes(text, &size))
        quantity_bytes((double)size);
    if (quantity_parse_time(text, &value) && !(value >= 0 && value < 1e10))
        abort();
    for (int count = 1; count <= 3; count++)
        if (quantity_parse_extents(text, count, extents) && extents[count - 1] < 1)
            abort();
    if (bytes >= sizeof value) {
        memcpy(&value, data, sizeof value);
        quantity_bytes(value);
        quantity_rate(value);
        quantity_flops(value);
        quantity_work(value);
        quantity_time(value);
    }
    return 0;
}
