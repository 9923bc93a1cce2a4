/* A problem, its plan and the prediction of its time, as text; and the words for their parts. */
#pragma once

#include <stdio.h>

#include "simulate.h"

/* The stage's name in a table: on the CPU nothing is copied to a device. */
const char *stage_title(enum stage stage, bool gpu);

/* What a run that the stage limits spends its time with, as in "limited by reading the files". */
const char *stage_words(enum stage stage, bool gpu);

/* Whether A and B are one matrix, by name. */
bool product_b_is_a(const struct problem *problem);

/* Print "C = 2 A B^T + C, rows of A centred", and "double; C 20x30, k 40". */
void product_print(FILE *out, const struct problem *problem);
void product_print_shape(FILE *out, const struct problem *problem);

/* Print problem and plan, in at most 80 columns.  The plan is that of the first of so many
 * pieces. */
void plan_print(FILE *out, const struct problem *problem, const struct machine *machine,
                const struct plan *plan, int pieces);

extern const char *const resource_names[RESOURCE_COUNT];

/* The stage of a run that needs it. */
enum stage resource_stage(enum resource resource);

/* Print the prediction: the time, and what limits it. */
void simulate_print_time(FILE *out, const struct simulation *simulation, bool gpu);
