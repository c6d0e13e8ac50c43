# SPDX-License-Identifier: MIT
"""The end of a run: everything drains, and what topics and tables hold is read back."""

import json
import time
import uuid

import pymysql

import clients
import suite
import installation
import judge
import judge_reads
import ledger
import plan
import readers
import task_operator
import wire
import writers

DRAIN_S = 240
READ_S = 300
LISTS_S = 60


def waiting(stack):
    """What is under way, {what: how many}; empty when all has arrived."""
    counts = {lane: stack.number(f"SELECT COUNT(*) FROM {lane}") for lane in installation.LANES}
    # A tombstone follows all votes of its content, whose states are removed.
    others = "content_id NOT IN (SELECT content_id FROM deleted_content)"
    changes = int(stack.number(f"SELECT COALESCE(SUM(version), 0) FROM vote_state WHERE {others}"))
    logged = (stack.number(f"SELECT COUNT(*) FROM vote_document WHERE {others}")
              + stack.number("SELECT COUNT(*) FROM dead_record"))
    counts["deleted remarks"] = stack.number(
        "SELECT COUNT(*) FROM remark WHERE deleted_at IS NOT NULL")
    counts["tasks"] = stack.number("SELECT COUNT(*) FROM retry_task")
    counts["votes not in the log"] = max(0, changes - logged)
    return {what: count for what, count in counts.items() if count}


def drain(world, tick, say, seconds=DRAIN_S):
    """Until nothing is under way; what is left when the time is over."""
    stack = world.stack
    began = time.monotonic()
    told = began
    while True:
        tick()
        try:
            left = waiting(stack)
        except (pymysql.MySQLError, OSError) as reason:
            left = {str(reason): 1}
        now = time.monotonic()
        if not left:
            say(f"drained in {now - began:.1f} s")
            return left
        if now - began > seconds:
            say(f"not drained in {seconds} s: {left}")
            return left
        if now - told > 5:
            told = now
            say(f"  draining: {left}")
        world.operator.retry("group", "enable", clients.GROUP)
        world.operator.act()
        time.sleep(0.25)


def wait_lists(world, tick, say, seconds=LISTS_S):
    """Until every list of each process has all remarks, in the order of the tables; what is wrong
    when the time is over. Nothing else happens, and roll-ups and rankings follow by themselves."""
    began = time.monotonic()
    ports = [world.proxy.ports[f"http:{name}"] for name in plan.SERVES]
    while True:
        tick()
        wrong = readers.final_differences(world.stack, ports)
        if not wrong or time.monotonic() - began > seconds:
            say(f"lists compared with the tables in {time.monotonic() - began:.1f} s: "
                f"{len(wrong)} differ")
            return wrong
        time.sleep(0.25)


def exact_lanes(stack):
    """Lanes that publish each event once."""
    return frozenset(lane for lane in installation.LANES
                     if stack.settings.get(f"lane.{lane}.exactly_once") == "yes")


def read_tables(stack):
    """Everything the judge compares."""
    rows = [judge.Row(content, seq, voter, voting, votes, str(uuid.UUID(bytes=event)))
            for content, seq, voter, voting, votes, event in stack.sql(
                "SELECT content_id, content_seq, voter_id, voting, votes, event_id "
                "FROM vote_document")]
    return judge.Tables(
        rows=rows,
        states={(voter, content): (voting, version) for voter, content, voting, version in
                stack.sql("SELECT voter_id, content_id, voting, version FROM vote_state")},
        counts=dict(stack.sql("SELECT content_id, votes FROM vote_count")),
        tallies={content: (votes, seq) for content, votes, seq in
                 stack.sql("SELECT content_id, votes, seq FROM vote_tally")},
        remarks={content: (votes, seq) for content, votes, seq in
                 stack.sql("SELECT id, votes, votes_seq FROM remark")},
        transactions={row[0] for row in stack.sql("SELECT id FROM chaos_transaction")},
        counters=dict(stack.sql("SELECT k, n FROM chaos_counter")),
        left={lane: [row[0] for row in stack.sql(f"SELECT id FROM {lane} ORDER BY seq")]
              for lane in installation.LANES},
        dead=stack.sql("SELECT topic, partition_id, record_offset, reason FROM dead_record"),
        tasks=stack.sql("SELECT id, ordering_key, state FROM retry_task"),
        ended={task_operator.event_of(key): ended for key, *ended in stack.sql(
            "SELECT h.idempotency_key, h.outcome, h.attempts, (SELECT COUNT(*) FROM retry_attempt "
            "a WHERE a.task_id = h.id AND a.outcome IN ('failed', 'rejected')) "
            "FROM retry_task_history h ORDER BY h.id")},  # of a task that was replaced, the later
        closed={row[0] for row in stack.sql(
            "SELECT content_id FROM vote_tally WHERE ended_at IS NOT NULL")},
        lasts={row[0] for row in stack.sql("SELECT DISTINCT content_id FROM vote_last")},
        exact=exact_lanes(stack))


def read_records(world):
    """Every committed record of the topics, a partition at a time: kcat reads with
    isolation.level = read_committed."""
    stack = world.stack
    bootstrap = suite.kafka().bootstrap
    for partition in range(installation.PARTITIONS):
        for record in wire.read_topic(bootstrap, stack.topic, READ_S, partition):
            vote = dict.fromkeys(("voterId", "voting", "votes"))
            if record.value is not None:
                vote = json.loads(record.value)
            yield judge.Record(stack.topic, partition, record.offset, record.key.decode(),
                               record.headers["id"], vote["voterId"], vote["voting"],
                               vote["votes"], None, record.headers.get("lane"))
    for steps in (world.step_topic, world.task_topic):
        for partition in range(wire.partitions(bootstrap, steps)):
            for record in wire.read_topic(bootstrap, steps, READ_S, partition):
                yield judge.Record(steps, partition, record.offset, record.key.decode(),
                                   record.headers["id"], None, None, None,
                                   int(record.value) if record.value.isdigit() else -1,
                                   record.headers.get("lane"))


def roll_up_and_verify(stack, verdict):
    """`rollup --once`, then every check of `verify`; what it finds is a wrong total."""
    stack.tallybox("rollup", "--once", seconds=120)
    done = stack.tallybox("verify", "--json", expect=None, seconds=300)
    try:
        checks = json.loads(done.stdout)["checks"]
    except (ValueError, KeyError):
        verdict.add("totals", f"verify ended with {done.returncode}: {done.stderr[-500:]}")
        return
    for check in checks:
        if check["violations"]:
            verdict.add("totals", f"verify: {check['name']}: {check['violations']} violations of "
                        f"'{check['holds']}': {check['offenders'][:3]}")


def give_verdict(world):
    """The judge's word on a world that is at rest."""
    early = judge.Verdict()
    roll_up_and_verify(world.stack, early)
    verdict = judge.judge(ledger.read(world.ledgers), read_records(world),
                          read_tables(world.stack))
    for story in early.stories["totals"]:
        verdict.add("totals", story)
    remarks = {remark: writers.item_of(remark) for remark in range(1, writers.CONTENTS + 1)}
    judge_reads.judge(ledger.read(world.ledgers), remarks,
                      (world.rolled_up.windows, world.rolled_up.changed), world.page_ages, verdict)
    return verdict
