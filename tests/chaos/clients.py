# SPDX-License-Identifier: MIT
"""Clients of the retry queue's registry: they join, leave, hang and answer wrongly. They share one
ledger of effects, so that the order of a key can be judged across them."""

import json
import random
import threading
import time

import api_client
import effects

GROUP = api_client.GROUP
ROUTES = ("round_robin", "random", "consistent_hash", "lru", "two_choices")
COUNT = 3
BEAT_S = 3
MOODS = {"good": 8, "away": 2, "hangs": 2, "wrong": 3}
GOOD_S, BAD_S = (2, 12), (0.5, 6)
HANG_S = 3  # longer than effects.TIMEOUT
WRONG = ((200, b'{"code":7}'), (200, b'{"code":'), (200, b""), (200, b"done"), (204, b""),
         (302, b""), (200, b'{"code":"0"}'), (500, b'{"code":0}'), ("garbage", b""), ("half", b""))
OPTIONS = {"path": "/", "timeout": effects.TIMEOUT, "ok": {"/code": 0}}
POLICY = {"wait": "random 50ms 2s", "attempts": 0, "stop": [], "lease": "4s", "dedup": "1h"}


def group_of(seed):
    """(route, policy of its scene): seeds meet different ones."""
    rng = random.Random(f"{seed} group of clients")
    rate = {"rate": "20/s burst 40 per client"} if rng.random() < 0.3 else {}
    return rng.choice(ROUTES), {**POLICY, **rate}


def rows(seed):
    """Statements that make the group and its scenes, with their arguments."""
    route, policy = group_of(seed)
    yield "INSERT INTO retry_group (name, handlers, scenes, route) VALUES (%s, 'http', '*', %s)", [
        GROUP, route]
    # A scene with a rate is not tried first.
    for scene, its in {"call": policy, "config": policy, "first": POLICY}.items():
        yield "INSERT INTO retry_scene (task_group, scene, policy) VALUES (%s, %s, %s)", [
            GROUP, scene, json.dumps(its)]


class Client(effects.Server):
    """One instance of an application. It can be started again on its port after close()."""

    mood = "good"

    def fate(self):
        """Before its effect, how long it takes, behind its effect."""
        if self.mood == "hangs":
            return "hang", HANG_S, None
        if self.mood == "wrong":
            return random.choice(WRONG), 0, None
        return None, 0, None


class Clients(threading.Thread):
    """All instances, with the beats of each. stop() leaves them as good ones."""

    def __init__(self, ledgers, seed):
        super().__init__(name="clients", daemon=True)
        self.rng = random.Random(f"{seed} clients")
        self.route = group_of(seed)[0]
        self.record = effects.Record(ledgers, "client")
        self.servers = [Client(self.record) for _ in range(COUNT)]
        self.ports = [server.server_port for server in self.servers]
        self.until = [0.0] * COUNT   # seconds since the start of the thread
        self.beat_at = [0.0] * COUNT
        self.beats = self.moods = 0
        self.api = None
        self.error = None
        self.healthy = threading.Event()
        self.ended = threading.Event()

    @property
    def hosts(self):
        return [f"127.0.0.1:{port}" for port in self.ports]

    @property
    def pushed(self):
        return self.record.pushes

    def text(self):
        return (f"clients of the group {GROUP}: route {self.route}; away, hanging or wrong "
                f"{self.moods} times; {self.beats} beats; {self.pushed} pushed configurations")

    def begin(self, ports):
        """ports: of the APIs."""
        self.api = api_client.ApiClient(ports)
        self.start()

    def run(self):
        began = time.monotonic()
        try:
            while not self.ended.wait(0.1):
                for n in range(COUNT):
                    self.live(n, time.monotonic() - began)
        except Exception as reason:  # pylint: disable=broad-except
            self.error = reason
        finally:
            self.api.close()

    def live(self, n, now):
        """One step of one client."""
        if self.healthy.is_set():
            self.change(n, "good")
        elif now >= self.until[n]:
            good = self.servers[n] and self.servers[n].mood == "good"
            mood = self.rng.choices(list(MOODS), list(MOODS.values()))[0] if good else "good"
            self.until[n] = now + self.rng.uniform(*(GOOD_S if mood == "good" else BAD_S))
            self.moods += mood != "good"
            self.change(n, mood)
        if self.servers[n] and now >= self.beat_at[n]:
            # Without an answer, again at once: a server may have been killed.
            self.beat_at[n] = now + (BEAT_S if self.beat(n) else 0.2)

    def change(self, n, mood):
        if mood == "away":
            if self.servers[n]:
                self.servers[n].close()
            self.servers[n] = None
            return
        if self.servers[n] is None:
            self.servers[n] = Client(self.record, self.ports[n])
        self.servers[n].mood = mood

    def beat(self, n):
        body = {"group": GROUP, "address": f"http://{self.hosts[n]}", "version": str(n),
                "failedReports": self.rng.choice((0, 0, 1))}
        answer = self.api.ask(self.rng.choice(self.api.ports), "POST", "/v1/clients/beat", body, 2)
        if answer is None or answer.status in (429, 503):
            return False
        if answer.status != 200:
            raise AssertionError(f"a beat was answered {answer.status}: {answer.body[:300]}")
        if json.loads(answer.body)["expiresMs"] < BEAT_S * 1000:
            raise AssertionError(f"a beat was answered {answer.body[:300]}")
        self.beats += 1
        return True

    def close(self):
        self.ended.set()
        if self.ident:
            self.join(20)
        for server in filter(None, self.servers):
            server.close()
        self.record.close()
