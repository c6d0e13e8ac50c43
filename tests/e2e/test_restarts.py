# SPDX-License-Identifier: MIT
"""Everything is killed, one after the other, under load: processes, database, broker. No vote that
was acknowledged is lost, and every total is right."""

import http.client
import json
import pathlib
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

CLIENTS = 6
CONTENTS = 30


class Client(threading.Thread):
    """Votes and takes back without rest; asks again when it has no answer. Its voters are its own,
    so its ledger knows what each last acknowledged vote was."""

    def __init__(self, number, port, stop):
        super().__init__(name=f"client-{number}")
        self.rng = random.Random(number)
        self.number = number
        self.port = port
        self.stop = stop
        self.ledger = {}  # (voter, content): voting, of the last answer with 200
        self.unknown = {}  # asked and not answered yet, as the ledger
        self.trouble = None

    def run(self):
        try:
            while not self.stop.is_set():
                self.vote()
        except Exception as reason:  # pylint: disable=broad-except
            self.trouble = reason

    def vote(self):
        """One array, repeated until it is answered or the test ends."""
        pairs = {(self.rng.randint(1, 40) * 100 + self.number, self.rng.randint(1, CONTENTS)):
                 self.rng.randint(0, 1) for _ in range(self.rng.randint(1, 20))}
        body = json.dumps([{"voterId": v, "contentId": c, "voting": g}
                           for (v, c), g in pairs.items()]).encode()
        while not self.stop.is_set():
            answer = self.ask(body)
            if answer is not None:
                self.ledger.update(pairs)
                for pair in pairs:
                    self.unknown.pop(pair, None)
                return
            self.unknown.update(pairs)
            time.sleep(0.1)

    def ask(self, body):
        """The answer, or None when the result is unknown."""
        try:
            answer = suite.http_call(self.port, "POST", "/v1/votes", body,
                                     {"Content-Type": "application/json"}, seconds=15)
        except (OSError, http.client.HTTPException):
            return None
        if answer.status in (429, 503):
            return None
        if answer.status != 200:
            raise AssertionError(f"{answer.status}: {answer.body[:300]}")
        items = json.loads(answer.body)
        if any("error" in item for item in items):
            raise AssertionError(f"a vote was refused: {answer.body[:300]}")
        return items


class Restarts(suite.Case):
    """Four roles as processes; a second relay and consumer stand by."""

    seconds = 30
    roles = ("serve", "relay", "consume", "rollup")
    settings = {"relay.lease_ms": 2000, "relay.send_timeout_ms": 1000,
                "consumer.batch_rows_max": 200, "rollup.interval_ms": 1000}

    def setUp(self):
        self.stack.sql("INSERT INTO remark (id) VALUES " +
                       ", ".join(f"({n})" for n in range(1, CONTENTS + 1)))
        self.stop = threading.Event()
        self.clients = [Client(n, self.serve.api_port, self.stop) for n in range(CLIENTS)]
        for client in self.clients:
            client.start()
        self.addCleanup(self.stop_clients)

    def stop_clients(self):
        self.stop.set()
        for client in self.clients:
            client.join(60)

    def progress(self):
        """Lets the load run until new votes were applied, so that every kill hits work."""
        def count():
            return self.stack.number("SELECT COUNT(*) FROM vote_document")
        before = count()
        suite.wait_for("new votes to be applied", lambda: count() > before + 50, 60)

    def check(self):
        asked, unknown = {}, {}
        for client in self.clients:
            self.assertIsNone(client.trouble)
            asked.update(client.ledger)
            unknown.update(client.unknown)
        states = {(voter, content): voting for voter, content, voting in
                  self.stack.sql("SELECT voter_id, content_id, voting FROM vote_state")}
        # A vote without an answer at the very end may have happened or not.
        lost = {pair: voting for pair, voting in asked.items()
                if states.get(pair, 0) != voting
                and (pair not in unknown or states.get(pair, 0) != unknown[pair])}
        self.assertEqual(lost, {}, "acknowledged votes were lost")

    def test_nothing_is_lost_when_everything_is_killed_in_turn(self):
        for _ in range(2):
            for role in (self.serve, self.relay, self.consume, self.rollup):
                self.progress()
                role.kill()
                role.start()
        self.progress()
        suite.database().kill()
        suite.database().restart()
        self.progress()
        suite.kafka().restart()
        self.progress()
        self.relay.kill()
        self.consume.kill()
        self.relay.start()
        self.consume.start()
        self.progress()
        suite.wait_for("votes enough to mean something", lambda: any(
            client.trouble for client in self.clients) or sum(
                len(client.ledger) for client in self.clients) > 500, 120)
        self.stop_clients()
        for role in (self.serve, self.relay, self.consume, self.rollup):
            role.wait_ready(60)
        self.stack.wait_drained(60)
        self.check()
        self.stack.wait_rows("vote_document", int(self.stack.number(
            "SELECT SUM(version) FROM vote_state")), 60)
        self.stack.tallybox("rollup", "--once")
        self.stack.tallybox("verify")


if __name__ == "__main__":
    unittest.main()
