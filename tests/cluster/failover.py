# SPDX-License-Identifier: MIT
"""The primary dies and the replica takes its place, with semi-synchronous and with asynchronous
replication. Both use GTIDs."""

import collections
import json
import time

import pymysql

import cluster
import ledger
import load
from test_failover import operator_sql
from waiting import NotThere, wait_for

READY_S = 180
LOST_MIN = 200       # acknowledged votes that the replica must lack, or the test has no point
REPLICA = "mysql-replica"


def execute(controls, service, *statements):
    connection = controls.sql_connection(service)
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    finally:
        connection.close()


def status(controls, service, name):
    rows = controls.sql("SHOW GLOBAL STATUS LIKE %s", [name], service)
    return rows[0][1] if rows else None


def replica_caught_up(controls):
    """Until the replica has what the primary has now."""
    sent = controls.sql("SELECT @@GLOBAL.gtid_executed", (), controls.primary)[0][0]

    def look():
        if not controls.number("SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)", [sent], REPLICA):
            raise NotThere("the replica is behind")
        return True
    wait_for("the replica", look, READY_S, 0.2)


def replicate_semi_synchronously(controls):
    """From now on a COMMIT is visible and answered only when the replica has it. A replica asks the
    primary for this when it connects, so the primary comes first, and waits for a moment."""
    replica_caught_up(controls)
    execute(controls, REPLICA, "SET GLOBAL super_read_only = OFF",
            "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'",
            "SET GLOBAL super_read_only = ON", "SET GLOBAL rpl_semi_sync_replica_enabled = 1")
    execute(controls, controls.primary,
            "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
            "SET GLOBAL rpl_semi_sync_source_timeout = 3600000",
            "SET GLOBAL rpl_semi_sync_source_enabled = 1")
    execute(controls, REPLICA, "STOP REPLICA IO_THREAD", "START REPLICA IO_THREAD")

    def look():
        found = (status(controls, controls.primary, "Rpl_semi_sync_source_status"),
                 status(controls, controls.primary, "Rpl_semi_sync_source_clients"))
        if found != ("ON", "1"):
            raise NotThere(f"semi-synchronous replication is {found}")
        return True
    wait_for("semi-synchronous replication", look, READY_S, 0.2)


def promote(controls):
    """The primary is dead; the replica accepts writes, and the name `mysql` means it."""
    old, new = controls.one(controls.primary), controls.one(REPLICA)
    # Not started again by the engine: two servers that accept writes would diverge.
    cluster.docker("kill", old.id)
    controls.disconnect(old)
    execute(controls, REPLICA, "STOP REPLICA", "RESET REPLICA ALL",
            "SET PERSIST super_read_only = OFF", "SET PERSIST read_only = OFF")
    controls.disconnect(new)
    controls.connect(new, "mysql")
    controls.primary = REPLICA


def fail_over_semi_synchronously(world):
    """No acknowledged vote is lost, and the operator only promotes the replica."""
    controls = world.controls
    replicate_semi_synchronously(controls)
    world.flows()
    begin = time.monotonic()
    promote(controls)
    controls.wait_healthy("serve", "relay", "consume", "retry", "rollup", "housekeep")
    world.flows()
    return f"votes flowed again {time.monotonic() - begin:.1f} s after the kill"


# -- asynchronous: what the replica lacks is lost

def lag(controls):
    """{partition: records that are not applied}, without those that have none."""
    applied = progress(controls)
    return {partition: end - applied.get(partition, 0)
            for partition, end in topic_ends(controls).items() if applied.get(partition, 0) < end}


def wait_applied(controls):
    """Until no record of the topic waits."""
    def look():
        left = lag(controls)
        if left:
            raise NotThere(f"lag {left}")
        return True
    wait_for("no lag", look, READY_S, 0.5)


