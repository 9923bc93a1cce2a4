/* Why no GPU can be used, in words. */
#ifndef DGEMM_OOC_GPU_ABSENCE_H
#define DGEMM_OOC_GPU_ABSENCE_H

#include <stdbool.h>
#include <stddef.h>

/* What CUDA and the environment say of it.  Plain data. */
struct gpu_facts {
    const char *visible; /* CUDA_VISIBLE_DEVICES; null: not set */
    const char *error;   /* CUDA's own words; null: it finds GPUs, */
    int index;           /* of which this one */
    int capability;      /* is of 70, where */
    int oldest;          /* is the least that this build has kernels for */
    bool needs_driver;   /* the error is that of a driver that is too old, or of none */
    int driver, runtime; /* CUDA versions, 12040 for 12.4; 0: no driver */
};

/* A clause without a full stop, with the remedy in brackets, in `text`. */
const char *gpu_absence_text(const struct gpu_facts *facts, char *text, size_t size);

/* Whether this computer has an NVIDIA GPU, usable or not, as `pci` has it, the folder of all PCI
 * devices: /sys/bus/pci/devices. */
bool gpu_is_present(const char *pci);

#endif
