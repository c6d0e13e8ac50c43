/* SPDX-License-Identifier: MIT */
/* The shop of docs/applications.md in C: an event and a task in the transaction of the application.
 *
 *     shop place NUMBER ACCOUNT CENTS   the order and its event
 *     shop cancel NUMBER                the order is cancelled, its event, and a call of
 * WEBHOOK_URL
 *
 * Reads DB_HOST, DB_PORT, DB_NAME, DB_USER, DB_PASSWORD, OUTBOX_DB and WEBHOOK_URL. A lost answer
 * to COMMIT is harmless: each command may be run again. */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tallybox/outbox.h>
#include <tallybox/task.h>

struct shop {
    MYSQL *mysql;
    const char *outbox_db;
    const char *webhook_url;
};

static const char *from_environment(const char *name, const char *standard)
{
    const char *value = getenv(name);

    return value && *value ? value : standard;
}

/* Returns whether the statement succeeded; prints the server's reason. */
static int run(struct shop *shop, const char *sql)
{
    if (mysql_query(shop->mysql, sql) == 0)
        return 1;
    fprintf(stderr, "shop: %u: %s\n", mysql_errno(shop->mysql), mysql_error(shop->mysql));
    return 0;
}

/* The first column of the first row as a number; -1: there is no row. */
static long ask(struct shop *shop, const char *sql)
{
    MYSQL_RES *result;
    MYSQL_ROW row;
    long number = -1;

    if (!run(shop, sql))
        return -1;
    result = mysql_store_result(shop->mysql);
    row = result ? mysql_fetch_row(result) : NULL;
    if (row && row[0])
        number = atol(row[0]);
    mysql_free_result(result);
    return number;
}

static int append_event(struct shop *shop, const char *account, const char *type,
                        const char *payload)
{
    const struct tallybox_event event = {.aggregate_type = "order",
                                         .aggregate_id = account,
                                         .type = type,
                                         .payload = payload,
                                         .payload_len = strlen(payload)};
    struct tallybox_error error;
    char table[80];

    snprintf(table, sizeof(table), "%.64s.outbox", shop->outbox_db);
    if (tallybox_outbox_append(shop->mysql, table, &event, 1, &error) == TALLYBOX_OK)
        return 1;
    fprintf(stderr, "shop: event: %s\n", error.text);
    return 0;
}

static int append_call(struct shop *shop, const char *number)
{
    struct tallybox_error error;
    struct tallybox_ticket ticket;
    char key[64], options[512], params[64];

    snprintf(key, sizeof(key), "cancel/%.40s", number);
    snprintf(options, sizeof(options), "{\"url\": \"%.400s\"}", shop->webhook_url);
    snprintf(params, sizeof(params), "{\"number\": \"%.40s\"}", number);
    if (tallybox_task_append(shop->mysql, shop->outbox_db,
                             &(struct tallybox_task){.scene = "order-cancelled",
                                                     .handler = "http",
                                                     .idempotency_key = key,
                                                     .biz_no = number,
                                                     .options = options,
                                                     .params = params,
                                                     .params_len = strlen(params)},
                             1, &ticket, &error) == TALLYBOX_OK)
        return 1;
    fprintf(stderr, "shop: task: %s\n", error.text);
    return 0;
}

/* The lock on the account keeps its events in the order of their commits. */
static int place_order(struct shop *shop, const char *number, const char *account,
                       const char *cents)
{
    char sql[256], payload[128];

    snprintf(sql, sizeof(sql), "SELECT id FROM account WHERE id = %ld FOR UPDATE", atol(account));
    if (ask(shop, sql) < 0)
        return 0;
    snprintf(sql, sizeof(sql),
             "INSERT INTO orders (number, account_id, cents) VALUES ('%.32s', %ld, %ld)", number,
             atol(account), atol(cents));
    if (!run(shop, sql))
        return 0;
    snprintf(payload, sizeof(payload), "{\"number\":\"%.32s\",\"cents\":%ld}", number, atol(cents));
    return append_event(shop, account, "OrderPlaced", payload);
}

static int cancel_order(struct shop *shop, const char *number)
{
    char sql[256], payload[128], account[24];
    long id;

    snprintf(sql, sizeof(sql),
             "SELECT account_id FROM orders WHERE number = '%.32s' AND NOT cancelled FOR UPDATE",
             number);
    id = ask(shop, sql);
    if (id < 0) {
        fprintf(stderr, "shop: there is no order %.32s, or it is cancelled\n", number);
        return 0;
    }
    snprintf(sql, sizeof(sql), "UPDATE orders SET cancelled = TRUE WHERE number = '%.32s'", number);
    if (!run(shop, sql))
        return 0;
    snprintf(account, sizeof(account), "%ld", id);
    snprintf(payload, sizeof(payload), "{\"number\":\"%.32s\"}", number);
    return append_event(shop, account, "OrderCancelled", payload) && append_call(shop, number);
}

/* Numbers go into SQL and JSON as they are. */
static int is_number(const char *text)
{
    return *text && strlen(text) <= 32 &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == strlen(text);
}

static int is_usage(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "place") == 0)
        return is_number(argv[2]) && is_number(argv[3]) && is_number(argv[4]);
    return argc == 3 && strcmp(argv[1], "cancel") == 0 && is_number(argv[2]);
}

int main(int argc, char **argv)
{
    struct shop shop = {.mysql = mysql_init(NULL),
                        .outbox_db = from_environment("OUTBOX_DB", "tallybox"),
                        .webhook_url = from_environment("WEBHOOK_URL", "")};
    int done = 0;

    if (!is_usage(argc, argv)) {
        fprintf(stderr, "Usage: shop place NUMBER ACCOUNT CENTS | shop cancel NUMBER\n");
        mysql_close(shop.mysql);
        return 2;
    }
    if (!mysql_real_connect(shop.mysql, from_environment("DB_HOST", "127.0.0.1"),
                            from_environment("DB_USER", "shop"),
                            from_environment("DB_PASSWORD", ""),
                            from_environment("DB_NAME", "shop"),
                            (unsigned)atoi(from_environment("DB_PORT", "3306")), NULL, 0)) {
        fprintf(stderr, "shop: %s\n", mysql_error(shop.mysql));
    } else if (run(&shop, "START TRANSACTION")) {
        done = argc == 5 ? place_order(&shop, argv[2], argv[3], argv[4])
                         : cancel_order(&shop, argv[2]);
        done = run(&shop, done ? "COMMIT" : "ROLLBACK") && done;
    }
    mysql_close(shop.mysql);
    mysql_library_end();
    printf("%s\n", done ? "committed" : "not committed");
    return done ? 0 : 1;
}
