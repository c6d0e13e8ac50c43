# SPDX-License-Identifier: MIT
"""Lists of remarks over HTTP: pages in both orders while remarks, votes and roll-ups come, the cache
of pages, totals and the reader's own votes, and a database that is away."""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

NO_CACHE = {"api.page_cache_ms": 0, "api.page_stale_ms": 0}


def read_list(serve, item, limit=20, between=None, **more):
    """All remarks of an item, page by page; `between` runs after each page."""
    path = f"/v1/remarks?itemId={item}&limit={limit}" + "".join(
        f"&{name}={value}" for name, value in more.items())
    page = serve.get(path)
    remarks = page["remarks"]
    while page["next"]:
        if between:
            between()
        page = serve.get(f"{path}&cursor={page['next']}")
        remarks += page["remarks"]
    return remarks


def insert(stack, rows, content=""):
    """Remarks, as (id, item)."""
    values = ", ".join(f"({number}, {item}, '{content}')" for number, item in rows)
    if values:
        stack.sql(f"INSERT INTO remark (id, item_id, content) VALUES {values}")


class Pages(suite.Case):
    """Nothing is kept, so that every page comes from the database."""

    roles = ("serve",)
    settings = {**NO_CACHE, "rollup.interval_ms": 86400000}

    def setUp(self):
        for table in ("remark", "vote_tally"):
            self.stack.sql(f"DELETE FROM {table}")

    def add(self, *ids, item=1):
        insert(self.stack, ((n, item) for n in ids))

    def vote(self, content, votes):
        """The total of a content changes, as the consumer writes it."""
        self.stack.sql("INSERT INTO vote_tally (content_id, votes, seq, changed_at) VALUES "
                       "(%s, %s, 1, UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE "
                       "votes = VALUES(votes), seq = seq + 1, changed_at = UTC_TIMESTAMP(3)",
                       [content, votes])

    def roll_up(self):
        self.stack.tallybox("rollup", "--once")

    def test_a_page_has_the_columns_of_its_remarks(self):
        self.stack.sql("INSERT INTO remark (id, item_id, consumer_id, order_id, score, header, "
                       "content, images, user_name, user_face, status, gmt_create) VALUES "
                       "(5, 1, 2, 3, 4, 'hé', 'a\"b', NULL, 'Zoë', 'f.png', 1, "
                       "'2026-01-02 03:04:05.678')")
        self.serve.vote((8, 5, 1), (9, 5, 1))
        page = self.serve.get("/v1/remarks?itemId=1")
        self.assertEqual(page, {"remarks": [{
            "id": 5, "itemId": 1, "consumerId": 2, "orderId": 3, "score": 4, "header": "hé",
            "content": 'a"b', "images": None, "userName": "Zoë", "userFace": "f.png", "status": 1,
            "createdAt": 1767323045678, "votes": 2}], "next": None, "totalsAgeMs": 0,
            "stale": False})
        own = self.serve.get("/v1/remarks?itemId=1&voterId=8")["remarks"][0]
        self.assertEqual((own["votes"], own["voting"]), (2, 1))
        self.serve.vote((8, 5, 0))
        own = self.serve.get("/v1/remarks?itemId=1&voterId=8")["remarks"][0]
        self.assertEqual((own["votes"], own["voting"]), (1, 0))
        self.assertEqual(self.serve.get("/v1/remarks?itemId=2")["remarks"], [])

    def test_new_remarks_neither_repeat_nor_hide_others(self):
        dice = random.Random(1)
        self.add(*range(1, 60))
        self.add(*range(1001, 1060), item=2)
        ids = iter(range(2000, 3000))
        for limit in (1, 7, 20, 100):
            known = [row[0] for row in self.stack.sql(
                "SELECT id FROM remark WHERE item_id = 1 ORDER BY id DESC")]
            found = [one["id"] for one in read_list(
                self.serve, 1, limit,
                lambda: self.add(*(next(ids) for _ in range(dice.randrange(3)))))]
            self.assertEqual(found, known)

    def test_the_order_by_votes_is_that_of_one_finished_roll_up(self):
        dice = random.Random(2)
        self.add(*range(1, 40))
        for content in range(1, 40):
            self.vote(content, dice.randrange(9))
        self.roll_up()
        known = [row[0] for row in self.stack.sql(
            "SELECT id FROM remark WHERE item_id = 1 ORDER BY votes DESC, id DESC")]

        def one_roll_up():
            if not rolled:
                for content in range(1, 40, 2):
                    self.vote(content, dice.randrange(9))
                self.roll_up()
                rolled.append(True)
            self.vote(dice.randrange(1, 40), dice.randrange(9))

        for limit in (3, 10):
            rolled = []
            found = [one["id"] for one in read_list(self.serve, 1, limit, one_roll_up,
                                                    sort="votes")]
            self.assertEqual(found, known)
            known = [row[0] for row in self.stack.sql(
                "SELECT id FROM remark WHERE item_id = 1 ORDER BY votes DESC, id DESC")]

    def test_a_roll_up_that_was_interrupted_does_not_mix_with_the_one_before(self):
        self.add(*range(1, 5))
        for content in range(1, 5):
            self.vote(content, content)
        self.roll_up()
        # A window that wrote remark 1 and then died.
        self.stack.sql("UPDATE remark SET votes_before = votes, votes = 9, votes_seq = 2, "
                       "votes_window = votes_window + 1 WHERE id = 1")
        self.stack.sql("UPDATE rollup_state SET started_window = started_window + 1")
        found = read_list(self.serve, 1, 2, sort="votes")
        self.assertEqual([one["id"] for one in found], [4, 3, 2, 1])
        # Its successor writes the same remark again, and keeps what the window before left.
        self.vote(1, 5)
        self.stack.sql("UPDATE vote_tally SET seq = 3 WHERE content_id = 1")
        cursor = self.serve.get("/v1/remarks?itemId=1&limit=2&sort=votes")["next"]
        self.roll_up()
        self.assertEqual(self.stack.row("SELECT votes, votes_seq, votes_before FROM remark "
                                        "WHERE id = 1"), (5, 3, 1))
        rest = self.serve.get(f"/v1/remarks?itemId=1&limit=2&sort=votes&cursor={cursor}")
        self.assertEqual([one["id"] for one in rest["remarks"]], [2, 1])
        found = read_list(self.serve, 1, 2, sort="votes")
        self.assertEqual([one["id"] for one in found], [1, 4, 3, 2])

    def test_a_cursor_expires_with_the_second_roll_up(self):
        self.add(1, 2, 3)
        self.roll_up()
        path = "/v1/remarks?itemId=1&limit=2&sort=votes"
        cursor = self.serve.get(path)["next"]
        self.roll_up()
        self.assertEqual(self.serve.get(f"{path}&cursor={cursor}")["remarks"][0]["id"], 1)
        self.stack.sql("UPDATE rollup_state SET started_window = started_window + 1")
        self.expect_fault(f"{path}&cursor={cursor}", 410, "expired", "cursor")
        self.roll_up()
        self.expect_fault(f"{path}&cursor={cursor}", 410, "expired", "cursor")
        newest = self.serve.get("/v1/remarks?itemId=1&limit=2")["next"]
        self.roll_up()
        self.roll_up()
        self.assertEqual(
            self.serve.get(f"/v1/remarks?itemId=1&cursor={newest}")["remarks"][0]["id"], 1)

    def test_a_wrong_row_of_the_roll_up_stops_only_lists_by_votes(self):
        self.add(1, 2, 3)
        self.roll_up()
        self.stack.sql("UPDATE rollup_state SET started_window = finished_window + 5")
        self.addCleanup(self.stack.sql, "UPDATE rollup_state SET started_window = finished_window")
        for _ in range(5):
            answer = self.serve.call("GET", "/v1/remarks?itemId=1&sort=votes")
            self.assertEqual((answer.status, answer.headers["retry-after"]), (503, "1"))
            self.assertIn("rollup_state.started_window", answer.body.decode())
            self.assertEqual(len(self.serve.get("/v1/remarks?itemId=1")["remarks"]), 3)
        self.stack.sql("UPDATE rollup_state SET started_window = finished_window")
        self.assertEqual(len(self.serve.get("/v1/remarks?itemId=1&sort=votes")["remarks"]), 3)
        self.assertEqual(self.serve.log_text().count("event=page_not_read"), 1)

    def expect_fault(self, path, status, code, at):
        answer = self.serve.call("GET", path)
        error = json.loads(answer.body)["error"]
        self.assertEqual((answer.status, error["code"], error.get("at")), (status, code, at), path)

    def test_bad_parameters_are_named(self):
        self.add(1, 2)
        good = self.serve.get("/v1/remarks?itemId=1&limit=1")["next"]
        for query, code, at in (
                ("", "missing", "itemId"), ("itemId=0", "out_of_range", "itemId"),
                ("itemId=x", "out_of_range", "itemId"),
                ("itemId=9223372036854775808", "out_of_range", "itemId"),
                ("itemId=1&limit=0", "out_of_range", "limit"),
                ("itemId=1&limit=101", "out_of_range", "limit"),
                ("itemId=1&limit=", "out_of_range", "limit"),
                ("itemId=1&sort=best", "out_of_range", "sort"),
                ("itemId=1&voterId=-1", "out_of_range", "voterId"),
                ("itemId=1&cursor=", "out_of_range", "cursor"),
                ("itemId=1&cursor=x", "out_of_range", "cursor"),
                (f"itemId=2&cursor={good}", "out_of_range", "cursor"),
                (f"itemId=1&sort=votes&cursor={good}", "out_of_range", "cursor"),
                (f"itemId=1&cursor={good}%00", "out_of_range", "cursor"),
                ("itemId=1&cursor=" + "9" * 5000, "out_of_range", "cursor"),
                ("itemId=1&page=2", "unknown_field", "page")):
            self.expect_fault(f"/v1/remarks?{query}", 400, code, at)

    def test_a_page_reads_only_its_own_rows(self):
        """Plans, by what the server reads for a page in the middle of a long list."""
        self.roll_up()
        self.stack.sql("INSERT INTO remark (id, item_id, votes) WITH RECURSIVE n (i) AS (SELECT 1 "
                       "UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT a.i * 1000 + b.i, 1, 0 "
                       "FROM n a JOIN n b WHERE a.i <= 20")
        for sort, mixed in (("newest", False), ("votes", False), ("votes", True)):
            with self.subTest(sort=sort, mixed=mixed):
                path = f"/v1/remarks?itemId=1&sort={sort}"
                cursor = self.serve.get(path)["next"]
                cursor = cursor.replace(cursor.split(".")[2], "10500")
                if mixed:  # half of the remarks are written by the next roll-up
                    self.stack.sql("UPDATE remark SET votes_before = votes, votes = 0, "
                                   "votes_window = (SELECT finished_window + 1 FROM rollup_state)"
                                   " WHERE id % 2 = 0")
                    self.stack.sql("UPDATE rollup_state SET started_window = finished_window + 1")
                before, tables = self.read_rows(), self.disk_tables()
                page = self.serve.get(f"{path}&cursor={cursor}")
                read, made = self.read_rows() - before, self.disk_tables() - tables
                self.assertEqual(page["remarks"][0]["id"], 10500 - 1)
                self.assertEqual(len(page["remarks"]), 20)
                self.assertLess(read, 400)
                self.assertEqual(made, 0, "temporary tables on disk, for sorting texts")
        self.stack.sql("UPDATE remark SET votes_window = 0")
        self.roll_up()

    def test_first_pages_and_own_votes_read_only_their_own_rows(self):
        """Plans, by what the server reads: an item and a voter with many rows of others around."""
        self.stack.sql("INSERT INTO remark (id, item_id, votes) WITH RECURSIVE n (i) AS (SELECT 1 "
                       "UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT a.i * 1000 + b.i, "
                       "b.i % 3, b.i FROM n a JOIN n b WHERE a.i <= 10")
        self.stack.sql("INSERT INTO vote_state (voter_id, content_id, voting, version, event_id) "
                       "SELECT v.voter, id, 1, 1, UNHEX(LEFT(SHA2(CONCAT(id, '/', v.voter), 256), 32)) "
                       "FROM remark JOIN (SELECT 1 AS voter UNION ALL SELECT 2 UNION ALL SELECT 3) v")
        self.stack.sql("INSERT INTO vote_count (content_id, votes) SELECT id, 3 FROM remark")
        for table in ("vote_state", "vote_count"):
            self.addCleanup(self.stack.sql, f"DELETE FROM {table}")
        for sort in ("newest", "votes"):
            for voter, bound in (("", 300), ("&voterId=2", 400)):
                with self.subTest(sort=sort, voter=voter):
                    before = self.read_rows()
                    page = self.serve.get(f"/v1/remarks?itemId=1&sort={sort}{voter}")
                    read = self.read_rows() - before
                    self.assertEqual(len(page["remarks"]), 20)
                    self.assertEqual({one.get("voting") for one in page["remarks"]},
                                     {1 if voter else None})
                    self.assertLess(read, bound)

    def disk_tables(self):
        return int(self.stack.sql("SHOW GLOBAL STATUS LIKE 'Created_tmp_disk_tables'")[0][1])

    def read_rows(self):
        return sum(int(value) for name, value in self.stack.sql(
            "SHOW GLOBAL STATUS LIKE 'Handler_read%'") if name.lower() in (
                "handler_read_next", "handler_read_prev", "handler_read_key"))


