# SPDX-License-Identifier: MIT
"""The cases `peers` and `peers_binlog`: Debezium on the same servers and rows. Its MySQL or MariaDB connector with the
outbox router against our relay, its JDBC sink against our consumer; cold (from the start of the
process) and warm (in a process that has done it all once), with its defaults and with the settings
of TUNED. Ours is measured from the start of its process each time. It publishes the records of the
connector where both read the log, with the settings that `tallybox adopt` prints: without
CloudEvents headers. A lane that reads its table sends them unless Debezium is tuned."""

import contextlib
import os
import shutil
import statistics
import subprocess
import time

import binlog
import cases
import connect as kafka_connect
import suite
import report
import votes
import wire

ROWS = 500000
SINGLE_ROWS = 200000
PARTITIONS = 8
VOTE_PARTITIONS = 12
URLS = {"mariadb": ("jdbc:mariadb", "?useBulkStmts=true"),
        "mysql": ("jdbc:mysql", "?rewriteBatchedStatements=true")}

# What a person would try: larger batches all the way, less waiting, compressed records.
TUNED_WORKER = {"producer.linger.ms": 5, "producer.batch.size": 262144,
                "producer.compression.type": "lz4", "consumer.max.poll.records": 5000,
                "consumer.fetch.min.bytes": 100000, "offset.flush.interval.ms": 10000}
TUNED_SOURCE = {"max.batch.size": 8192, "max.queue.size": 32768, "poll.interval.ms": 10}
TUNED_SINK = {"batch.size": 5000}


@contextlib.contextmanager
def connect(stack, connector, tuned):
    peer = kafka_connect.Connect(stack, connector, TUNED_WORKER if tuned else None)
    try:
        yield peer
    finally:
        peer.stop()
        shutil.rmtree(peer.folder, ignore_errors=True)


def line_of(case, mode, ours, theirs):
    """Medians; the ratios are ours to the peer's of the same turn."""
    of_ours, of_theirs = (
        {key: report.median(runs, key) for key in ("rows_per_s", "cpu_us_per_row", "rss_mib")}
        for runs in (ours, theirs))
    return {"case": case, "db": suite.DATABASE, "peer": "debezium", "mode": mode,
            "rows_per_s": round(of_ours["rows_per_s"], 1),
            "peer_rows_per_s": round(of_theirs["rows_per_s"], 1),
            "rows_ratio": report.pair_ratio(ours, theirs),
            "cpu_us_per_row": round(of_ours["cpu_us_per_row"], 3),
            "peer_cpu_us_per_row": round(of_theirs["cpu_us_per_row"], 3),
            "cpu_ratio": report.pair_ratio(ours, theirs, "cpu_us_per_row", 4),
            "rss_mib": round(of_ours["rss_mib"], 1),
            "peer_rss_mib": round(of_theirs["rss_mib"], 1),
            "spread": round(report.spread(ours), 3),
            "peer_spread": round(report.spread(theirs), 3)}


# --- the outbox ---

def source_of(stack, topic, tuned):
    return kafka_connect.source_of(stack, topic, topic, **(TUNED_SOURCE if tuned else {}))


def end_of(topic):
    """How many records were ever written to the topic."""
    words = ["kcat", "-b", suite.kafka().bootstrap, "-Q"]
    for partition in range(PARTITIONS):
        words += ["-t", f"{topic}:{partition}:-1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    return sum(int(text.rsplit(" ", 1)[1]) for text in done.stdout.split("\n") if " offset " in text)


def fill_until_seen(stack, peer, topic):
    """Rows one by one until the connector streams: what comes after its first start is its work,
    and it does not say when that is. How many of them it has published, and how many there are."""
    peer.wait_state("RUNNING")
    for count in range(1, 240):
        cases.fill_outbox(stack, 1)
        time.sleep(0.5)
        peer.state()
        if end_of(topic):
            break
    else:
        raise RuntimeError(f"Debezium published nothing\n{suite.tail(peer.log)}")
    first = wire.read_topic(suite.kafka().bootstrap, topic)[0].headers["id"]
    seen = stack.number("SELECT COUNT(*) FROM outbox a JOIN outbox b ON a.seq >= b.seq "
                        "WHERE b.id = %s", [first])
    peer.wait("the first rows", lambda: end_of(topic) >= seen)
    return seen, count


def source_runs(bench, tuned, rows, fill=cases.fill_outbox, lane="table"):
    """The run of our relay, and {mode: run} of the connector on the same rows."""
    is_plain = tuned or lane == binlog.LANE
    with bench.stack("peers", {"relay.ce_source": ""} if is_plain else None, lane) as stack:
        topic = f"peer.{stack.name}.order"
        wire.create_topic(suite.kafka().bootstrap, topic, PARTITIONS)
        cases.order_topic(stack)
        cases.begin_lane(stack)
        theirs = {}
        with connect(stack, source_of(stack, topic, tuned), tuned) as peer:
            seen, waiting = fill_until_seen(stack, peer.start(), topic)
            peer.stop()
            fill(stack, rows)
            began = time.monotonic()
            peer.start()
            peer.wait("the rows", lambda: end_of(topic) >= seen + rows)
            theirs["cold"] = cases.measured(peer, rows, began)
            peer.pause()
            fill(stack, rows)
            cpu, began = cases.cpu_seconds(peer), time.monotonic()
            peer.resume()
            peer.wait("the rows", lambda: end_of(topic) >= seen + 2 * rows)
            theirs["warm"] = cases.measured(peer, rows, began, cpu)
        return cases.drain(stack, waiting + 2 * rows), theirs


# --- the votes ---

def sink_of(stack, topic, tuned):
    server = suite.database()
    scheme, options = URLS[suite.DATABASE]
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "topics": topic,
        "connection.url": f"{scheme}://{server.host}:{server.port}/{stack.name}"
                          f"{options if tuned else ''}",
        "connection.username": "root", "connection.password": "",
        "insert.mode": "insert", "primary.key.mode": "none", "schema.evolution": "none",
        "collection.name.format": "peer_document",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        **(TUNED_SINK if tuned else {})}