def wait_published(controls, say):
    """Steps 1 and 2 of OPERATIONS, Fail-over: writers are stopped, and what Kafka has is applied."""
    def look():
        try:
            left = load.count_outbox_rows(controls)
        except (pymysql.MySQLError, OSError) as reason:
            raise NotThere(repr(reason)) from reason
        if left:
            raise NotThere(f"{left} rows are left")
        return True
    began = time.monotonic()
    wait_for("an empty outbox", look, READY_S, 0.5)
    wait_applied(controls)
    say(f"  outbox empty and no lag {time.monotonic() - began:.1f} s later")


def topic_ends(controls):
    text = cluster.run("kcat", "-b", controls.bootstrap, "-Q",
                       *[word for partition in controls.topic(load.TOPIC)
                         for word in ("-t", f"{load.TOPIC}:{partition}:-1")], seconds=60)
    return {int(line.split("[")[1].split("]")[0]): int(line.split()[-1])
            for line in text.splitlines() if "[" in line}


def progress(controls):
    return dict(controls.sql("SELECT partition_id, next_offset FROM consumer_progress "
                            "WHERE topic = %s", [load.TOPIC]))


def compare(controls, votes):
    """What is lost and what must not be: [violations], acknowledged changes, lost ones."""
    wrong = []
    first = {}
    by_content = collections.defaultdict(list)
    contents = votes.contents.range
    for record in load.read_records(controls, contents, votes.grown):
        if first.setdefault(record.event, record) is record:
            by_content[int(record.key)].append(record.event)
    rows = collections.defaultdict(list)
    for row in sorted(load.read_tables(controls, contents).rows, key=lambda row: (row.content, row.seq)):
        rows[row.content].append(row.event)
    logged = collections.Counter(event for events in rows.values() for event in events)
    wrong += [f"{event} is in the log {count} times" for event, count in logged.items() if count > 1]
    wrong += [f"{event} is in the topic and not in the log" for event in first if event not in logged]
    wrong += [f"content {content}: the log has another order than the topic"
              for content, events in by_content.items() if events != rows[content]]
    acknowledged = {entry["event"] for entry in ledger.read(votes.ledgers)
                    if entry["what"] == "vote" and entry["outcome"] == "ok" and entry["changed"]}
    lost = [event for event in acknowledged if event not in logged]
    return wrong, len(acknowledged), len(lost)


def verify_differences(controls):
    checks = json.loads(controls.tool("verify", "--json", expect=None))["checks"]
    return [check["name"] for check in checks if check["violations"]]


def fail_over_asynchronously(world):
    """The steps of OPERATIONS for a replica that lacks the last transactions, and the count of what
    is gone. The run's own judge cannot judge what comes after it."""
    controls = world.controls
    world.flows()
    replica_caught_up(controls)
    execute(controls, REPLICA, "STOP REPLICA IO_THREAD")
    world.flows(LOST_MIN)
    lacking = controls.sql("SELECT @@GLOBAL.gtid_executed", (), controls.primary)[0][0]
    world.load.stop.set()
    controls.scale("serve", 0)
    begin = time.monotonic()
    promote(controls)
    transactions = controls.sql("SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)", [lacking])[0][0]
    controls.wait_healthy("relay", "consume")
    controls.write_hosts(world.hosts)
    wait_published(controls, world.say)
    wrong, acknowledged, lost = compare(controls, world.load)
    if wrong:
        raise AssertionError("; ".join(wrong[:5]) + f" ({len(wrong)} in all)")
    before = verify_differences(controls)
    if not before:
        raise AssertionError("verify found no difference between writers and log: nothing was lost, "
                             "and the test has no point")
    for statement in operator_sql():
        execute(controls, controls.primary, statement)
    after = verify_differences(controls)
    if after:
        raise AssertionError(f"verify still finds {after}")
    controls.scale("serve", 2)
    controls.wait_healthy("serve")
    return (f"{transactions.count(',') + 1} ranges of transactions were lost ({transactions}): "
            f"{lost} of {acknowledged} acknowledged votes are gone, all published ones came back from "
            f"Kafka, none twice; {len(before)} differences before the repair, none after; "
            f"{time.monotonic() - begin:.0f} s in all")
