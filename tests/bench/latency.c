/* SPDX-License-Identifier: MIT */
/* Measures the time from the COMMIT of a row until it is visible: writers INSERT vote events into
 * the outbox at a steady rate, each in a transaction of its own, and a reader waits for them in the
 * topic (--see kafka) or in vote_document (--see log). With --see retry they INSERT tasks of the
 * retry queue, whose attempts bench_retry_noop notes in the file that --share names. The time
 * starts with the answer to the COMMIT; a row that is seen before counts as 0. latency --bootstrap
 * H:P --topic T --database D --see kafka|log|retry [--share FILE] [--rate 1000] [--seconds 10]
 * [--writers 8] */
#include "schema/vote_event.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_db.h"

#include <fcntl.h>
#include <librdkafka/rdkafka.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WRITERS_MAX 64
/* The first ones are not counted: connections, caches and the reader warm up. */
#define WARM_UP_SHARE 5
#define WAIT_US_MAX INT64_C(60000000)
#define PARTITIONS_MAX 64
/* No transaction is open longer than that: a missing id is not searched for any longer. */
#define HOLE_US_MAX INT64_C(10000000)
#define HOLES_MAX 256

static struct {
    int argc;
    char **argv;
    long long rows;
    long long rate;
    long long writers;
    int64_t start_us;
    atomic_llong *committed_us;
    atomic_llong *seen_us; /* of retry: memory that is shared with the role */
    bool tasks;
    atomic_llong seen;
} run;

static void insert_task(MYSQL *db, struct buf *sql, long long row)
{
    buf_reset(sql);
    buf_print(sql,
              "INSERT INTO retry_task (task_group, scene, handler, idempotency_key, params) VALUES "
              "('bench', 'work', 'noop', 'row/%lld', '%lld')",
              row, row);
    bench_db_run(db, sql->data, sql->len);
    atomic_store(&run.committed_us[row], bench_now_us());
}

static void insert_event(MYSQL *db, struct buf *sql, long long row, uint64_t *state)
{
    uint64_t random_bits[2] = {bench_rng_next(state), bench_rng_next(state)};
    struct vote_event event = {
        .voter_id = row + 1,
        .content_id = 1 + (int64_t)(random_bits[0] % 1000),
        .voting = 1,
        .votes = VOTE_EVENT_VOTES_UNKNOWN,
        .occurred_ms = (int64_t)time(NULL) * 1000,
    };

    memcpy(event.event_id.bytes, random_bits, sizeof(random_bits));
    buf_reset(sql);
    buf_text_put(sql, "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
                      "(UUID(), 'vote', '");
    buf_i64(sql, event.content_id);
    buf_text_put(sql, "', 'VoteChanged', '");
    vote_event_encode(&event, sql);
    buf_text_put(sql, "')");
    bench_db_run(db, sql->data, sql->len);
    atomic_store(&run.committed_us[row], bench_now_us());
}

static void *writer_main(void *arg)
{
    long long mine = (long long)(intptr_t)arg;
    MYSQL *db = bench_db_open(run.argc, run.argv);
    uint64_t state = (uint64_t)bench_now_us() * (uint64_t)(mine + 1);
    struct buf sql = {0};

    for (long long row = mine; row < run.rows; row += run.writers) {
        bench_sleep_until(run.start_us + row * 1000000 / run.rate);
        if (run.tasks)
            insert_task(db, &sql, row);
        else
            insert_event(db, &sql, row, &state);
    }
    buf_done(&sql);
    mysql_close(db);
    mysql_thread_end();
    return NULL;
}

static void see(int64_t voter_id)
{
    long long none = 0;

    if (voter_id < 1 || voter_id > run.rows)
        return;
    if (atomic_compare_exchange_strong(&run.seen_us[voter_id - 1], &none, bench_now_us()))
        atomic_fetch_add(&run.seen, 1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK)
        bench_fail("%s = %s: %s", name, value, text);
}

