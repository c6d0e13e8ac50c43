# SPDX-License-Identifier: MIT
"""Recommended lists over HTTP: their order and what they leave out, first requests, what follows
roll-ups, writes and new weights in two processes, and a database that is away."""

import concurrent.futures
import json
import pathlib
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

NO_CACHE = {"api.page_cache_ms": 0, "api.page_stale_ms": 0}
TOKEN = "remarks-" + "0123456789" * 3


def path_of(item, **more):
    query = "&".join(f"{name}={value}" for name, value in more.items())
    return f"/v1/items/{item}/recommended" + (f"?{query}" if query else "")


def read(serve, item, **more):
    """The list once it is built."""
    return suite.wait_for(f"the list of item {item}", lambda: (
        lambda page: not page["building"] and page)(serve.get(path_of(item, **more))), every=0.01)


def ids(page):
    return [one["id"] for one in page["remarks"]]


def builds(serve, result="done"):
    return serve.metric(f'tallybox_recommended_builds_total{{result="{result}"}}')


class Lists(suite.Case):
    roles = ("serve",)
    settings = {**NO_CACHE, "rollup.interval_ms": 86400000}
    items = iter(range(1, 1000))  # each test has its own, whose list no other test has built
    numbers = iter(range(1, 1000000))

    def setUp(self):
        self.item = next(self.items)

    def add(self, count, item=None, status=1, score=0, age_days=0):
        added = [next(self.numbers) for _ in range(count)]
        self.stack.sql("INSERT INTO remark (id, item_id, status, score, gmt_create) VALUES " +
                       ", ".join(f"({number}, {item or self.item}, {status}, {score}, "
                                 f"UTC_TIMESTAMP(3) - INTERVAL {age_days} DAY)"
                                 for number in added))
        return added

    def vote(self, votes):
        """Totals change, as the consumer writes them."""
        rows = ", ".join(f"({content}, {total}, 1, UTC_TIMESTAMP(3))"
                         for content, total in votes.items())
        self.stack.sql(
            f"INSERT INTO vote_tally (content_id, votes, seq, changed_at) VALUES {rows} "
            "ON DUPLICATE KEY UPDATE votes = VALUES(votes), seq = seq + 1, "
            "changed_at = UTC_TIMESTAMP(3)")

    def roll_up(self):
        self.stack.tallybox("rollup", "--once")

    def rank(self, *arguments, **more):
        return self.stack.tallybox("rank", *arguments, **more)

    def wait_ids(self, expected, item=None, serve=None, seconds=60, **more):
        suite.wait_for("the new list", lambda: ids((serve or self.serve).get(
            path_of(item or self.item, **more))) == expected, seconds, every=0.02)

    def test_a_list_of_long_remarks_is_read_in_parts(self):
        added = self.add(30)
        self.stack.sql(f"UPDATE remark SET content = REPEAT(CHAR(1), 40000) "
                       f"WHERE item_id = {self.item}")
        read(self.serve, self.item)
        found, start = [], 0
        while start is not None:
            page = self.serve.get(path_of(self.item, start=start, stop=start + 20))
            self.assertEqual([one["rank"] for one in page["remarks"]],
                             list(range(start + 1, start + 1 + len(page["remarks"]))))
            self.assertLessEqual(len(page["remarks"]), 4)
            found += ids(page)
            start = page["next"]
        self.assertEqual(sorted(found), added)

    def test_the_order_is_that_of_the_rolled_up_votes(self):
        dice = random.Random(1)
        added = self.add(150)
        votes = {number: dice.randrange(9) for number in added}
        self.vote(votes)
        self.roll_up()
        expected = sorted(added, key=lambda number: (votes[number], number), reverse=True)
        page = read(self.serve, self.item)
        self.assertEqual(ids(page), expected[:20])
        self.assertEqual([one["rank"] for one in page["remarks"]], list(range(1, 21)))
        self.assertEqual((page["count"], page["stale"], page["building"]), (150, False, False))
        self.assertEqual(ids(read(self.serve, self.item, start=100, stop=200)), expected[100:])
        self.assertEqual(ids(read(self.serve, self.item, start=7, stop=8)), expected[7:8])
        self.assertEqual(read(self.serve, self.item, start=150, stop=151)["remarks"], [])
        self.assertEqual(read(self.serve, self.item, start=3)["list"], page["list"])

    def test_totals_are_live_and_tell_the_readers_own_vote(self):
        one, = self.add(1)
        self.serve.vote((7, one, 1), (8, one, 1))
        remark = read(self.serve, self.item, voterId=7)["remarks"][0]
        self.assertEqual((remark["votes"], remark["voting"]), (2, 1))
        remark = read(self.serve, self.item, voterId=9)["remarks"][0]
        self.assertEqual((remark["votes"], remark["voting"]), (2, 0))

    def test_only_shown_remarks_are_listed(self):
        good = self.add(2)
        self.add(2, status=0)
        self.add(2, status=2)
        gone, = self.add(1)
        self.stack.sql("UPDATE remark SET deleted_at = UTC_TIMESTAMP(3) WHERE id = %s", [gone])
        self.assertEqual(ids(read(self.serve, self.item)), good[::-1])
        # Hidden without a word to this process: left out at once, although the list is not new.
        self.stack.sql("UPDATE remark SET status = 0 WHERE id = %s", [good[1]])
        page = read(self.serve, self.item)
        self.assertEqual([(one["id"], one["rank"]) for one in page["remarks"]], [(good[0], 2)])

    def test_the_list_follows_a_roll_up_and_nothing_else(self):
        one, two = self.add(2)
        other = next(self.items)
        self.add(2, item=other)
        self.roll_up()
        read(self.serve, other)
        self.assertEqual(ids(read(self.serve, self.item)), [two, one])
        self.vote({one: 5})
        time.sleep(1.5)  # three reads of the watcher
        self.assertEqual(ids(read(self.serve, self.item)), [two, one])
        before = builds(self.serve)
        self.roll_up()
        self.wait_ids([one, two])
        time.sleep(1.5)
        self.assertEqual(builds(self.serve) - before, 1)  # only the item that changed

    def test_a_list_shows_votes_of_the_last_finished_roll_up(self):
        one, two = self.add(2)
        self.vote({one: 1, two: 2})
        self.roll_up()
        # A roll-up that wrote one remark and is still at work.
        self.stack.sql("UPDATE remark SET votes_before = votes, votes = 9, votes_seq = 2, "
                       "votes_window = (SELECT finished_window + 1 FROM rollup_state) "
                       "WHERE id = %s", [one])
        self.stack.sql("UPDATE rollup_state SET started_window = finished_window + 1")
        self.assertEqual(ids(read(self.serve, self.item)), [two, one])
        self.vote({one: 9})
        self.roll_up()
        self.wait_ids([one, two])

    def test_what_is_written_over_http_is_ranked(self):
        tokens = self.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} remarks read\n")
        tokens.chmod(0o600)
        writer = self.start("serve", sets={"api.token_file": tokens})
        one, = self.add(1)
        self.assertEqual(ids(read(self.serve, self.item)), [one])
        made = json.loads(writer.call("POST", "/v1/remarks", {"itemId": self.item, "status": 1},
                                      {"Authorization": f"Bearer {TOKEN}"}).body)
        self.wait_ids([made["id"], one])
        writer.call("PATCH", f"/v1/remarks/{made['id']}", {"status": 0},
                    {"Authorization": f"Bearer {TOKEN}"})
        suite.wait_for("the remark to be gone", lambda: read(self.serve, self.item)["count"] == 1)

    def test_two_processes_agree_within_a_second(self):
        second = self.start("serve")
        one, two = self.add(2)
        for serve in (self.serve, second):
            self.assertEqual(ids(read(serve, self.item)), [two, one])

        def watch(serve):
            self.wait_ids([one, two], serve=serve)
            return time.monotonic()

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            seen = [pool.submit(watch, serve) for serve in (self.serve, second)]
            self.vote({one: 1})
            self.roll_up()
            first, other = (future.result() for future in seen)
        self.assertLess(abs(first - other), 1)
        self.assertEqual(read(self.serve, self.item)["list"], read(second, self.item)["list"])

    def test_weights_change_without_a_restart(self):
        self.addCleanup(self.rank, "reset")
        liked, = self.add(1)
        scored, = self.add(1, score=5)
        old, = self.add(1, score=1, age_days=30)
        self.vote({liked: 3})
        self.roll_up()
        self.assertEqual(ids(read(self.serve, self.item)), [liked, old, scored])
        done = self.rank("set", "--votes", 1, "--score", 1, "--age", 0)
        self.assertIn("votes 1, score 1, age 0", done.stdout)
        self.wait_ids([scored, liked, old])
        self.rank("set", "--votes", 0, "--score", 0, "--age", -1)
        self.wait_ids([old, liked, scored])
        self.rank("reset")
        self.wait_ids([liked, old, scored])

    def test_a_rank_is_explained(self):
        self.addCleanup(self.rank, "reset")
        self.rank("set", "--votes", 10, "--score", 2, "--age", 1)
        one, two = self.add(1, score=5, age_days=4) + self.add(1, score=-128)
        hidden, = self.add(1, status=0)
        self.vote({one: 3})
        self.roll_up()
        found = json.loads(self.rank("explain", one, "--json").stdout)
        self.assertEqual((found["remark"], found["item"], found["listed"], found["rank"],
                          found["of"], found["votes"], found["score"]),
                         (one, self.item, True, 1, 2, 3, 5))
        self.assertEqual(found["weights"], {"votes": 10, "score": 2, "age": 1, "stored": True})
        points = found["points"]
        self.assertEqual((points["votes"], points["score"]), (30, 10))
        self.assertAlmostEqual(points["age"], 4, places=1)
        self.assertAlmostEqual(points["rank"], 40 - points["age"], places=2)
        self.assertEqual(json.loads(self.rank("explain", two, "--json").stdout)["rank"], 2)
        text = self.rank("explain", two).stdout
        self.assertRegex(text, r"rank +2 of 2\n")
        self.assertRegex(text, r"score +-256\.000 = a score of -128, times 2\n")
        self.assertIn("not in the list: its status is not 1", self.rank("explain", hidden).stdout)
        short = self.rank("explain", two, sets={"api.recommended_max": 1}).stdout
        self.assertIn("api.recommended_max", short)

    def test_bad_arguments_of_rank_are_named(self):
        self.assertIn("there is no remark 999999999",
                      self.rank("explain", 999999999, expect=1).stderr)
        for arguments in ((), ("explain",), ("explain", "x"), ("best",), ("set", "--votes", 1),
                          ("set", "--votes", 1000001, "--score", 0, "--age", 0),
                          ("weights", "--votes", 1)):
            self.assertIn("expected explain REMARK", self.rank(*arguments, expect=2).stderr)
        found = json.loads(self.rank("weights", "--json", sets={"api.rank_score": 7}).stdout)
        self.assertEqual(found, {"weights": {"votes": 1, "score": 7, "age": 0, "stored": False}})

    def test_a_thousand_first_readers_cause_one_build(self):
        self.add(30)
        serve = self.start("serve")
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            pages = list(pool.map(lambda _: serve.get(path_of(self.item)), range(1000)))
        self.assertLessEqual({page["list"] for page in pages},
                             {None, read(serve, self.item)["list"]})
        for page in pages:
            self.assertEqual(len(page["remarks"]), 0 if page["building"] else 20)
        self.assertTrue(any(page["building"] for page in pages))
        self.assertEqual(builds(serve), 1)
        self.assertEqual(serve.metric("tallybox_recommended_queries_total"), 1)

    def test_a_build_may_take_longer_than_other_statements(self):
        self.add(1)
        serve = self.start("serve", sets={"sink.query_timeout_ms": 1000,
                                          "api.recommended_build_ms": 60000})
        blocker = suite.connect(self.stack.name, autocommit=True)
        self.addCleanup(blocker.close)
        with blocker.cursor() as cursor:
            cursor.execute("LOCK TABLES remark WRITE")
            self.assertTrue(serve.get(path_of(self.item))["building"])
            suite.wait_for("the build to wait for 2 s", lambda: self.stack.number(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE time >= 2 AND "
                f"info LIKE '%ix_remark_newest%item_id = {self.item} %' AND "
                "id <> CONNECTION_ID()"))
            cursor.execute("UNLOCK TABLES")
        self.assertEqual(len(read(serve, self.item)["remarks"]), 1)
        self.assertEqual((builds(serve), builds(serve, "failed")), (1, 0))

    def test_an_item_without_remarks_is_remembered(self):
        serve = self.start("serve")
        self.assertEqual(read(serve, self.item)["count"], 0)
        for _ in range(20):
            page = serve.get(path_of(self.item))
            self.assertEqual((page["remarks"], page["building"]), ([], False))
        self.assertEqual(builds(serve), 1)

    def test_remembered_items_are_bounded(self):
        serve = self.start("serve", sets={"api.recommended_items_max": 3,
                                          "api.recommended_empty_max": 2})
        full = [next(self.items) for _ in range(6)]
        empty = [next(self.items) for _ in range(6)]
        for item in full:
            self.add(1, item=item)
        for item in full + empty:
            read(serve, item)
        self.assertEqual(serve.metric("tallybox_recommended_items"), 3)
        self.assertEqual(serve.metric("tallybox_recommended_empty_items"), 2)
        self.assertTrue(serve.get(path_of(full[0]))["building"])
        self.assertFalse(serve.get(path_of(full[5]))["building"])

    def test_readers_see_one_list_or_the_other(self):
        """The votes of one roll-up reverse the order; each part that is read is of one list."""
        added = self.add(60)
        orders = []
        for votes in ({n: i for i, n in enumerate(added)}, {n: -i for i, n in enumerate(added)}):
            orders.append(votes)
        self.vote(orders[0])
        self.roll_up()
        known = {read(self.serve, self.item)["list"]: added[::-1]}
        pages, stop = [], threading.Event()

        def look():
            dice = random.Random(threading.get_ident())
            while not stop.is_set():
                start = dice.randrange(50)
                pages.append((start, self.serve.get(path_of(self.item, start=start,
                                                            stop=start + 10))))

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            readers = [pool.submit(look) for _ in range(4)]
            try:
                for turn in range(1, 6):
                    expected = added if turn % 2 else added[::-1]
                    self.vote(orders[turn % 2])
                    self.roll_up()
                    self.wait_ids(expected[:20])
                    known[self.serve.get(path_of(self.item))["list"]] = expected
            finally:
                stop.set()
        for reader in readers:
            reader.result()
        self.assertGreater(len(pages), 100)
        self.assertEqual(len(known), 2)
        for start, page in pages:
            self.assertEqual(ids(page), known[page["list"]][start:start + 10])

    def test_bad_parameters_are_named(self):
        for path, at in (("/v1/items/0/recommended", None), ("/v1/items/x/recommended", None),
                         (path_of(1, start=-1), "start"), (path_of(1, start=1000), "start"),
                         (path_of(1, start=5, stop=5), "stop"),
                         (path_of(1, start=5, stop=106), "stop"),
                         (path_of(1, voterId=0), "voterId"), (path_of(1, page=1), "page")):
            answer = self.serve.call("GET", path)
            error = json.loads(answer.body)["error"]
            self.assertEqual((answer.status, error.get("at")), (400, at), path)


