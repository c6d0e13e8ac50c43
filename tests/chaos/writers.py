# SPDX-License-Identifier: MIT
"""Who writes while everything breaks: clients of the HTTP API, services that vote with plain SQL,
and a service with events of its own (readers.py has those that read pages, too). Each writes into its ledger what it was told before it goes
on. Voters belong to one writer each, contents and keys to all."""

import base64
import json
import os
import random
import threading
import time
import uuid

import pymysql

import api_client
import clients
import effects
import suite
import ledger

CONTENTS = 40            # remarks that stay, 1 to CONTENTS
ITEMS = 3                # of remarks, 1 to ITEMS
DELETED_PART, MADE_PART = 0.03, 0.2  # of votes: on deleted remarks; on those, and on made ones
KEYS, TASK_KEYS, CALL_KEYS = 60, 30, 12
REFUSED_PART = 0.0015    # of steps
TOPIC_BYTES_MAX = 40000  # of the steps' topic: max.message.bytes
ROW_BYTES_MAX = 100000   # relay.row_bytes_max
VOTE_LANES = ("outbox", "outbox_1", "outbox_2")
STEP_LANES = ("outbox", "orders")
LOCK_WAIT_S = 3
READ_TIMEOUT_S = 12
TASKS_HIGH, TASKS_LOW = 2000, 200
FNV_START, FNV_PRIME = 0xcbf29ce484222325, 0x100000001b3


def lane_of(key, lanes):
    """As outbox_lane_of(): the lane of a key is the same for all writers."""
    value = FNV_START
    for byte in key.encode():
        value = (value ^ byte) * FNV_PRIME % 2**64
    return lanes[value % len(lanes)]


def new_id():
    """A UUID of version 7."""
    value = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xf << 76) | 7 << 76
    return str(uuid.UUID(int=value & ~(3 << 62) | 2 << 62))


def item_of(remark):
    """Of a remark that stays."""
    return 1 + remark % ITEMS


def score_of(remark):
    """Of a remark that stays."""
    return remark * 7 % 11


class QueueLimit:
    """Pauses the writers of tasks, and of rows that may become tasks, while the retry queue is
    long: from TASKS_HIGH tasks until TASKS_LOW are left. Under chaos a key may get rows faster than
    the retry processes publish them; without a limit it never leaves the queue again, and an hour
    measures only how long the queue has become."""

    def __init__(self):
        self.paused = False
        self.pauses = 0

    def update(self, tasks):
        """tasks: the present length of the queue."""
        if tasks <= TASKS_LOW:
            self.paused = False
        elif tasks >= TASKS_HIGH and not self.paused:
            self.paused = True
            self.pauses += 1


class Writer(threading.Thread):
    """Acts until told to stop. `error` is an exception that it must never get."""

    limit = None  # a QueueLimit that pauses this writer

    def __init__(self, name, seed, folder, stop, pause_s):
        super().__init__(name=name)
        self.rng = random.Random(f"{seed} {name}")
        self.number = int(name.rsplit("-", 1)[1])
        self.ledger = ledger.Ledger(folder / f"{name}.ledger")
        self.stop = stop
        self.pause_s = pause_s
        self.votes = 0   # acknowledged
        self.events = 0  # of steps, acknowledged
        self.unknown = 0
        self.error = None

    def run(self):
        try:
            while not self.stop.wait(self.pause_s * self.rng.uniform(0.2, 1.8)):
                if self.limit is None or not self.limit.paused:
                    self.act()
        except Exception as reason:  # pylint: disable=broad-except
            self.error = reason
        finally:
            self.close()
            self.ledger.close()

    def act(self):
        raise NotImplementedError

    def close(self):
        """Ends what is open."""


class Contents:
    """What can be voted on: remarks that stay, and those that an Author makes and deletes. Any
    thread."""

    def __init__(self):
        self.lock = threading.Lock()  # guards made and deleted
        self.made = []
        self.deleted = []  # or about to be

    def add(self, remark):
        with self.lock:
            self.made.append(remark)

    def take_oldest(self):
        """Chooses the remark that is deleted next; None: there is none."""
        with self.lock:
            if not self.made:
                return None
            self.deleted.append(self.made.pop(0))
            return self.deleted[-1]

    def count(self):
        with self.lock:
            return len(self.made)

    def choose(self, rng):
        """Mostly one that stays; now and then one that was deleted lately."""
        with self.lock:
            chance = rng.random()
            if chance < DELETED_PART and self.deleted:
                return rng.choice(self.deleted[-20:])
            if chance < MADE_PART and self.made:
                return rng.choice(self.made)
        return rng.randint(1, CONTENTS)


