#include "computer.h"

#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "proc.h"

uint64_t computer_number(void)
{
    char text[256] = {0};
    if (!proc_text("/proc/sys/kernel/random/boot_id", "", text, sizeof text))
        gethostname(text, sizeof text - 1);
    return XXH3_64bits(text, strlen(text));
}
