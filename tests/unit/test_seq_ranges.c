/* SPDX-License-Identifier: MIT */
/* Sets of seqs as they are stored. */
#include "outbox/relay/stream/seq_ranges.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

#define SEQS_MAX 5000
#define RANGES_MAX 7

static struct buf stored;

static int teardown(void **state)
{
    (void)state;
    buf_done(&stored);
    return 0;
}

static struct seq_ranges store(const int64_t *seqs, size_t count)
{
    buf_reset(&stored);
    seq_ranges_put(&stored, seqs, count);
    assert_false(stored.failed);
    return (struct seq_ranges){.data = stored.data, .len = stored.len};
}

/* Reads all of them in pieces of rows_max rows. Returns their number. */
static size_t read_all(struct seq_ranges *from, size_t rows_max, int64_t *seqs)
{
    struct seq_range ranges[RANGES_MAX];
    size_t read = 0;
    size_t count;

    do {
        size_t before = read;

        assert_int_equal(seq_ranges_read(from, ranges, RANGES_MAX, rows_max, &count, NULL), RC_OK);
        assert_true(count <= RANGES_MAX);
        for (size_t i = 0; i < count; i++) {
            for (int64_t seq = ranges[i].from; seq <= ranges[i].to; seq++)
                seqs[read++] = seq;
        }
        assert_true(read - before <= rows_max);
    } while (count > 0);
    return read;
}

static void any_seqs_come_back_in_pieces(void **state)
{
    static int64_t seqs[SEQS_MAX];
    static int64_t back[SEQS_MAX];
    uint64_t rng = 5;

    (void)state;
    for (size_t run = 0; run < 300; run++) {
        size_t count = 1 + rng_next(&rng) % (run % 10 == 0 ? SEQS_MAX : 60);
        int64_t seq = 0;
        struct seq_ranges from;

        for (size_t i = 0; i < count; i++) {
            uint64_t bits = rng_next(&rng) % 4 == 0 ? rng_next(&rng) % 49 : 0;

            seq += 1 + (int64_t)(rng_next(&rng) & ((UINT64_C(1) << bits) - 1));
            seqs[i] = seq;
        }
        from = store(seqs, count);
        assert_int_equal(read_all(&from, 1 + rng_next(&rng) % 100, back), count);
        assert_memory_equal(seqs, back, count * sizeof(seqs[0]));
    }
}

static void none_and_the_largest_come_back(void **state)
{
    static const int64_t largest[] = {1, INT64_MAX - 2, INT64_MAX - 1};
    int64_t back[3];
    struct seq_ranges from = store(largest, 0);

    (void)state;
    assert_int_equal(read_all(&from, 5, back), 0);
    from = store(largest, 3);
    assert_int_equal(read_all(&from, 5, back), 3);
    assert_memory_equal(back, largest, sizeof(largest));
}

static void consecutive_seqs_need_few_bytes(void **state)
{
    static int64_t seqs[SEQS_MAX];

    (void)state;
    for (size_t i = 0; i < SEQS_MAX; i++)
        seqs[i] = 1000 + (int64_t)i;
    assert_int_equal(store(seqs, SEQS_MAX).len, 4);
}

static void bytes_that_are_no_ranges_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"\x05", 1},                                          /* no length */
        {"\x85", 1},                                          /* a number that does not end */
        {"\x00\x00", 2},                                      /* not ascending */
        {"\x01\x00\x00\x00", 4},                              /* nor later */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00", 11}, /* too large a number */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00", 10},     /* INT64_MAX */
        {"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x01", 10},     /* beyond it */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seq_ranges from = {.data = cases[i].bytes, .len = cases[i].len};
        struct seq_range ranges[RANGES_MAX];
        struct err err = {0};
        size_t count;

        assert_int_equal(seq_ranges_read(&from, ranges, RANGES_MAX, 1000, &count, &err), RC_FATAL);
        assert_non_null(strstr(err.text, "is no range of seqs"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_seqs_come_back_in_pieces),
        cmocka_unit_test(none_and_the_largest_come_back),
        cmocka_unit_test(consecutive_seqs_need_few_bytes),
        cmocka_unit_test(bytes_that_are_no_ranges_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
