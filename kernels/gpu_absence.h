/* Explains why no GPU can be used. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What CUDA and the environment report.  Plain data. */
struct gpu_facts {
    const char *visible; /* CUDA_VISIBLE_DEVICES; null: not set */
    const char *error;   /* CUDA's message; null: it found GPUs, but one is too old: */
    int index;           /* the number of that GPU, */
    int capability;      /* its compute capability, 70 for 7.0, */
    int oldest;          /* and the lowest one that this build has kernels for */
    bool needs_driver;   /* the error is a missing or outdated driver */
    int driver, runtime; /* CUDA versions, 12040 for 12.4; 0: no driver */
};

/* Write the reason to `text`, of `size` bytes, and return it: a clause without a full stop, with
 * the remedy in brackets.  Pure. */
const char *gpu_absence_text(const struct gpu_facts *facts, char *text, size_t size);

/* Whether this computer has an NVIDIA GPU, usable or not, according to `pci`, its folder of PCI
 * devices (/sys/bus/pci/devices). */
bool gpu_is_present(const char *pci);
