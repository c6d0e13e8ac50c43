# SPDX-License-Identifier: MIT
"""The cases of a lane with `source = binlog`: a backlog in large transactions, one in transactions of
one row each, latency, and an idle relay. Rows stay in the table, so a run ends when all of them are
acknowledged."""

import cases
import suite
import report

LANE = "binlog"

# Without these a COMMIT waits for the disk, and writing the rows takes longer than reading them.
QUICK_COMMITS = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 2}
WRITERS = 16


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


def stream_run(bench, rows, fill, source=cases.SOURCE):
    """The rows are written while no relay runs, after the lane's first position."""
    with bench.stack("stream", {"relay.ce_source": source}, LANE) as stack:
        cases.order_topic(stack)
        cases.begin_lane(stack)
        fill(stack, rows)
        return cases.drain(stack, rows)


def add_stream(bench, name, rows, fill, source=cases.SOURCE):
    runs, ceilings = [], []
    bench.warm_up(stream_run, bench, bench.rows(100000), fill, source)
    bench.warm_up(cases.produce_run, bench.rows(100000), source)
    for _ in range(bench.runs):
        runs.append(stream_run(bench, rows, fill, source))
        ceilings.append(cases.produce_run(rows, source))
    bench.lines.add(report.of_rows(name, suite.DATABASE, runs, ceilings))


def case_relay_binlog(bench):
    """As case_relay. The transactions of the backlog are larger than a batch, so each is read twice."""
    for name, source in (("relay_binlog", cases.SOURCE), ("relay_binlog_plain", "")):
        add_stream(bench, name, bench.rows(1000000), cases.fill_outbox, source)


def case_relay_binlog_single(bench):
    add_stream(bench, "relay_binlog_single", bench.rows(250000), fill_single)


def case_latency_binlog(bench):
    """From COMMIT until a consumer of the topic has the record."""
    rate = 1000
    bench.warm_up(cases.latency_run, bench, "kafka", rate, bench.seconds(5), LANE)
    runs = [cases.latency_run(bench, "kafka", rate, bench.seconds(6), LANE)
            for _ in range(bench.runs)]
    bench.lines.add(cases.latency_line(f"latency_binlog_{rate}", rate, runs))


def case_idle_binlog(bench):
    cases.add_idle(bench, ["relay"], LANE, "_binlog")