class Model:
    """What the lists of all items must show. Remarks get ids of the whole range in any order, so
    that new ones come before, among and behind those that a reader has seen."""

    def __init__(self, case, rng):
        self.case, self.rng = case, rng
        self.remarks = {}  # id: {item, header}; those that are not deleted
        self.totals = {}  # id: votes
        self.own = {}  # id: what VOTER votes
        self.tallies = {}  # id: votes, as the consumer has counted them
        self.windows = [{}]  # of each roll-up: {id: votes}
        self.voters = iter(range(1000, 10**9))
        self.ids = rng.sample(range(1, 10**6), 20000)
        self.made = set()  # ids that the database has chosen

    def content(self, item):
        """Remarks of some items are so long that a page of 20 of them ends at its bytes; in JSON
        the character has 6 bytes."""
        return "\x01" * 40000 if item % 8 == 0 else ""

    def choose_id(self):
        while (number := self.ids.pop()) in self.made:
            pass
        return number

    def fill(self, item, count):
        ids = [self.choose_id() for _ in range(count)]
        for number in ids:
            self.remarks[number] = {"item": item, "header": ""}
            self.tallies[number] = self.rng.randrange(6)
        if ids:
            insert(self.case.stack, ((number, item) for number in ids), self.content(item))
            self.write_tallies(ids)

    def write_tallies(self, ids):
        self.case.stack.sql(
            "INSERT INTO vote_tally (content_id, votes, seq, changed_at) VALUES " + ", ".join(
                f"({n}, {self.tallies[n]}, 1, UTC_TIMESTAMP(3))" for n in ids)
            + " ON DUPLICATE KEY UPDATE votes = VALUES(votes), seq = seq + 1, "
            "changed_at = UTC_TIMESTAMP(3)")

    def roll_up(self):
        self.case.stack.tallybox("rollup", "--once")
        self.windows.append(dict(self.tallies))

    def place(self, number, sort, window):
        """Grows towards the end of a list."""
        return (-self.windows[window].get(number, 0) if sort == "votes" else 0, -number)

    def rest(self, item, sort, window, after):
        """The ids that a page after this place may show, in order."""
        places = sorted(self.place(number, sort, window) for number, remark in
                        self.remarks.items() if remark["item"] == item)
        return [-place[1] for place in places if after is None or place > after]

    def insert(self, item):
        body = {"itemId": item, "header": f"h{self.rng.random()}", "content": self.content(item)}
        if self.rng.randrange(3):
            body["id"] = self.choose_id()
        status, answer = self.case.send("POST", "/v1/remarks", body)
        self.case.assertEqual(status, 201, answer)
        self.made.add(answer["id"])
        self.remarks[answer["id"]] = {"item": item, "header": body["header"]}

    def change(self, item, sql):
        """A remark of the item is edited, deleted or voted for; sql: also by another program."""
        known = [number for number, remark in self.remarks.items() if remark["item"] == item]
        if not known:
            return
        number, step = self.rng.choice(known), self.rng.randrange(5)
        if step == 0:
            header = f"h{self.rng.random()}"
            self.case.assertEqual(self.case.send("PATCH", f"/v1/remarks/{number}",
                                                 {"header": header})[0], 200)
            self.remarks[number]["header"] = header
        elif step == 1:
            if sql and self.rng.randrange(2):
                self.case.stack.sql("UPDATE remark SET deleted_at = UTC_TIMESTAMP(3) "
                                    "WHERE id = %s", [number])
            else:
                self.case.assertEqual(
                    self.case.send("DELETE", f"/v1/remarks/{number}")[0], 200)
            del self.remarks[number]
        elif step == 2:
            voting = self.rng.randrange(2)
            self.case.send("POST", "/v1/votes", {"voterId": VOTER, "contentId": number,
                                                 "voting": voting})
            self.totals[number] = self.totals.get(number, 0) + voting - self.own.get(number, 0)
            self.own[number] = voting
        else:
            self.case.send("POST", "/v1/votes", {"voterId": next(self.voters),
                                                 "contentId": number, "voting": 1})
            self.totals[number] = self.totals.get(number, 0) + 1
            self.tallies[number] = self.rng.randrange(6)
            self.write_tallies([number])


