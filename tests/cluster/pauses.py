# SPDX-License-Identifier: MIT
"""How long partitions stand still while consumers come and go, seen from outside: a thread asks the
database again and again how far each partition is applied, and by which consumer."""

import collections
import threading
import time

import pymysql

from waiting import NotThere, wait_for

EVERY_S = 0.04
GO_ON_S = 120
PROGRESS = ("SELECT partition_id, next_offset, owner, epoch FROM consumer_progress "
            "WHERE topic = %s")

# at: when the new offset was seen first
Step = collections.namedtuple("Step", "at offset owner")
# Of one partition: the longest time between two steps, and whether its owner changed.
Pause = collections.namedtuple("Pause", "partition seconds moved")


class Progress:
    """The steps of each partition, in their order. Pure: add() gets what was read."""

    def __init__(self):
        self.steps = collections.defaultdict(list)

    def add(self, now, rows):
        for partition, offset, owner, _ in rows:
            steps = self.steps[partition]
            if not steps or steps[-1].offset != offset:
                steps.append(Step(now, offset, owner))

    def pauses(self, begin, end):
        """Of each partition, in the time from begin to end: from the last step before begin, if
        there is one, to the first one after end."""
        found = []
        for partition, steps in sorted(self.steps.items()):
            inside = [step for step in steps if begin <= step.at <= end]
            before = [step for step in steps if step.at < begin][-1:]
            after = [step for step in steps if step.at > end][:1]
            line = before + inside + after
            gaps = [later.at - earlier.at for earlier, later in zip(line, line[1:])
                    if later.at >= begin]
            if gaps:
                found.append(Pause(partition, max(gaps),
                                   len({step.owner for step in line}) > 1))
        return found


class Watcher(threading.Thread):
    """Asks until end(); a database that is away is asked again."""

    def __init__(self, controls, topic="vote-events", every_s=EVERY_S):
        super().__init__(name="progress", daemon=True)
        self.controls = controls
        self.topic, self.every_s = topic, every_s
        self.progress = Progress()
        self.halt = threading.Event()
        self.lock = threading.Lock()  # guards progress

    def run(self):
        connection = None
        while not self.halt.wait(self.every_s):
            try:
                connection = connection or self.controls.sql_connection()
                with connection.cursor() as cursor:
                    cursor.execute(PROGRESS, [self.topic])
                    rows = cursor.fetchall()
                with self.lock:
                    self.progress.add(time.monotonic(), rows)
            except (pymysql.MySQLError, OSError, AssertionError):
                connection = None

    def owners(self):
        """How many consumers applied something of late."""
        with self.lock:
            return {steps[-1].owner for steps in self.progress.steps.values()}

    def behind(self, end):
        """Partitions without a step after end: their pause may still last."""
        with self.lock:
            return sorted(partition for partition, steps in self.progress.steps.items()
                          if steps[-1].at <= end)

    def pauses(self, begin, end):
        """Once all partitions have gone on after end."""
        def look():
            left = self.behind(end)
            if left:
                raise NotThere(f"partitions {left} do not go on")
            return True
        wait_for("a vote in each partition", look, GO_ON_S)
        with self.lock:
            return self.progress.pauses(begin, end)

    def end(self):
        self.halt.set()
        self.join(30)


def text_of(pauses):
    """One line: the longest pause of partitions that stayed and of those that moved."""
    words = []
    for what, moved in (("kept", False), ("moved", True)):
        times = [pause.seconds for pause in pauses if pause.moved == moved]
        words.append(f"{len(times)} {what}" + (f" {max(times) * 1000:.0f} ms" if times else ""))
    return ", ".join(words)
