# SPDX-License-Identifier: MIT
"""The case `disk`: what a row of each table takes, with its indexes. The program itself fills the
tables: in another order than that of their keys, which is how votes come."""

import random
import re

import cases
import retry
import suite
import report

VOTES = 1000000
TASKS = 200000
LONG_S = 3600
DELETED_BATCH = 1000

# Filled by the writers, by the consumer, by deletions, and by the retry queue.
WRITERS = ("vote_state", "vote_count", "outbox")
READERS = ("vote_document", "vote_tally", "vote_last")
DELETED = ("deleted_content",)
QUEUE = ("retry_task_history", "retry_attempt")


def table_bytes(stack, table):
    """All files of the table, which may have partitions."""
    folder = suite.database().folder / "data" / stack.name
    return sum(path.stat().st_size for path in folder.iterdir()
               if re.fullmatch(rf"{table}(#.*)?\.ibd", path.name))


def fill(stack, tables, rows, work):
    """{table: bytes per row} of what the work adds."""
    before = {table: table_bytes(stack, table) for table in tables}
    work()
    return {table: (table_bytes(stack, table) - before[table]) / rows for table in tables}


def vote(stack, rows):
    """Every voter votes once, for a content of its own."""
    voters, contents = list(range(1, rows + 1)), list(range(1, rows + 1))
    for number, column in enumerate((voters, contents)):
        random.Random(number).shuffle(column)
    lines = "".join(f"{voter},{content}\n" for voter, content in zip(voters, contents))
    stack.tallybox("vote", "--csv", "-", stdin=f"voter_id,content_id\n{lines}".encode(),
                   seconds=LONG_S)


def publish_and_apply(stack, rows):
    stack.role("relay")
    consumer = stack.role("consume")
    cases.wait_metric(consumer, "tallybox_consumer_applied_total", rows, LONG_S)


def delete_contents(stack, rows):
    """As the remover closes them."""
    contents = list(range(1, rows + 1))
    random.Random(2).shuffle(contents)
    for start in range(0, rows, DELETED_BATCH):
        stack.sql("INSERT INTO deleted_content (content_id, closed_at) VALUES " + ",".join(
            f"({content}, UTC_TIMESTAMP(3))" for content in contents[start:start + DELETED_BATCH]))


def run_tasks(stack, rows):
    """Done tasks stay in the history."""
    stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES ('bench', 'work', "
              "'{\"keep_done\": true}')")
    retry.fill_due(stack, rows)()
    role = stack.role("retry", program=cases.PROGRAMS / "bench_retry_noop")
    cases.wait_metric(role, "tallybox_retry_attempts_total", rows, LONG_S)
    suite.wait_for("all tasks to be gone", lambda: retry.left(stack) == 0, LONG_S, 0.2)


def case_disk(bench):
    votes, tasks = bench.rows(VOTES), bench.rows(TASKS)
    with bench.stack("disk", {"consumer.votes_from": "anyone"}) as stack:
        found = fill(stack, WRITERS, votes, lambda: vote(stack, votes))
        payload = stack.number("SELECT AVG(LENGTH(payload)) FROM outbox")
        found |= fill(stack, READERS, votes, lambda: publish_and_apply(stack, votes))
        found |= fill(stack, DELETED, votes, lambda: delete_contents(stack, votes))
        found |= fill(stack, QUEUE, tasks, lambda: run_tasks(stack, tasks))
        params = stack.number("SELECT AVG(LENGTH(params)) FROM retry_task_history")
    for table, size in found.items():
        bench.lines.add(report.of_disk(table, suite.DATABASE, size))
    print(f"  an event has {payload:.0f} bytes of payload, a task {params:.0f} of parameters",
          flush=True)
