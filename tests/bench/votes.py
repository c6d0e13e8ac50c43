# SPDX-License-Identifier: MIT
"""The cases of votes: consume, serve, rollup, and the pipeline of all roles."""

import itertools
import json
import os
import re
import subprocess
import time

import cases
import suite
import report
import wire


# --- consume ---

INSERT_ROWS = 250000


def fill_votes(kind, rows, repeat=0):
    topic = f"votes-{kind}-{repeat}-{time.monotonic_ns()}"
    wire.create_topic(suite.kafka().bootstrap, topic, 12)
    cases.program("votes_produce", bootstrap=suite.kafka().bootstrap, topic=topic, rows=rows,
                  kind=kind, repeat=repeat)
    return topic


def consume_run(bench, topic, rows):
    with bench.stack("consume", {"consumer.topics": topic}) as stack:
        began = time.monotonic()
        role = stack.role("consume", ready=False)
        cases.wait_metric(role, "tallybox_consumer_applied_total", rows)
        return cases.measured(role, rows, began)


def apply_run(bench, what, kind, rows):
    with bench.stack("ceiling") as stack:
        return cases.program("ceiling_apply", what=what, kind=kind, rows=rows,
                             **cases.on_database(stack))


def consume_pair(bench, kind, topics, rows):
    """One run of each topic, and the ceilings of this kind of contents: the same transactions, and
    the bulk insert alone (fewer rows: the rate is the same)."""
    return ([consume_run(bench, topic, rows) for topic in topics],
            apply_run(bench, "transaction", kind, rows),
            apply_run(bench, "insert", kind, min(rows, bench.rows(INSERT_ROWS))))


def case_consume(bench):
    """Counted from the start of the process: joining the group is in it."""
    rows, few = bench.rows(1000000), bench.rows(100000)
    for kind in ("uniform", "zipf"):
        # Those with duplicates are compared with the same ceilings.
        names = ["consume_uniform", "consume_duplicates"] if kind == "uniform" else ["consume_zipf"]
        bench.warm_up(consume_pair, bench, kind, [fill_votes(kind, few)], few)
        topics = [fill_votes(kind, rows, 100 if "duplicates" in name else 0) for name in names]
        pairs = [consume_pair(bench, kind, topics, rows) for _ in range(bench.runs)]
        whole, bare = ([pair[i] for pair in pairs] for i in (1, 2))
        for number, name in enumerate(names):
            runs = [pair[0][number] for pair in pairs]
            bench.lines.add(report.of_rows(
                name, suite.DATABASE, runs, whole,
                insert_rows_per_s=round(report.median(bare, "rows_per_s"), 1),
                of_insert=report.pair_ratio(runs, bare)))


# --- serve ---

ARRAY = 100
WRK_RUNS = itertools.count(1)


def wrk_words(role, connections, votes, contents, seconds, rate=0):
    """rate: requests a second at most; 0: as many as there can be."""
    threads = 2 if connections > 1 and not rate else 1
    return ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s",
            str(cases.HERE / "votes.lua"), f"http://127.0.0.1:{role.api_port}", "--", str(votes),
            str(contents), str(next(WRK_RUNS)), str(rate)]


def result_of(words, code, out, trouble):
    """The line that a script of wrk prints."""
    found = re.search(r"^bench (\{.*\})$", out, re.MULTILINE)
    if code != 0 or not found:
        raise RuntimeError(f"{' '.join(words)}: {out[-500:]}{trouble[-500:]}")
    got = json.loads(found.group(1))
    if got["errors"]:
        raise RuntimeError(f"wrk counted {got['errors']} errors: {out[-500:]}")
    return got


def wrk(role, connections, votes, contents, seconds):
    words = wrk_words(role, connections, votes, contents, seconds)
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 60, check=False)
    got = result_of(words, done.returncode, done.stdout, done.stderr)
    # A second is a short time for a machine that has other work.
    return got if got["requests"] else wrk(role, connections, votes, contents, 4 * seconds)


def serve_warm(role, connections, votes, contents):
    wrk(role, connections, votes, contents, 1)
    suite.wait_for("what it left behind to be committed",
                   lambda: role.metric("tallybox_commit_queue_votes") == 0, 60)


def serve_run(bench, connections, votes, contents):
    # The default refuses what 256 arrays of 100 bring at a time.
    with bench.stack("serve", {"api.queue_votes_max": 30000}) as stack:
        role = stack.role("serve")
        bench.warm_up(serve_warm, role, connections, votes, contents)
        cpu = cases.cpu_seconds(role)
        got = wrk(role, connections, votes, contents, bench.seconds(4))
        rows = got["requests"] * votes
        return {"rows_per_s": rows / got["seconds"],
                "cpu_us_per_row": (cases.cpu_seconds(role) - cpu) * 1e6 / max(1, rows),
                "rss_mib": role.peak_rss_mib(), "p50_ms": got["p50_us"] / 1000,
                "p99_ms": got["p99_us"] / 1000, "p999_ms": got["p999_us"] / 1000}


