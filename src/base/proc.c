#include "proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

bool proc_text(const char *file, const char *key, char *value, size_t bytes)
{
    FILE *f = fopen(file, "re");
    char line[256];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *after = *key ? strchr(line, ':') : line;
        found = after && strncmp(line, key, strlen(key)) == 0;
        if (found) {
            after += strspn(after, ": \t");
            snprintf(value, bytes, "%.*s", (int)strcspn(after, "\n"), after);
        }
    }
    if (f)
        fclose(f);
    return found;
}

bool proc_number(const char *file, const char *key, uint64_t *value)
{
    char text[64];
    return proc_text(file, key, text, sizeof text) && sscanf(text, "%" SCNu64, value) == 1;
}

uint64_t computer_number(void)
{
    char text[256] = {0};
    if (!proc_text("/proc/sys/kernel/random/boot_id", "", text, sizeof text))
        gethostname(text, sizeof text - 1);
    return XXH3_64bits(text, strlen(text));
}