class ApiVoter(Writer):
    """Posts arrays of votes to one of the APIs. Without an answer it does what clients do: asks
    again, here or there, or does not care any more."""

    def __init__(self, *args, ports, contents):
        super().__init__(*args)
        self.client = api_client.ApiClient(ports)
        self.contents = contents

    def cast(self, votes):
        """{(voter, content): voting}"""
        port = self.rng.choice(self.client.ports)
        for _ in range(4):
            if self.ask(votes, port) or self.stop.is_set() or self.rng.random() < 0.2:
                return
            self.stop.wait(self.rng.uniform(0.05, 0.4))
            port = self.rng.choice(self.client.ports)

    def ask(self, votes, port):
        """True when every vote has its answer."""
        body = [{"voterId": v, "contentId": c, "voting": g} for (v, c), g in votes.items()]
        asked = time.monotonic()
        answer = self.client.ask(port, "POST", "/v1/votes", body,
                                 self.rng.choice((1, 4, READ_TIMEOUT_S)))
        if answer is None:
            self.write_all("unknown", votes)
            return False
        if answer.status in (429, 503):
            # The API says when nothing was done, and is taken at its word.
            self.write_all("refused" if b"nothing was" in answer.body else "unknown", votes)
            return False
        if answer.status != 200:
            raise AssertionError(f"the API answered {answer.status}: {answer.body[:300]}")
        items = json.loads(answer.body)
        if len(items) != len(votes):
            raise AssertionError(f"{len(votes)} votes got {len(items)} answers: "
                                 f"{answer.body[:300]}")
        told = time.monotonic()
        self.ledger.write(*(self.entry_of(vote, item, asked, told)
                            for vote, item in zip(votes.items(), items)))
        self.votes += sum("error" not in item for item in items)
        return True

    @staticmethod
    def entry_of(vote, item, asked, told):
        """What the ledger says of one vote that was answered."""
        (voter, content), voting = vote
        entry = {"what": "vote", "voter": voter, "content": content, "voting": voting,
                 "asked": asked, "told": told}
        if "error" in item:
            if item["error"]["code"] != "deleted":
                raise AssertionError(f"the API refused vote {vote}: {item}")
            return {**entry, "outcome": "deleted"}
        if (item["voterId"], item["contentId"], item["voting"]) != (voter, content, voting):
            raise AssertionError(f"vote {vote} got the answer to another one: {item}")
        return {**entry, "outcome": "ok", "changed": item["changed"], "votes": item["votes"],
                "event": item.get("eventId")}

    def write_all(self, outcome, votes):
        self.ledger.write(*({"what": "vote", "outcome": outcome, "voter": v, "content": c,
                             "voting": g} for (v, c), g in votes.items()))
        if outcome == "unknown":
            self.unknown += len(votes)

    def close(self):
        self.client.close()


class HttpVoter(ApiVoter):
    """A client with many voters."""

    def act(self):
        self.cast({(self.rng.randint(1, 60) * 100 + self.number,
                    self.contents.choose(self.rng)): self.rng.randint(0, 1)
                   for _ in range(self.rng.choice((1, 2, 5, 10, 20)))})


class Deleted(Exception):
    """A content that takes no more votes: the transaction is rolled back."""


class SqlWriter(Writer):
    """Transactions of its own that overlap, roll back, hang open and lose their connection."""

    def __init__(self, *args, database, port):
        super().__init__(*args)
        self.database = database
        self.port = port
        self.connection = None

    def connect(self):
        self.connection = suite.connect(
            self.database, port=self.port, autocommit=False, connect_timeout=3,
            read_timeout=READ_TIMEOUT_S, write_timeout=READ_TIMEOUT_S)
        with self.connection.cursor() as cursor:
            # Order is defined by the row that both lock; a snapshot of before must not rule.
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_S}")

    def close(self):
        if self.connection:
            # A word to the server may be impossible.
            self.connection._force_close()  # pylint: disable=protected-access
        self.connection = None

    def act(self):
        name = str(uuid.uuid4())
        written = {"votes": [], "steps": [], "poison": [], "calls": [], "refused": []}
        outcome = "rolled back"
        try:
            if self.connection is None:
                self.connect()
            with self.connection.cursor() as cursor:
                self.write(cursor, written)
                cursor.execute("INSERT INTO chaos_transaction (id) VALUES (%s)", [name])
                self.hold()
            chance = self.rng.random()
            if chance < 0.12:
                self.connection.rollback()
            elif chance < 0.16:
                self.close()  # with everything open, as a crash would
            else:
                outcome = "unknown"
                self.connection.commit()
                outcome = "committed"
        except Deleted:
            self.roll_back()
        except (pymysql.MySQLError, OSError):
            # Before COMMIT was sent: rolled back, now or when the server notices.
            self.close()
            self.stop.wait(0.2)
        self.ledger.write({"what": "transaction", "outcome": outcome, "id": name, **written})
        if outcome == "committed":
            self.votes += len(written["votes"])
            self.events += len(written["steps"]) + len(written["calls"])
        elif outcome == "unknown":
            self.unknown += len(written["votes"]) + len(written["steps"])

    def roll_back(self):
        try:
            self.connection.rollback()
        except (pymysql.MySQLError, OSError):
            self.close()

    def write(self, cursor, written):
        """The work of one transaction; what it would have happen goes into written."""
        raise NotImplementedError

    def hold(self):
        """Most transactions are short; some stay open for longer than a gap is watched."""
        self.stop.wait(self.rng.choices((0, 0.01, 0.2, 1, 5), (60, 30, 7, 2.5, 0.5))[0])

    def append(self, cursor, table, events):
        """One INSERT of (id, aggregatetype, aggregateid, type, payload, headers)s."""
        marks = ", ".join(["(%s, %s, %s, %s, %s, %s)"] * len(events))
        cursor.execute(
            f"INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload, headers) VALUES "
            f"{marks}", [value for event in events for value in event])


