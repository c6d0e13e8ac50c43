# SPDX-License-Identifier: MIT
"""The cases of a lane with `source = binlog`: a backlog in large transactions, one in transactions of
one row each, beside writers, latency, memory, and an idle relay. Rows stay in the table, so a run
ends when all of them are acknowledged."""

import os

import cases
import suite
import report
import wire

LANE = "binlog"

# Without these a COMMIT waits for the disk, and writing the rows takes longer than reading them.
QUICK_COMMITS = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 2}
WRITERS = 16

EXACT = {"lane.outbox.exactly_once": "yes"}

# The largest record that relay.row_bytes_max allows, with its key of one byte; its event in the log
# is larger than a packet of the protocol (16 MiB - 1). And a row that makes no record.
ROW_BYTES_MAX = 16 << 20
LARGE_PAYLOAD = ROW_BYTES_MAX - 1
REFUSED_PAYLOAD = 17000000


def fill_single(stack, rows):
    """One row of about 200 bytes in each transaction."""
    def set_globals(values):
        stack.sql_all(f"SET GLOBAL {name} = {value}" for name, value in values.items())
    before = {name: stack.number(f"SELECT @@GLOBAL.{name}") for name in QUICK_COMMITS}
    set_globals(QUICK_COMMITS)
    try:
        cases.program("writers", rows=rows, connections=WRITERS, **cases.on_database(stack))
    finally:
        set_globals(before)


def stream_run(bench, rows, fill, source=cases.SOURCE, exact=False):
    """The rows are written while no relay runs, after the lane's first position."""
    settings = {"relay.ce_source": source, **(EXACT if exact else {})}
    with bench.stack("stream", settings, LANE) as stack:
        cases.order_topic(stack)
        cases.begin_lane(stack)
        fill(stack, rows)
        return cases.drain(stack, rows)


def add_latency(bench, name, see, rate, settings=None):
    bench.warm_up(cases.latency_run, bench, see, rate, bench.seconds(5), LANE, settings)
    runs = [cases.latency_run(bench, see, rate, bench.seconds(6), LANE, settings)
            for _ in range(bench.runs)]
    bench.lines.add(cases.latency_line(name, rate, runs))


def add_stream(bench, name, rows, fill, source=cases.SOURCE):
    runs, ceilings = [], []
    # The broker's compiler takes a second of CPU time for requests of the relay's kind.
    bench.warm_up(stream_run, bench, rows, fill, source)
    bench.warm_up(cases.produce_run, rows, source)
    for _ in range(bench.runs):
        runs.append(stream_run(bench, rows, fill, source))
        ceilings.append(cases.produce_run(rows, source))
    bench.lines.add(report.of_rows(name, suite.DATABASE, runs, ceilings))


def case_relay_binlog(bench):
    """As case_relay. The transactions of the backlog are larger than a batch, so each is read twice."""
    for name, source in (("relay_binlog", cases.SOURCE), ("relay_binlog_plain", "")):
        add_stream(bench, name, bench.rows(1000000), cases.fill_outbox, source)


def case_relay_exactly_once(bench):
    """Against the same lane without transactions, and its latency from COMMIT to a reader of
    committed records."""
    rows, rate, runs, others = bench.rows(1000000), 1000, [], []
    for exact in (False, True):
        bench.warm_up(stream_run, bench, rows, cases.fill_outbox, exact=exact)
    for _ in range(bench.runs):
        runs.append(stream_run(bench, rows, cases.fill_outbox, exact=True))
        others.append(stream_run(bench, rows, cases.fill_outbox))
    bench.lines.add(report.of_rows("relay_exactly_once", suite.DATABASE, runs, others))
    add_latency(bench, f"latency_exactly_once_{rate}", "kafka", rate, EXACT)


def case_relay_binlog_single(bench):
    add_stream(bench, "relay_binlog_single", bench.rows(250000), fill_single)


def case_relay_binlog_writers(bench):
    """As case_relay_writers, but the lane deletes no row during the run: `keep_ms` is an hour."""
    cases.add_writers(bench, "relay_binlog_writers", bench.rows(1000000), LANE)


def case_latency_binlog(bench):
    """From COMMIT until a consumer of the topic has the record, and until it is in vote_document."""
    for name, see in (("latency_binlog", "kafka"), ("latency_binlog_log", "log")):
        add_latency(bench, f"{name}_1000", see, 1000)


def fill_transaction(stack, rows):
    """All rows in one transaction."""
    cases.make_numbers(stack)
    connection = suite.connect(stack.name, autocommit=False)
    try:
        with connection.cursor() as cursor:
            for _, count in cases.parts(rows):
                cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                               "SELECT UUID(), 'order', n, 'OrderPlaced', payload "
                               f"FROM {cases.NUMBERS} WHERE n < %s", [count])
        connection.commit()
    finally:
        connection.close()


def row_run(bench, payload_bytes):
    """The highest resident size of a relay that reads a row of random bytes, which compress to no
    less, and publishes it or moves it into the retry queue."""
    with bench.stack("memory", {"relay.row_bytes_max": ROW_BYTES_MAX,
                                "relay.read_bytes_max": ROW_BYTES_MAX}, LANE) as stack:
        wire.create_topic(suite.kafka().bootstrap, f"event.{stack.name}.order", 1,
                          {"max.message.bytes": 2 * ROW_BYTES_MAX})
        cases.begin_lane(stack)
        stack.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
                  "(UUID(), 'order', '1', 'Large', %s)", [os.urandom(payload_bytes)])
        role = stack.role("relay", ready=False)
        if payload_bytes + 1 <= ROW_BYTES_MAX:
            cases.wait_metric(role, "tallybox_relay_published_total", 1, 120)
        else:
            suite.wait_for("a task", lambda: stack.number("SELECT COUNT(*) FROM retry_task"), 120)
        return {"rss_mib": role.peak_rss_mib()}


def case_memory_binlog(bench):
    """The highest resident size with one transaction of a million rows, and with one large row."""
    bench.lines.add(report.of_rows("memory_binlog_transaction", suite.DATABASE, [
        stream_run(bench, bench.rows(1000000), fill_transaction) for _ in range(bench.runs)]))
    for name, payload_bytes in (("row", LARGE_PAYLOAD), ("refused_row", REFUSED_PAYLOAD)):
        runs = [row_run(bench, payload_bytes) for _ in range(bench.runs)]
        bench.lines.add({"case": f"memory_binlog_{name}", "db": suite.DATABASE,
                         "rss_mib": round(report.median(runs, "rss_mib"), 1),
                         "spread": round(report.spread(runs, "rss_mib"), 3), "runs": len(runs)})


def case_idle_binlog(bench):
    cases.add_idle(bench, ["relay"], LANE, "_binlog")
