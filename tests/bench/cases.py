# SPDX-License-Identifier: MIT
"""The cases of the bench. Each measures one role of the program on real servers and, in turns with
it, a ceiling: a small program of ours that does only what cannot be avoided."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import house
import report
import wire

PROGRAMS = pathlib.Path(os.environ["TALLYBOX_BENCH"])
HERE = pathlib.Path(__file__).resolve().parent

# What a person would set for a machine of two cores that does nothing else.
SETTINGS = {"relay.lease_ms": 15000, "relay.send_timeout_ms": 8000, "log.level": "warn"}


class Bench:
    """What all cases share."""

    def __init__(self, lines, runs, scale):
        self.lines = lines
        self.runs = runs
        self.scale = scale

    def rows(self, count):
        return max(1000, int(count * self.scale))

    @contextlib.contextmanager
    def stack(self, name, settings=None):
        """A fresh installation, gone afterwards: what it leaves behind would slow the next one."""
        stack = house.Stack(f"bench{name}", {**SETTINGS, **(settings or {})})
        try:
            yield stack
        finally:
            for role in stack.roles:
                role.end()
            stack.sql(f"DROP DATABASE `{stack.name}`", database=None)


def program(name, **options):
    """Runs one of the bench's programs; its JSON line."""
    words = [str(PROGRAMS / f"bench_{name}")]
    for key, value in options.items():
        words += [f"--{key}", str(value)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def on_database(stack):
    server = house.database()
    return {"host": server.host, "port": server.port, "user": "root", "database": stack.name}


def cpu_seconds(role):
    fields = pathlib.Path(f"/proc/{role.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(role, rows, began, cpu_before=0.0):
    seconds = time.monotonic() - began
    return {"rows_per_s": rows / seconds, "seconds": seconds,
            "cpu_us_per_row": (cpu_seconds(role) - cpu_before) * 1e6 / rows,
            "rss_mib": role.peak_rss_mib()}


def wait_metric(role, name, value, seconds=900):
    house.wait_for(f"{name} to be {value}", lambda: role.metric(name) >= value, seconds, 0.02)


# --- relay ---

PAYLOAD_PARTS = 5  # of 32 characters: about 200 bytes with the rest


def fill_outbox(stack, rows, table="outbox"):
    """Committed rows of about 200 bytes, 100,000 keys, in transactions of 100,000."""
    text = ", ".join(f"LEFT(SHA2(n * {part + 3}, 256), 32)" for part in range(PAYLOAD_PARTS))
    stack.sql("CREATE TABLE IF NOT EXISTS numbers (n INT PRIMARY KEY)")
    if stack.number("SELECT COUNT(*) FROM numbers") == 0:
        stack.sql("INSERT INTO numbers VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
        for power in (10, 100, 1000, 10000):
            stack.sql(f"INSERT INTO numbers SELECT a.n + b.n * {power} FROM numbers a, numbers b "
                      f"WHERE a.n < {power} AND b.n BETWEEN 1 AND 9")
    for first in range(0, rows, 100000):
        stack.sql(f"INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload) "
                  f"SELECT UUID(), 'order', n, 'OrderPlaced', CONCAT('{{\"orderId\":', n, "
                  f"',\"text\":\"', {text}, '\"}}') FROM numbers WHERE n < "
                  f"{min(100000, rows - first)}")


def order_topic(stack):
    topic = f"event.{stack.name}.order"
    wire.create_topic(house.kafka().bootstrap, topic, 8)
    return topic


def lanes_of(count):
    return ["outbox", *(f"outbox_{i}" for i in range(1, count))]


def add_lanes(stack, lanes):
    for lane in lanes[1:]:
        stack.sql(f"CREATE TABLE {lane} LIKE outbox")
    stack.accounts.grant()


def drain(stack, rows):
    """A relay from its start until all rows are acknowledged and deleted."""
    began = time.monotonic()
    role = stack.role("relay", ready=False)
    wait_metric(role, "tallybox_relay_deleted_total", rows)
    return measured(role, rows, began)


def relay_run(bench, rows, lanes):
    with bench.stack("relay", {"relay.lanes": ",".join(lanes_of(lanes))}) as stack:
        add_lanes(stack, lanes_of(lanes))
        order_topic(stack)
        for lane in lanes_of(lanes):
            fill_outbox(stack, rows // lanes, lane)
        return drain(stack, rows // lanes * lanes)


def produce_run(rows, number):
    topic = f"ceiling-{number}-{time.monotonic_ns()}"
    wire.create_topic(house.kafka().bootstrap, topic, 8)
    return program("ceiling_produce", bootstrap=house.kafka().bootstrap, topic=topic, rows=rows,
                   bytes=200)


def case_relay(bench):
    rows = bench.rows(1000000)
    for lanes in (1, 2, 4):
        runs, ceilings = [], []
        relay_run(bench, bench.rows(100000), lanes)
        for number in range(bench.runs):
            runs.append(relay_run(bench, rows, lanes))
            ceilings.append(produce_run(rows, number))
        name = "relay" if lanes == 1 else f"relay_{lanes}_lanes"
        bench.lines.add(report.of_rows(name, house.DATABASE, runs, ceilings))


def commit_and_drain(stack, role, rows):
    """Rows that appear at once under a running relay."""
    deleted = role.metric("tallybox_relay_deleted_total")
    cpu = cpu_seconds(role)
    connection = house.connect(stack.name, autocommit=False)
    try:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                           "SELECT UUID(), 'order', n, 'OrderPlaced', CONCAT(SHA2(n, 256), "
                           "SHA2(n + 1, 256), SHA2(n + 2, 256)) FROM numbers WHERE n < %s", [rows])
        connection.commit()
        began = time.monotonic()
        wait_metric(role, "tallybox_relay_deleted_total", deleted + rows)
        return measured(role, rows, began, cpu)
    finally:
        connection.close()


def case_relay_scale(bench):
    """The rate must not depend on how much waits."""
    with bench.stack("scale") as stack:
        order_topic(stack)
        fill_outbox(stack, 100)
        role = stack.role("relay")
        runs = [commit_and_drain(stack, role, 10000) for _ in range(5 * bench.runs)]
        bench.lines.add(report.of_rows("relay_scale_10k", house.DATABASE, runs))
    for rows in (1000000, 5000000):
        runs = [relay_run(bench, bench.rows(rows), 1) for _ in range(bench.runs)]
        bench.lines.add(report.of_rows(f"relay_scale_{rows // 1000000}m", house.DATABASE, runs))


class Writers:
    """Connections that insert rows one by one, as fast as they can."""

    def __init__(self, stack, count):
        self.stack = stack
        self.written = [0] * count
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.write, args=[i]) for i in range(count)]
        self.began = time.monotonic()
        for thread in self.threads:
            thread.start()

    def write(self, number):
        connection = house.connect(self.stack.name)
        text = "x" * 200
        with connection.cursor() as cursor:
            while not self.stop.is_set():
                cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                               "VALUES (UUID(), 'order', %s, 'OrderPlaced', %s)",
                               [self.written[number] % 1000, text])
                self.written[number] += 1
        connection.close()

    def end(self):
        """Rows per second."""
        seconds = time.monotonic() - self.began
        self.stop.set()
        for thread in self.threads:
            thread.join()
        return sum(self.written) / seconds


def case_relay_writers(bench):
    """A backlog drains while 8 connections write; and what that costs them."""
    runs, alone, beside = [], [], []
    for _ in range(bench.runs):
        with bench.stack("writers") as stack:
            order_topic(stack)
            writers = Writers(stack, 8)
            time.sleep(max(1, 10 * bench.scale))
            alone.append(writers.end())
            rows = bench.rows(500000)
            fill_outbox(stack, rows)
            rows = stack.number("SELECT COUNT(*) FROM outbox")
            writers = Writers(stack, 8)
            try:
                runs.append(drain(stack, rows))
            finally:
                beside.append(writers.end())
    share = sorted(b / a for a, b in zip(alone, beside))[len(alone) // 2]
    bench.lines.add(report.of_rows("relay_writers", house.DATABASE, runs,
                                   writers_share=round(share, 3)))


# --- latency ---

def case_latency(bench):
    for see in ("kafka", "log"):
        for rate in (100, 1000, 10000):
            runs = []
            for _ in range(bench.runs):
                with bench.stack("latency", {"relay.topic_partitions": 8}) as stack:
                    wire.create_topic(house.kafka().bootstrap, stack.topic, 8)
                    roles = [stack.role("relay")]
                    if see == "log":
                        roles.append(stack.role("consume"))
                    runs.append(program("latency", see=see, rate=rate,
                                        seconds=max(1, int(10 * bench.scale)),
                                        writers=16 if rate > 1000 else 8,
                                        bootstrap=house.kafka().bootstrap, topic=stack.topic,
                                        **on_database(stack)))
            line = {"case": f"latency_{see}_{rate}", "db": house.DATABASE, "rate": rate}
            for key in ("p50_ms", "p99_ms", "p999_ms"):
                line[key] = round(report.median(runs, key), 3)
            bench.lines.add({**line, "spread": round(report.spread(runs, "p50_ms"), 3)})


def case_idle(bench):
    """What each role costs while nothing happens."""
    seconds = max(1, int(30 * bench.scale))
    for name in ("relay", "consume", "serve", "rollup"):
        with bench.stack("idle") as stack:
            wire.create_topic(house.kafka().bootstrap, stack.topic, 8)
            role = stack.role(name)
            time.sleep(3)
            before, began = cpu_seconds(role), time.monotonic()
            time.sleep(seconds)
            share = (cpu_seconds(role) - before) / (time.monotonic() - began)
            bench.lines.add({"case": f"idle_{name}", "db": house.DATABASE,
                             "idle_cpu_pct": round(share * 100, 3),
                             "rss_mib": round(role.peak_rss_mib(), 1)})


# --- consume ---

def fill_votes(bench, kind, repeat=0, rows=None):
    topic = f"votes-{kind}-{repeat}-{time.monotonic_ns()}"
    wire.create_topic(house.kafka().bootstrap, topic, 12)
    program("votes_produce", bootstrap=house.kafka().bootstrap, topic=topic,
            rows=rows or bench.rows(1000000), kind=kind, repeat=repeat)
    return topic


def consume_run(bench, topic, rows):
    with bench.stack("consume", {"consumer.topics": topic}) as stack:
        began = time.monotonic()
        role = stack.role("consume", ready=False)
        wait_metric(role, "tallybox_consumer_applied_total", rows)
        return measured(role, rows, began)


def apply_run(bench, what, kind, rows):
    with bench.stack("ceiling") as stack:
        return program("ceiling_apply", what=what, kind=kind, rows=rows, **on_database(stack))


def case_consume(bench):
    rows = bench.rows(1000000)
    for name, kind, repeat in (("uniform", "uniform", 0), ("zipf", "zipf", 0),
                               ("duplicates", "uniform", 100)):
        topic = fill_votes(bench, kind, repeat)
        runs, whole, bare = [], [], []
        for _ in range(bench.runs):
            runs.append(consume_run(bench, topic, rows))
            whole.append(apply_run(bench, "transaction", kind, rows))
            bare.append(apply_run(bench, "insert", kind, rows))
        insert = round(report.median(bare, "rows_per_s"), 1)
        bench.lines.add(report.of_rows(f"consume_{name}", house.DATABASE, runs, whole,
                                       insert_rows_per_s=insert))


# --- serve ---

def wrk(role, connections, votes, contents, seconds):
    words = ["wrk", "-t2" if connections > 1 else "-t1", f"-c{connections}", f"-d{seconds}s",
             "--timeout", "20s", "-s", str(HERE / "votes.lua"),
             f"http://127.0.0.1:{role.api_port}", "--", str(votes), str(contents)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 60, check=False)
    found = re.search(r"^bench (\{.*\})$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not found:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout[-500:]}{done.stderr[-500:]}")
    got = json.loads(found.group(1))
    if got["errors"]:
        raise RuntimeError(f"wrk counted {got['errors']} errors: {done.stdout[-500:]}")
    return got


def serve_run(bench, connections, votes, contents):
    seconds = max(1, int(10 * bench.scale))
    with bench.stack("serve") as stack:
        role = stack.role("serve")
        cpu, began = cpu_seconds(role), time.monotonic()
        got = wrk(role, connections, votes, contents, seconds)
        run = measured(role, got["requests"] * votes, began, cpu)
        return {**run, "rows_per_s": got["requests"] * votes / got["seconds"],
                "p50_ms": got["p50_us"] / 1000, "p99_ms": got["p99_us"] / 1000,
                "p999_ms": got["p999_us"] / 1000}


def commit_run(bench, batch):
    with bench.stack("ceiling") as stack:
        return program("ceiling_commit", batch=batch, votes=bench.rows(20000 * min(batch, 10)),
                       **on_database(stack))


def case_serve(bench):
    ones = [commit_run(bench, 1) for _ in range(bench.runs)]
    hundreds = [commit_run(bench, 100) for _ in range(bench.runs)]
    for connections in (1, 16, 64, 256):
        runs = [serve_run(bench, connections, 1, 20000) for _ in range(bench.runs)]
        bench.lines.add(report.of_rows(f"serve_{connections}", house.DATABASE, runs, ones))
    for connections in (1, 16):
        runs = [serve_run(bench, connections, 100, 20000) for _ in range(bench.runs)]
        bench.lines.add(report.of_rows(f"serve_{connections}_arrays", house.DATABASE, runs,
                                       hundreds))
    runs = [serve_run(bench, 64, 1, 1) for _ in range(bench.runs)]
    bench.lines.add(report.of_rows("serve_64_hot", house.DATABASE, runs, ones))


# --- rollup ---

def case_rollup(bench):
    contents = bench.rows(1000000)
    for percent in (1, 10, 100):
        runs = []
        with bench.stack("rollup") as stack:
            fill_remarks(stack, contents)
            stack.tallybox("rollup", "--once", seconds=900)
            for _ in range(bench.runs):
                stack.sql("UPDATE vote_tally SET votes = votes + 1, seq = seq + 1, changed_at = "
                          "UTC_TIMESTAMP(3) WHERE content_id %% 100 < %s", [percent])
                changed = contents * percent // 100
                began = time.monotonic()
                stack.tallybox("rollup", "--once", seconds=900)
                seconds = time.monotonic() - began
                runs.append({"rows_per_s": changed / seconds, "seconds": seconds})
                stack.sql("UPDATE rollup_state SET rolled_until = UTC_TIMESTAMP(3)")
                time.sleep(1)
        bench.lines.add(report.of_rows(f"rollup_{percent}", house.DATABASE, runs,
                                       seconds=round(report.median(runs, "seconds"), 2)))


def fill_remarks(stack, contents):
    fill_outbox(stack, 0)
    for first in range(0, contents, 100000):
        count = min(100000, contents - first)
        stack.sql(f"INSERT INTO vote_tally (content_id, votes, seq, changed_at) SELECT {first} + n "
                  f"+ 1, 1, 1, UTC_TIMESTAMP(3) - INTERVAL 1 DAY FROM numbers WHERE n < {count}")
        stack.sql(f"INSERT INTO remark (id, votes, votes_seq) SELECT {first} + n + 1, 1, 1 "
                  f"FROM numbers WHERE n < {count}")


# --- all of it ---

def case_pipeline(bench):
    """From HTTP to vote_document, all roles in one process: what is accepted and applied in the
    same time."""
    seconds = max(1, int(20 * bench.scale))
    runs = []
    for _ in range(bench.runs):
        with bench.stack("pipeline", {"relay.topic_partitions": 8}) as stack:
            wire.create_topic(house.kafka().bootstrap, stack.topic, 8)
            role = stack.role("run")
            cpu, began = cpu_seconds(role), time.monotonic()
            got = wrk(role, 64, 1, 20000, seconds)
            wait_metric(role, "tallybox_consumer_applied_total", got["requests"])
            runs.append(measured(role, got["requests"], began, cpu))
    bench.lines.add(report.of_rows("pipeline", house.DATABASE, runs))
