/* Machine files: whatever JSON they hold, what is taken from them is a machine. */
#include <string.h>

#include "error.h"
#include "fuzz_input.h"
#include "machine.h"
#include "options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct resources resources;
    struct machine machine = {.ranks = 1, .ranks_per_node = 1, .threads = 1};
    struct error err = {0};
    snprintf(resources.machine, sizeof resources.machine, "%s", fuzz_file(data, bytes));
    int rc = machine_read(&resources, &machine, &err);
    if (rc != err.code || (rc && !err.text[0]))
        abort();
    if (machine.ranks < 1 || machine.ranks_per_node < 1 || machine.threads < 1 ||
        !memchr(machine.name, 0, sizeof machine.name))
        abort();
    return 0;
}
