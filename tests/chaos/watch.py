# SPDX-License-Identifier: MIT
"""Watches a run from beside it: how long a killed relay's lanes and a killed consumer's partitions
take to move on, and how much memory each process needs."""

import collections
import pathlib
import statistics
import threading
import time

import pymysql

import suite

LOOK_S = 0.1
SAMPLE_S = 1.0
LOOKS = 5  # at a life's memory
# From the second fifth of the longest life to the last: what caches and buffers may still take, and
# a leak of an hour may not.
GROWTH_MIB, GROWTH_PART = 12, 0.25
GROWTH_SAMPLES_MIN = 30
Move = collections.namedtuple("Move", "seconds quiet")


def read_memory(pid):
    """(now, peak) in MiB, or None when it is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        values = dict(line.split(":", 1) for line in status.splitlines())
        return tuple(int(values[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    except (OSError, KeyError):
        return None


def span(samples):
    """Seconds from the first to the last."""
    return samples[-1][0] - samples[0][0]


def fifth(samples, number):
    """One of LOOKS parts, by number from 0."""
    return samples[len(samples) * number // LOOKS:len(samples) * (number + 1) // LOOKS]


class Memory:
    """Samples of every process that lived."""

    def __init__(self):
        self.lives = collections.defaultdict(list)  # (name, pid): [(time, MiB)]
        self.peaks = collections.defaultdict(float)  # name: MiB

    def sample(self, roles):
        for name, role in roles.items():
            memory = read_memory(role.pid) if role.alive() else None
            if memory:
                self.lives[name, role.pid].append((time.monotonic(), memory[0]))
                self.peaks[name] = max(self.peaks[name], memory[1])

    def longest(self):
        """{kind: samples of the longest life of any process of the kind}."""
        found = {}
        for (name, _), samples in self.lives.items():
            kind = name.split("-")[0]
            if kind not in found or span(samples) > span(found[kind]):
                found[kind] = samples
        return found

    def violations(self):
        """A sentence for each kind of role whose memory goes on growing."""
        said = []
        for kind, samples in sorted(self.longest().items()):
            if len(samples) < GROWTH_SAMPLES_MIN:
                continue
            second, last = (statistics.median(mib for _, mib in fifth(samples, n)) for n in (1, 4))
            if last > second + max(GROWTH_MIB, GROWTH_PART * second):
                said.append(f"memory of {kind} grew from {second:.1f} MiB in the second fifth of "
                            f"{span(samples):.0f} s to {last:.1f} MiB in the last")
        return said

    def text(self):
        """A line per kind of role; its longest life tells whether memory goes on growing."""
        lines = []
        for kind, longest in sorted(self.longest().items()):
            peak = max(mib for name, mib in self.peaks.items() if name.startswith(kind + "-"))
            looks = [f"{statistics.median(mib for _, mib in fifth(longest, n)):.1f}"
                     for n in range(LOOKS) if len(longest) >= LOOKS]
            lines.append(f"memory of {kind}: peak {peak:.1f} MiB; longest life "
                         f"{span(longest):.0f} s, the median of each fifth: {' '.join(looks)}")
        return lines


class Watch(threading.Thread):
    """Looks at leases, progress and memory until told to stop."""

    def __init__(self, world):
        super().__init__(name="watch", daemon=True)
        self.world = world
        self.stop = threading.Event()
        self.lock = threading.Lock()  # guards owners, waiting, moves and quiet
        self.owners = {}              # ("lane", name) or ("partition", ...): owner
        self.waiting = {}             # the same: (owner that was killed, when)
        self.moves = {"lane": [], "partition": []}
        self.quiet = False            # nothing but the kills of relays and consumers happens
        self.memory = Memory()
        self.connection = None

    def begin_quiet(self):
        """From now on moves tell what lease and session do; what waits still is of before."""
        with self.lock:
            self.quiet = True
            self.waiting.clear()

    def owns(self, pid):
        """How many lanes or partitions a process holds."""
        with self.lock:
            return sum(f"-{pid}-" in owner for owner in self.owners.values())

    def moved(self):
        """Whether all that killed processes held has gone to others."""
        with self.lock:
            return not self.waiting

    def killed(self, name, pid):
        """What the process held has to move on from now."""
        mark = f"-{pid}-"
        now = time.monotonic()
        with self.lock:
            for thing, owner in self.owners.items():
                if mark in owner and name.startswith(
                        "relay" if thing[0] == "lane" else "consume"):
                    self.waiting[thing] = owner, now

    def run(self):
        sampled = 0
        while not self.stop.wait(LOOK_S):
            if time.monotonic() - sampled > SAMPLE_S:
                sampled = time.monotonic()
                self.memory.sample(dict(self.world.roles))
            try:
                self.look()
            except (pymysql.MySQLError, OSError):
                self.hang_up()
        self.hang_up()

    def hang_up(self):
        if self.connection:
            self.connection._force_close()  # pylint: disable=protected-access
        self.connection = None

    def look(self):
        if self.connection is None:
            self.connection = suite.connect(self.world.stack.name, connect_timeout=2,
                                            read_timeout=3)
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT lane, owner FROM relay_lease")
            owners = {("lane", lane): owner for lane, owner in cursor.fetchall()}
            cursor.execute("SELECT topic, partition_id, owner FROM consumer_progress")
            owners.update({("partition", topic, number): owner
                           for topic, number, owner in cursor.fetchall()})
        self.note(owners, time.monotonic())

    def note(self, owners, now):
        """Who holds what now."""
        with self.lock:
            self.owners = owners
            for thing, (owner, since) in list(self.waiting.items()):
                if owners.get(thing) not in (owner, ""):
                    del self.waiting[thing]
                    self.moves[thing[0]].append(Move(now - since, self.quiet))

    def end(self):
        self.stop.set()
        self.join(20)

    def text(self):
        lines = []
        for kind, moves in self.moves.items():
            parts = [f"{when} {len(times)}" + (
                f", max {max(times):.1f} s, median {statistics.median(times):.1f} s"
                if times else "")
                for when, times in (
                    ("in quiet", [move.seconds for move in moves if move.quiet]),
                    ("under other faults", [m.seconds for m in moves if not m.quiet]))]
            lines.append(f"moves of a killed process's {kind}s: {'; '.join(parts)}")
        return lines + self.memory.text()
