/* SPDX-License-Identifier: MIT */
/* The ceiling of lists: so many connections read pages in bare loops, each with the two queries
 * that no live page can do without: its remarks, and their totals.
 *
 *     ceiling_lists --database D --pages FILE [--count 20000] [--connections 2] [--voter 0]
 *
 * A line of FILE is the place of a page as "item sort id votes": sort is n or v, and id and votes
 * are those of the remark before the page, or 0 0. --voter 1 reads the votes of a voter, too. */
#include "common/buf.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_db.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_ROWS 20
#define CONNECTIONS_MAX 64

struct place {
    long long item;
    long long id;
    long long votes;
    char sort;
};

static struct place *places;
static size_t place_count;
static bool voter;
static atomic_llong left; /* pages that no connection has begun */
static atomic_llong rows; /* that were read: a page without rows would cost nothing */

struct connection {
    pthread_t thread;
    MYSQL *db;
    uint64_t state;
    struct buf sql;
};

static void read_places(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t room = 0;
    struct place place;

    if (!file)
        bench_fail("%s cannot be read", path);
    while (fscanf(file, "%lld %c %lld %lld\n", &place.item, &place.sort, &place.id, &place.votes) ==
           4) {
        if (place_count == room) {
            room = room * 2 + 1024;
            places = realloc(places, room * sizeof(*places));
            if (!places)
                bench_fail("no memory for the places of %s", path);
        }
        places[place_count++] = place;
    }
    fclose(file);
    if (place_count == 0)
        bench_fail("%s has no place of a page", path);
}

static void build_page(struct buf *sql, const struct place *place)
{
    bool newest = place->sort == 'n';

    buf_reset(sql);
    buf_text_put(sql, "SELECT r.id, r.item_id, r.consumer_id, r.order_id, r.score, r.status, "
                      "r.gmt_create, p.listed, r.header, r.content, r.images, r.user_name, "
                      "r.user_face FROM (SELECT id, votes AS listed FROM remark ");
    buf_print(sql, "FORCE INDEX (%s) WHERE item_id = %lld AND deleted_at IS NULL",
              newest ? "ix_remark_newest" : "ix_remark_votes", place->item);
    if (place->id > 0 && newest)
        buf_print(sql, " AND id < %lld", place->id);
    else if (place->id > 0)
        buf_print(sql, " AND (votes < %lld OR (votes = %lld AND id < %lld))", place->votes,
                  place->votes, place->id);
    buf_print(sql,
              " ORDER BY %sid DESC LIMIT %d) p JOIN remark r ON r.id = p.id ORDER BY %sp.id "
              "DESC",
              newest ? "" : "votes DESC, ", PAGE_ROWS + 1, newest ? "" : "p.listed DESC, ");
}

static void run_query(struct connection *connection)
{
    if (connection->sql.failed)
        bench_fail("no memory for a statement");
    bench_db_run(connection->db, connection->sql.data, connection->sql.len);
}

static MYSQL_RES *store_result(struct connection *connection)
{
    MYSQL_RES *result = mysql_store_result(connection->db);

    if (!result)
        bench_fail("no result: %s", mysql_error(connection->db));
    return result;
}

static void read_page(struct connection *connection, const struct place *place)
{
    struct buf *sql = &connection->sql;
    MYSQL_RES *result;
    MYSQL_ROW row;
    int count = 0;

    build_page(sql, place);
    run_query(connection);
    result = store_result(connection);
    buf_reset(sql);
    if (voter)
        buf_print(sql,
                  "SELECT c.content_id, c.votes, s.voting FROM vote_count c LEFT JOIN vote_state s "
                  "ON s.voter_id = %" PRIu64 " AND s.content_id = c.content_id ",
                  1 + bench_rng_next(&connection->state) % 1000000);
    else
        buf_text_put(sql, "SELECT c.content_id, c.votes FROM vote_count c ");
    buf_text_put(sql, "WHERE c.content_id IN (0");
    while ((row = mysql_fetch_row(result)) != NULL && count++ < PAGE_ROWS)
        buf_print(sql, ",%s", row[0]);
    buf_char(sql, ')');
    mysql_free_result(result);
    run_query(connection);
    result = store_result(connection);
    while (mysql_fetch_row(result))
        atomic_fetch_add(&rows, 1);
    mysql_free_result(result);
}

static void *run_connection(void *arg)
{
    struct connection *connection = arg;

    while (atomic_fetch_sub(&left, 1) > 0)
        read_page(connection, &places[bench_rng_next(&connection->state) % place_count]);
    buf_done(&connection->sql);
    mysql_close(connection->db);
    mysql_thread_end();
    return NULL;
}

int main(int argc, char **argv)
{
    struct connection connections[CONNECTIONS_MAX] = {0};
    long long pages = bench_number(argc, argv, "count", 20000);
    long long count = bench_number(argc, argv, "connections", 2);

    voter = bench_number(argc, argv, "voter", 0) != 0;
    if (count < 1 || count > CONNECTIONS_MAX)
        bench_fail("--connections is a number from 1 to %d", CONNECTIONS_MAX);
    read_places(bench_text(argc, argv, "pages", NULL));
    for (long long i = 0; i < count; i++) {
        connections[i].db = bench_db_open(argc, argv);
        connections[i].state = (uint64_t)bench_now_us() + (uint64_t)i;
    }
    atomic_store(&left, pages);
    bench_start();
    for (long long i = 0; i < count; i++) {
        if (pthread_create(&connections[i].thread, NULL, run_connection, &connections[i]) != 0)
            bench_fail("a thread cannot be started");
    }
    for (long long i = 0; i < count; i++)
        pthread_join(connections[i].thread, NULL);
    if (atomic_load(&rows) == 0)
        bench_fail("no page had a total: nothing was measured");
    bench_print(pages);
    free(places);
    return 0;
}
