# SPDX-License-Identifier: MIT
"""Dead records over HTTP: what is shown of them, replays and drops, and their rows in the audit. No
consumer runs here."""

import base64
import concurrent.futures
import hashlib
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
from test_dead import event  # noqa: E402
from test_operate_api import OPERATOR, TASKS, grant_operating  # noqa: E402

TABLES = ("dead_record", "dead_history", "retry_audit", "vote_document", "vote_tally", "vote_last")


class DeadApi(suite.Case):
    """Helpers of this file."""

    granted = ("dead",)
    more_sets = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{OPERATOR} operate\n{TASKS} votes tasks:default\n")
        tokens.chmod(0o600)
        grant_operating(cls.stack, cls.granted)
        cls.sets = {"api.tasks": "on", "api.operate": "on", "api.token_file": tokens, **cls.more_sets}
        cls.serve = cls.serving()
        cls.name = "token:" + hashlib.sha256(OPERATOR.encode()).hexdigest()[:8]

    @classmethod
    def serving(cls, **more):
        """A serve that has reached the databases of dead records: readiness does not wait for them."""
        serve = cls.stack.role("serve", sets={**cls.sets, **more})
        suite.wait_for("dead records to be asked for", lambda: serve.call(
            "GET", "/v1/dead", headers={"Authorization": f"Bearer {OPERATOR}"}
        ).status == 200 or "event=dead_admin_failed" in serve.log_text())
        return serve

    def setUp(self):
        for table in TABLES:
            self.stack.sql(f"DELETE FROM {table}")
        self.offset = 0

    def record(self, value, key=None, reason="decode", age_s=0, headers="[]"):
        """A dead record; its id is returned."""
        if isinstance(value, dict):
            key = str(value["contentId"]) if key is None else key
            value = json.dumps(value)
        self.offset += 1
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO dead_record (consumer_group, topic, partition_id, record_offset, "
                "record_key, payload, headers, reason_class, reason, created_at) VALUES (%s, %s, 0, "
                "%s, %s, %s, %s, %s, 'a test', UTC_TIMESTAMP(3) - INTERVAL %s SECOND)",
                [self.stack.group, self.stack.topic, self.offset, key, value, headers, reason, age_s])
            return cursor.lastrowid

    def request(self, method, path, body=None, status=200, token=OPERATOR, serve=None):
        raw = None if body is None else json.dumps(body).encode()
        answer = (serve or self.serve).call(
            method, path, raw, {"Authorization": f"Bearer {token}",
                                **({"Content-Type": "application/json"} if raw else {})})
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def act(self, record, action, status=200, body=None, **more):
        return self.request("POST", f"/v1/dead/{record}/{action}", body or {}, status, **more)

    def many(self, status=200, serve=None, **body):
        return self.request("POST", "/v1/dead", body, status, serve=serve)

    def fault(self, answer):
        return answer["error"]["code"], answer["error"].get("at")

    def ids(self, query=""):
        return [one["id"] for one in self.get(f"/v1/dead?{query}")["records"]]

    def applied(self, content):
        return self.stack.sql("SELECT voter_id, voting, votes, content_seq FROM vote_document "
                              "WHERE content_id = %s ORDER BY content_seq", [content])

    def audit(self):
        return self.stack.sql("SELECT acted_by, via, action, what, why, changed FROM retry_audit "
                              "ORDER BY id")

    def count(self, table):
        return self.stack.number(f"SELECT COUNT(*) FROM {table}")