class SqlVoter(SqlWriter):
    """Votes as the API does, with the statements of another application."""

    def __init__(self, *args, contents, **sql):
        super().__init__(*args, **sql)
        self.contents = contents

    def hold(self):
        # It holds the rows that every voter of these contents needs.
        self.stop.wait(self.rng.choices((0, 0.01, 0.1, 1.2), (70, 20, 8, 2))[0])

    def write(self, cursor, written):
        contents = {self.contents.choose(self.rng) for _ in range(self.rng.choice((1, 1, 2)))}
        for content in sorted(contents):
            cursor.execute("INSERT INTO vote_count (content_id, votes) VALUES (%s, 0) "
                           "ON DUPLICATE KEY UPDATE votes = vote_count.votes", [content])
            cursor.execute("SELECT votes FROM vote_count WHERE content_id = %s FOR UPDATE",
                           [content])
            votes = cursor.fetchone()[0]
            cursor.execute("SELECT 1 FROM deleted_content WHERE content_id = %s", [content])
            if cursor.fetchone():
                raise Deleted(content)
            events = []
            for voter in sorted(self.rng.sample(range(1, 31), self.rng.choice((1, 1, 3)))):
                votes, event = self.vote(cursor, voter * 100 + 50 + self.number, content, votes,
                                         written)
                events.append(event)
            cursor.execute("UPDATE vote_count SET votes = %s WHERE content_id = %s",
                           [votes, content])
            self.append(cursor, lane_of(str(content), VOTE_LANES), events)

    def vote(self, cursor, voter, content, votes, written):
        """Turns this voter's vote round; the new total and the event."""
        cursor.execute("SELECT voting, version, UNIX_TIMESTAMP(UTC_TIMESTAMP(3)) "
                       "FROM (SELECT 1) one LEFT JOIN vote_state ON voter_id = %s "
                       "AND content_id = %s", [voter, content])
        voting, version, now_s = cursor.fetchone()
        voting, version = 1 - (voting or 0), (version or 0) + 1
        votes += 1 if voting else -1
        event = new_id()
        cursor.execute(
            "INSERT INTO vote_state (voter_id, content_id, voting, version, event_id) "
            "VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE voting = VALUES(voting), "
            "version = VALUES(version), event_id = VALUES(event_id)",
            [voter, content, voting, version, uuid.UUID(event).bytes])
        written["votes"].append([voter, content, voting, votes, event])
        return votes, (event, "vote", str(content), "Voted", json.dumps({
            "eventId": event, "voterId": voter, "contentId": content, "voting": voting,
            "votes": votes, "occurredAt": int(now_s * 1000)}), None)


def poisoned_row(rng, n):
    """Payload and headers of a row that is refused; the number is the first word of the
    payload."""
    kind = rng.choice(("topic", "row", "headers"))
    if kind == "headers":
        return str(n), rng.choice(('["no object"]', '{"a": 1}', "{"))
    junk = ROW_BYTES_MAX if kind == "row" else TOPIC_BYTES_MAX
    return f"{n} {base64.b64encode(rng.randbytes(junk)).decode()}", None