VOTER = 7
SEED = int(os.environ.get("TALLYBOX_LISTS_SEED") or random.SystemRandom().randrange(2**32))


class Walks(suite.Case):
    """Readers go through lists page by page while remarks are inserted, edited and deleted, votes
    are counted and a roll-up ends. Each page must be the one that a model of the list has at this
    moment: so no remark comes twice, and none is missed that was there from the first page on.
    TALLYBOX_LISTS_SEED repeats a run."""

    roles = ()
    settings = {"rollup.interval_ms": 86400000}
    ITEMS = 25

    def setUp(self):
        print(f"TALLYBOX_LISTS_SEED={SEED}", file=sys.stderr)
        for table in ("remark", "vote_tally", "rollup_state", "vote_state", "vote_count",
                      "deleted_content"):
            self.stack.sql(f"DELETE FROM {table}")
        self.tokens = self.stack.folder / "tokens"
        self.tokens.write_text(f"{TOKEN} remarks votes read\n")
        self.tokens.chmod(0o600)
        self.rng = random.Random(f"{SEED} {self._testMethodName}")
        self.model = Model(self, self.rng)

    def send(self, method, path, body=None):
        answer = self.serve.call(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
        return answer.status, json.loads(answer.body)

    def check_page(self, page, expected, limit, voter):
        """expected: all ids that are left."""
        ids = [one["id"] for one in page["remarks"]]
        if expected and limit > 4 and self.model.content(self.model.remarks[expected[0]]["item"]):
            limit = 4  # four of them have less than 1 MiB, five have more
        self.assertEqual(ids, expected[:limit])
        self.assertEqual(page["next"] is not None, len(expected) > limit)
        self.assertFalse(page["stale"])
        for one in page["remarks"]:
            self.assertEqual(one["header"], self.model.remarks[one["id"]]["header"])
            self.assertEqual(one["votes"], self.model.totals.get(one["id"], 0))
            if voter:
                self.assertEqual(one["voting"], self.model.own.get(one["id"], 0))

    def walk(self, item, sort, roll_ups):
        """Returns how many pages were read. roll_ups: how many may end meanwhile."""
        model, rng = self.model, self.rng
        limit, voter = rng.choice((1, 3, 7, 20)), rng.randrange(2)
        path = f"/v1/remarks?itemId={item}&limit={limit}&sort={sort}" + (
            f"&voterId={VOTER}" if voter else "")
        window = len(model.windows) - 1
        after, cursor, pages = None, "", 0
        while True:
            status, page = self.send("GET", path + cursor)
            if sort == "votes" and after and len(model.windows) - 1 > window + 1:
                self.assertEqual((status, page["error"]["code"]), (410, "expired"))
                return pages
            self.assertEqual(status, 200, page)
            self.check_page(page, model.rest(item, sort, window, after), limit, voter)
            pages += 1
            if not page["next"]:
                return pages
            after = model.place(page["remarks"][-1]["id"], sort, window)
            cursor = f"&cursor={page['next']}"
            for _ in range(rng.randrange(4)):
                if rng.randrange(3):
                    model.change(item, roll_ups > 0)
                else:
                    model.insert(item)
            if roll_ups > 0 and rng.randrange(8) == 0:
                model.roll_up()
                roll_ups -= 1

    def walk_all(self, roll_ups):
        for item in range(1, self.ITEMS + 1):
            self.model.fill(item, self.rng.randrange(40))
        self.model.roll_up()
        pages = 0
        for item in range(1, self.ITEMS + 1):
            for sort in ("newest", "votes"):
                with self.subTest(seed=SEED, item=item, sort=sort):
                    pages += self.walk(item, sort, roll_ups)
        self.assertGreater(pages, 2 * self.ITEMS)

    def test_pages_from_the_database_follow_the_model(self):
        self.serve = self.start("serve", sets={"api.token_file": self.tokens, **NO_CACHE})
        self.walk_all(2)

    def test_kept_pages_follow_what_is_written_over_http(self):
        """A roll-up and other programs are seen later, so there are none."""
        self.serve = self.start("serve", sets={"api.token_file": self.tokens})
        self.walk_all(0)


class Cache(suite.Case):
    """Pages that are kept in memory."""

    roles = ()

    def setUp(self):
        self.stack.sql("DELETE FROM remark")
        insert(self.stack, ((n, n % 10) for n in range(1, 401)), "x" * 5000)

    def pages(self, serve, result):
        return serve.metric(f'tallybox_remark_pages_total{{result="{result}"}}')

    def test_totals_are_live_while_the_page_is_kept(self):
        serve = self.start("serve")
        self.assertEqual(serve.get("/v1/remarks?itemId=1")["remarks"][0]["votes"], 0)
        serve.vote((1, 391, 1))
        page = serve.get("/v1/remarks?itemId=1")
        self.assertEqual((page["remarks"][0]["id"], page["remarks"][0]["votes"]), (391, 1))
        self.assertEqual((self.pages(serve, "read"), self.pages(serve, "kept")), (1, 1))

    def test_totals_may_be_as_old_as_the_setting_says(self):
        serve = self.start("serve", sets={"api.totals_max_age_ms": 3600000})
        self.assertEqual(serve.get("/v1/remarks?itemId=2")["totalsAgeMs"], 0)
        serve.vote((1, 392, 1))
        page = serve.get("/v1/remarks?itemId=2")
        self.assertEqual(page["remarks"][0]["votes"], 0)
        self.assertGreater(page["totalsAgeMs"], 0)
        own = serve.get("/v1/remarks?itemId=2&voterId=1")
        self.assertEqual((own["remarks"][0]["votes"], own["remarks"][0]["voting"]), (1, 1))
        self.assertEqual(own["totalsAgeMs"], 0)

    def test_a_thousand_readers_of_a_cold_page_read_it_once(self):
        serve = self.start("serve")
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            answers = list(pool.map(lambda _: serve.get("/v1/remarks?itemId=3&sort=votes"),
                                    range(1000)))
        self.assertEqual(len({json.dumps(one["remarks"]) for one in answers}), 1)
        self.assertEqual(len(answers[0]["remarks"]), 20)
        self.assertEqual(self.pages(serve, "read"), 1)
        self.assertEqual(self.pages(serve, "kept") + self.pages(serve, "shared"), 999)

    def test_a_thousand_readers_of_a_server_that_has_just_started_read_each_page_once(self):
        serve = self.start("serve")
        paths = [f"/v1/remarks?itemId={item}&sort={sort}&limit={limit}"
                 for item in range(1, 10) for sort in ("newest", "votes") for limit in (5, 10, 20)]
        readers = 1000
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            answers = list(pool.map(lambda n: (n % len(paths), serve.get(paths[n % len(paths)])),
                                    range(readers)))
        pages = {}
        for number, answer in answers:
            self.assertEqual(pages.setdefault(number, answer["remarks"]), answer["remarks"])
        self.assertEqual(len(pages), len(paths))
        self.assertEqual(self.pages(serve, "read"), len(paths))
        self.assertEqual(self.pages(serve, "kept") + self.pages(serve, "shared"),
                         readers - len(paths))

    def test_memory_stays_below_its_bound(self):
        bound = 1000000
        serve = self.start("serve", sets={"api.page_cache_bytes_max": bound})
        for item in range(10):
            for limit in (10, 20, 30):
                self.assertEqual(len(serve.get(f"/v1/remarks?itemId={item or 10}&limit={limit}")
                                     ["remarks"]), limit if item else 0)
        kept = serve.metric("tallybox_remark_cache_bytes")
        self.assertTrue(bound / 2 < kept <= bound, kept)

    def test_after_a_cursor_has_expired_the_first_page_gives_another(self):
        serve = self.start("serve", sets={"api.page_cache_ms": 3600000,
                                          "api.page_stale_ms": 3600000})
        path = "/v1/remarks?itemId=4&sort=votes"
        for _ in range(2):
            cursor = serve.get(path)["next"]
            self.stack.tallybox("rollup", "--once")
            self.assertEqual(serve.get(path)["next"], cursor)
            self.stack.tallybox("rollup", "--once")
            self.assertEqual(serve.call("GET", f"{path}&cursor={cursor}").status, 410)
            again = serve.get(path)
            self.assertNotEqual(again["next"], cursor)
            # With another limit it is no page that the next round finds in memory.
            rest = serve.get(f"{path}&limit=30&cursor={again['next']}")
            self.assertEqual(len(again["remarks"] + rest["remarks"]), 40)

    def test_lists_can_be_turned_off(self):
        serve = self.start("serve", sets={"api.lists": "off"})
        answer = serve.call("GET", "/v1/remarks?itemId=1")
        self.assertEqual(answer.status, 403)
        self.assertIn("api.lists", answer.body.decode())
        serve.vote((1, 399, 1))


TOKEN = "remarks-" + "0123456789" * 3
READER = "reader--" + "0123456789" * 3


class Writes(suite.Case):
    """Remarks are made and changed over HTTP."""

    roles = ()

    def setUp(self):
        self.stack.sql("DELETE FROM remark")
        tokens = self.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} remarks read\n{READER} votes read\n")
        tokens.chmod(0o600)
        self.serve = self.start("serve", sets={"api.token_file": tokens})

    def send(self, method, path, body=None, token=TOKEN):
        answer = self.serve.call(method, path, body, {"Authorization": f"Bearer {token}"})
        return answer.status, json.loads(answer.body)

    def listed(self, item=1):
        return self.send("GET", f"/v1/remarks?itemId={item}")[1]["remarks"]

    def test_what_is_written_here_is_seen_at_once(self):
        self.assertEqual(self.listed(), [])
        status, made = self.send("POST", "/v1/remarks", {
            "itemId": 1, "consumerId": 2, "orderId": 3, "score": 5, "header": "h\u00e9",
            "content": "it's \\ \"good\" \U0001f600", "images": None, "userName": "n",
            "userFace": "f", "status": 1})
        self.assertEqual((status, made["existed"]), (201, False))
        one, = self.listed()
        self.assertEqual({**one, "createdAt": 0}, {
            "id": made["id"], "itemId": 1, "consumerId": 2, "orderId": 3, "score": 5,
            "header": "h\u00e9", "content": "it's \\ \"good\" \U0001f600", "images": None,
            "userName": "n", "userFace": "f", "status": 1, "createdAt": 0, "votes": 0})
        self.assertEqual(self.send("PATCH", f"/v1/remarks/{made['id']}",
                                   {"content": None, "status": 0}), (200, {"id": made["id"]}))
        one, = self.listed()
        self.assertEqual((one["content"], one["status"], one["header"]), (None, 0, "h\u00e9"))
        self.assertEqual(self.send("POST", "/v1/remarks", {"itemId": 1})[0], 201)
        self.assertEqual(len(self.listed()), 2)

    def test_a_request_with_an_id_may_be_sent_again(self):
        for status, existed in ((201, False), (200, True)):
            self.assertEqual(self.send("POST", "/v1/remarks", {"id": 77, "itemId": 1,
                                                               "header": "first"}),
                             (status, {"id": 77, "existed": existed}))
        status, fault = self.send("POST", "/v1/remarks", {"id": 77, "itemId": 2})
        self.assertEqual((status, fault["error"]["code"], fault["error"]["at"]),
                         (422, "refused", "/id"))
        self.assertEqual([one["header"] for one in self.listed()], ["first"])

    def test_bad_input_is_named_with_its_place(self):
        made = self.send("POST", "/v1/remarks", {"id": 5, "itemId": 1, "header": "kept"})
        self.assertEqual(made, (201, {"id": 5, "existed": False}))
        good = {"itemId": 1}
        for body, code, at in (
                ({}, "missing", "/itemId"), ([], "wrong_type", None),
                ({"itemId": 0}, "out_of_range", "/itemId"),
                ({"itemId": "1"}, "wrong_type", "/itemId"),
                ({**good, "id": 2**63 - 1}, "out_of_range", "/id"),
                ({**good, "score": 128}, "out_of_range", "/score"),
                ({**good, "header": "\u00e9" * 256}, "out_of_range", "/header"),
                ({**good, "header": None}, "wrong_type", "/header"),
                ({**good, "content": "\u00e9" * 32768}, "out_of_range", "/content"),
                ({**good, "images": ["a"]}, "wrong_type", "/images"),
                ({**good, "votes": 5}, "unknown_field", "/votes")):
            status, fault = self.send("POST", "/v1/remarks", body)
            self.assertEqual((status, fault["error"]["code"], fault["error"].get("at")),
                             (400, code, at), body)
        for body, code, at in (({}, "missing", None), ({"itemId": 2}, "unknown_field", "/itemId"),
                               ({"status": 1.5}, "wrong_type", "/status")):
            status, fault = self.send("PATCH", "/v1/remarks/5", body)
            self.assertEqual((status, fault["error"]["code"], fault["error"].get("at")),
                             (400, code, at), body)
        self.assertEqual(self.send("PATCH", "/v1/remarks/6", {"status": 1})[0], 404)
        self.assertEqual(self.send("PATCH", "/v1/remarks/x", {"status": 1})[0], 400)
        self.assertEqual([one["header"] for one in self.listed()], ["kept"])
        largest = {**good, "header": "\u00e9" * 255, "content": "\u00e9" * 32767 + "x",
                   "userName": "\U0001f600" * 64}
        self.assertEqual(self.send("POST", "/v1/remarks", largest)[0], 201)
        self.assertEqual(self.listed()[0]["content"], largest["content"])

    def test_writing_needs_its_scope(self):
        for method, path, body in (("POST", "/v1/remarks", {"itemId": 1}),
                                   ("PATCH", "/v1/remarks/1", {"status": 1}),
                                   ("DELETE", "/v1/remarks/1", None)):
            status, fault = self.send(method, path, body, READER)
            self.assertEqual((status, fault["error"]["code"]), (403, "forbidden"))
            self.assertIn("remarks", fault["error"]["message"])
        self.assertEqual(self.send("GET", "/v1/remarks?itemId=1", token=READER)[0], 200)


