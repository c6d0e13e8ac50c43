# SPDX-License-Identifier: MIT
"""How fast a backlog of votes is applied by 1, 2, 3 and 6 consumers, with the database near and with
one that answers 20 ms later, as one far away does. On two cores a near database does not get faster
by more consumers; a far one does, because each of them waits by itself."""

import json
import pathlib
import subprocess
import sys
import threading
import time

import cluster
import load
from ports import free_port
from waiting import NotThere, wait_for

PROXY = pathlib.Path(__file__).resolve().parents[1] / "chaos" / "proxy.py"
BACKLOG = 40000
FILLERS, ARRAY = 4, 1000
VOTER_FIRST = 10**8
FAR_S = 0.01  # for each of the two directions
COUNTS = (1, 2, 3, 6)
WAIT_S = 600


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


class Far:
    """The database behind a proxy that delays each piece, for the consumers alone."""

    def __init__(self, controls):
        self.controls = controls
        self.process = self.port = self.gateway = None

    def start(self):
        network = json.loads(cluster.docker("network", "inspect", cluster.NETWORK))[0]
        self.port = free_port()
        self.gateway = network["IPAM"]["Config"][0]["Gateway"]
        links = {"database": [f"{self.gateway}:{self.port}", f"{self.address}:3306"]}
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", sys.executable, "-B", str(PROXY), json.dumps(links)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "listening\n":
            raise RuntimeError("the proxy did not start")
        order = {"link": "database", "do": "slow", "seconds": 86400, "delay": FAR_S}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    @property
    def address(self):
        return self.controls.one(self.controls.primary).address

    def lead(self, container):
        """From now on this container's new connections to the database go through the proxy."""
        self.controls.iptables(
            container, "-t", "nat", "-I", "OUTPUT", "-p", "tcp", "-d", self.address,
            "--dport", "3306", "-j", "DNAT", "--to-destination", f"{self.gateway}:{self.port}")

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait(20)
            self.process.stdin.close()
            self.process.stdout.close()


class Throughput:
    """Of one run of the scenarios."""

    def __init__(self, world):
        self.world = world
        self.controls = world.controls
        self.next = 0

    def fill(self):
        """A backlog in Kafka, while no consumer runs."""
        self.controls.scale("consume", 0)
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

        def published():
            left = sum(self.controls.number(f"SELECT COUNT(*) FROM {lane}") for lane in load.LANES)
            if left > 1000:
                raise NotThere(f"{left} rows are not published")
            return True
        wait_for("the backlog in Kafka", published, WAIT_S, 0.5)

    def applied(self):
        return self.controls.number("SELECT COALESCE(SUM(next_offset), 0) FROM consumer_progress")

    def measure(self, count, far=None):
        """Rows a second, from the first batch until nine tenths of the backlog are applied."""
        self.fill()
        before = self.applied()
        self.controls.scale("consume", count)
        for container in cluster.containers("consume") if far else ():
            far.lead(container)
        wait_for("the first batch", lambda: self.applied() > before + BACKLOG // 20, WAIT_S, 0.02)
        begin, first = time.monotonic(), self.applied()
        wait_for("the backlog in the log", lambda: self.applied() >= before + BACKLOG * 9 // 10,
                 WAIT_S, 0.02)
        return (self.applied() - first) / (time.monotonic() - begin)

    def table(self):
        far = Far(self.controls)
        try:
            near = {count: self.measure(count) for count in COUNTS}
            far.start()
            away = {count: self.measure(count, far) for count in COUNTS}
        finally:
            far.close()
            self.controls.scale("consume", 0)
            self.controls.scale("consume", 3)
        return near, away


def measure(world):
    near, away = Throughput(world).table()
    if away[6] < 2 * away[1]:
        raise AssertionError(f"six consumers of a far database apply {away[6]:.0f} rows a second, one "
                             f"{away[1]:.0f}: they do not share the waits")
    lines = [f"{name}: " + ", ".join(f"{count} consumers {rate:.0f}/s" for count, rate in
                                     rates.items())
             for name, rates in (("near", near), ("20 ms away", away))]
    return "; ".join(lines)