class Plans(suite.Case):
    """What the servers read for each statement, with two items of 18,000 remarks."""

    roles = ("serve",)
    settings = {**NO_CACHE, "rollup.interval_ms": 86400000}
    rows = 18000

    def reads(self):
        return sum(int(value) for name, value in self.stack.sql(
            "SHOW GLOBAL STATUS LIKE 'Handler_read%'") if name.lower() != "handler_read_rnd_next")

    def test_each_statement_reads_only_what_it_needs(self):
        self.stack.sql("INSERT INTO remark (id, item_id, status, votes) WITH RECURSIVE n (i) AS "
                       "(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT a.i * 1000 + "
                       "b.i, 1 + a.i % 2, 1, 0 FROM n a JOIN n b WHERE a.i <= 40")
        self.stack.sql("INSERT INTO recommended_change (item_id, changed_at) WITH RECURSIVE n (i) "
                       "AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT a.i * "
                       "1000 + b.i, '2026-01-01' FROM n a JOIN n b WHERE a.i <= 20")
        self.stack.tallybox("rollup", "--once")
        time.sleep(1)  # a build that sees a newer roll-up than the watcher reads twice
        with self.subTest("a build reads the remarks of its item"):
            before = self.reads()
            page = read(self.serve, 1, start=500, stop=520)
            self.assertEqual(page["count"], 1000)
            self.assertLess(self.reads() - before, 1.5 * self.rows)
        with self.subTest("a page reads its own remarks"):
            before = self.reads()
            self.assertEqual(len(read(self.serve, 1, start=700, stop=800)["remarks"]), 100)
            self.assertLess(self.reads() - before, 1000)
        with self.subTest("the watcher reads one remark for each item that it checks, and only "
                          "announcements of the last seconds"):
            before = self.reads()
            self.stack.sql("INSERT INTO vote_tally (content_id, votes, seq, changed_at) "
                           "VALUES (39001, 1, 1, UTC_TIMESTAMP(3))")
            self.stack.tallybox("rollup", "--once")
            built = builds(self.serve)
            time.sleep(2)
            self.assertEqual(builds(self.serve), built)
            self.assertLess(self.reads() - before, 4000)


