# SPDX-License-Identifier: MIT
"""Rows of a stream lane in the retry queue: the adapter makes the tasks of the bytes that come with the
moves, and a repeated move makes no second task."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

BESIDE = "tallybox-diverter-moves"
OWNER = "relay-a"
EPOCH = 7
ID = "11111111-2222-3333-4444-555555555555"
PAYLOAD = bytes(range(256)) + b"'\\\0end"


def event(seq, identity=ID, key="42", payload=PAYLOAD, **more):
    """A move; text or bytes of the columns."""
    def hexed(value):
        return None if value is None else (value if isinstance(value, bytes) else value.encode()).hex()
    return {"seq": seq, "topic": "vote-events", "id": hexed(identity), "aggregateId": hexed(key),
            "payload": hexed(payload), "type": "voted", "reason": "", **more}


class StreamMoves(suite.Case):
    seconds = 20

    def setUp(self):
        for statement in ("DELETE FROM retry_task", "DELETE FROM outbox", "DELETE FROM relay_lease"):
            self.stack.sql(statement)
        self.stack.sql("INSERT INTO relay_lease (lane, owner, epoch, lease_until) VALUES "
                       "('outbox', %s, %s, UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)", [OWNER, EPOCH])

    def call(self, moves, **options):
        program, environment = suite.program_beside(BESIDE)
        server = suite.database()
        given = {"host": server.host, "port": server.port, "user": "root", "database": self.stack.name,
                 "table": "outbox", "owner": OWNER, "epoch": EPOCH, "source": "/votes",
                 "moves": moves, **options}
        done = subprocess.run([str(program), json.dumps(given)], capture_output=True, text=True,
                              env=environment, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def move(self, *moves):
        self.assertEqual(self.call(moves), {"rc": "ok", "fenced": False, "text": ""})

    def tasks(self, columns="idempotency_key, params"):
        return list(self.stack.sql(f"SELECT {columns} FROM retry_task ORDER BY id"))

    def test_a_task_has_all_of_its_row(self):
        self.move(event(5, reason="record too large", headers='{"tenant":"a"}',
                        createdMs=1_700_000_000_123),
                  event(6, "second", payload=None), event(7, "third", payload=b""))
        rows = self.tasks("task_group, scene, handler, ordering_key, idempotency_key, params, origin, "
                          "reason_class, reason, state")
        self.assertEqual(rows[0], ("outbox", "publish", "kafka", "vote-events/42", ID, PAYLOAD, "relay",
                                   "refused", "record too large", 0))
        self.assertEqual([(row[4:6], row[7:9]) for row in rows[1:]],
                         [(("second", None), ("", "")), (("third", b""), ("", ""))])
        options = json.loads(self.tasks("options")[0][0])
        headers = dict(options["headers"])
        self.assertEqual((options["topic"], options["key"], options["timestampMs"]),
                         ("vote-events", "42", 1_700_000_000_123))
        self.assertEqual((headers["id"], headers["seq"], headers["lane"], headers["tenant"],
                          headers["ce_source"], headers["ce_type"]),
                         (ID, "5", "outbox", "a", "/votes", "voted"))

    def test_a_time_in_the_future_is_limited_as_that_of_a_row_of_a_table(self):
        self.move(event(5, createdMs=32_503_680_000_000))
        now = self.stack.number("SELECT CAST(1000 * UNIX_TIMESTAMP() AS SIGNED)")
        self.assertAlmostEqual(json.loads(self.tasks("options")[0][0])["timestampMs"], now, delta=60_000)

    def test_tasks_have_the_order_of_the_moves_and_the_table_is_not_used(self):
        self.stack.append([{"id": f"id-{seq}", "aggregatetype": "vote", "aggregateid": "42",
                            "type": "voted", "payload": "{}"} for seq in (1, 2, 3)])
        self.move(*(event(seq, f"id-{seq}", payload=str(seq)) for seq in (3, 9, 1, 2)))
        self.assertEqual([row[0] for row in self.tasks()], ["id-3", "id-9", "id-1", "id-2"])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 3)

    def test_a_repeated_move_makes_no_second_task(self):
        cases = {"id": ID, "UUID in binary form": bytes(range(0xf0, 0x100)), "too long": "x" * 300,
                 "no text": b"\xff\xfe", "NUL byte": b"a\0b"}
        for name, identity in cases.items():
            for payload in (PAYLOAD, None, b""):
                with self.subTest(name, payload=payload):
                    self.setUp()
                    self.move(event(5, identity, payload=payload))
                    before = self.tasks("id, params")
                    # Another relay counts the rows of the stream from another position.
                    self.move(event(105, identity, payload=payload),
                              event(106, "next", payload="next"))
                    self.assertEqual(self.tasks("id, params")[:1], before)
                    self.assertEqual([row[1] for row in self.tasks()], [payload, b"next"])

    def test_another_event_with_the_same_id_gets_a_task(self):
        others = [event(6, payload=b"other"), event(7, payload=None), event(8, payload=b""),
                  event(9, key="43"), event(10, key="42 ")]
        self.move(event(5), *others)
        self.assertEqual(len(self.tasks()), 6)
        self.assertEqual(self.tasks()[0][0], ID)
        # All of them are recognised when they are repeated.
        self.move(event(25), *others)
        self.assertEqual([row[1] for row in self.tasks()],
                         [PAYLOAD, b"other", None, b"", PAYLOAD, PAYLOAD])

    def test_tasks_that_were_changed_are_not_those_of_the_rows(self):
        self.move(event(5), event(6, payload=b"other"))
        self.stack.sql("UPDATE retry_task SET params = 'changed'")
        self.move(event(5), event(6, payload=b"other"))
        rows = self.tasks()
        self.assertEqual([row[1] for row in rows], [b"changed", b"changed", PAYLOAD, b"other"])
        self.assertEqual(len({row[0] for row in rows}), 4)

    def test_rows_without_an_id_are_kept_even_if_they_look_the_same(self):
        self.move(event(5, ""), event(6, ""))
        self.assertEqual([row[1] for row in self.tasks()], [PAYLOAD, PAYLOAD])

    def test_a_task_of_a_client_with_the_same_key_is_not_that_of_the_row(self):
        self.stack.sql("INSERT INTO retry_task (task_group, scene, handler, ordering_key, "
                       "idempotency_key, params, origin) VALUES "
                       "('outbox', 'publish', 'kafka', 'vote-events/42', %s, %s, 'client')", [ID, PAYLOAD])
        self.move(event(5))
        self.assertEqual(self.tasks("idempotency_key, origin"), [(ID, "client"), (ID, "relay")])

    def move_exactly_once(self, *moves, term=12):
        done = self.call([{**one, "term": term} for one in moves], exact="yes")
        self.assertEqual(done, {"rc": "ok", "fenced": False, "text": ""})

    def test_a_task_of_a_lane_that_publishes_once_has_its_move(self):
        self.move_exactly_once(event(5), event(6, "x" * 300), event(7, ""))
        self.assertEqual(self.tasks()[0][0], f"{ID}/{EPOCH}.12.5")
        for number, row in enumerate(self.tasks("options"), 5):
            self.assertEqual(json.loads(row[0])["transaction"],
                             {"lane": "lane-id", "epoch": EPOCH, "term": 12, "row": number})

    def test_a_repeated_move_of_a_lane_that_publishes_once_makes_no_second_task(self):
        rows = [event(5), event(6), event(7, payload=b"other"), event(8, ""), event(9, ""),
                event(10, "x" * 300), event(11, "x" * 300)]
        self.move_exactly_once(*rows)
        before = self.tasks("id, params")
        self.assertEqual(len(before), len(rows))
        self.move_exactly_once(*rows, event(12, "next"))
        self.assertEqual(self.tasks("id, params")[:-1], before)

    def test_rows_that_are_read_again_by_a_lane_that_publishes_once_get_other_tasks(self):
        self.move_exactly_once(event(5), event(6, ""), event(7, "x" * 300))
        self.move_exactly_once(event(5), event(6, ""), event(7, "x" * 300), term=13)
        self.assertEqual(len(self.tasks()), 6)
        self.assertEqual(self.tasks()[3][0], f"{ID}/{EPOCH}.13.5")

    def test_without_the_lease_nothing_is_moved(self):
        fenced = {"rc": "ok", "fenced": True, "text": ""}
        self.assertEqual(self.call([event(5)], epoch=EPOCH + 1), fenced)
        self.assertEqual(self.call([event(5)], owner="relay-b"), fenced)
        self.assertEqual(self.tasks(), [])

    def test_a_payload_that_was_left_out_is_copied_from_the_table(self):
        payload = os.urandom(100000)
        self.stack.append([{"id": ID, "aggregatetype": "vote", "aggregateid": "42", "type": "x",
                            "payload": payload}])
        seq = self.stack.number("SELECT MAX(seq) FROM outbox")
        self.move(event(seq, payload=None, cut=2_000_000))
        self.move(event(seq, payload=None, cut=2_000_000))
        self.assertEqual([row[1] for row in self.tasks()], [payload])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 1)
        self.stack.sql("DELETE FROM outbox")

    def test_a_payload_that_is_not_anywhere_is_not_lost(self):
        answer = self.call([event(5, "first"), event(6, payload=None, cut=2_000_000)])
        self.assertEqual(answer["rc"], "fatal")
        for word in ("2000000 bytes", "vote-events/42", "set relay.read_bytes_max"):
            self.assertIn(word, answer["text"])
        self.assertEqual(self.tasks(), [])


if __name__ == "__main__":
    unittest.main()