class Away(suite.Case):
    """The database goes away and comes back."""

    roles = ()

    def test_pages_are_shown_as_stale_and_own_votes_are_not_guessed(self):
        insert(self.stack, ((n, 1) for n in range(1, 31)))
        serve = self.start("serve", sets={"api.request_timeout_ms": 2000, "api.page_cache_ms": 100,
                                          "api.page_stale_ms": 3600000})
        serve.vote((1, 30, 1))
        first = serve.get("/v1/remarks?itemId=1")
        suite.database().stop()
        self.addCleanup(suite.database().restart)
        answer = serve.call("GET", "/v1/remarks?itemId=1")
        self.assertEqual(answer.status, 200, answer.body)
        page = json.loads(answer.body)
        self.assertIs(page["stale"], True)
        self.assertEqual(page["remarks"], first["remarks"])
        self.assertGreater(page["totalsAgeMs"], 0)
        self.assertEqual(serve.call("GET", "/v1/remarks?itemId=1&voterId=1").status, 503)
        self.assertEqual(serve.call("GET", "/v1/remarks?itemId=2").status, 503)
        suite.database().restart()
        suite.wait_for("live pages again", lambda: (
            lambda answer: answer.status == 200 and not json.loads(answer.body)["stale"])(
                serve.call("GET", "/v1/remarks?itemId=1&voterId=1")))


    def test_a_page_that_is_staler_than_the_bound_is_not_shown(self):
        insert(self.stack, ((n, 7) for n in range(501, 531)))
        bound_ms = 5000
        serve = self.start("serve", sets={"api.request_timeout_ms": 500, "api.page_cache_ms": 100,
                                          "api.page_stale_ms": bound_ms})
        path = "/v1/remarks?itemId=7"
        first = serve.get(path)
        suite.database().stop()
        self.addCleanup(suite.database().restart)
        ended = time.monotonic() + bound_ms / 1000
        suite.wait_for("the page to be stale", lambda: json.loads(
            serve.call("GET", path).body).get("stale") or time.monotonic() > ended)
        suite.wait_for("the page to pass the bound", lambda: (
            time.monotonic() > ended and serve.call("GET", path).status == 503), 30)
        self.assertIn("unavailable", serve.call("GET", path).body.decode())
        suite.database().restart()
        suite.wait_for("the page again", lambda: serve.call("GET", path).status == 200)
        self.assertEqual(serve.get(path)["remarks"], first["remarks"])


class WithoutSink(suite.Case):
    """Votes do not depend on the sink, where the remarks are."""

    seconds = 35
    roles = ("relay",)

    def test_votes_are_taken_while_the_tables_of_the_sink_are_missing(self):
        self.stack.sql("RENAME TABLE remark TO away")
        serve = self.start("serve")
        self.assertEqual(serve.call("GET", "/v1/remarks?itemId=1").status, 503)
        suite.wait_for("the log to name the table", lambda: re.search(
            "event=dependency_down dep=sink role=serve .*remark", serve.log_text()))
        serve.vote((1, 1, 1))
        self.assertTrue(serve.ready(), serve.why_not_ready())
        self.stack.sql("RENAME TABLE away TO remark")
        suite.wait_for("lists again", lambda: serve.call(
            "GET", "/v1/remarks?itemId=1").status == 200)


if __name__ == "__main__":
    unittest.main()
