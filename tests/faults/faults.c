#include "faults.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RULES_MAX = 16 };

struct rule {
    enum call call;
    int fault;
    long first, last; /* the numbers of the calls, if percent is 0 */
    unsigned percent;
};

static const char *const call_names[CALL_COUNT] = {
    "pread",     "preadv",   "pwrite",      "write", "fallocate", "sync_file_range",
    "fdatasync", "fsync",    "rename",      "open",  "ftruncate", "madvise",
    "malloc",    "mmap",     "thread",      "alloc", "pin",       "event",
    "record",    "wait",     "sync",        "copy",  "gemm",      "combine",
    "mirror",    "recentre", "standardize", "embed", "fold",      "sketch",
    "retire",    "project",  "norms",       "judge", "link",      "stat",
};

static const struct {
    const char *name;
    int fault;
} fault_names[] = {
    {"short", FAULT_SHORT},     {"eof", FAULT_EOF},   {"flip", FAULT_FLIP},
    {"delay", FAULT_DELAY},     {"fail", FAULT_FAIL}, {"eio", EIO},
    {"enospc", ENOSPC},         {"eintr", EINTR},     {"enomem", ENOMEM},
    {"eagain", EAGAIN},         {"efault", EFAULT},   {"emfile", EMFILE},
    {"eopnotsupp", EOPNOTSUPP}, {"edquot", EDQUOT},   {"einval", EINVAL},
    {"eperm", EPERM},           {"bit", FAULT_BIT},   {"residue", FAULT_RESIDUE},
    {"estale", ESTALE},         {"eacces", EACCES},
};

static struct rule rules[RULES_MAX];
static int rule_count;
static uint64_t seed;
static atomic_long calls[CALL_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void refuse(const char *text)
{
    fprintf(stderr, "DGEMM_OOC_TEST_FAULTS: %s\n", text);
    _exit(99);
}

static void parse_rule(const char *text)
{
    char call[32], fault[32], mark, plus = 0;
    long number;
    struct rule rule = {.call = CALL_COUNT};
    if (sscanf(text, "%31[a-z_]:%31[a-z]%c%ld%c", call, fault, &mark, &number, &plus) < 4 ||
        rule_count == RULES_MAX)
        refuse(text);
    for (int i = 0; i < CALL_COUNT; i++)
        if (strcmp(call, call_names[i]) == 0)
            rule.call = (enum call)i;
    for (size_t i = 0; i < sizeof fault_names / sizeof *fault_names; i++)
        if (strcmp(fault, fault_names[i].name) == 0)
            rule.fault = fault_names[i].fault;
    if (rule.call == CALL_COUNT || !rule.fault)
        refuse(text);
    if (mark == '%') {
        rule.percent = (unsigned)number;
    } else {
        rule.first = number;
        rule.last = plus == '+' ? LONG_MAX : number;
    }
    rules[rule_count++] = rule;
}

static bool is_other_rank(void)
{
    const char *wanted = getenv("DGEMM_OOC_TEST_FAULT_RANK"),
               *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("PMI_RANK");
    return wanted && rank && strcmp(wanted, rank) != 0;
}

void fault_log(const char *line)
{
    const char *name = getenv("DGEMM_OOC_TEST_FAULT_LOG");
    FILE *log = name ? fopen(name, "a") : NULL;
    if (!log)
        return;
    fprintf(log, "%s\n", line);
    fclose(log);
}

static void log_counts(void)
{
    char line[64];
    for (int i = 0; i < CALL_COUNT; i++) {
        snprintf(line, sizeof line, "%s %ld", call_names[i], atomic_load(&calls[i]));
        if (atomic_load(&calls[i]) > 0)
            fault_log(line);
    }
}

static void start(void)
{
    const char *text = getenv("DGEMM_OOC_TEST_FAULTS"), *number = getenv("DGEMM_OOC_TEST_SEED");
    char copy[1024] = "", *rest = copy, *rule;
    if (text && !is_other_rank())
        snprintf(copy, sizeof copy, "%s", text);
    seed = number ? strtoull(number, NULL, 10) : 0;
    while ((rule = strsep(&rest, ",")))
        if (*rule)
            parse_rule(rule);
    atexit(log_counts);
}

/* The finalizer of MurmurHash3. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static bool is_due(const struct rule *rule, long number)
{
    uint64_t key = seed << 40 ^ (uint64_t)rule->call << 32 ^ (uint64_t)number;
    return rule->percent ? mix(key) % 100 < rule->percent
                         : number >= rule->first && number <= rule->last;
}

uint64_t fault_chance(enum call call, uint64_t which)
{
    return mix(mix(seed << 8 ^ which) + (uint64_t)atomic_load(&calls[call]));
}

int fault_of(enum call call)
{
    char line[64];
    pthread_once(&once, start);
    long number = atomic_fetch_add(&calls[call], 1) + 1;
    for (int i = 0; i < rule_count; i++)
        if (rules[i].call == call && is_due(&rules[i], number)) {
            snprintf(line, sizeof line, "fault in %s number %ld", call_names[call], number);
            fault_log(line);
            return rules[i].fault;
        }
    return 0;
}

/* Whether faults apply to the descriptor's file. */
static bool is_due_file(int descriptor)
{
    const char *wanted = getenv("DGEMM_OOC_TEST_FAULT_FILE");
    char link[64], name[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    return !wanted || (readlink(link, name, sizeof name - 1) > 0 && strstr(name, wanted));
}

int fault_of_path(enum call call, const char *path)
{
    const char *wanted = getenv("DGEMM_OOC_TEST_FAULT_FILE");
    return !wanted || strstr(path, wanted) ? fault_of(call) : 0;
}

int fault_of_file(enum call call, int descriptor)
{
    return is_due_file(descriptor) ? fault_of(call) : 0;
}
