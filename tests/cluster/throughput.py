# SPDX-License-Identifier: MIT
"""How fast a backlog of votes is applied by 1, 2, 3 and 6 consumers, with the database near and with
one that answers 20 ms later, as one far away does. On two cores a near database does not get faster
by more consumers; a far one does, because they wait for it at the same time. Whether they do is
checked; the rates depend on what else the machine does, and are told."""

import collections
import threading
import time

import cluster
import far_database
from waiting import wait_for

BACKLOG = 40000
FILLERS, ARRAY = 4, 1000
VOTER_FIRST = 10**8
COUNTS = (1, 2, 3, 6)
WAIT_S = 600
# In transactions of so few votes, the wait for the database is most of the time.
FAR_SETTINGS = {"TALLYBOX_CONSUMER_BATCH_ROWS_MAX": "500"}
# Transactions of consumers that are open and do not wait for a lock of a row. Not by innodb_trx: MySQL
# cannot convert the bytes of their statements (3854).
AT_WORK = ("SELECT COUNT(*) FROM performance_schema.events_transactions_current "
           "JOIN performance_schema.threads USING (thread_id) "
           "WHERE state = 'ACTIVE' AND processlist_user = 'tallybox_consume' AND thread_id NOT IN "
           "(SELECT requesting_thread_id FROM performance_schema.data_lock_waits "
           "WHERE requesting_thread_id IS NOT NULL)")

# Rows a second, and the most transactions that were at work at the same time.
Measured = collections.namedtuple("Measured", "rate together")


class Filler(threading.Thread):
    """Votes that are all new, in large arrays."""

    def __init__(self, voter, first, count):
        super().__init__(daemon=True)
        self.voter, self.first, self.count = voter, first, count
        self.error = None

    def run(self):
        try:
            for begin in range(0, self.count, ARRAY):
                numbers = range(self.first + begin, self.first + min(begin + ARRAY, self.count))
                contents = self.voter.contents.range
                votes = {(VOTER_FIRST + number, contents[number % len(contents)]): 1
                         for number in numbers}
                while not self.voter.ask(votes, self.voter.client.ports[0]):
                    time.sleep(0.1)
        except Exception as reason:  # pylint: disable=broad-except
            self.error = reason


class Throughput:
    """Of one run of the scenarios."""

    def __init__(self, world):
        self.world = world
        self.controls = world.controls
        self.next = 0

    def fill(self):
        """A backlog in the outbox, while no relay runs."""
        part = BACKLOG // FILLERS
        fillers = []
        for number in range(FILLERS):
            fillers.append(Filler(self.world.load.make_voter(f"filler-{self.next + number}"),
                                  self.next * BACKLOG + number * part, part))
        self.next += FILLERS
        for filler in fillers:
            filler.start()
        for filler in fillers:
            filler.join(WAIT_S)
            if filler.error or filler.is_alive():
                raise AssertionError(f"a backlog could not be made: {filler.error!r}")
            filler.voter.ledger.close()

    def applied(self):
        return self.controls.number("SELECT COALESCE(SUM(next_offset), 0) FROM consumer_progress")

    def measure(self, count, far=None):
        """From the first twentieth until nine tenths of the backlog are applied. The consumers have
        shared the partitions before they get it."""
        world = self.world
        self.controls.replace("consume", count, FAR_SETTINGS if far else None)
        world.wait_shared("partitions", world.shares_of_partitions, world.fair(world.partitions, count))
        if far:
            far.route(*cluster.containers("consume"))
        self.controls.scale("relay", 0)
        self.fill()
        before = self.applied()
        self.controls.scale("relay", 2)
        wait_for("the first batches", lambda: self.applied() > before + BACKLOG // 20, WAIT_S, 0.02)
        begin, first = time.monotonic(), self.applied()
        together = 0

        def look():
            nonlocal together
            together = max(together, self.controls.number(AT_WORK))
            return self.applied() >= before + BACKLOG * 9 // 10

        wait_for("the backlog in the log", look, WAIT_S, 0.02)
        return Measured((self.applied() - first) / (time.monotonic() - begin), together)

    def table(self):
        far = far_database.FarDatabase(self.controls)
        try:
            near = {count: self.measure(count) for count in COUNTS}
            far.start()
            far.order("slow")
            away = {count: self.measure(count, far) for count in COUNTS}
        finally:
            far.close()
            self.controls.scale("relay", 2)
            self.controls.scale("consume", 0)
            self.controls.replace("consume", 3)
        return near, away


def measure(world):
    near, away = Throughput(world).table()
    lines = [f"{name}: " + ", ".join(
        f"{count} consumers {seen.rate:.0f}/s ({seen.together} transactions at a time)"
        for count, seen in measured.items()) for name, measured in (("near", near), ("20 ms away", away))]
    world.say("  " + "; ".join(lines))
    # Consumers that wait one after the other have two at a time: one has begun when another one ends.
    if away[6].together < 4:
        raise AssertionError(f"six consumers of a far database have at most {away[6].together} "
                             "transactions at work at a time: they wait one after the other")
    return "; ".join(lines)
