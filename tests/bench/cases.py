# SPDX-License-Identifier: MIT
"""The cases of the relay, of latency and of idle roles, and what all cases share. Each measures one role
of the program on real servers and, in turns with it, a ceiling: a small program of ours that does
only what cannot be avoided. Before it counts, each runs once for less long: Kafka's code has to be
compiled for this kind of work, and the database's memory to be there."""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import time

import suite
import report
import wire

PROGRAMS = pathlib.Path(os.environ["TALLYBOX_BENCH"])
HERE = pathlib.Path(__file__).resolve().parent

# What a person would set for a machine of two cores that does nothing else.
SETTINGS = {"relay.lease_ms": 15000, "relay.send_timeout_ms": 8000, "log.level": "warn"}

# relay.ce_source as it is by default, for the CloudEvents headers; empty: none.
SOURCE = "tallybox"

RELAY_ACCOUNT = "tallybox_relay"

# From this share of the usual rows on, a case is warmed up.
WARM_SCALE = 0.01


class Bench:
    """What all cases share."""

    def __init__(self, lines, runs, scale):
        self.lines = lines
        self.runs = runs
        self.scale = scale
        self.kept = {}  # runs that another case counts as well

    def rows(self, count):
        return max(1000, int(count * self.scale))

    def seconds(self, count):
        return max(1, int(count * self.scale))

    def warm_up(self, run, *arguments, **options):
        """A run that is not counted. Where a bench is only tried, none is worth waiting for."""
        if self.scale >= WARM_SCALE:
            run(*arguments, **options)

    @contextlib.contextmanager
    def stack(self, name, settings=None, lane="table"):
        """A fresh installation, gone afterwards: what it leaves behind would slow the next one.
        lane: the source of the lane `outbox`."""
        stack = suite.Stack(f"bench{name}", {**SETTINGS, **(settings or {}),
                                             "lane.outbox.source": lane})
        if lane == "binlog":
            stack.add_privileges("relay_wakeup", RELAY_ACCOUNT)
        try:
            yield stack
        finally:
            for role in stack.roles:
                role.end()
            if lane == "binlog":
                # They are for the whole server, which has other cases.
                stack.sql("REVOKE REPLICATION SLAVE, REPLICATION CLIENT ON *.* FROM "
                          f"'{RELAY_ACCOUNT}'@'%'")
            stack.sql(f"DROP DATABASE `{stack.name}`", database=None)
            stack.sql("FLUSH BINARY LOGS", database=None)
            stack.sql("PURGE BINARY LOGS BEFORE NOW()", database=None)


def program_words(name, options):
    words = [str(PROGRAMS / f"bench_{name}")]
    for key, value in options.items():
        words += [f"--{key}", str(value)]
    return words


def program(name, **options):
    """Runs one of the bench's programs; its JSON line."""
    words = program_words(name, options)
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def on_database(stack):
    server = suite.database()
    return {"host": server.host, "port": server.port, "user": "root", "database": stack.name}


