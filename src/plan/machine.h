/* The machine: what each rank may use, and how fast the links are.
 *
 * Memories are read from the machine or given.  Rates are assumed from the kind of device, that of
 * reading files is measured, unless a machine file states them.  They steer the plan and its
 * prediction, never the bits of the result, unless --split-k auto lets the plan choose the parts
 * of k. */
#ifndef DGEMM_OOC_MACHINE_H
#define DGEMM_OOC_MACHINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "device.h"

struct options;
struct problem;
struct error;

/* Plain data. */
struct machine {
    char name[96];
    bool gpu;
    int compute_capability; /* of the GPU: 90 for 9.0 */
    int ranks, ranks_per_node;
    int threads;          /* CPU threads a rank */
    size_t device_memory; /* bytes a rank may take on its device */
    size_t host_memory;   /* bytes a rank may take on its host, the CPU device included */
    bool files_in_memory; /* of the node, whose bandwidth is then what all share */
    double disk_read_bytes_per_s,
        disk_write_bytes_per_s;             /* of the file system, all ranks together */
    double disk_run_bytes;                  /* a read of this length runs at half the rate */
    double in_bytes_per_s, out_bytes_per_s; /* host to device and back, each rank */
    double device_bytes_per_s;              /* of the device's own memory */
    double node_disk_bytes_per_s; /* between a node and the file system, each way; 0: no limit */
    double network_bytes_per_s;   /* between a node and the others, each way */
    double gemm_flops_per_s[2];   /* each rank; float, double */
    unsigned given, measured;     /* bits, of the members of a machine file: where they are from */
};

/* This machine, for one of `ranks` ranks of which `local_ranks` share this node, with so many CPUs
 * for its threads.  `device`: the GPU to use, which `sharing` of them do, or null for the CPU. */
void machine_probe(const struct options *options, int ranks, int local_ranks, int cpus,
                   const struct device_info *device, int sharing, struct machine *machine);

/* Part of machine_probe: bytes of the host that can be had now: what is free, and what the control
 * groups of this process allow. */
uint64_t machine_host_memory(void);

/* Complain (EXIT_RESOURCES) of limits, given or of a machine file, beyond all that `local_ranks`
 * ranks of this computer, of which `sharing` use `device` (null: the CPU), can have together. */
int machine_check_memory(const struct options *options, int local_ranks,
                         const struct device_info *device, int sharing,
                         const struct machine *machine, struct error *err);

/* Read a little here and there of the largest operand, for a tenth of a second or a little more,
 * and take what the file system gives to this computer, times their number, as its rate.  Small
 * problems are left alone. */
void machine_probe_disk(const struct problem *p, int computers, struct machine *machine);

/* Replace what `options->machine` states: a JSON object with members of the names above. */
int machine_read(const struct options *options, struct machine *machine, struct error *err);

/* Where a number that `member` points to in the machine is from: "given" by the user, "measured"
 * here, or "assumed". */
const char *machine_source(const struct machine *machine, const void *member);

/* Note that it was measured. */
void machine_measured(struct machine *machine, const void *member);

/* The machine file that states all of this machine; the caller's. */
json_t *machine_json(const struct machine *machine);

/* FLOP/s of a GPU's fastest unit for the type, at its highest clock. */
double machine_gpu_peak(const struct device_info *info, enum scalar type);

/* Threads of a rank with so many CPUs: OMP_NUM_THREADS where that is set, else as many. */
int machine_threads(int cpus);

/* CPUs that this process is bound to. */
int machine_cpus(void);

#endif