class Stepper(SqlWriter):
    """Numbers the steps of keys under a lock and appends them, several in one INSERT. A few rows
    cannot be published as they stand: above the topic's limit or the relay's, or with headers that
    are none."""

    def write(self, cursor, written):
        for key in sorted(self.rng.sample(range(KEYS), self.rng.choice((1, 1, 1, 2, 3)))):
            name = f"key-{key}"
            count = self.rng.choice((1, 1, 2, 4, 7))
            cursor.execute("UPDATE chaos_counter SET n = n + %s WHERE k = %s", [count, name])
            cursor.execute("SELECT n FROM chaos_counter WHERE k = %s", [name])
            last = cursor.fetchone()[0]
            steps = [[name, n, new_id()] for n in range(last - count + 1, last + 1)]
            rows = []
            for _, n, event in steps:
                payload, headers = str(n), None
                if self.rng.random() < REFUSED_PART:
                    payload, headers = poisoned_row(self.rng, n)
                    written["refused"].append(event)
                rows.append((event, "step", name, "Stepped", payload, headers))
            self.append(cursor, lane_of(name, STEP_LANES), rows)
            written["steps"] += steps
            if self.rng.random() < 0.1:
                self.hold()


class Submitter(SqlWriter):
    """Tasks of the retry queue that publish numbers: the steps of keys, numbered under a lock; some
    without a key; and some that can never be done and block their key until the operator decides."""

    def __init__(self, *args, topic, **sql):
        super().__init__(*args, **sql)
        self.topic = topic

    def write(self, cursor, written):
        rows = []
        for key in sorted(self.rng.sample(range(TASK_KEYS), self.rng.choice((1, 1, 2)))):
            name = f"task-{key}"
            count = self.rng.choice((1, 1, 3))
            cursor.execute("UPDATE chaos_counter SET n = n + %s WHERE k = %s", [count, name])
            cursor.execute("SELECT n FROM chaos_counter WHERE k = %s", [name])
            last = cursor.fetchone()[0]
            for n in range(last - count + 1, last + 1):
                if self.rng.random() < 0.02:
                    rows.append(self.poison(name, written))
                rows.append(self.step(name, name, n, written))
        if self.rng.random() < 0.4:
            rows.append(self.step(None, f"free-{new_id()}", 1, written))
        marks = ", ".join(["(%s, 'kafka', %s, %s, %s, %s)"] * len(rows))
        cursor.execute("INSERT INTO retry_task (scene, handler, ordering_key, idempotency_key, "
                       f"options, params) VALUES {marks}",
                       [value for row in rows for value in row])

    def step(self, ordering_key, key, n, written):
        event = new_id()
        written["steps"].append([key, n, event])
        options = {"topic": self.topic, "key": key, "headers": [["id", event]]}
        return "step", ordering_key, event, json.dumps(options), str(n)

    def poison(self, name, written):
        event = new_id()
        written["poison"].append(event)
        return (self.rng.choice(("parked", "blocked")), name, event,
                json.dumps({"topic": "no topic"}), "")


class Caller(SqlWriter):
    """Tasks for the handlers http and exec: numbers of keys, counted under a lock; a few are never
    accepted and block their key until the operator decides."""

    def __init__(self, *args, url, program, **sql):
        super().__init__(*args, **sql)
        self.options = {
            "http": json.dumps({"url": url, "timeout": effects.TIMEOUT}),
            "exec": json.dumps({"program": program, "timeout": effects.TIMEOUT})}

    def write(self, cursor, written):
        rows = []
        for key in sorted(self.rng.sample(range(CALL_KEYS), self.rng.choice((1, 1, 2)))):
            handler = "exec" if key % 3 == 0 else "http"  # a program costs more
            name = f"{handler}-{key}"
            count = self.rng.choice((1, 1, 3))
            cursor.execute("UPDATE chaos_counter SET n = n + %s WHERE k = %s", [count, name])
            cursor.execute("SELECT n FROM chaos_counter WHERE k = %s", [name])
            last = cursor.fetchone()[0]
            for n in range(last - count + 1, last + 1):
                if self.rng.random() < 0.01:
                    event = new_id()
                    written["poison"].append(event)
                    rows.append((self.rng.choice(("parked", "blocked")), handler, name, event,
                                 self.options[handler], f"{name} 0 {effects.REFUSED}\n"))
                event = new_id()
                written["calls"].append([handler, name, n, event])
                rows.append(("call", handler, name, event, self.options[handler], f"{name} {n}\n"))
        marks = ", ".join(["(%s, %s, %s, %s, %s, %s, 'text/plain')"] * len(rows))
        cursor.execute("INSERT INTO retry_task (scene, handler, ordering_key, idempotency_key, "
                       f"options, params, params_type) VALUES {marks}",
                       [value for row in rows for value in row])


