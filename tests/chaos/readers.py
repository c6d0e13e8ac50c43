# SPDX-License-Identifier: MIT
"""Who reads lists of remarks while everything breaks, who makes and deletes the remarks, who changes
the weights of ranks, and a record of the rolled-up votes, by which the order of a list is judged.

Readers only write down what was answered; judge_reads.py judges it."""

import collections
import json
import random
import threading
import time

import pymysql

import api_client
import suite
import ledger
import writers

READER_VOTERS, AUTHOR_VOTER = 1000000, 2000000  # beside those of other writers
DAY_MS = 86400000
GENERATION_S = 25       # then a reader goes on as another voter, of whom all votes are known
PAGES_MAX = 100
TRIES_MAX = 4           # of one page
MADE_MAX = 24           # remarks at a time, beside those that stay
LOOK_S = 0.2
RANK_WEIGHTS = ((1, 0, 0), (10, 3, 0), (1, 5, 40000), (0, 1, 0))  # votes, score, age
AUTHOR_TRIES_MAX = 200


def page_path(item, sort, limit, cursor=None, voter=None):
    path = f"/v1/remarks?itemId={item}&sort={sort}&limit={limit}"
    if cursor:
        path += f"&cursor={cursor}"
    return path + (f"&voterId={voter}" if voter else "")


def list_path(item, start, stop, voter=None):
    path = f"/v1/items/{item}/recommended?start={start}&stop={stop}"
    return path + (f"&voterId={voter}" if voter else "")


def row_of(remark):
    """What the ledger says of a remark in an answer."""
    return [remark["id"], remark["itemId"], remark["votes"], remark.get("voting")]


