/* What this rank computes with, and where it is. */
#pragma once

#include "caller.h"
#include "machine.h"
#include "placement.h"

struct error;
struct problem;

struct hardware {
    struct machine machine;       /* the same on all ranks */
    int gpu;                      /* index, or -1 for the CPU */
    struct device *device;        /* null: not open */
    struct placement placement;   /* of this rank */
    struct placement *placements; /* rank 0: of all ranks, when it is open; the caller's to free */
};

/* Collective.  Choose this rank's GPU, bind its threads near it, and describe the machine.
 * Complaints are this rank's: no agreement follows. */
int hardware_find(const struct caller *caller, struct hardware *hardware, struct error *err);

/* Collective.  Likewise, without a device: for what is only read. */
int hardware_find_host(const struct caller *caller, struct hardware *hardware, struct error *err);

/* Collective.  Measure how fast the problem's files are read and, on CPUs, how fast its matrices
 * are multiplied, unless a machine file states that. */
void hardware_probe(const struct caller *caller, const struct problem *problem,
                    struct hardware *hardware);

/* Collective.  Open the device, for an algorithm of GPUs or for so many threads of the CPU. */
int hardware_open(const struct caller *caller, struct hardware *hardware, enum algorithm algorithm,
                  int threads, struct error *err);

/* Close the device, if it is open. */
void hardware_close(struct hardware *hardware);

/* Warn that the CPU computes on a computer that has a GPU. */
void hardware_warn_of_cpu(void);
