# SPDX-License-Identifier: MIT
"""How a task gets into the retry queue: retry_append() of C, and one INSERT of everybody else."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import retry_store  # noqa: E402


class RetryAppend(retry_store.Case):
    """No role runs; the tables tell."""

    def append(self, store, *tasks):
        tasks = [{"scene": "a", "handler": "kafka", **task} for task in tasks]
        return store.do("append", tasks=tasks)["tickets"]

    def test_a_plain_insert_is_all_it_takes(self):
        self.stack.sql("INSERT INTO retry_task (scene, handler, params) VALUES ('mail', 'http', "
                       "'{\"to\":7}')")
        store = self.store()
        self.assertEqual([(one["handler"], one["group"], one["scene"]) for one in store.classes()],
                         [("http", "default", "mail")])
        task, = store.claim()
        self.assertEqual((task["bytes"], task["type"], task["attempts"], task["epoch"]),
                         (8, "application/json", 0, 1))
        self.assertEqual(store.finish([task]), [False])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 0)

    def test_ids_follow_the_order_of_the_tasks(self):
        tickets = self.append(self.store(), *({"params": str(n)} for n in range(3000)))
        ids = [ticket["id"] for ticket in tickets]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertFalse(any(ticket["existed"] for ticket in tickets))
        self.assertEqual([row[0].decode() for row in self.stack.sql(
            "SELECT params FROM retry_task ORDER BY id")], [str(n) for n in range(3000)])

    def test_every_column_gets_there(self):
        self.append(self.store(), {
            "group": "g", "scene": "s", "handler": "h", "key": "k\u00e9'\\", "idempotency": "i\"",
            "bizNo": "b", "options": "{\"a\":\"'\"}", "params": "p'\\\u0000q", "type": "text/plain",
            "delay": 60000, "parent": 5})
        row, = self.stack.sql(
            "SELECT task_group, scene, handler, ordering_key, idempotency_key, biz_no, options, "
            "params, params_type, parent_id, TIMESTAMPDIFF(SECOND, created_at, next_at) "
            "FROM retry_task")
        self.assertEqual(row, ("g", "s", "h", "k\u00e9'\\", "i\"", "b", "{\"a\":\"'\"}",
                               b"p'\\\0q", "text/plain", 5, 60))

    def test_a_second_submit_returns_the_first(self):
        store = self.store()
        for one in ({"params": "x"}, {"idempotency": "k", "params": "1"},
                    {"key": "o\u00e9", "bizNo": "b", "options": "{}"}):
            with self.subTest(one):
                first, = self.append(store, one)
                second, = self.append(store, {**one})
                self.assertFalse(first["existed"])
                self.assertEqual(second, {"id": first["id"], "existed": True})
        again = self.append(store, {"idempotency": "k", "params": "another"},
                            {"idempotency": "k2"}, {"idempotency": "k2"})
        self.assertEqual([ticket["existed"] for ticket in again], [True, False, True])
        self.assertEqual(again[1]["id"], again[2]["id"])

    def test_a_key_is_free_when_its_task_has_ended(self):
        store = self.store()
        for end in ("done", "skip", "park"):
            with self.subTest(end):
                first, = self.append(store, {"idempotency": "k", "key": f"o-{end}"})
                store.finish(store.claim(), end)
                second, = self.append(store, {"idempotency": "k", "key": f"p-{end}"})
                self.assertFalse(second["existed"])
                self.assertGreater(second["id"], first["id"])
                store.finish(store.claim(), "done")

    def test_a_running_task_is_not_held_up_by_a_second_submit(self):
        store = self.store()
        first, = self.append(store, {"idempotency": "k"})
        tasks = store.claim()
        other = self.session()
        with other.cursor() as cursor:
            # As retry_append() looks, in a transaction that stays open.
            cursor.execute("SELECT id FROM retry_task FORCE INDEX (uq_retry_task_active) "
                           "WHERE active_hash IN (SELECT active_hash FROM retry_task)")
        second, = self.append(self.store("other"), {"idempotency": "k"})
        self.assertEqual(second["id"], first["id"])
        self.assertEqual(store.finish(tasks), [False])

    def test_one_that_another_transaction_is_making_is_waited_for(self):
        """Only then can be known which of the two it is."""
        for commits in (True, False):
            with self.subTest(commits=commits):
                self.setUp()
                session, store = self.session(), self.store()
                first, = self.insert(None, connection=session, idempotency_key="k")
                store.send("append", tasks=[{"scene": "a", "handler": "kafka", "idempotency": one}
                                            for one in ("new", "k")])
                # The server answers from its cache when it is asked more often.
                suite.wait_for("the append to wait", lambda: self.stack.number(
                    "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = "
                    "'LOCK WAIT'"), every=0.3)
                (session.commit if commits else session.rollback)()
                answer = store.answer()
                self.assertEqual(answer["rc"], "ok", answer)
                new, second = answer["tickets"]
                self.assertEqual((new["existed"], second["existed"]), (False, commits))
                self.assertEqual(second["id"] == first, commits)
                self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 2)

    def test_faults_are_named_and_nothing_is_written(self):
        store = self.store()
        for fault, words in (({"scene": "a b"}, "task 1: scene has a character"),
                             ({"options": "[]"}, "task 1: options are not a JSON object"),
                             ({"key": "x" * 513}, "task 1: ordering_key is longer")):
            with self.subTest(words):
                good = {"scene": "a", "handler": "kafka"}
                answer = store.ask("append", tasks=[good, {**good, **fault}])
                self.assertEqual(answer["rc"], "reject")
                self.assertIn(words, answer["error"])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 0)

    def test_a_group_of_the_relay_or_the_consumer_is_refused(self):
        self.stack.sql("INSERT IGNORE INTO retry_group (name, owner) VALUES ('theirs', 'consumer'), "
                       "('mine', 'client')")
        store = self.store()
        for group, owner in (("outbox", "relay"), ("theirs", "consumer")):
            answer = store.ask("append", tasks=[
                {"scene": "a", "handler": "kafka", "group": "mine"},
                {"scene": "publish", "handler": "kafka", "group": group}])
            self.assertEqual(answer["rc"], "reject")
            self.assertIn(f"task 1: group {group} belongs to the {owner}", answer["error"])
            self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 0)
        self.append(store, {"group": "mine"}, {"group": "nobody's"[:6]})
        self.assertEqual(self.stack.sql("SELECT DISTINCT origin FROM retry_task"), [("client",)])

    def test_a_large_task_goes_through(self):
        store = self.store()
        self.append(store, {"params": "x" * (16 << 20)}, {"params": "y"})
        self.assertEqual([task["bytes"] for task in store.claim()], [16 << 20, 1])


if __name__ == "__main__":
    unittest.main()
