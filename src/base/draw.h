/* Random numbers that no earlier run, and nobody who wrote the files, can have known. */
#pragma once

#include <stdint.h>
#include <sys/random.h>

#include "meter.h"

/* From the system or, where that has none, from the clock. */
static inline uint64_t draw_random(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (uint64_t)(1e9 * clock_now());
    return number;
}