class Reads(DeadApi):
    """GET /v1/dead and GET /v1/dead/{id}."""

    def test_records_are_listed_by_what_they_are_page_by_page(self):
        decode = [self.record(b"x", "7", age_s=7200), self.record(b"y", "7")]
        rule = [self.record(b"z", "8", "rule"), self.record(None, None, "rule")]
        everything = decode + rule
        self.assertEqual(self.ids(), everything)
        self.assertEqual(self.ids("reasonClass=decode"), decode)
        self.assertEqual(self.ids("key=8"), rule[:1])
        self.assertEqual(self.ids("key=8&reasonClass=decode"), [])
        self.assertEqual(self.ids("partition=0"), everything)
        self.assertEqual(self.ids("partition=1"), [])
        self.assertEqual(self.ids(f"topic={self.stack.topic}"), everything)
        self.assertEqual(self.ids("topic=other"), [])
        died = self.get("/v1/dead")["records"][0]["diedAt"]
        self.assertEqual(self.ids(f"since={died + 1}"), everything[1:])
        self.assertEqual(self.ids(f"until={died + 1}"), everything[:1])
        self.assertEqual(self.ids(f"since={died}&until=253402300799999"), everything)
        first = self.get("/v1/dead?limit=3")
        self.assertEqual(([one["id"] for one in first["records"]], first["more"], first["after"]),
                         (everything[:3], True, everything[2]))
        last = self.get(f"/v1/dead?limit=3&after={first['after']}")
        self.assertEqual(([one["id"] for one in last["records"]], last["more"]),
                         (everything[3:], False))
        self.assertEqual(self.get(f"/v1/dead?after={everything[3]}"),
                         {"records": [], "more": False, "after": None})
        self.stack.sql("UPDATE dead_record SET consumer_group = 'other' WHERE id = %s", [decode[0]])
        self.assertEqual(self.ids(), everything[1:])
        self.get(f"/v1/dead/{decode[0]}", status=404)

    def test_the_group_follows_from_the_id_of_the_installation(self):
        name, = self.stack.sql("SELECT name FROM installation")[0]
        record = self.record(b"x", "7")
        self.stack.sql("UPDATE dead_record SET consumer_group = %s", [f"tallybox-{name}"])
        serve = self.serving(**{"consumer.group": ""})
        self.addCleanup(serve.kill)
        self.assertEqual([one["id"] for one in self.get("/v1/dead", serve=serve)["records"]], [record])
        self.assertEqual(self.ids(), [])

    def test_bad_queries_are_refused(self):
        for query in ("limit=0", "limit=201", "after=-1", "partition=-1", "partition=2147483648",
                      "since=x", "until=253402300800000", "reasonClass=A", "topic=a%20b", "key=",
                      "decided=yes", "topic=" + "a" * 250):
            with self.subTest(query=query):
                answer = self.get(f"/v1/dead?{query}", status=400)
                self.assertEqual(self.fault(answer), ("out_of_range", query.split("=")[0]))
        self.get("/v1/dead?group=x", status=400)
        self.get("/v1/dead/x", status=400)
        self.get("/v1/dead/0", status=400)

    def test_a_record_is_shown_whole(self):
        headers = json.dumps([["id", base64.b64encode(b"poison").decode()], ["none", None],
                              ["raw", base64.b64encode(b"\x01\xff").decode()]])
        record = self.record(b"hello \xff\x00", "42", headers=headers)
        shown = self.get(f"/v1/dead/{record}")
        self.assertEqual((shown["id"], shown["topic"], shown["partition"], shown["offset"],
                          shown["key"], shown["keyBase64"], shown["reasonClass"], shown["reason"],
                          shown["payload"], shown["payloadBytes"], shown["decision"]),
                         (record, self.stack.topic, 0, 1, "42", None, "decode", "a test", None, 8,
                          None))
        self.assertEqual(base64.b64decode(shown["payloadBase64"]), b"hello \xff\x00")
        self.assertEqual(shown["headers"], [
            {"name": "id", "value": "poison", "valueBase64": None},
            {"name": "none", "value": None, "valueBase64": None},
            {"name": "raw", "value": None, "valueBase64": base64.b64encode(b"\x01\xff").decode()}])
        text = self.record('{"a": "\u00e4\u0000"}', None)
        shown = self.get(f"/v1/dead/{text}")
        self.assertEqual((shown["key"], shown["payload"], shown["payloadBase64"]),
                         (None, '{"a": "\u00e4\u0000"}', None))
        tombstone = self.get(f"/v1/dead/{self.record(None, 'no content', 'tombstone')}")
        self.assertEqual((tombstone["payload"], tombstone["payloadBase64"],
                          tombstone["payloadBytes"]), (None, None, None))
        self.act(record, "drop")
        shown = self.get(f"/v1/dead/{record}")
        self.assertEqual((shown["decision"], shown["decidedBy"]), ("dropped", self.name))
        self.assertGreaterEqual(shown["decidedAt"], shown["diedAt"])
        self.assertEqual(self.ids("decided=true"), [record])
        self.assertNotIn(record, self.ids("decided=false"))


