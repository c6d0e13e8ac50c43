# SPDX-License-Identifier: MIT
"""The retry queue's store: which process gets which task, in which order, and what is left of
it in the tables, whichever other processes work or were killed."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import mysql_edge  # noqa: E402
import retry_store  # noqa: E402

WAITING, RUNNING, QUEUED, BLOCKED, PARKED = range(5)


class RetryStore(retry_store.Case):
    """Claims with SKIP LOCKED."""

    compare_and_set = False

    def store(self, owner="me", **more):
        return super().store(owner, compare_and_set=self.compare_and_set, **more)

    def test_tasks_come_in_the_order_of_their_time_and_id(self):
        store = self.store()
        later, = self.insert(None, next_at="2020-01-03")
        first = self.insert(None, None, next_at="2020-01-01")
        self.insert(None, next_at="2100-01-01")
        # Of one shard, so that one claim is asked.
        shards = dict(self.stack.sql("SELECT id, shard FROM retry_task"))
        for shard in set(shards.values()):
            tasks = [task["id"] for task in store.claim(shard=shard)]
            self.assertEqual(tasks, [one for one in (*first, later) if shards[one] == shard])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE state = 1"), 3)

    def test_look_tells_every_class_and_when_it_is_due(self):
        store = self.store()
        self.assertEqual(store.classes(), [])
        for scene in ("b", "a", "c"):
            self.insert("k", scene=scene)
            self.assertEqual(sorted({one["scene"] for one in store.classes()}),
                             sorted({row[0] for row in self.stack.sql(
                                 "SELECT scene FROM retry_task")}))
        self.insert("k", scene="later", next_at="2100-01-01")
        dues = {one["scene"]: one["due"] for one in store.classes()}
        self.assertLessEqual(dues["a"], 0)
        self.assertGreater(dues["later"], 1000 * 86400 * 365)
        self.stack.sql("DELETE FROM retry_task WHERE scene IN ('a', 'c')")
        self.assertEqual([one["scene"] for one in store.classes()], ["b", "later"])
        self.stack.sql("DELETE FROM retry_task")
        self.assertEqual(store.classes(), [])

    def test_look_finds_hundreds_of_classes(self):
        store = self.store()
        scenes = {f"s{n}" for n in range(300)}
        for scene in sorted(scenes):
            self.stack.sql("INSERT INTO retry_task (scene, handler) VALUES (%s, 'h')", [scene])
        for _ in range(2):
            self.assertEqual({one["scene"] for one in store.classes()}, scenes)
            self.stack.sql("DELETE FROM retry_task WHERE scene LIKE 's1%%'")
            scenes = {scene for scene in scenes if not scene.startswith("s1")}

    def test_a_name_that_nobody_can_read_is_in_nobodys_way(self):
        store = self.store()
        self.stack.sql("INSERT INTO retry_task (scene, handler) VALUES ('a\\0b', 'h'), "
                       "('', 'h'), ('ok', '')")
        self.insert(None, scene="z")
        self.assertEqual(len(store.claim(scene="z")), 1)
        store.do("depths")

    def test_scenes_are_told(self):
        store = self.store()
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy, paused) VALUES "
                       "('g', 's', '{\"x\":1}', 1), ('g', 't', NULL, 0)")
        self.assertEqual(store.do("scenes")["scenes"], [
            {"group": "g", "scene": "s", "policy": '{"x":1}', "options": None, "paused": True,
             "version": 1},
            {"group": "g", "scene": "t", "policy": None, "options": None, "paused": False,
             "version": 1}])

    def test_tasks_of_one_key_run_one_by_one(self):
        store = self.store()
        ids = self.insert("k", "k", None, "k", "other")
        self.assertEqual(sorted(task["id"] for task in store.claim()), [ids[0], ids[2], ids[4]])
        self.assertEqual(self.states(), {ids[0]: RUNNING, ids[1]: QUEUED, ids[2]: RUNNING,
                                         ids[3]: QUEUED, ids[4]: RUNNING})
        self.assertEqual(store.claim(), [])
        for head, woken, last in ((0, 1, QUEUED), (1, 3, RUNNING)):
            epoch = self.stack.number("SELECT epoch FROM retry_task WHERE id = %s", [ids[head]])
            store.finish([{"id": ids[head], "epoch": epoch}])
            self.assertEqual([task["id"] for task in store.claim()], [ids[woken]])
            self.assertEqual(self.states()[ids[3]], last)

    def test_scenes_of_one_group_share_their_keys(self):
        store = self.store()
        first, = self.insert("k", scene="a")
        second, = self.insert("k", scene="b")
        self.insert("k", scene="b", task_group="another")
        self.assertEqual(len(store.claim(scene="b", group="default")), 0)
        self.assertEqual(self.states()[second], QUEUED)
        self.assertEqual(len(store.claim(group="another")), 1)
        self.assertEqual([task["id"] for task in store.claim(scene="a")], [first])

    def test_whatever_ends_the_next_one_of_the_key_goes_on(self):
        for end, kept in (("done", False), ("skip", False), ("block", True), ("park", True)):
            with self.subTest(end):
                self.setUp()
                store = self.store()
                first, second = self.insert("k", "k")
                store.finish(store.claim(), end)
                tasks = [task["id"] for task in store.claim()]
                self.assertEqual(tasks, [] if kept else [second])
                self.assertEqual(first in self.states(), kept)

    def test_one_that_waits_again_stays_ahead_of_its_key(self):
        store = self.store()
        first, second = self.insert("k", "k")
        store.finish(store.claim(), "again", delay=60000, attempts=1)
        self.assertEqual(store.claim(), [])
        self.assertEqual(self.states(), {first: WAITING, second: QUEUED})
        self.stack.sql("UPDATE retry_task SET next_at = UTC_TIMESTAMP(3) WHERE id = %s", [first])
        self.assertEqual([task["id"] for task in store.claim()], [first])

    def test_one_with_a_smaller_id_that_came_late_goes_first(self):
        """It was inserted first and committed last, and no claim waits for that."""
        store, late = self.store(), self.session()
        small, = self.insert("k", connection=late)
        large, = self.insert("k")
        tasks = store.claim()
        self.assertEqual([task["id"] for task in tasks], [large])
        late.commit()
        self.assertEqual(store.claim(), [])
        self.assertEqual(self.states(), {small: QUEUED, large: RUNNING})
        store.finish(tasks, "back")
        self.assertEqual([task["id"] for task in store.claim()], [small])
        self.assertEqual(self.states(), {small: RUNNING, large: QUEUED})

    def test_two_of_one_key_cannot_run_even_when_no_read_can_tell(self):
        """While the one with the larger id is claimed, the one with the smaller id is committed;
        who claims that does not see the other claim, which is not committed."""
        store, late, claimer = self.store(), self.session(), self.session()
        small, = self.insert("k", connection=late)
        large, = self.insert("k")
        with claimer.cursor() as cursor:
            cursor.execute("UPDATE retry_task SET state = 1, epoch = 1, lease_until = "
                           "UTC_TIMESTAMP(3) + INTERVAL 1 HOUR WHERE id = %s", [large])
        late.commit()
        shard = self.stack.number("SELECT shard FROM retry_task WHERE id = %s", [small])
        answer = store.ask("claim", handler="kafka", group="default", scene="a", shard=shard,
                           rows=10, lease=30000)
        self.assertEqual((answer["rc"], answer["tasks"]), ("retry", []), answer)
        claimer.commit()
        self.assertEqual(store.claim(), [])
        self.assertEqual(self.states(), {small: QUEUED, large: RUNNING})

    def test_many_tasks_of_one_key_are_in_nobodys_way(self):
        store = self.store()
        self.insert(*["k"] * 450)
        shard = self.stack.number("SELECT MIN(shard) FROM retry_task")
        other = next(f"o{n}" for n in range(1000) if self.stack.number(
            "SELECT ORD(UNHEX(SHA2(CONCAT('client', 0x00, 'default', 0x00, %s), 256))) %% 16", [f"o{n}"]) == shard)
        last, = self.insert(other)
        self.assertEqual(len(store.claim(rows=2)), 2)
        self.assertEqual(self.states()[last], RUNNING)

    def test_no_claim_waits_for_an_insert(self):
        store, open_one = self.store(), self.session()
        self.insert("k", None, connection=open_one)
        ids = self.insert("k", None)
        self.assertEqual(sorted(task["id"] for task in store.claim()), ids)
        open_one.rollback()

    def test_what_was_finished_is_in_the_tables(self):
        store = self.store("host-1")
        self.insert(None)
        task, = store.claim()
        store.finish([task], "again", attempts=1, delay=60000, reason="it's \"\u00e9\\\n\U0001f600",
                     outcome="failed", took=1500, **{"class": "transient"})
        row, = self.stack.sql(
            "SELECT state, attempts, reason_class, reason, RTRIM(owner), epoch, "
            "TIMESTAMPDIFF(SECOND, updated_at, next_at) FROM retry_task")
        self.assertEqual(row, (WAITING, 1, "transient", "it's \"\u00e9\\\n\U0001f600", "", 1, 60))
        row, = self.stack.sql(
            "SELECT task_id, owner, step, took_ms, outcome, reason_class, reason FROM "
            "retry_attempt")
        self.assertEqual(row, (task["id"], "host-1", 0, 1500, "failed", "transient",
                               "it's \"\u00e9\\\n\U0001f600"))

    def test_a_claim_leaves_the_length_of_its_row(self):
        """A row that grows splits its page: see STORE_OWNER_BYTES."""
        store = self.store("host-1")
        self.insert(None)

        def lengths():
            return self.stack.sql("SELECT CHAR_LENGTH(owner), OCTET_LENGTH(owner), "
                                  "lease_until IS NULL FROM retry_task")
        before = lengths()
        for end in ("back", "back"):
            tasks = store.claim()
            self.assertEqual(self.stack.number("SELECT RTRIM(owner) FROM retry_task"), "host-1")
            self.assertEqual(lengths(), before)
            store.finish(tasks, end)
            self.assertEqual(lengths(), before)

    def test_done_takes_its_attempts_along_or_is_kept(self):
        store = self.store("host-1")
        for keep in (False, True):
            with self.subTest(keep=keep):
                self.setUp()
                self.insert("k", biz_no="b")
                store.finish(store.claim(), "again", attempts=1, outcome="failed", reason="x")
                store.finish(store.claim(), "done", attempts=1, outcome="done", keep=keep)
                self.assertEqual(self.states(), {})
                self.assertEqual([row[0] for row in self.stack.sql(
                    "SELECT outcome FROM retry_attempt ORDER BY id")],
                    ["failed", "done"] if keep else [])
                self.assertEqual(self.stack.sql(
                    "SELECT biz_no, ordering_key, outcome, attempts, owner, state "
                    "FROM retry_task_history"),
                    [("b", "k", "done", 1, "host-1", RUNNING)] if keep else [])

    def test_a_done_task_is_forgotten_when_its_time_has_passed(self):
        store = self.store()
        for keep in (0, 3600000, 1):
            self.insert("k")
            store.finish(store.claim(), "again", attempts=1, outcome="failed", reason="x")
            store.finish(store.claim(), "done", outcome="done", keep=True, keepMs=keep)
        self.insert(None)
        store.finish(store.claim(), "skip", outcome="failed", reason="no")
        ids = [row[0] for row in self.stack.sql("SELECT id FROM retry_task_history ORDER BY id")]
        suite.wait_for("its time to pass", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task_history WHERE keep_until < UTC_TIMESTAMP(3)"))
        self.assertEqual([store.do("forget", rows=10)["count"] for _ in range(2)], [1, 0])
        for column, table in (("id", "retry_task_history"), ("task_id", "retry_attempt")):
            self.assertEqual([row[0] for row in self.stack.sql(
                f"SELECT DISTINCT {column} FROM {table} ORDER BY 1")],
                [ids[0], ids[1], ids[3]])
        self.stack.sql("UPDATE retry_task_history SET keep_until = UTC_TIMESTAMP(3) WHERE "
                       "keep_until IS NOT NULL")
        self.assertEqual(store.do("forget", rows=10)["count"], 1)

    def test_an_exhausted_task_is_whole_in_the_history(self):
        store = self.store()
        self.stack.sql("INSERT INTO retry_task (scene, handler, ordering_key, params) VALUES "
                       "('a', 'kafka', 'k', 'the params')")
        store.finish(store.claim(), "park", attempts=3, outcome="failed", reason="no",
                     **{"class": "refused"})
        self.assertEqual(self.stack.sql("SELECT params, outcome, attempts, reason_class, reason "
                                        "FROM retry_task_history"),
                         [(b"the params", "exhausted", 3, "refused", "no")])
        self.assertEqual(self.stack.sql("SELECT state, params, active_hash, reason "
                                        "FROM retry_task"), [(PARKED, None, None, "no")])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_attempt"), 1)

    def test_a_task_is_exhausted_only_under_the_version_of_its_scene(self):
        store = self.store()
        kept, other = self.insert("k", None)
        tasks = store.claim()
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, version) VALUES ('default', 'a', "
                       "7)")
        for end in ("skip", "block", "park"):
            results = [{"id": task["id"], "epoch": task["epoch"], "end": end, "attempts": 1,
                        "sceneVersion": 7 if task["id"] == other else 6, "outcome": "failed",
                        "callbackScene": "cb", "callbackHandler": "http"} for task in tasks]
            answer = store.do("finish", results=results)
            self.assertEqual([one["id"] for one, outdated in
                              zip(results, answer["outdated"], strict=True) if outdated], [kept])
            self.assertEqual([one["id"] for one, lost in
                              zip(results, answer["lost"], strict=True) if lost],
                             [] if end == "skip" else [other])
            self.assertEqual(self.stack.sql("SELECT state, attempts FROM retry_task WHERE id = %s",
                                            [kept]), [(RUNNING, 0)])
        self.assertEqual(self.stack.sql("SELECT id FROM retry_task_history"), [(other,)])
        self.assertEqual(self.stack.sql("SELECT DISTINCT parent_id FROM retry_task WHERE parent_id "
                                        "IS NOT NULL"), [(other,)])
        # An end that exhausts nothing needs no version.
        self.assertEqual(store.finish([task for task in tasks if task["id"] == kept]), [False])

    def test_steps_go_on_with_what_the_one_before_gave(self):
        store = self.store()
        self.insert(None)
        store.finish(store.claim(), "step", stepResult="first", outcome="done")
        task, = store.claim()
        self.assertEqual((task["step"], task["stepResult"], task["attempts"]), (1, "first", 0))
        store.finish([task], "again", attempts=1, outcome="failed")
        task, = store.claim()
        self.assertEqual((task["step"], task["stepResult"], task["attempts"]), (1, "first", 1))
        store.finish([task], "step")
        task, = store.claim()
        self.assertEqual((task["step"], task["stepResult"], task["attempts"]), (2, None, 0))

    def test_a_callback_is_made_with_the_end_and_once(self):
        store = self.store()
        self.insert("k")
        task, = store.claim()
        back = {"callbackScene": "told", "callbackHandler": "http", "callbackParams": "{\"a\":1}"}
        for lost in (False, True):
            self.assertEqual(store.finish([task], "done", **back), [lost])
        self.assertEqual(self.stack.sql(
            "SELECT task_group, scene, handler, ordering_key, idempotency_key, params, parent_id "
            "FROM retry_task"), [("default", "told", "http", None, f"callback/{task['id']}/done",
                                  b"{\"a\":1}", task["id"])])

    def test_a_task_that_is_somebody_elses_now_is_not_touched(self):
        store, other = self.store("a"), self.store("b")
        ids = self.insert(None, "k")
        tasks = store.claim(lease=1)
        suite.wait_for("the leases to end", lambda: other.do("rescue", rows=10)["count"])
        # Rescued, and not yet claimed by anybody.
        self.assertEqual(store.finish(tasks), [True, True])
        self.assertEqual(store.do("renew", tasks=tasks, lease=60000)["lost"], [True, True])
        self.assertEqual(self.states(), dict.fromkeys(ids, WAITING))
        mine = other.claim()
        for end in ("done", "again", "back", "block", "park", "skip", "step"):
            self.assertEqual(store.finish(tasks, end, attempts=9, outcome="failed"), [True, True])
        self.assertEqual(store.do("renew", tasks=tasks, lease=60000)["lost"], [True, True])
        self.assertEqual(self.states(), dict.fromkeys(ids, RUNNING))
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_attempt"), 0)
        self.assertEqual([task["attempts"] for task in mine], [0, 0])
        self.assertEqual(other.finish(mine), [False, False])

    def test_of_tasks_that_end_without_trace_only_those_held_are_deleted(self):
        """They are deleted without a look, see finish_dropped(): where one is lost, all are read."""
        store = self.store()
        self.insert(None, None, None)
        tasks = store.claim()
        self.stack.sql("UPDATE retry_task SET epoch = epoch + 1 WHERE id = %s", [tasks[1]["id"]])
        self.assertEqual(store.finish(tasks), [False, True, False])
        self.assertEqual(self.states(), {tasks[1]["id"]: RUNNING})
        self.assertEqual(store.finish(tasks), [True, True, True])

    def test_a_beat_keeps_what_is_ours_and_tells_the_rest(self):
        store = self.store()
        self.insert(None, None, None)
        tasks = store.claim(lease=1000)
        store.finish(tasks[1:2])
        self.assertEqual(store.do("renew", tasks=tasks, lease=3600000)["lost"],
                         [False, True, False])
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE lease_until > UTC_TIMESTAMP(3) + "
            "INTERVAL 59 MINUTE"), 2)
        self.assertEqual(store.do("rescue", rows=10)["count"], 0)
        self.assertEqual(store.do("renew", tasks=[], lease=1)["lost"], [])

    def test_a_rescue_gives_back_and_wakes(self):
        store, late = self.store(), self.session()
        small, = self.insert("k", connection=late)
        large, = self.insert("k")
        store.claim(lease=1)
        late.commit()
        store.claim(lease=60000)
        self.assertEqual(self.states(), {small: QUEUED, large: RUNNING})
        suite.wait_for("the lease to end", lambda: store.do("rescue", rows=10)["count"])
        self.assertEqual([task["id"] for task in store.claim()], [small])
        self.assertEqual(self.states(), {small: RUNNING, large: QUEUED})

    def test_depths_count_every_state(self):
        store = self.store()
        self.insert("k", "k", "p", "b")
        for task in store.claim():
            if task["key"] != "k":
                store.finish([task], "park" if task["key"] == "p" else "block")
        self.insert(None, None)
        counts = {}
        for one in store.do("depths")["depths"]:
            counts[one["state"]] = counts.get(one["state"], 0) + one["count"]
            self.assertGreaterEqual(one["oldest"], 0)
        self.assertEqual(counts, {WAITING: 2, RUNNING: 1, QUEUED: 1, BLOCKED: 1, PARKED: 1})

    def test_a_task_too_large_to_run_waits_for_a_person(self):
        self.stack.sql("INSERT INTO retry_task (scene, handler, params) VALUES ('a', 'kafka', "
                       "REPEAT('x', (16 << 20) + 1))")
        store = self.store()
        self.assertEqual(store.claim(), [])
        state, reason = self.stack.row("SELECT state, reason FROM retry_task")
        self.assertEqual(state, BLOCKED)
        self.assertIn("params have 16777217 bytes", reason)
        self.assertEqual(store.claim(), [])

    def test_small_and_large_tasks_are_claimed_alike(self):
        """Small ones are read by the search for due tasks, large ones when they are claimed."""
        store = self.store()
        for column in (None, "params", "options", "step_result"):
            with self.subTest(column=column):
                self.setUp()
                for n in range(40):
                    self.insert(None, idempotency_key=f"k{n}", biz_no=str(n), options=f'{{"n": {n}}}',
                                attempts=n)
                if column:
                    self.stack.sql(f"UPDATE retry_task SET {column} = CONCAT('{{\"x\": \"', "
                                   "REPEAT('y', 5000), '\"}') WHERE MOD(id, 3) = 0")
                self.stack.sql("UPDATE retry_task SET params = NULL WHERE MOD(id, 5) = 0")
                rows = {row[0]: row[1:] for row in self.stack.sql(
                    "SELECT id, idempotency_key, biz_no, options, COALESCE(OCTET_LENGTH(params), "
                    "-1), CAST(step_result AS CHAR), attempts, 1 FROM retry_task")}
                shards = dict(self.stack.sql("SELECT id, shard FROM retry_task"))
                tasks = store.claim()
                self.assertEqual({task["id"]: (task["idempotency"], task["bizNo"], task["options"],
                                               task["bytes"], task["stepResult"],
                                               task["attempts"], task["epoch"])
                                  for task in tasks}, rows)
                for shard in set(shards.values()):
                    ids = [task["id"] for task in tasks if shards[task["id"]] == shard]
                    self.assertEqual(ids, sorted(ids))
                self.assertEqual(store.finish(tasks), [False] * len(tasks))

    def test_a_claim_is_bounded_in_bytes(self):
        self.stack.sql("INSERT INTO retry_task (scene, handler, ordering_key, idempotency_key, "
                       "params) SELECT 'a', 'kafka', NULL, CONCAT('k', n), "
                       "REPEAT('x', 12 << 20) FROM (SELECT 1 n UNION SELECT 2 UNION SELECT 3 "
                       "UNION SELECT 4) AS some")
        shards = [row[0] for row in self.stack.sql("SELECT shard FROM retry_task")]
        # All in one class.
        for number, (one,) in enumerate(self.stack.sql("SELECT id FROM retry_task")):
            key = next(f"q{number}-{n}" for n in range(1000) if self.stack.number(
                "SELECT ORD(UNHEX(SHA2(CONCAT('client', 0x00, 'default', 0x00, %s), 256))) %% 16",
                [f"q{number}-{n}"]) == shards[0])
            self.stack.sql("UPDATE retry_task SET ordering_key = %s WHERE id = %s", [key, one])
        store = self.store()
        self.assertEqual([len(store.claim()) for _ in range(3)], [2, 2, 0])


class RetryStorePast(retry_store.Case):
    """Claims with SKIP LOCKED pass rows that another session holds; compare-and-set waits for them."""

    def test_two_sessions_get_different_tasks_and_wait_for_nobody(self):
        store, other = self.store(), self.session()
        self.insert(*[None] * 40)
        shard, count = self.stack.row("SELECT shard, COUNT(*) n FROM retry_task GROUP BY shard "
                                      "ORDER BY n DESC, shard LIMIT 1")
        mine = [row[0] for row in self.stack.sql("SELECT id FROM retry_task WHERE shard = %s "
                                                 "ORDER BY next_at, id", [shard])]
        self.assertGreater(count, 2)
        with other.cursor() as cursor:
            # The middle ones are another session's claim, which is not committed.
            cursor.execute(f"SELECT id FROM retry_task FORCE INDEX (PRIMARY) WHERE id IN "
                           f"({mine[1]}) FOR UPDATE")
            cursor.execute(f"UPDATE retry_task SET state = 1 WHERE id = {mine[1]}")
        tasks = [task["id"] for task in store.claim(shard=shard)]
        self.assertEqual(tasks, [mine[0], *mine[2:]])
        other.rollback()
        self.assertEqual([task["id"] for task in store.claim(shard=shard)], [mine[1]])

    def test_what_somebody_else_is_ending_is_left_for_the_next_time(self):
        store, other = self.store(), self.session()
        first, second = self.insert("k", "k")
        task, = store.claim(rows=1)
        self.stack.sql("UPDATE retry_task SET state = 0 WHERE id = %s", [second])
        with other.cursor() as cursor:
            cursor.execute("DELETE FROM retry_task WHERE id = %s", [first])
        self.assertEqual(store.claim(), [])
        self.assertEqual(self.states()[second], WAITING)
        other.rollback()
        self.assertEqual(store.claim(), [])
        self.assertEqual(self.states()[second], QUEUED)
        self.assertEqual(store.finish([task]), [False])
        self.assertEqual(len(store.claim()), 1)


class RetryStoreCompared(RetryStore):
    """Claims with compare-and-set; all else is the same."""

    compare_and_set = True


    def test_a_claim_that_looked_before_an_edit_takes_nothing(self):
        server = suite.database()
        edge = mysql_edge.Edge(server.host, server.port)
        self.addCleanup(edge.close)
        store = self.store(port=edge.port)
        task, = self.insert(None, options='{"url": "http://h/"}', handler="http")
        one, = store.classes()
        held = edge.hold(r"UPDATE retry_task .* SET state = 1")
        store.send("claim", rows=10, lease=30000, **one)
        suite.wait_for("the claim to have looked", lambda: held.hits == 1)
        self.stack.tallybox("retry", "edit", task, "--params", "-", stdin=b"new")
        held.released.set()
        answer = store.answer()
        self.assertEqual((answer["rc"], answer["tasks"]), ("ok", []))
        self.assertEqual([one["id"] for one in store.claim()], [task])


class Nth:
    """Instead of a pattern: the n-th statement, and none of a connection's set-up."""

    def __init__(self, nth):
        self.left = nth

    def search(self, sql):
        self.left -= not re.search(r"\ASET |\ASELECT @@|\ASHOW ", sql, re.IGNORECASE)
        return self.left < 0


