/* SPDX-License-Identifier: MIT */
#include "outbox/relay/flight.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void rows_leave_in_the_order_of_sending(void **state)
{
    struct flight flight;

    (void)state;
    assert_int_equal(flight_init(&flight, 16, NULL), RC_OK);
    assert_null(flight_first(&flight));
    for (int64_t seq = 1; seq <= 16; seq++)
        flight_add(&flight, &(struct flight_row){.seq = seq});
    assert_true(flight_full(&flight));
    for (int64_t seq = 1; seq <= 100; seq++) {
        assert_int_equal(flight_first(&flight)->seq, seq);
        flight_pop(&flight);
        assert_false(flight_full(&flight));
        flight_add(&flight, &(struct flight_row){.seq = seq + 16});
    }
    assert_int_equal(flight_count(&flight), 16);
    flight_done(&flight);
}

static void a_ticket_finds_its_row_only_while_it_is_in_flight(void **state)
{
    struct flight flight;
    uint64_t first;
    uint64_t second;

    (void)state;
    assert_int_equal(flight_init(&flight, 16, NULL), RC_OK);
    first = flight_ticket(&flight);
    assert_null(flight_find(&flight, first));
    flight_add(&flight, &(struct flight_row){.seq = 7});
    second = flight_ticket(&flight);
    flight_add(&flight, &(struct flight_row){.seq = 8});
    assert_int_equal(flight_find(&flight, first)->seq, 7);
    assert_int_equal(flight_find(&flight, second)->seq, 8);
    flight_pop(&flight);
    assert_null(flight_find(&flight, first));
    assert_int_equal(flight_find(&flight, second)->seq, 8);
    assert_null(flight_find(&flight, second + 1));
    flight_done(&flight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_leave_in_the_order_of_sending),
        cmocka_unit_test(a_ticket_finds_its_row_only_while_it_is_in_flight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