class Reader(writers.ApiVoter):
    """Reads pages and recommended lists from either process, and votes as one voter at a time."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.began = time.monotonic()
        self.reads = 0  # answers

    @property
    def voter(self):
        generation = int((time.monotonic() - self.began) / GENERATION_S)
        return READER_VOTERS + self.number * 10000 + generation

    def act(self):
        act = self.rng.choices((self.read_pages, self.read_list, self.vote), (45, 30, 25))[0]
        act()

    def vote(self):
        self.cast({(self.voter, self.contents.choose(self.rng)): self.rng.randint(0, 1)
                   for _ in range(self.rng.choice((1, 2, 5)))})

    def get(self, path, refusals=()):
        """(seconds when it was asked, when it was answered, status, answer), or None."""
        for _ in range(TRIES_MAX):
            asked = time.monotonic()
            answer = self.client.ask(self.rng.choice(self.client.ports), "GET", path,
                                     seconds=self.rng.choice((2, writers.READ_TIMEOUT_S)))
            if answer and answer.status not in (429, 503):
                if answer.status != 200 and answer.status not in refusals:
                    raise AssertionError(f"GET {path}: {answer.status} {answer.body[:300]}")
                self.reads += 1
                return asked, time.monotonic(), answer.status, json.loads(answer.body)
            if self.stop.wait(self.rng.uniform(0.05, 0.4)):
                break
        return None

    def read_pages(self):
        """A whole list, page by page; it ends early without an answer, and when its cursor has
        expired."""
        item, sort = self.rng.randint(1, writers.ITEMS), self.rng.choice(("newest", "votes"))
        limit = self.rng.choice((3, 7, 20))
        voter = self.voter if self.rng.random() < 0.6 else None
        pause = self.rng.choice((0, 0, 0, 0.2))
        pages, cursor, end = [], None, "short"
        while len(pages) < PAGES_MAX:
            got = self.get(page_path(item, sort, limit, cursor, voter),
                           (410,) if cursor and sort == "votes" else ())
            if got is None:
                break
            asked, told, status, page = got
            if status == 410:
                end = "expired"
                break
            pages.append({"asked": asked, "told": told, "stale": page["stale"],
                          "next": page["next"], "live": page["totalsAgeMs"] is not None,
                          "remarks": [row_of(remark) for remark in page["remarks"]]})
            cursor = page["next"]
            if cursor is None:
                end = "whole"
                break
            self.stop.wait(pause)
        if pages:
            self.ledger.write({"what": "paging", "item": item, "sort": sort, "limit": limit,
                               "voter": voter, "end": end, "pages": pages})

    def read_list(self):
        item = self.rng.randint(1, writers.ITEMS)
        start = self.rng.choice((0, 0, 5))
        stop = start + self.rng.choice((10, 100, 100))
        voter = self.voter if self.rng.random() < 0.6 else None
        got = self.get(list_path(item, start, stop, voter))
        if got is None:
            return
        asked, told, _, page = got
        self.ledger.write({
            "what": "recommended", "item": item, "start": start, "stop": stop, "voter": voter,
            "asked": asked, "told": told,
            **{name: page[name] for name in ("list", "window", "count", "stale", "building")},
            "remarks": [[*row_of(remark), remark["rank"], remark["score"], remark["createdAt"]]
                        for remark in page["remarks"]]})


class Author(writers.ApiVoter):
    """Makes remarks and deletes them, each until it has an answer, so that the ids are made in
    order. What it deleted it votes for: that must be refused."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.made = 0

    def act(self):
        if self.contents.count() < self.rng.randint(MADE_MAX // 2, MADE_MAX):
            self.make()
        else:
            self.delete()

    def insist(self, method, path, body, statuses):
        """Whether an answer came, however often it has to be asked for; also when the writers are
        to end."""
        for _ in range(AUTHOR_TRIES_MAX):
            answer = self.client.ask(self.rng.choice(self.client.ports), method, path, body,
                                     self.rng.choice((1, 4, writers.READ_TIMEOUT_S)))
            if answer and answer.status in statuses:
                return True
            if answer and answer.status not in (429, 503):
                raise AssertionError(f"{method} {path}: {answer.status} {answer.body[:300]}")
            time.sleep(self.rng.uniform(0.05, 0.4))
        return False

    def make(self):
        self.made += 1
        remark, item = writers.CONTENTS + self.made, self.rng.randint(1, writers.ITEMS)
        entry = {"what": "remark", "id": remark, "item": item}
        self.ledger.write({**entry, "outcome": "asked"})
        body = {"id": remark, "itemId": item, "score": self.rng.randint(0, 10), "status": 1}
        if self.insist("POST", "/v1/remarks", body, (200, 201)):
            self.ledger.write({**entry, "outcome": "made", "told": time.monotonic()})
            self.contents.add(remark)

    def delete(self):
        remark = self.contents.take_oldest()
        entry = {"what": "deletion", "id": remark}
        self.ledger.write({**entry, "outcome": "asked", "asked": time.monotonic()})
        if self.insist("DELETE", f"/v1/remarks/{remark}", None, (200,)):
            self.ledger.write({**entry, "outcome": "deleted", "told": time.monotonic()})
            for port in self.client.ports:
                self.ask({(AUTHOR_VOTER, remark): self.rng.randint(0, 1)}, port)


class Ranker:
    """An operator who changes the weights of ranks; call from one thread at a time."""

    def __init__(self, stack, folder, seed):
        self.stack = stack
        self.rng = random.Random(f"{seed} ranker")
        self.ledger = ledger.Ledger(folder / "ranker.ledger")

    def act(self):
        weights = self.rng.choice(RANK_WEIGHTS)
        self.ledger.write({"what": "weights", "weights": weights})
        words = [word for name, value in zip(("votes", "score", "age"), weights)
                 for word in (f"--{name}", str(value))]
        self.stack.tallybox("rank", "set", *words, expect=None, seconds=60)

    def close(self):
        self.ledger.close()


class RolledUp(threading.Thread):
    """Records the votes of every remark as of each finished roll-up that it sees."""

    QUERY = ("SELECT COALESCE(s.finished_window, 0), r.id, IF(r.votes_window > "
             "COALESCE(s.finished_window, 0), r.votes_before, r.votes) FROM remark r "
             "LEFT JOIN rollup_state s ON s.name = 'remark'")

    def __init__(self, stack):
        super().__init__(name="rolled-up", daemon=True)
        self.stack = stack
        self.halt = threading.Event()
        self.connection = None
        self.windows = {}   # roll-up: {remark: votes}
        self.changed = []   # (roll-up, remark, votes, other votes): what must not happen

    def note(self, rows):
        for window, remark, votes in rows:
            known = self.windows.setdefault(window, {})
            if known.setdefault(remark, votes) != votes:
                self.changed.append((window, remark, known[remark], votes))

    def run(self):
        while not self.halt.wait(LOOK_S):
            try:
                if self.connection is None:
                    self.connection = suite.connect(self.stack.name, connect_timeout=2,
                                                    read_timeout=3)
                with self.connection.cursor() as cursor:
                    cursor.execute(self.QUERY)
                    self.note(cursor.fetchall())
            except (pymysql.MySQLError, OSError):
                self.hang_up()
        self.hang_up()

    def hang_up(self):
        if self.connection:
            self.connection._force_close()  # pylint: disable=protected-access
        self.connection = None

    def end(self):
        self.halt.set()
        self.join(20)


def read_whole(client, port, item, sort):
    """[(id, votes)...] of a list, or None when it cannot be read right now. No recommended list has
    more than 100 remarks here."""
    rows, cursor = [], None
    while True:
        answer = client.ask(port, "GET", list_path(item, 0, 100) if sort == "recommended"
                            else page_path(item, sort, 100, cursor))
        if answer is None or answer.status != 200:
            return None
        page = json.loads(answer.body)
        if page["stale"] or page.get("building"):
            return None
        rows += [(remark["id"], remark["votes"]) for remark in page["remarks"]]
        cursor = page.get("next")
        if cursor is None:
            return rows


# The row of a remark as ITEM_QUERY has it.
Remark = collections.namedtuple("Remark", "id votes rolled_up score created")
ITEM_QUERY = ("SELECT r.id, COALESCE(c.votes, 0), r.votes, r.score, TIMESTAMPDIFF(MICROSECOND, "
              "'1970-01-01', r.gmt_create) DIV 1000 FROM remark r LEFT JOIN vote_count c "
              "ON c.content_id = r.id WHERE r.item_id = %s AND r.deleted_at IS NULL")


def expected_lists(remarks, weights):
    """{order: [(id, votes)...]} of the Remarks of an item."""
    by_votes, by_score, by_age = weights
    keys = {"newest": lambda remark: remark.id,
            "votes": lambda remark: (remark.rolled_up, remark.id),
            "recommended": lambda remark: (
                (remark.rolled_up * by_votes + remark.score * by_score) * DAY_MS
                + remark.created * by_age, remark.id)}
    return {sort: [(remark.id, remark.votes) for remark in sorted(remarks, key=key, reverse=True)]
            for sort, key in keys.items()}


def final_differences(stack, ports, read=read_whole):
    """What is wrong with the lists of an installation that is at rest: sentences."""
    client = api_client.ApiClient(ports)
    weights = (stack.sql("SELECT votes, score, age FROM rank_weight") or [(1, 0, 0)])[0]
    found = []
    try:
        for item in range(1, writers.ITEMS + 1):
            remarks = [Remark(*row) for row in stack.sql(ITEM_QUERY, [item])]
            for sort, expected in expected_lists(remarks, weights).items():
                for port in ports:
                    got = read(client, port, item, sort)
                    if got != expected:
                        found.append(f"item {item}, {sort}, port {port}: {got} in place of "
                                     f"{expected}")
    finally:
        client.close()
    return found