class RetryStoreTrouble(retry_store.Case):
    """The connection is lost at every single statement, before it reaches the server and before its
    answer comes back."""

    def setUp(self):
        super().setUp()
        server = suite.database()
        self.edge = mysql_edge.Edge(server.host, server.port)
        self.addCleanup(self.edge.close)
        self.well, self.ill = self.store("well"), self.store("ill", port=self.edge.port)

    def each(self):
        """Makes every statement fail in turn until there are no more; fresh tasks each time."""
        for how in (self.edge.cut, self.edge.lose):
            for nth in range(30):
                super().setUp()
                self.edge.well()
                ids = self.insert("k", "k", "k", None)
                trouble = how("")
                trouble.pattern = Nth(nth)
                with self.subTest(how=how.__name__, nth=nth):
                    yield ids
                if trouble.hits == 0:
                    break
            else:
                self.fail("there are ever more statements")

    def drain(self, ids):
        """All that is there is run by the store without trouble, the key in its order."""
        self.wait_unlocked()
        self.stack.sql("UPDATE retry_task SET lease_until = UTC_TIMESTAMP(3) WHERE state = 1")
        self.well.do("rescue", rows=100)
        ran = []
        while tasks := self.well.claim():
            ran += [task["id"] for task in tasks if task["key"] == "k"]
            self.assertEqual(set(self.well.finish(tasks)), {False})
        self.assertEqual(ran, [one for one in ids[:3] if one in ran])
        self.assertEqual(self.states(), {})
        return ran

    def test_a_claim_that_is_cut_off_loses_nothing(self):
        for ids in self.each():
            for one in self.well.classes():
                answer = self.ill.ask("claim", rows=10, lease=60000, **one)
                self.assertIn(answer["rc"], ("ok", "retry"), answer)
            self.assertEqual(self.drain(ids), ids[:3])

    def test_a_finish_that_is_cut_off_is_done_once_when_it_is_done_again(self):
        for ids in self.each():
            tasks = self.well.claim()
            self.assertEqual(len(tasks), 2)
            results = [{"id": task["id"], "epoch": task["epoch"],
                        "sceneVersion": task["sceneVersion"], "end": "skip", "attempts": 1,
                        "outcome": "failed", "callbackScene": "cb", "callbackHandler": "http"}
                       for task in tasks]
            answer = self.ill.ask("finish", results=results)
            self.assertIn(answer["rc"], ("ok", "retry"), answer)
            self.wait_unlocked()
            again = self.well.do("finish", results=results)["lost"]
            self.assertEqual(len(set(again)), 1)
            for table in ("retry_task_history", "retry_attempt"):
                self.assertEqual(self.stack.number(f"SELECT COUNT(*) FROM {table}"), 2)
            self.assertEqual(self.stack.number(
                "SELECT COUNT(*) FROM retry_task WHERE parent_id IS NOT NULL"), 2)
            self.assertEqual(self.drain(ids), ids[1:3])

    def test_a_rescue_that_is_cut_off_is_made_good(self):
        for ids in self.each():
            self.well.claim()
            self.stack.sql("UPDATE retry_task SET lease_until = UTC_TIMESTAMP(3) WHERE state = 1")
            self.assertIn(self.ill.ask("rescue", rows=10)["rc"], ("ok", "retry"))
            self.assertEqual(self.drain(ids), ids[:3])

    def test_an_append_that_is_cut_off_is_made_good(self):
        for _ in self.each():
            self.stack.sql("DELETE FROM retry_task")
            tasks = [{"scene": "a", "handler": "kafka", "params": str(n)} for n in range(3)]
            self.assertIn(self.ill.ask("append", tasks=tasks)["rc"], ("ok", "retry"))
            tickets = self.well.do("append", tasks=tasks)["tickets"]
            self.assertEqual(len({ticket["existed"] for ticket in tickets}), 1)
            self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 3)


if __name__ == "__main__":
    unittest.main()
