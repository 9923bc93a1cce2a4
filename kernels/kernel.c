#include "kernel.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cpu_kernel.h"
#include "residues.h"
#include "text.h"

#define KERNEL_ENTRY(NUMBER, name) [ALGORITHM_##NUMBER] = &kernel_##name,
const struct kernel *const kernels[ALGORITHM_COUNT] = {KERNELS(KERNEL_ENTRY)};

/* Of the ladder: the kernels before that of the CPU. */
static bool is_number_of(const char *text, int id)
{
    char number[16];
    snprintf(number, sizeof number, "%d", id);
    return id < ALGORITHM_CPU && strcmp(text, number) == 0;
}

static bool is_of_bytes(const struct kernel *kernel)
{
    return kernel->rates[SCALAR_INT8][0].per_clock > 0;
}

bool algorithm_is_choice(enum algorithm id)
{
    return (kernels[id]->on_gpu || kernels[id]->on_cpu) && !is_of_bytes(kernels[id]);
}

static int find(const char *text)
{
    for (int id = 0; id < ALGORITHM_COUNT; id++)
        if (algorithm_is_choice((enum algorithm)id) &&
            (strcmp(text, kernels[id]->name) == 0 || is_number_of(text, id)))
            return id;
    return ALGORITHM_NONE;
}

int algorithm_parse(const char *text, int *moduli)
{
    char name[16];
    *moduli = 0;
    if (sscanf(text, "%15[a-z]:%d%*c", name, moduli) < 2)
        return find(text);
    char same[32]; /* with nothing before, between and behind */
    snprintf(same, sizeof same, "%s:%d", name, *moduli);
    const bool takes = find(name) == ALGORITHM_OZAKI && strcmp(text, same) == 0;
    return takes && *moduli >= RESIDUES_LEAST && *moduli <= RESIDUES_MOST ? ALGORITHM_OZAKI
                                                                          : ALGORITHM_NONE;
}

/* With a comma between it and what is there. */
static void add_word(char *text, size_t size, const char *word)
{
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length ? ", " : "", word);
}

const char *algorithm_names(void)
{
    char names[256] = "";
    for (int id = 0; id < ALGORITHM_COUNT; id++)
        if (algorithm_is_choice((enum algorithm)id))
            add_word(names, sizeof names, kernels[id]->name);
    return text_make("%s, ozaki:%d..%d", names, RESIDUES_LEAST, RESIDUES_MOST);
}

const char *algorithm_ladder(void)
{
    char names[256] = "";
    for (int id = 0; id < ALGORITHM_CPU; id++)
        add_word(names, sizeof names, kernels[id]->name);
    return text_make("%s (or 0 to %d)", names, ALGORITHM_CPU - 1);
}

/* 0 where it has none. */
static double per_clock(const struct kernel *kernel, int capability, enum scalar type)
{
    for (int i = 0; i < KERNEL_RATES; i++) {
        const struct kernel_rate *rate = &kernel->rates[type][i];
        if (capability >= rate->least && capability <= rate->most)
            return rate->per_clock;
    }
    return 0;
}

/* The fastest one on a GPU. */
static enum algorithm fastest(int capability, enum scalar type)
{
    int id = ALGORITHM_COUNT - 1;
    while (id > 0 && per_clock(kernels[id], capability, type) == 0)
        id--;
    assert(per_clock(kernels[id], capability, type) > 0);
    return (enum algorithm)id;
}

enum algorithm algorithm_auto(int capability, enum scalar type)
{
    return capability == 0 ? ALGORITHM_CPU : fastest(capability, type);
}

double algorithm_peak(int capability, enum scalar type)
{
    return per_clock(kernels[fastest(capability, type)], capability, type);
}

bool algorithm_is_running_sum(enum algorithm id)
{
    return kernels[id]->running_sum && (id != ALGORITHM_CPU || cpu_kernels(0)->fused);
}
