/* Agreement between ranks, on a single rank. */
#include "scratch.h"

#include "comm_fixture.h"

static int begin(void **state)
{
    (void)state;
    open_comm();
    return 0;
}

static int end(void **state)
{
    (void)state;
    close_comm();
    return 0;
}

/* Some MPIs compare unsigned values as signed. */
static void test_least(void **state)
{
    (void)state;
    assert_true(comm_min(&comm, 7) == 7);
    assert_true(comm_min(&comm, UINT64_MAX) == INT64_MAX);
}

/* Otherwise, if many ranks failed at once, each would notify all others. */
static void test_a_raise_after_anothers_is_silent(void **state)
{
    struct error err = {0};
    MPI_Request request;
    (void)state;
    assert_false(comm_raised(&comm));
    MPI_Isend(NULL, 0, MPI_BYTE, 0, TAG_RAISE, comm.links->all, &request);
    while (!comm_raised(&comm))
        continue;
    comm_raise(&comm);
    assert_false(comm.raised);
    MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_RAISE, comm.links->all, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    comm_raise(&comm);
    assert_true(comm.raised);
    assert_int_equal(comm_agree(&comm, &err), 0);
    assert_false(comm.raised || comm_raised(&comm));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_least),
                                       cmocka_unit_test(test_a_raise_after_anothers_is_silent)};
    return cmocka_run_group_tests_name("comm", tests, begin, end);
}