class TaskClient(Writer):
    """An application that hands work over through the API: the numbers of its own keys, for the
    registered clients and for the server of `http`, which serve itself calls first. The next one of a
    key begins when the one before was accepted; without an answer the same is sent again under its
    idempotency key."""

    KEYS = 4  # of each sort

    def __init__(self, *args, ports, url):
        super().__init__(*args)
        self.client = api_client.ApiClient(ports)
        self.sorts = {
            "client": ("call", "/v1/tasks", clients.OPTIONS),
            "http": ("first", "/v1/tasks?try=1", {"url": url, "timeout": effects.TIMEOUT})}
        self.next = {(sort, n): 1 for sort in self.sorts for n in range(self.KEYS)}

    def act(self):
        sort, at = self.rng.choice(list(self.next))
        scene, path, options = self.sorts[sort]
        key, n = f"{scene}-{self.number}-{at}", self.next[sort, at]
        self.next[sort, at] += 1
        event = new_id()
        entry = {"what": "call", "handler": sort, "key": key, "n": n, "event": event}
        self.ledger.write({**entry, "outcome": "asked"})
        body = {"group": clients.GROUP, "scene": scene, "handler": "http", "orderingKey": key,
                "idempotencyKey": event, "options": options, "paramsType": "text/plain",
                "paramsBase64": base64.b64encode(f"{key} {n}\n".encode()).decode()}
        while not self.submit(path, body, entry):
            if self.stop.wait(self.rng.uniform(0.05, 0.5)):
                return
        self.ledger.write({**entry, "outcome": "accepted"})
        self.events += 1

    def submit(self, path, body, entry):
        """True when the task is accepted."""
        answer = self.client.ask(self.rng.choice(self.client.ports), "POST", path, body,
                                 self.rng.choice((1, 4, READ_TIMEOUT_S)))
        if answer is None:
            self.unknown += 1
            return False
        if answer.status in (429, 503) or (
                answer.status == 403 and b"is disabled" in answer.body):
            return False
        ticket = json.loads(answer.body)
        if answer.status not in (200, 201, 202) or ticket["id"] <= 0 \
                or "exhausted" in (ticket.get("outcome"), ticket.get("state")):
            raise AssertionError(f"a task was answered {answer.status}: {answer.body[:300]}")
        if ticket.get("tried"):
            self.ledger.write({**entry, "outcome": "tried", "done": ticket.get("state") == "done"})
        return True

    def close(self):
        self.client.close()


LANE_SCENE = {"wait": "random 50ms 2s", "attempts": 0, "stop": ["refused"], "lease": "4s"}
TASK_SCENES = {
    "step": {"wait": "random 50ms 2s", "attempts": 0, "stop": [], "lease": "4s"},
    "call": {"wait": "random 50ms 2s", "attempts": 0, "stop": [], "lease": "4s"},
    "parked": {"wait": "fixed 100ms", "attempts": 2, "stop": [], "exhausted": "park",
               "lease": "4s"},
    "blocked": {"exhausted": "block", "lease": "4s"},
}

TABLES = (
    "CREATE TABLE outbox_1 LIKE outbox",
    "CREATE TABLE outbox_2 LIKE outbox",
    "CREATE TABLE orders LIKE outbox",
    "CREATE TABLE chaos_counter (k VARCHAR(20) PRIMARY KEY, n BIGINT NOT NULL)",
    "CREATE TABLE chaos_transaction (id CHAR(36) CHARACTER SET ascii PRIMARY KEY)",
    "INSERT INTO chaos_counter VALUES " + ", ".join(f"('key-{key}', 0)" for key in range(KEYS)),
    "INSERT INTO chaos_counter VALUES "
    + ", ".join(f"('task-{key}', 0)" for key in range(TASK_KEYS)),
    "INSERT INTO chaos_counter VALUES "
    + ", ".join(f"('{'http' if key % 3 else 'exec'}-{key}', 0)" for key in range(CALL_KEYS)),
    "INSERT INTO retry_scene (task_group, scene, policy) VALUES "
    + ", ".join(f"('default', '{scene}', '{json.dumps(policy)}')"
                for scene, policy in TASK_SCENES.items()),
    "INSERT INTO retry_scene (task_group, scene, policy) VALUES "
    + ", ".join(f"('{lane}', 'publish', '{json.dumps(LANE_SCENE)}')" for lane in STEP_LANES),
    "INSERT INTO remark (id, item_id, score, status) VALUES "
    + ", ".join(f"({n}, {item_of(n)}, {score_of(n)}, 1)" for n in range(1, CONTENTS + 1)),
)
