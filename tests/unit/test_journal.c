/* A state saved in the journal is read back unchanged by another run. */
#include "scratch.h"

#include <inttypes.h>
#include <sys/file.h>
#include <xxhash.h>

#include "journal.h"

static const struct operand_state none;
static const struct problem problem = {.m = 100, .n = 90, .k = 80}; /* alpha 0: no operands */

struct file {
    struct file_names names;
    struct journal journal;
};

static void open_journal(struct file *file)
{
    struct error err = {0};
    const struct options options = {0};
    succeed(file_names_make(&file->names, "c.h5", &err), &err);
    journal_describe(&file->journal, &file->names, &options, &problem, &none);
    succeed(journal_open(&file->journal, false, &err), &err);
}

/* Reads the journal as a resumed run does. */
static int read_again(const struct file *file, struct progress *found, struct error *err)
{
    struct journal reader = file->journal;
    flock(file->journal.descriptor, LOCK_UN);
    return journal_read(&reader, RESTART_AUTO, &problem, found, err);
}

static void close_journal(struct file *file)
{
    journal_close(&file->journal, false);
    assert_int_equal(access(file->names.journal, F_OK), -1);
}

static struct progress random_progress(void)
{
    struct progress p = {.findings = {0.5, 1e-9, 2e-9, 3e-9, 10, 90, 100, 4, 5}, .seconds = 60};
    p.left.count = 2;
    p.left.pieces[0] = (struct piece){.block = {10, 20, 30, 40},
                                      .k = 16,
                                      .layers = 1,
                                      .place = 1,
                                      .hashed = true,
                                      .sum = 0xfedcba9876543210};
    p.left.pieces[1] = (struct piece){.block = {40, 0, 60, 90}, .again = true};
    for (int i = 0; i < ROW_GROUPS; i++)
        p.checksums.sums[i] =
            (uint64_t)random_below(1 << 30) << 34 | (uint64_t)random_below(1 << 30);
    p.trusted = random_below(2);
    p.saved = true;
    return p;
}

static void test_what_is_saved_is_found(void **state)
{
    (void)state;
    struct file file;
    struct error err = {0};
    open_journal(&file);
    for (int i = 0; i < 20; i++) {
        struct progress saved = random_progress(), found;
        succeed(journal_save(&file.journal, &saved, &err), &err);
        succeed(read_again(&file, &found, &err), &err);
        assert_memory_equal(&found.checksums, &saved.checksums, sizeof saved.checksums);
        assert_int_equal(found.trusted, saved.trusted);
        assert_int_equal(found.left.count, 2);
        assert_int_equal(found.left.pieces[0].layers, 1);
        assert_true(found.left.pieces[0].sum == saved.left.pieces[0].sum && found.saved);
    }
    close_journal(&file);
}

/* What was saved stays while a run that does not resume holds the journal, until it begins. */
static void test_what_is_saved_is_discarded_late(void **state)
{
    (void)state;
    for (int begins = 0; begins < 2; begins++) {
        struct file file;
        struct progress saved = random_progress(), found;
        struct error err = {0};
        open_journal(&file);
        succeed(journal_save(&file.journal, &saved, &err), &err);
        journal_close(&file.journal, true);
        const struct options options = {0};
        journal_describe(&file.journal, &file.names, &options, &problem, &none);
        succeed(journal_read(&file.journal, RESTART_NEVER, &problem, &found, &err), &err);
        assert_false(found.saved);
        succeed(journal_open(&file.journal, false, &err), &err);
        if (begins)
            succeed(journal_begin(&file.journal, &err), &err);
        succeed(read_again(&file, &found, &err), &err);
        assert_true(found.saved == !begins);
        journal_close(&file.journal, false);
        assert_int_equal(access(file.names.journal, F_OK), begins ? -1 : 0);
        unlink(file.names.journal);
    }
}

/* Appends a line with a valid hash, whose format of the completed work is that of another
 * version. */
static void append(const struct file *file, const char *line)
{
    FILE *journal = fopen(file->names.journal, "a");
    fprintf(journal, "%016" PRIx64 " %s\n", XXH3_64bits(line, strlen(line)), line);
    fclose(journal);
}

static void test_a_line_of_another_version(void **state)
{
    (void)state;
    struct file file;
    struct progress saved = random_progress(), found;
    struct error err = {0};
    open_journal(&file);
    append(&file, "{\"left\":[],\"checksum\":\"0123456789abcdef\",\"residual\":1.0,"
                  "\"not_finite\":0,\"seconds\":1.0,\"layers\":1}");
    read_again(&file, &found, &err);
    complained(&err, EXIT_INPUT, "another version");
    err = (struct error){0};
    succeed(journal_save(&file.journal, &saved, &err), &err);
    succeed(read_again(&file, &found, &err), &err);
    assert_int_equal(found.left.count, 2);
    close_journal(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_saved_is_found),
        cmocka_unit_test(test_what_is_saved_is_discarded_late),
        cmocka_unit_test(test_a_line_of_another_version),
    };
    return cmocka_run_group_tests(tests, enter_scratch, remove_scratch);
}