def wait_inserted(stack, peer, rows):
    # Counting a million rows again and again would be measured too.
    peer.wait("the rows", lambda: (stack.number("SELECT MAX(id) FROM peer_document") or 0) >= rows)
    peer.wait("all rows", lambda: stack.number("SELECT COUNT(*) FROM peer_document") >= rows)


def fill_peer_votes(topic, rows):
    cases.program("votes_produce", bootstrap=suite.kafka().bootstrap, topic=topic, rows=rows,
                  kind="zipf", form="connect")


def sink_runs(bench, vote_topic, tuned):
    """{mode: run} of the sink into a table like ours, and the run of our consumer."""
    rows = bench.rows(ROWS)
    with bench.stack("peers") as stack:
        topic = f"peer-{stack.name}"
        wire.create_topic(suite.kafka().bootstrap, topic, VOTE_PARTITIONS)
        stack.sql("CREATE TABLE peer_document LIKE vote_document")
        fill_peer_votes(topic, rows)
        theirs = {}
        with connect(stack, sink_of(stack, topic, tuned), tuned) as peer:
            began = time.monotonic()
            wait_inserted(stack, peer.start(), rows)
            theirs["cold"] = cases.measured(peer, rows, began)
            peer.pause()
            stack.sql("TRUNCATE TABLE peer_document")
            fill_peer_votes(topic, rows)
            cpu, began = cases.cpu_seconds(peer), time.monotonic()
            peer.resume()
            wait_inserted(stack, peer, rows)
            theirs["warm"] = cases.measured(peer, rows, began, cpu)
    return votes.consume_run(bench, vote_topic, rows), theirs


def tuning():
    """What "tuned" means, for the reader of the numbers."""
    values = {**TUNED_WORKER, **TUNED_SOURCE, **TUNED_SINK}
    words = [f"{key}={value}" for key, value in values.items()]
    return " ".join([*words, URLS[suite.DATABASE][1].lstrip("?")])


def need_debezium(case):
    if not os.environ.get("TALLYBOX_DEBEZIUM"):
        raise RuntimeError(f"Debezium was not fetched: start this with ./dev bench {case}")


def add_lines(bench, case, modes, measure):
    """measure(tuned) returns as source_runs()."""
    for tuned in (False, True):
        runs = [measure(tuned) for _ in range(bench.runs)]
        for mode in modes:
            line = line_of(case, f"{'tuned' if tuned else 'default'} {mode}",
                           [ours for ours, _ in runs], [theirs[mode] for _, theirs in runs])
            if "of_ceiling" in runs[0][0]:
                shares = [ours["of_ceiling"] for ours, _ in runs]
                line["of_ceiling"] = round(statistics.median(shares), 3)
            bench.lines.add({**line, **({"tuning": tuning()} if tuned else {})})


def case_peers(bench):
    need_debezium("peers")
    rows = bench.rows(ROWS)
    topic = votes.fill_votes("zipf", rows)
    for case, measure in (("peers_relay", lambda tuned: source_runs(bench, tuned, rows)),
                          ("peers_consume", lambda tuned: sink_runs(bench, topic, tuned))):
        add_lines(bench, case, ("cold", "warm"), measure)


def case_peers_binlog(bench):
    """Beside a lane that reads the same log as the connector. Cold it is further behind, as in
    case_peers."""
    need_debezium("peers_binlog")

    def measure(tuned):
        rows = bench.rows(ROWS)
        ours, theirs = source_runs(bench, tuned, rows, lane=binlog.LANE)
        if tuned:
            ours["of_ceiling"] = ours["rows_per_s"] / cases.produce_run(rows, "")["rows_per_s"]
        return ours, theirs

    add_lines(bench, "peers_binlog", ("warm",), measure)
    add_lines(bench, "peers_binlog_single", ("warm",), lambda tuned: source_runs(
        bench, tuned, bench.rows(SINGLE_ROWS), binlog.fill_single, binlog.LANE))
