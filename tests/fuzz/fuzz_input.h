/* What a fuzzer made, as a file. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* libFuzzer's entry. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char fuzz_name[] = "/tmp/fuzz-XXXXXX";

static inline void fuzz_remove(void)
{
    unlink(fuzz_name);
}

/* The name of a file that holds the bytes; the same one each time.  HDF5 wants its real path, which
 * one in memory only has none of. */
static inline const char *fuzz_file(const uint8_t *data, size_t bytes)
{
    static int descriptor = -1;
    if (descriptor < 0) {
        descriptor = mkstemp(fuzz_name);
        atexit(fuzz_remove);
    }
    if (ftruncate(descriptor, 0) || pwrite(descriptor, data, bytes, 0) != (ssize_t)bytes)
        abort();
    return fuzz_name;
}