def cpu_seconds(role):
    """Of a role or a server."""
    fields = pathlib.Path(f"/proc/{role.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(role, rows, began, cpu_before=0.0):
    seconds = time.monotonic() - began
    return {"rows_per_s": rows / seconds, "seconds": seconds,
            "cpu_us_per_row": (cpu_seconds(role) - cpu_before) * 1e6 / rows,
            "rss_mib": role.peak_rss_mib()}


def wait_metric(role, name, value, seconds=900):
    suite.wait_for(f"{name} to be {value}", lambda: role.metric(name) >= value, seconds, 0.02)


# --- relay ---

# Made once for all cases: 100,000 numbers, each with a payload of about 200 bytes.
NUMBERS = "bench_rows.numbers"
NUMBERS_COUNT = 100000
PAYLOAD_PARTS = 5  # of 32 characters


def make_numbers(stack):
    def sql(text):
        return stack.sql(text, database=None)
    sql("CREATE DATABASE IF NOT EXISTS bench_rows")
    sql(f"CREATE TABLE IF NOT EXISTS {NUMBERS} (n INT PRIMARY KEY, payload VARCHAR(255) NOT NULL "
        "DEFAULT '')")
    if sql(f"SELECT COUNT(*) FROM {NUMBERS} WHERE payload <> ''")[0][0] == NUMBERS_COUNT:
        return
    sql(f"DELETE FROM {NUMBERS}")
    sql(f"INSERT INTO {NUMBERS} (n) VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
    for power in (10, 100, 1000, 10000):
        sql(f"INSERT INTO {NUMBERS} (n) SELECT a.n + b.n * {power} FROM {NUMBERS} a, {NUMBERS} b "
            f"WHERE a.n < {power} AND b.n BETWEEN 1 AND 9")
    text = ", ".join(f"LEFT(SHA2(n * {part + 3}, 256), 32)" for part in range(PAYLOAD_PARTS))
    sql(f"UPDATE {NUMBERS} SET payload = CONCAT('{{\"orderId\":', n, ',\"text\":\"', {text}, "
        "'\"}')")


def parts(rows):
    """(first, count) of transactions of 100,000 rows."""
    return [(first, min(NUMBERS_COUNT, rows - first)) for first in range(0, rows, NUMBERS_COUNT)]


def fill_outbox(stack, rows, table="outbox"):
    """Committed rows of about 200 bytes, 100,000 keys."""
    make_numbers(stack)
    for _, count in parts(rows):
        stack.sql(f"INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload) "
                  f"SELECT UUID(), 'order', n, 'OrderPlaced', payload FROM {NUMBERS} "
                  f"WHERE n < {count}")


def make_topic(topic):
    """With records in every partition: a partition's first record makes the broker create its files,
    which a topic with a backlog has already."""
    wire.create_topic(suite.kafka().bootstrap, topic, 8)
    produce(topic, 1000)


def order_topic(stack):
    make_topic(f"event.{stack.name}.order")


def lanes_of(count):
    return ["outbox", *(f"outbox_{i}" for i in range(1, count))]


def add_lanes(stack, lanes):
    for lane in lanes[1:]:
        stack.sql(f"CREATE TABLE {lane} LIKE outbox")
    stack.accounts.grant()


def reads_stream(stack):
    return stack.settings["lane.outbox.source"] == "binlog"


def start_relay(stack):
    """A relay that is ready, and whose lane will see every row from now on."""
    role = stack.role("relay")
    if reads_stream(stack):
        suite.wait_for("a position", lambda: stack.number(
            "SELECT COUNT(*) FROM relay_position") == 1)
    return role


def begin_lane(stack):
    """A lane that reads a stream does not see rows that were written before its first position."""
    if reads_stream(stack):
        relay = start_relay(stack)
        suite.wait_for("a position", lambda: stack.number("SELECT COUNT(*) FROM relay_position"))
        relay.end()


def drain(stack, rows):
    """A relay from its start until all rows are acknowledged and, by a lane that reads the table,
    deleted."""
    done = "published" if reads_stream(stack) else "deleted"
    began = time.monotonic()
    role = stack.role("relay", ready=False)
    wait_metric(role, f"tallybox_relay_{done}_total", rows)
    return measured(role, rows, began)


def relay_run(bench, rows, lanes, source=SOURCE):
    with bench.stack("relay", {"relay.lanes": ",".join(lanes_of(lanes)),
                               "relay.ce_source": source}) as stack:
        add_lanes(stack, lanes_of(lanes))
        order_topic(stack)
        for lane in lanes_of(lanes):
            fill_outbox(stack, rows // lanes, lane)
        return drain(stack, rows // lanes * lanes)


def produce(topic, rows, source=SOURCE):
    """By the ceiling of the relay."""
    return program("ceiling_produce", bootstrap=suite.kafka().bootstrap, topic=topic, rows=rows,
                   bytes=200, source=source)


def produce_run(rows, source=SOURCE):
    topic = f"ceiling-{time.monotonic_ns()}"
    make_topic(topic)
    return produce(topic, rows, source)


def case_relay(bench):
    """The backlog is there when the relay starts, and gone at the end: its start counts. `plain` is
    without the headers of CloudEvents, the ceiling too."""
    rows = bench.rows(1000000)
    # Requests of the relay's kind take the broker's compiler longer than those of the ceiling.
    bench.warm_up(relay_run, bench, rows, 1)
    for name, lanes, source in (("relay", 1, SOURCE), ("relay_plain", 1, ""),
                                ("relay_2_lanes", 2, SOURCE), ("relay_4_lanes", 4, SOURCE)):
        runs, ceilings = [], []
        bench.warm_up(relay_run, bench, bench.rows(100000), lanes, source)
        bench.warm_up(produce_run, bench.rows(100000), source)
        for _ in range(bench.runs):
            runs.append(relay_run(bench, rows, lanes, source))
            ceilings.append(produce_run(rows, source))
        bench.kept[name] = runs
        bench.lines.add(report.of_rows(name, suite.DATABASE, runs, ceilings))


def commit_and_drain(stack, role, rows):
    """Seconds from the end of a COMMIT until its rows are deleted, under a relay that runs, and what
    that cost."""
    deleted = role.metric("tallybox_relay_deleted_total")
    cpu = cpu_seconds(role)
    connection = suite.connect(stack.name, autocommit=False)
    try:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                           f"SELECT UUID(), 'order', n, 'OrderPlaced', payload FROM {NUMBERS} "
                           "WHERE n < %s", [rows])
        connection.commit()
        began = time.monotonic()
        suite.wait_for("the rows to be deleted", lambda: role.metric(
            "tallybox_relay_deleted_total") >= deleted + rows, 60, 0.002)
        return time.monotonic() - began, cpu_seconds(role) - cpu
    finally:
        connection.close()


def small_backlogs(bench, stack):
    """Runs of 10,000 rows. What a single row takes (it waits for the next look, the broker's answer
    and the delete) is taken off: it does not grow with the backlog, and 5 M rows do not feel it.
    The deletion is not made to wait for more rows, or all would be published meanwhile, unnoticed."""
    make_numbers(stack)
    role = stack.role("relay")
    commit_and_drain(stack, role, 10000)
    one = statistics.median(commit_and_drain(stack, role, 1)[0] for _ in range(10 * bench.runs))
    runs = []
    for _ in range(10 * bench.runs):
        seconds, cpu = commit_and_drain(stack, role, 10000)
        runs.append({"rows_per_s": 10000 / max(seconds - one, seconds / 2),
                     "cpu_us_per_row": cpu * 1e6 / 10000, "rss_mib": role.peak_rss_mib()})
    return runs


def case_relay_scale(bench):
    """The rate must not depend on how much waits: `of_small` is the rate at 1 M and 5 M rows, counted
    from the start of the process, over that of backlogs of 10,000 rows, which come one after the
    other to a relay that runs (see small_backlogs). Those of 1 M rows are the runs of the case
    `relay` where that was measured before."""
    with bench.stack("scale", {"relay.delete_wait_ms": 10}) as stack:
        order_topic(stack)
        runs = small_backlogs(bench, stack)
    bench.lines.add(report.of_rows("relay_scale_10k", suite.DATABASE, runs))
    small = report.median(runs, "rows_per_s")
    for name, rows in (("1m", 1000000), ("5m", 5000000)):
        runs = bench.kept.get("relay") if name == "1m" else None
        runs = runs or [relay_run(bench, bench.rows(rows), 1) for _ in range(bench.runs)]
        ratio = round(report.median(runs, "rows_per_s") / small, 3)
        bench.lines.add(report.of_rows(f"relay_scale_{name}", suite.DATABASE, runs, of_small=ratio))


class Writers:
    """Eight connections that insert rows one by one, as fast as they can."""

    def __init__(self, stack):
        before = stack.number("SELECT COALESCE(MAX(seq), 0) FROM outbox")
        self.process = subprocess.Popen(program_words("writers", on_database(stack)),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        suite.wait_for("the writers to write", lambda: stack.number(
            "SELECT COALESCE(MAX(seq), 0) FROM outbox") > before, 60)

    def end(self):
        """Rows per second."""
        said, trouble = self.process.communicate(timeout=60)  # it ends with its input
        if self.process.returncode != 0:
            raise RuntimeError(f"the writers failed: {trouble[-500:]}")
        return json.loads(said)["rows_per_s"]


def writers_run(bench, rows, seconds, lane="table"):
    """The relay's run beside writers, and the writers' rate with it and without."""
    with bench.stack("writers", lane=lane) as stack:
        order_topic(stack)
        begin_lane(stack)
        writers = Writers(stack)
        time.sleep(seconds)
        alone = writers.end()
        fill_outbox(stack, rows)
        rows = stack.number("SELECT COUNT(*) FROM outbox")
        writers = Writers(stack)
        try:
            run = drain(stack, rows)
        finally:
            beside = writers.end()
    return {**run, "alone": alone, "beside": beside}


def add_writers(bench, name, rows, lane="table"):
    """A backlog drains while 8 connections write: `writers_share` is their rate meanwhile over their
    rate where no relay runs."""
    bench.warm_up(writers_run, bench, bench.rows(50000), 1, lane)
    runs = [writers_run(bench, rows, bench.seconds(5), lane) for _ in range(bench.runs)]
    share = statistics.median(run["beside"] / run["alone"] for run in runs)
    bench.lines.add(report.of_rows(
        name, suite.DATABASE, runs, writers_share=round(share, 3),
        writers_rows_per_s=round(report.median(runs, "beside"), 1)))


def case_relay_writers(bench):
    add_writers(bench, "relay_writers", bench.rows(500000))


# --- latency ---

def latency_run(bench, see, rate, seconds, lane="table", settings=None):
    with bench.stack("latency", {"relay.topic_partitions": 8, **(settings or {})}, lane) as stack:
        wire.create_topic(suite.kafka().bootstrap, stack.topic, 8)
        roles = [start_relay(stack)]
        if see == "log":
            roles.append(stack.role("consume"))
        cpu = sum(map(cpu_seconds, roles))
        run = program("latency", see=see, rate=rate, seconds=seconds,
                      writers=16 if rate > 1000 else 8, bootstrap=suite.kafka().bootstrap,
                      topic=stack.topic, **on_database(stack))
        cpu = sum(map(cpu_seconds, roles)) - cpu
        return {**run, "cpu_us_per_row": cpu * 1e6 / (rate * seconds),
                "rss_mib": max(role.peak_rss_mib() for role in roles)}


def latency_line(name, rate, runs):
    line = {"case": name, "db": suite.DATABASE, "rate": rate}
    for key in ("p50_ms", "p99_ms", "p999_ms", "cpu_us_per_row", "rss_mib"):
        line[key] = round(report.median(runs, key), 3)
    return {**line, "spread": round(report.spread(runs, "p50_ms"), 3), "runs": len(runs)}


def case_latency(bench):
    """From COMMIT until a consumer of the topic has the record, and until it is in vote_document."""
    for see in ("kafka", "log"):
        bench.warm_up(latency_run, bench, see, 1000, bench.seconds(5))
        for rate in (100, 1000, 10000):
            bench.warm_up(latency_run, bench, see, rate, bench.seconds(2))
            runs = [latency_run(bench, see, rate, bench.seconds(6)) for _ in range(bench.runs)]
            bench.lines.add(latency_line(f"latency_{see}_{rate}", rate, runs))


IDLE_ROLES = ("relay", "consume", "serve", "rollup", "retry")


def add_idle(bench, names, lane="table", suffix=""):
    """A line for each of the roles, which run at the same time."""
    seconds = bench.seconds(20)
    with bench.stack("idle", lane=lane) as stack:
        wire.create_topic(suite.kafka().bootstrap, stack.topic, 8)
        roles = [stack.role(name) for name in names]
        time.sleep(bench.seconds(5))
        before, began = [cpu_seconds(role) for role in roles], time.monotonic()
        time.sleep(seconds)
        for role, cpu in zip(roles, before):
            share = (cpu_seconds(role) - cpu) / (time.monotonic() - began)
            bench.lines.add({"case": f"idle_{role.name}{suffix}", "db": suite.DATABASE,
                             "idle_cpu_pct": round(share * 100, 3),
                             "rss_mib": round(role.peak_rss_mib(), 1)})


def case_idle(bench):
    """What each role costs while nothing happens; all at the same time."""
    add_idle(bench, IDLE_ROLES)