class Decides(DeadApi):
    """POST /v1/dead/{id}/ACTION and POST /v1/dead."""

    def test_a_record_is_applied_once(self):
        record = self.record(event(1, 100))
        self.assertEqual(self.act(record, "replay", body={"reason": "fixed", "by": "ann"}),
                         {"id": record, "action": "replay", "changed": True, "outcome": "applied"})
        self.assertEqual(self.applied(100), [(1, 1, 1, 1)])
        self.assertEqual(self.stack.sql("SELECT dead_id, decision, decided_by FROM dead_history"),
                         [(record, "applied", f"ann ({self.name})")])
        # Repeating is harmless, and so is the other action: it was decided.
        for action in ("replay", "drop"):
            self.assertEqual(self.act(record, action), {
                "id": record, "action": action, "changed": False, "outcome": "applied"})
        self.assertEqual(self.applied(100), [(1, 1, 1, 1)])
        self.assertEqual(self.audit(), [
            (f"ann ({self.name})", "http", "dead replay", f"id={record}", "fixed", 1),
            (self.name, "http", "dead replay", f"id={record}", "", 0),
            (self.name, "http", "dead drop", f"id={record}", "", 0)])
        self.assertEqual(self.stack.sql("SELECT DISTINCT task_group FROM retry_audit"),
                         [(self.stack.group[:64],)])
        self.assertEqual(self.fault(self.act(10 ** 12, "replay", 404)), ("not_found", None))
        self.act("x", "drop", 400)
        self.assertEqual(self.count("retry_task"), 0)

    def test_an_event_that_is_in_the_log_is_a_duplicate(self):
        vote = event(1, 110)
        first, second = self.record(vote), self.record(vote)
        self.assertEqual(self.act(first, "replay")["outcome"], "applied")
        self.assertEqual(self.act(second, "replay")["outcome"], "duplicate")
        self.assertEqual(self.applied(110), [(1, 1, 1, 1)])

    def test_what_cannot_be_applied_stays_dead_and_its_key_waits(self):
        bad, good = self.record(b"hello", "120"), self.record(event(1, 120))
        fault = self.act(bad, "replay", 422)["error"]
        self.assertEqual(fault["code"], "refused")
        self.assertIn("stays dead: decode: ", fault["message"])
        fault = self.act(good, "replay", 409)["error"]
        self.assertEqual(fault["code"], "conflict")
        self.assertIn(f"record {bad} is older", fault["message"])
        self.assertEqual((self.ids(), self.applied(120)), ([bad, good], []))
        self.assertEqual(self.act(bad, "drop")["outcome"], "dropped")
        self.assertEqual(self.act(good, "replay")["outcome"], "applied")
        self.assertEqual([row[5] for row in self.audit()], [0, 0, 1, 1])

    def test_corrected_bytes_are_applied_and_the_original_is_kept(self):
        vote, other = event(1, 130), event(2, 130)
        records = [self.record(b"{", "130"), self.record(b"[", "130")]
        self.act(records[0], "replay", 422, {"value": {"voterId": 1}})
        self.assertTrue(self.act(records[0], "replay", body={"value": vote})["changed"])
        raw = json.dumps(other).encode()
        self.act(records[1], "replay", body={"valueBase64": base64.b64encode(raw).decode()})
        self.assertEqual(self.applied(130), [(1, 1, 1, 1), (2, 1, 2, 2)])
        self.assertEqual(self.stack.sql("SELECT payload, applied_value FROM dead_history ORDER BY id"),
                         [(b"{", json.dumps(vote).encode()), (b"[", raw)])
        shown = self.get(f"/v1/dead/{records[0]}")
        self.assertEqual((shown["payload"], json.loads(shown["appliedValue"])), ("{", vote))
        self.assertEqual([row[3] for row in self.audit()][1:], [
            f"id={record} value=given" for record in records])

    def test_a_key_that_is_not_its_contentId_needs_a_decision(self):
        record = self.record(event(1, 140), "k140", "key")
        self.act(record, "replay", 422)
        self.assertTrue(self.act(record, "replay", body={"ignoreKey": True})["changed"])
        self.assertEqual(self.applied(140), [(1, 1, 1, 1)])

    def test_many_are_selected_counted_and_changed(self):
        bad = self.record(b"x", "150")
        votes = [self.record(event(voter, 151), reason="refused") for voter in range(1, 6)]
        waits = self.record(event(9, 150))
        done = self.many(action="replay", all=True, dryRun=True)
        self.assertEqual((done["dryRun"], done["matched"], done["applied"], done["more"]),
                         (True, 7, 0, True))
        self.assertEqual((len(self.ids()), self.audit()), (7, []))
        done = self.many(action="replay", reasonClass="refused", limit=2, reason="works again")
        self.assertEqual((done["matched"], done["applied"], done["more"]), (5, 2, True))
        done = self.many(action="replay", all=True)
        self.assertEqual((done["matched"], done["applied"], done["stillDead"], done["more"]),
                         (5, 3, 2, False))
        self.assertEqual([(one["id"], one["reasonClass"], one["behind"]) for one in done["stay"]],
                         [(bad, "decode", None), (waits, None, bad)])
        self.assertEqual(self.applied(151), [(n, 1, n, n) for n in range(1, 6)])
        done = self.many(action="drop", ids=[bad, votes[0], 10 ** 12])
        self.assertEqual((done["matched"], done["dropped"]), (1, 1))
        done = self.many(action="replay", ids=[waits], key="150")
        self.assertEqual(done["applied"], 1)
        # Again: nothing is left.
        done = self.many(action="drop", topic=self.stack.topic, partition=0, since=0,
                         until=253402300799999)
        self.assertEqual((done["matched"], done["dropped"], done["more"]), (0, 0, False))
        self.assertEqual([row[2:] for row in self.audit()], [
            ("dead replay", "class=refused limit=2", "works again", 2),
            ("dead replay", "all=yes limit=100", "", 3),
            ("dead drop", f"id={bad},{votes[0]},{10 ** 12} limit=100", "", 1),
            ("dead replay", f"id={waits} key=150 limit=100", "", 1),
            ("dead drop", f"topic={self.stack.topic} partition=0 since=1970-01-01 00:00:00.000 UTC "
             "until=9999-12-31 23:59:59.999 UTC limit=100", "", 0)])

    def test_bad_bodies_are_refused(self):
        record = self.record(b"x", "160")
        for body, code, at in (
                ({}, "missing", "/action"), ({"action": "replay"}, "missing", None),
                ({"action": "replay", "all": False}, "missing", None),
                ({"action": "run", "all": True}, "out_of_range", "/action"),
                ({"action": "drop", "all": True, "key": "1"}, "duplicate", "/all"),
                ({"action": "drop", "all": True, "ignoreKey": True}, "out_of_range", "/ignoreKey"),
                ({"action": "drop", "ids": []}, "out_of_range", "/ids"),
                ({"action": "drop", "ids": ["1"]}, "wrong_type", "/ids"),
                ({"action": "drop", "ids": list(range(1, 202))}, "out_of_range", "/ids"),
                ({"action": "drop", "all": True, "limit": 1001}, "out_of_range", "/limit"),
                ({"action": "drop", "topic": "a b"}, "out_of_range", "/topic"),
                ({"action": "drop", "all": True, "value": 1}, "unknown_field", "/value")):
            with self.subTest(body=body):
                self.assertEqual(self.fault(self.request("POST", "/v1/dead", body, 400)), (code, at))
        for action, body, code, at in (
                ("drop", {"value": 1}, "unknown_field", "/value"),
                ("drop", {"ignoreKey": True}, "unknown_field", "/ignoreKey"),
                ("replay", {"value": 1, "valueBase64": "eA=="}, "duplicate", "/valueBase64"),
                ("replay", {"valueBase64": "?"}, "out_of_range", "/valueBase64"),
                ("replay", {"value": "x" * 65536}, "out_of_range", "/value"),
                ("replay", {"reason": ""}, "out_of_range", "/reason")):
            with self.subTest(action=action, at=at):
                self.assertEqual(self.fault(self.act(record, action, 400, body)), (code, at))
        self.assertEqual((self.ids(), self.audit()), ([record], []))

    def test_only_operators_see_and_decide_and_only_if_it_is_on(self):
        record = self.record(event(1, 170))
        for method, path, body in (("GET", "/v1/dead", None), ("GET", f"/v1/dead/{record}", None),
                                   ("POST", f"/v1/dead/{record}/drop", {}),
                                   ("POST", "/v1/dead", {"action": "drop", "all": True})):
            fault = self.request(method, path, body, 403, TASKS)["error"]
            self.assertIn("lacks the scope operate", fault["message"])
        off = self.start("serve", sets={**self.sets, "api.operate": "off"})
        fault = self.act(record, "drop", 403, serve=off)["error"]
        self.assertIn("api.operate = on", fault["message"])
        off = self.start("serve", sets={**self.sets, "api.votes": "off"})
        fault = self.act(record, "drop", 403, serve=off)["error"]
        self.assertIn("api.votes = on", fault["message"])
        self.assertEqual((self.ids(), self.audit()), ([record], []))

    def test_without_the_audit_nothing_is_done(self):
        record = self.record(event(1, 180))
        self.stack.sql("RENAME TABLE retry_audit TO retry_audit_away")
        try:
            for call in (lambda: self.act(record, "replay", 503), lambda: self.act(record, "drop", 503),
                         lambda: self.many(503, action="drop", all=True)):
                self.assertEqual(call()["error"]["code"], "unavailable")
        finally:
            self.stack.sql("RENAME TABLE retry_audit_away TO retry_audit")
        self.assertEqual((self.ids(), self.applied(180)), ([record], []))
        self.assertTrue(self.act(record, "replay")["changed"])
        self.assertIn("event=dead_admin_failed", self.serve.log_text())

    def test_a_record_that_another_transaction_holds_is_answered_in_time(self):
        serve = self.serving(**{"api.request_timeout_ms": 1000})
        self.addCleanup(serve.kill)
        record = self.record(event(1, 190))
        holder = suite.connect(self.stack.name, autocommit=False)
        with holder.cursor() as cursor:
            cursor.execute("SELECT id FROM dead_record WHERE id = %s FOR UPDATE", [record])
            fault = self.act(record, "replay", 503, serve=serve)["error"]
        self.assertEqual(fault["code"], "timeout")
        self.assertIn("harmless", fault["message"])
        holder.rollback()
        holder.close()
        suite.wait_for("the record to be applied", lambda: serve.call(
            "POST", f"/v1/dead/{record}/replay", {}, {"Authorization": f"Bearer {OPERATOR}"}
        ).status == 200)
        self.assertEqual(self.applied(190), [(1, 1, 1, 1)])

    def test_a_server_that_is_killed_and_many_at_once_apply_each_vote_once(self):
        votes, contents = 1500, 10
        rows = [(self.stack.group, self.stack.topic, voter, str(200 + voter % contents),
                 json.dumps(event(voter, 200 + voter % contents))) for voter in range(1, votes + 1)]
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO dead_record (consumer_group, topic, partition_id, record_offset, "
                "record_key, payload, headers, reason_class, reason, created_at) VALUES "
                "(%s, %s, 0, %s, %s, %s, '[]', 'refused', 'a test', UTC_TIMESTAMP(3))", rows)
        killed = self.serving()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(lambda: killed.call(
                "POST", "/v1/dead", {"action": "replay", "all": True, "limit": 1000},
                {"Authorization": f"Bearer {OPERATOR}"}))
            suite.wait_for("some to be applied", lambda: self.count("dead_record") < votes,
                           every=0.005)
            killed.kill()
            call.exception()
        self.assertEqual(self.stack.number("SELECT (SELECT COUNT(*) FROM dead_record) + "
                                           "(SELECT COUNT(*) FROM dead_history)"), votes)
        self.assertEqual(self.audit()[0][5] in (None, 1000), True)
        other = self.serving()
        self.addCleanup(other.kill)

        def replay(number):
            for _ in range(100):
                answer = (self.serve, other)[number % 2].call(
                    "POST", "/v1/dead", {"action": "replay", "all": True, "limit": 100},
                    {"Authorization": f"Bearer {OPERATOR}"})
                if answer.status == 200 and json.loads(answer.body)["matched"] == 0:
                    return
            self.fail(f"{answer.status} {answer.body}")

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(replay, range(4)))
        self.assertEqual(self.count("dead_record"), 0)
        self.assertEqual(self.stack.sql("SELECT decision, COUNT(*) FROM dead_history GROUP BY 1"),
                         [("applied", votes)])
        for content in range(200, 200 + contents):
            rows = self.applied(content)
            self.assertEqual([row[2:] for row in rows],
                             [(n, n) for n in range(1, votes // contents + 1)])
            self.assertEqual([row[0] for row in rows], sorted(row[0] for row in rows))


class Ungranted(DeadApi):
    """An account without the privileges on dead records."""

    granted = ()

    def test_votes_work_and_the_log_names_what_is_missing(self):
        for _ in range(2):
            fault = self.get("/v1/dead", status=503)["error"]
            self.assertEqual(fault["code"], "unavailable")
        self.act(1, "drop", 503)
        log = self.serve.log_text()
        self.assertEqual(log.count("event=dead_admin_failed"), 1, log)
        self.assertRegex(log, r"event=dead_admin_failed .*denied.*lacks GRANT SELECT ON \S*dead_record")
        answer = self.serve.call("POST", "/v1/votes", {"voterId": 1, "contentId": 1, "voting": 1},
                                 {"Authorization": f"Bearer {TASKS}"})
        self.assertEqual(answer.status, 200, answer.body)


if __name__ == "__main__":
    unittest.main()
