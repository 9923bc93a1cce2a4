/* The stall messages of a rank that is alone on its node. */
#include "scratch.h"

#include "schedule.h"
#include "waits.h"

/* Checks the message of a rank that has just begun to wait. */
static void assert_said(const char *words)
{
    struct ear ear = ear_open();
    waits_look();
    const char *text = ear_close(&ear);
    wait_end();
    if (strncmp(text, "dgemm_ooc: rank 3 has waited ", 29) != 0 || !strstr(text, words))
        fail_msg("rank 3 ... \"%s\" is not in \"%s\"", words, text);
}

static void test_words(void **state)
{
    (void)state;
    struct waits record = {0};
    const struct transfer transfer = {.operand = OPERAND_B, .slab = 7};
    waits_open(&record, 1, 0, 3, 0);
    wait_begin_panel(&transfer, 5);
    assert_said(" s for B, step 7, from rank 5\n");
    wait_begin_panel(&transfer, -1);
    assert_said("for B, step 7\n");
    wait_begin_rank(2);
    assert_said("for rank 2 to get as far\n");
    wait_begin(WAIT_FOR_RANKS);
    assert_said("for other ranks to get as far\n");
    wait_begin(WAIT_FOR_SLOT);
    assert_said("for C to be written\n");
    wait_file(1);
    wait_begin(WAIT_FOR_SLOT);
    assert_said("for C to be written; on its node:\n  rank 3 (process ");
    wait_file(-1);
    wait_begin_message(1, false);
    wait_begin_panel(&transfer, -1);
    assert_said(" s for rank 1 to take a panel\n");
    wait_begin_message(1, true);
    wait_begin_panel(&transfer, -1);
    assert_said(" s for rank 1 to send a panel\n");
    wait_end_message();
    wait_begin_panel(&transfer, -1);
    assert_said("for B, step 7\n");
    waits_close();
}

/* No stall is reported while waiting for the device, or when not waiting. */
static void test_silence(void **state)
{
    (void)state;
    struct waits record = {0};
    waits_open(&record, 1, 0, 0, 0);
    struct ear ear = ear_open();
    waits_look();
    wait_begin(WAIT_FOR_DEVICE);
    waits_look();
    wait_end();
    waits_look();
    assert_string_equal(ear_close(&ear), "");
    waits_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