class Away(suite.Case):
    roles = ()

    def test_a_list_is_shown_as_stale_and_then_refused(self):
        self.stack.sql("INSERT INTO remark (id, item_id, status) VALUES (1, 1, 1)")
        serve = self.start("serve", sets={"api.request_timeout_ms": 1000, "api.page_cache_ms": 100,
                                          "api.page_stale_ms": 8000})
        page = read(serve, 1)
        read(serve, 2)
        suite.database().stop()
        self.addCleanup(suite.database().restart)
        stale = suite.wait_for("a stale list", lambda: (
            lambda answer: answer.status == 200 and json.loads(answer.body)["stale"]
            and json.loads(answer.body))(serve.call("GET", path_of(1))))
        self.assertEqual((ids(stale), stale["list"]), (ids(page), page["list"]))
        # The page may be known as stale before the watcher has seen that the database is away.
        suite.wait_for("an item without a list to be refused",
                       lambda: serve.call("GET", path_of(3)).status == 503)
        suite.wait_for("the list to be too old",
                       lambda: serve.call("GET", path_of(1)).status == 503)
        suite.wait_for("the empty list to be too old",
                       lambda: serve.call("GET", path_of(2)).status == 503)
        suite.database().restart()
        suite.wait_for("a live list again", lambda: (
            lambda answer: answer.status == 200 and not json.loads(answer.body)["stale"])(
                serve.call("GET", path_of(1))))
        self.assertEqual(ids(read(serve, 1)), [1])


if __name__ == "__main__":
    unittest.main()
