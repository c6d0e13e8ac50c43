# SPDX-License-Identifier: MIT
"""Many voters on one content at the same time, through both `serve`: its total is exact at any
moment."""

import threading
import time

import cluster

CLIENTS = 12
SECONDS = 10
VOTER_FIRST = 2 * 10**8
VOTERS = 10**6     # of each client
LOOK_S = 0.05
VOTES = 'tallybox_votes_total{result="changed"}'


class Client(threading.Thread):
    """Gives one vote after the other, and takes every other one back."""

    def __init__(self, number, voter, content, stop):
        super().__init__(daemon=True)
        self.first = VOTER_FIRST + number * VOTERS
        self.voter, self.content, self.stop = voter, content, stop
        self.counted = 0
        self.error = None

    def ask(self, votes):
        """Again until there is an answer, or the time is over."""
        while not self.stop.is_set():
            if self.voter.ask(votes, self.voter.client.ports[0]):
                self.counted += 1
                return

    def run(self):
        voter = self.first
        try:
            while not self.stop.is_set():
                # Every other vote is taken back again.
                for voting in (1, 0) if voter % 2 else (1,):
                    self.ask({(voter, self.content): voting})
                voter += 1
        except Exception as reason:  # pylint: disable=broad-except
            self.error = reason
        finally:
            self.voter.ledger.close()


def counted(controls):
    """How many votes each serve has counted."""
    return {each.name: controls.metrics(each).get(VOTES, 0) for each in cluster.containers("serve")}


def total_and_sum(controls, content):
    """The total of a content and the sum of its votes, at the same moment."""
    return controls.sql("SELECT (SELECT votes FROM vote_count WHERE content_id = %s), "
                       "(SELECT SUM(voting) FROM vote_state WHERE content_id = %s)",
                       [content, content])[0]


def vote_on_one_content(world):
    controls = world.controls
    content = world.load.contents.range[0]
    # The other voters of the run would hide which serve took part.
    world.load.pause(True)
    time.sleep(1)
    before = counted(controls)
    stop = threading.Event()
    clients = [Client(number, world.load.make_voter(f"contender-{number}"), content, stop)
              for number in range(CLIENTS)]
    for client in clients:
        client.start()
    looks, until = 0, time.monotonic() + SECONDS
    try:
        while time.monotonic() < until:
            total, found = total_and_sum(controls, content)
            looks += 1
            if total != found:
                raise AssertionError(f"content {content} has the total {total}, and the sum of its "
                                     f"votes is {found}")
            time.sleep(LOOK_S)
    finally:
        stop.set()
        for client in clients:
            client.join(60)
        after = counted(controls)
        world.load.pause(False)
    errors = [client.error for client in clients if client.error]
    if errors:
        raise AssertionError(f"a voter failed: {errors[0]!r}")
    parts = [after[name] - before.get(name, 0) for name in after]
    ours = sum(client.counted for client in clients)
    if min(parts) <= 0:
        raise AssertionError(f"one of them took no part: {after}")
    return (f"{ours / SECONDS:.0f} votes a second of {CLIENTS} clients, "
            f"{' and '.join(f'{part:.0f}' for part in parts)} changes by each serve, exact {looks} times "
            f"of {looks}")
