# SPDX-License-Identifier: MIT
"""The case `rebalance`: how long a partition stands still while consumers of its group come and go, for
each way in which Kafka assigns partitions. Votes arrive at a steady rate, and the database is asked
again and again how far each partition is applied. A partition that stays with its consumer should
not notice; one that moves waits until its new consumer reads it."""

import contextlib
import pathlib
import subprocess
import sys
import time

import cases
import suite
import wire

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import pauses  # noqa: E402

PARTITIONS = 12
RATE = 2400  # votes a second: two in each partition every ten milliseconds
COUNTS = (1, 3, 6, 12, 3)
QUIET_S = 10
SETTLE_S = 120
# None: the default of tallybox or of the broker.
COMMON = {"kafka.consumer.session.timeout.ms": None, "kafka.consumer.heartbeat.interval.ms": None}
STRATEGY = "kafka.consumer.partition.assignment.strategy"
WAYS = {
    "eager": {**COMMON, STRATEGY: "range"},
    "cooperative": COMMON,
    "kip848": {**COMMON, "kafka.consumer.group.protocol": "consumer"},
}
# Of the broker, for the last way: as often as members of the other two ask it.
GROUP = {"consumer.heartbeat.interval.ms": 1000}


class Database:
    """What pauses.Watcher asks for its connection."""

    def __init__(self, stack):
        self.sql_connection = lambda: suite.connect(stack.name, autocommit=True)


@contextlib.contextmanager
def steady_votes(topic):
    words = cases.program_words("votes_produce", {
        "bootstrap": suite.kafka().bootstrap, "topic": topic, "rows": 10**9, "contents": 2400,
        "rate": RATE})
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait(20)


def fair(count):
    return sorted(PARTITIONS // count + (number < PARTITIONS % count) for number in range(count))


def wait_shared(roles):
    suite.wait_for(f"partitions to be shared by {len(roles)}", lambda: sorted(
        role.metric("tallybox_consumer_partitions") for role in roles) == fair(len(roles)), SETTLE_S, 0.1)


class Members:
    """The consumers, the oldest first."""

    def __init__(self, stack):
        self.stack = stack
        self.roles = []

    def become(self, count):
        """All that come do so together, and all that go."""
        going = self.roles[count:]
        for role in going:
            role.process.terminate()
        self.roles = self.roles[:count] + [self.stack.role("consume", ready=False)
                                           for _ in range(count - len(self.roles))]
        wait_shared(self.roles)
        for role in going:
            role.wait_end()


def longest(found, moved):
    return max((pause.seconds * 1000 for pause in found if pause.moved == moved), default=0)


def measure(members, watcher, counts, quiet_s):
    """The longest time between two advances while nothing changes, and for each change of the number
    (number, kept, moved)."""
    begin = time.monotonic()
    time.sleep(quiet_s)
    quiet = longest(watcher.pauses(begin, begin + quiet_s), False)
    changes = []
    for count in counts:
        begin = time.monotonic()
        members.become(count)
        time.sleep(1)
        found = watcher.pauses(begin, time.monotonic())
        changes.append((count, longest(found, False), longest(found, True)))
        print(f"    to {count}: " + pauses.text_of(found), flush=True)
    return quiet, changes


def run_of(bench, way):
    topic = f"rebalance-{way}-{time.monotonic_ns()}"
    wire.create_topic(suite.kafka().bootstrap, topic, PARTITIONS)
    with bench.stack("rebalance", {**WAYS[way], "consumer.topics": topic}) as stack:
        if way == "kip848":
            wire.alter_group(suite.kafka().bootstrap, stack.group, GROUP)
        with steady_votes(topic):
            members = Members(stack)
            members.become(COUNTS[0])
            watcher = pauses.Watcher(Database(stack), topic, every_s=0.01)
            watcher.start()
            try:
                # Where a bench is only tried, one change is enough.
                counts = COUNTS[1:] if bench.scale >= cases.WARM_SCALE else (2,)
                return measure(members, watcher, counts, bench.seconds(QUIET_S))
            finally:
                watcher.end()


def case_rebalance(bench):
    for way in WAYS:
        runs = [run_of(bench, way) for _ in range(bench.runs)]
        changes = [change for _, of_run in runs for change in of_run]
        bench.lines.add({
            "case": f"rebalance_{way}", "db": suite.DATABASE,
            "quiet_ms": round(max(quiet for quiet, _ in runs), 1),
            "kept_ms": round(max(kept for _, kept, _ in changes), 1),
            "moved_ms": round(max(moved for _, _, moved in changes), 1), "runs": len(runs)})