static rd_kafka_t *reader_open(const char *topic)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(PARTITIONS_MAX);
    rd_kafka_t *kafka;
    char text[256];

    set(conf, "bootstrap.servers", bench_text(run.argc, run.argv, "bootstrap", NULL));
    set(conf, "group.id", "latency");
    set(conf, "enable.auto.commit", "false");
    set(conf, "fetch.wait.max.ms", "10");
    kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (!kafka)
        bench_fail("no consumer: %s", text);
    for (int32_t i = 0; i < bench_number(run.argc, run.argv, "partitions", 8); i++)
        rd_kafka_topic_partition_list_add(all, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(kafka, all);
    rd_kafka_topic_partition_list_destroy(all);
    return kafka;
}

static void read_kafka(int64_t until_us)
{
    rd_kafka_t *kafka = reader_open(bench_text(run.argc, run.argv, "topic", NULL));

    while (atomic_load(&run.seen) < run.rows && bench_now_us() < until_us) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(kafka, 100);
        struct vote_event event;

        if (!message)
            continue;
        if (!message->err &&
            vote_event_decode(&event, message->payload, message->len, NULL) == RC_OK)
            see(event.voter_id);
        rd_kafka_message_destroy(message);
    }
    rd_kafka_consumer_close(kafka);
    rd_kafka_destroy(kafka);
}

/* Ids that are missing between others: of a transaction that is still open (appliers commit in any
 * order), or never used. */
struct hole {
    long long from;
    long long to;
    int64_t since_us;
};

struct holes {
    struct hole list[HOLES_MAX];
    size_t count;
};

/* Without room the ids are given up; rows that are missed by that end the run with an error. */
static void hole_put(struct holes *holes, long long from, long long to, int64_t since_us)
{
    if (from <= to && holes->count < HOLES_MAX)
        holes->list[holes->count++] = (struct hole){from, to, since_us};
}

/* Records the rows of the range; missing ids between them go to holes. The last id that was seen,
 * or the one before the range. */
static long long range_read(MYSQL *db, const struct hole *range, struct holes *holes)
{
    long long last = range->from - 1;
    char sql[160];
    MYSQL_RES *res;
    MYSQL_ROW row;

    snprintf(sql, sizeof(sql),
             "SELECT id, voter_id FROM vote_document WHERE id BETWEEN %lld AND %lld ORDER BY id",
             range->from, range->to);
    bench_db_run(db, sql, 0);
    res = mysql_use_result(db);
    if (!res)
        bench_fail("no answer: %s", mysql_error(db));
    while ((row = mysql_fetch_row(res))) {
        long long id = strtoll(row[0], NULL, 10);

        hole_put(holes, last + 1, id - 1, range->since_us);
        last = id;
        see(strtoll(row[1], NULL, 10));
    }
    if (mysql_errno(db))
        bench_fail("no whole answer: %s", mysql_error(db));
    mysql_free_result(res);
    return last;
}

/* Looks again where ids were missing. */
static void holes_read(MYSQL *db, struct holes *holes, int64_t now_us)
{
    struct holes left = {.count = 0};

    for (size_t i = 0; i < holes->count; i++) {
        const struct hole *hole = &holes->list[i];
        long long last;

        if (now_us - hole->since_us > HOLE_US_MAX)
            continue;
        last = range_read(db, hole, &left);
        hole_put(&left, last + 1, hole->to, hole->since_us);
    }
    *holes = left;
}

/* Looks every millisecond for rows behind the last one that was seen, and into the holes. */
static void read_log(int64_t until_us)
{
    MYSQL *db = bench_db_open(run.argc, run.argv);
    struct holes holes = {.count = 0};
    long long last = 0;

    while (atomic_load(&run.seen) < run.rows && bench_now_us() < until_us) {
        int64_t now_us = bench_now_us();

        holes_read(db, &holes, now_us);
        last = range_read(db, &(struct hole){last + 1, LLONG_MAX, now_us}, &holes);
        bench_sleep_until(bench_now_us() + 1000);
    }
    mysql_close(db);
}