def commit_run(bench, batch):
    with bench.stack("ceiling") as stack:
        return cases.program("ceiling_commit", batch=batch,
                             votes=bench.rows(6000 if batch == 1 else 100000),
                             **cases.on_database(stack))


# Name: connections, votes in a request, contents.
SERVE = {**{f"serve_{count}": (count, 1, 20000) for count in (1, 16, 64, 256)},
         "serve_64_hot": (64, 1, 1),
         **{f"serve_{count}_arrays": (count, ARRAY, 20000) for count in (1, 16, 64, 256)}}


def case_serve(bench):
    """Ceilings: one connection that commits one vote after the other; for arrays, 100 in each
    transaction. `hot_ratio`: one content over spread ones."""
    runs = {name: [] for name in SERVE}
    ceilings = {1: [], ARRAY: []}
    for _ in range(bench.runs):
        for votes, commits in ceilings.items():
            commits.append(commit_run(bench, votes))
            for name, (connections, size, contents) in SERVE.items():
                if size == votes:
                    runs[name].append(serve_run(bench, connections, size, contents))
    for name, (_, size, _) in SERVE.items():
        more = {}
        if name.endswith("_hot"):
            more["hot_ratio"] = report.pair_ratio(runs[name], runs[name[:-len("_hot")]])
        bench.lines.add(report.of_rows(name, suite.DATABASE, runs[name], ceilings[size], **more))


# --- rollup ---

def rollup_once(stack):
    """Runs it to its end: seconds, CPU and memory."""
    began = time.monotonic()
    sets = stack.accounts.sets(("rollup", "--once"), {})
    words = [suite.BINARY, "rollup", "--config", str(stack.ini), "--once"]
    for key, value in sets.items():
        words += ["--set", f"{key}={value}"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, env=suite.clean_environment()) as process:
        rss = 0.0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            try:
                # The kernel's own account of a child begins with its parent's memory.
                rss = max(rss, suite.peak_rss_mib(process.pid))
            except (OSError, AttributeError):
                pass  # it has just ended, or not begun
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"rollup ended with {process.returncode}: {process.stderr.read()}")
    return {"seconds": time.monotonic() - began, "cpu": usage.ru_utime + usage.ru_stime, "rss": rss}


def rollup_run(stack, contents, percent):
    stack.sql("UPDATE vote_tally SET votes = votes + 1, seq = seq + 1, changed_at = "
              "UTC_TIMESTAMP(3) WHERE content_id %% 100 < %s", [percent])
    changed = contents * percent // 100
    once = rollup_once(stack)
    stack.sql("UPDATE rollup_state SET rolled_until = UTC_TIMESTAMP(3)")
    time.sleep(1)
    return {"rows_per_s": changed / once["seconds"], "seconds": once["seconds"],
            "cpu_us_per_row": once["cpu"] * 1e6 / changed, "rss_mib": once["rss"]}


def fill_remarks(stack, contents):
    cases.make_numbers(stack)
    for first, count in cases.parts(contents):
        stack.sql(f"INSERT INTO vote_tally (content_id, votes, seq, changed_at) SELECT {first} + n "
                  f"+ 1, 1, 1, UTC_TIMESTAMP(3) - INTERVAL 1 DAY FROM {cases.NUMBERS} "
                  f"WHERE n < {count}")
        stack.sql(f"INSERT INTO remark (id, votes, votes_seq) SELECT {first} + n + 1, 1, 1 "
                  f"FROM {cases.NUMBERS} WHERE n < {count}")


def case_rollup(bench):
    """One roll-up of 1 M remarks each time, counted in remarks that have changed."""
    contents = bench.rows(1000000)
    with bench.stack("rollup") as stack:
        fill_remarks(stack, contents)
        stack.tallybox("rollup", "--once", seconds=900)
        bench.warm_up(rollup_run, stack, contents, 1)
        for percent in (1, 10, 100):
            runs = [rollup_run(stack, contents, percent) for _ in range(bench.runs)]
            bench.lines.add(report.of_rows(f"rollup_{percent}", suite.DATABASE, runs,
                                           seconds=round(report.median(runs, "seconds"), 2)))


# --- all of it ---

def pipeline_run(bench, seconds):
    with bench.stack("pipeline", {"relay.topic_partitions": 8}) as stack:
        wire.create_topic(suite.kafka().bootstrap, stack.topic, 8)
        role = stack.role("run")
        first = wrk(role, 64, 1, 20000, 1)["requests"]
        # What was under way when the clock of wrk stopped is not in its count.
        cases.wait_metric(role, "tallybox_consumer_applied_total", first)
        cpu, began = cases.cpu_seconds(role), time.monotonic()
        got = wrk(role, 64, 1, 20000, seconds)["requests"]
        cases.wait_metric(role, "tallybox_consumer_applied_total", first + got)
        return cases.measured(role, got, began, cpu)


def case_pipeline(bench):
    """From HTTP to vote_document, all roles in one process: what is accepted and applied in the
    same time."""
    bench.warm_up(pipeline_run, bench, bench.seconds(3))
    runs = [pipeline_run(bench, bench.seconds(15)) for _ in range(bench.runs)]
    bench.lines.add(report.of_rows("pipeline", suite.DATABASE, runs))
