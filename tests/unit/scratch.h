/* The fixture of tests with files: random blocks, checked return codes, a scratch directory. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block.h"
#include "error.h"

static uint64_t random_state = 1;

static inline int64_t random_below(int64_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)limit);
}

/* The number of random cases: DGEMM_OOC_TEST_TRIALS is a number, or a share of the default
 * (5%). */
static inline int tries(int own)
{
    const char *text = getenv("DGEMM_OOC_TEST_TRIALS");
    int given = text ? atoi(text) : own;
    return text && strchr(text, '%') ? 1 + own * given / 100 : given;
}

/* Whether less than all random cases are asked for, as a share: then cases that take long are left
 * out, too. */
static inline bool brief(void)
{
    const char *text = getenv("DGEMM_OOC_TEST_TRIALS");
    return text && strchr(text, '%') && atoi(text) < 100;
}

static inline struct block random_block(int64_t rows, int64_t cols)
{
    struct block b = {.row = random_below(rows), .col = random_below(cols)};
    b.rows = random_below(rows - b.row + 1);
    b.cols = random_below(cols - b.col + 1);
    return b;
}

/* Standard error, redirected to a temporary file until ear_close(). */
struct ear {
    FILE *file;
    int terminal;
};

static inline struct ear ear_open(void)
{
    struct ear ear = {tmpfile(), dup(STDERR_FILENO)};
    fflush(stderr);
    dup2(fileno(ear.file), STDERR_FILENO);
    return ear;
}

/* Restores standard error and returns what was written to it; valid until the next call. */
static inline const char *ear_close(struct ear *ear)
{
    static char text[2000];
    fflush(stderr);
    dup2(ear->terminal, STDERR_FILENO);
    close(ear->terminal);
    rewind(ear->file);
    text[fread(text, 1, sizeof text - 1, ear->file)] = '\0';
    fclose(ear->file);
    return text;
}

static inline void succeed(int rc, const struct error *err)
{
    if (rc || err->complaints)
        fail_msg("code %d: %s", rc, err->text);
}

static inline void complained(const struct error *err, int code, const char *words)
{
    assert_int_equal(err->code, code);
    if (!strstr(err->text, words))
        fail_msg("\"%s\" does not say \"%s\"", err->text, words);
}

static inline int enter_scratch(void **state)
{
    static char directory[PATH_MAX];
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/test_store.XXXXXX", parent ? parent : "/tmp");
    *state = mkdtemp(directory);
    return *state ? chdir(directory) : -1;
}

static inline int remove_scratch(void **state)
{
    char command[PATH_MAX + 8];
    snprintf(command, sizeof command, "rm -r '%s'", (char *)*state);
    return chdir("/") || system(command);
}