/* The file has zeros until the role writes. */
static void share_seen(const char *path)
{
    size_t bytes = (size_t)run.rows * sizeof(*run.seen_us);
    int fd = open(path, O_RDWR);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        bench_fail("%s cannot be used", path);
    run.seen_us = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (run.seen_us == MAP_FAILED)
        bench_fail("%s cannot be mapped", path);
    close(fd);
}

static void wait_for_tasks(int64_t until_us)
{
    long long row = 0;

    while (row < run.rows && bench_now_us() < until_us) {
        if (atomic_load(&run.seen_us[row]) != 0)
            row++;
        else
            bench_sleep_until(bench_now_us() + 1000);
    }
    atomic_store(&run.seen, row);
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* The value that so many thousandths of the sorted waits do not exceed. */
static double wait_ms(const int64_t *waits, long long count, long long thousandths)
{
    long long at = count * thousandths / 1000;

    return (double)waits[at < count ? at : count - 1] / 1000;
}

static void print(void)
{
    long long from = run.rows / WARM_UP_SHARE;
    long long count = run.rows - from;
    int64_t *waits = calloc((size_t)count, sizeof(*waits));

    if (!waits)
        bench_fail("no memory");
    for (long long i = 0; i < count; i++) {
        int64_t wait =
            atomic_load(&run.seen_us[from + i]) - atomic_load(&run.committed_us[from + i]);

        waits[i] = wait > 0 ? wait : 0;
    }
    qsort(waits, (size_t)count, sizeof(*waits), compare);
    printf("{\"rate\":%lld,\"rows\":%lld,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,"
           "\"max_ms\":%.3f}\n",
           run.rate, count, wait_ms(waits, count, 500), wait_ms(waits, count, 990),
           wait_ms(waits, count, 999), wait_ms(waits, count, 1000));
    free(waits);
}

int main(int argc, char **argv)
{
    pthread_t writers[WRITERS_MAX] = {0};
    const char *what = bench_text(argc, argv, "see", "kafka");
    long long seconds = bench_number(argc, argv, "seconds", 10);

    run.argc = argc;
    run.argv = argv;
    run.rate = bench_number(argc, argv, "rate", 1000);
    run.rows = run.rate * seconds;
    run.writers = bench_number(argc, argv, "writers", 8);
    run.committed_us = calloc((size_t)run.rows, sizeof(*run.committed_us));
    run.tasks = strcmp(what, "retry") == 0;
    if (run.tasks)
        share_seen(bench_text(argc, argv, "share", NULL));
    else
        run.seen_us = calloc((size_t)run.rows, sizeof(*run.seen_us));
    if (!run.committed_us || !run.seen_us || run.writers > WRITERS_MAX)
        bench_fail("no memory, or more than %d writers", WRITERS_MAX);
    if (mysql_library_init(0, NULL, NULL) != 0)
        bench_fail("the client library does not start");
    run.start_us = bench_now_us() + 500000;
    for (long long i = 0; i < run.writers; i++)
        if (pthread_create(&writers[i], NULL, writer_main, (void *)(intptr_t)i) != 0)
            bench_fail("no thread");
    if (run.tasks)
        wait_for_tasks(run.start_us + seconds * 1000000 + WAIT_US_MAX);
    else if (strcmp(what, "log") == 0)
        read_log(run.start_us + seconds * 1000000 + WAIT_US_MAX);
    else
        read_kafka(run.start_us + seconds * 1000000 + WAIT_US_MAX);
    for (long long i = 0; i < run.writers; i++)
        pthread_join(writers[i], NULL);
    if (atomic_load(&run.seen) < run.rows)
        bench_fail("%lld of %lld rows were seen", (long long)atomic_load(&run.seen), run.rows);
    print();
    free(run.committed_us);
    if (!run.tasks)
        free(run.seen_us);
    return 0;
}
