# SPDX-License-Identifier: MIT
"""The position of a lane in the table relay_position: it is saved under the lease alone, comes back as it
was, and a lane without one begins at the end of the log only if its table is empty."""

import json
import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import binlog_server  # noqa: E402
import suite  # noqa: E402
from mysql_edge import Edge  # noqa: E402

BESIDE = "tallybox-position-store"
SCHEMA = suite.ROOT / "schema/migrate"
TABLES = ("outbox", "relay_lease", "relay_position", "relay_published", "relay_published_id")
FILES = ("0001_outbox.sql", "0001_outbox.sql", "0009_relay_position.sql", "0009_relay_position.sql",
         "0010_relay_published_id.sql")
PASSWORD = "the relay's"
EPOCH = 3
EMPTY = {"byGtid": False, "before": "", "file": "", "offset": "0", "gtid": "", "rowsDone": "0"}
PLACE = {**EMPTY, "file": "binlog.000042", "offset": str(2**64 - 1)}
GTIDS = {**EMPTY, "byGtid": True, "before": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77",
         "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:78", "rowsDone": "5"}
PLAIN_INSERT = ("INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES (UUID(), 'vote', '1', "
                "'voted')")


def statements(name, pattern):
    return re.findall(pattern, (SCHEMA / name).read_text(encoding="utf-8"), re.M | re.S)


class Store:
    """One process with the two connections of a lane."""

    def __init__(self, server, owner="me", port=None, lane="fast"):
        program, environment = suite.program_beside(BESIDE)
        options = {"host": server.host, "port": port or server.port, "user": "relay",
                   "password": PASSWORD, "database": "shop", "lane": lane, "table": "outbox",
                   "owner": owner}
        self.process = subprocess.Popen([str(program), json.dumps(options)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def ask(self, what, **more):
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the store ended with {self.process.wait()}")
        return json.loads(line)

    def do(self, what, **more):
        answer = self.ask(what, **more)
        if answer["rc"] != "ok":
            raise AssertionError(f"{what}: {answer['rc']}: {answer['error']}")
        return answer

    def save(self, position, epoch=EPOCH, seqs=(), ids=()):
        """Whether it was saved."""
        return not self.do("save", position=position, epoch=epoch, seqs=seqs, ids=ids)["fenced"]

    def load(self):
        """None: none was saved."""
        answer = self.do("load")
        return answer["position"] if answer["found"] else None

    def close(self):
        """Ends it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class StoreCase(binlog_server.LogCase):
    """The tables of the migrations, and an account with the privileges of the relay."""

    def setUp(self):
        super().setUp()
        self.cursor.execute(f"DROP TABLE IF EXISTS {', '.join(TABLES)}")
        for table, file in zip(TABLES, FILES):
            self.cursor.execute(*statements(file, rf"^CREATE TABLE {table} \(.*?;$"))
        self.cursor.execute(*statements("0011_relay_source.sql", r"^ALTER TABLE relay_lease$.*?;$"))
        self.cursor.execute("DROP USER IF EXISTS relay@'%'")
        self.cursor.execute(f"CREATE USER relay@'%' IDENTIFIED BY \"{PASSWORD}\"")
        for line in statements("grants.sql", r"^GRANT [^\n]*TO 'tallybox_relay(?:_wakeup)?'@'%';$"):
            place = re.search(r" ON (\S+) TO ", line)[1].replace("outbox_side.relay_lane", "shop.outbox")
            place = place.replace("outbox_side", "shop")
            if place == "*.*" or place.removeprefix("shop.") in TABLES:
                self.cursor.execute(re.sub(r" ON \S+ TO .*", f" ON {place} TO relay@'%'", line))
        self.cursor.execute("INSERT INTO relay_lease (lane, owner, epoch, lease_until) VALUES "
                            "('outbox', 'me', %s, UTC_TIMESTAMP(3) + INTERVAL 1 HOUR)", [EPOCH])

    def store(self, **more):
        store = Store(self.server, **more)
        self.addCleanup(store.close)
        return store

    def session(self):
        """A connection in a transaction."""
        connection = self.connect()
        self.addCleanup(lambda: connection.open and connection.close())
        cursor = connection.cursor()
        cursor.execute("USE shop")
        cursor.execute("BEGIN")
        return connection, cursor

    def failed(self, answer, rc, *words):
        self.assertEqual(answer["rc"], rc, answer)
        for word in words:
            self.assertIn(word, answer["error"])
        self.assertEqual(answer.get("position", EMPTY), EMPTY)

    def identity(self):
        return self.ask("SELECT CONCAT('mariadb-', @@GLOBAL.server_id)" if suite.DATABASE == "mariadb" else
                        "SELECT @@GLOBAL.server_uuid")[0][0]

    def end(self):
        return {**EMPTY, "byGtid": True, "before": self.position()}


class Saving(StoreCase):
    seconds = 15

    def test_nothing_is_found_before_a_position_is_saved(self):
        answer = self.store().do("load")
        self.assertFalse(answer["found"])
        self.assertEqual(answer["position"], EMPTY)

    def test_a_position_comes_back_as_it_was_saved(self):
        large = ",\n".join(f"3e11fa47-71ca-11e1-9e33-{number:012x}:1-{number + 1}:{2 * number + 5}"
                           for number in range(4100))
        self.assertGreater(len(large), 200_000)
        mine, other = self.store(), self.store()
        for position in (GTIDS, PLACE, {**GTIDS, "before": large}, {**GTIDS, "before": ""},
                         {**PLACE, "file": "f" * 511, "rowsDone": str(2**64 - 1), "gtid": "g" * 95},
                         {**GTIDS, "before": "0-1-7,2-1-9"}):
            with self.subTest(position=str(position)[:100]):
                self.assertTrue(mine.save(position))
                self.assertEqual(mine.load(), position)
                # Of another process, whose buffer had another text.
                self.assertEqual(other.load(), position)
        (lane, epoch, server), = self.ask("SELECT lane, epoch, server FROM relay_position")
        self.assertEqual((lane, epoch, server), ("outbox", EPOCH, self.identity()))

    def test_nothing_is_saved_without_the_lease(self):
        mine = self.store()
        self.assertTrue(mine.save(GTIDS))
        for store, epoch in ((mine, EPOCH - 1), (mine, EPOCH + 1), (self.store(owner="other"), EPOCH)):
            with self.subTest(epoch=epoch):
                self.assertFalse(store.save(PLACE, epoch))
                self.assertEqual(mine.load(), GTIDS)
        self.cursor.execute("UPDATE relay_lease SET epoch = epoch + 1, owner = 'other'")
        self.assertFalse(mine.save(PLACE))
        self.cursor.execute("DELETE FROM relay_lease")
        self.assertFalse(mine.save(PLACE))
        self.assertEqual(mine.load(), GTIDS)
        # The connection has no transaction left.
        self.cursor.execute("INSERT INTO relay_lease (lane, owner, epoch, lease_until) VALUES "
                            "('outbox', 'me', %s, UTC_TIMESTAMP(3))", [EPOCH + 2])
        self.assertTrue(mine.save(PLACE, EPOCH + 2))
        self.assertEqual(mine.load(), PLACE)

    def entries(self):
        """The ranges of each entry of relay_published."""
        found = []
        for lane, first, stored in self.ask("SELECT lane, first_seq, seqs FROM relay_published ORDER BY number"):
            self.assertEqual(lane, "outbox")
            numbers, shift, ranges, end = [0], 0, [], 0
            for byte in stored:
                numbers[-1] |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    shift = 0
                    numbers.append(0)
            for distance, more in zip(numbers[:-1:2], numbers[1:-1:2]):
                ranges.append([end + distance, end + distance + more])
                end += distance + more
            self.assertEqual(first, ranges[0][0])
            found.append(ranges)
        return found

    def test_the_seqs_of_rows_are_saved_with_the_position(self):
        mine = self.store()
        for ranges in ([[1, 1]], [[5, 9000], [9002, 9002], [2**40, 2**40 + 3]], [[2**63 - 2, 2**63 - 2]]):
            self.cursor.execute("DELETE FROM relay_published")
            self.assertTrue(mine.save(GTIDS, seqs=ranges))
            self.assertEqual(self.entries(), [ranges])
        # Many rows are several entries.
        self.cursor.execute("DELETE FROM relay_published")
        self.assertTrue(mine.save(PLACE, seqs=[[7, 120006]]))
        self.assertEqual(self.entries(), [[[7, 50006]], [[50007, 100006]], [[100007, 120006]]])
        self.assertTrue(mine.save(PLACE))
        self.assertEqual(len(self.entries()), 3)
        self.assertFalse(mine.save(PLACE, EPOCH + 1, seqs=[[1, 2]]))
        self.assertEqual(len(self.entries()), 3)

    def test_the_ids_of_rows_are_saved_with_the_position(self):
        mine = self.store()
        ids = ["0199a1f0-0000-7000-8000-00000000abcd", "an id's \\ text", "x" * 63]
        self.assertTrue(mine.save(GTIDS, seqs=[[1, 2]], ids=ids))
        (lane, count, stored), = self.ask("SELECT lane, id_count, ids FROM relay_published_id")
        self.assertEqual((lane, count), ("outbox", 3))
        self.assertEqual(stored, b"\x80" + bytes.fromhex(ids[0].replace("-", "")) +
                         b"".join(bytes([len(one)]) + one.encode() for one in ids[1:]))
        self.assertEqual(self.entries(), [[[1, 2]]])
        # Many rows are several entries, also of the longest ids.
        self.cursor.execute("DELETE FROM relay_published_id")
        self.assertTrue(mine.save(PLACE, ids=["%063d" % n for n in range(20001)]))
        self.assertEqual([one for one, in self.ask("SELECT id_count FROM relay_published_id ORDER BY number")],
                         [10000, 10000, 1])
        self.assertFalse(mine.save(PLACE, EPOCH + 1, ids=ids))
        self.cursor.execute("DROP TABLE relay_published_id")
        self.failed(mine.ask("save", position=GTIDS, epoch=EPOCH, ids=ids), "fatal", "relay_published_id")
        self.assertEqual(mine.load(), PLACE)

    def test_neither_the_position_nor_the_seqs_are_saved_alone(self):
        mine = self.store()
        self.assertTrue(mine.save(GTIDS, seqs=[[1, 5]]))
        self.cursor.execute("DROP TABLE relay_published")
        self.failed(mine.ask("save", position=PLACE, epoch=EPOCH, seqs=[[6, 9]]), "fatal", "relay_published")
        self.assertEqual(mine.load(), GTIDS)

    def test_a_locked_lease_is_waited_for_shortly(self):
        mine = self.store()
        connection, cursor = self.session()
        cursor.execute("SELECT epoch FROM relay_lease FOR UPDATE")
        began = time.monotonic()
        self.failed(mine.ask("save", position=GTIDS, epoch=EPOCH), "retry", "saving the position of lane fast")
        self.assertLess(time.monotonic() - began, 15)
        connection.rollback()
        self.assertTrue(mine.save(GTIDS))

    def test_a_lost_answer_to_the_commit_is_repeated(self):
        edge = Edge(self.server.host, self.server.port)
        self.addCleanup(edge.close)
        mine = self.store(port=edge.port)
        lost = edge.lose(r"^COMMIT")
        self.failed(mine.ask("save", position=GTIDS, epoch=EPOCH), "retry")
        self.assertEqual(lost.hits, 1)
        suite.wait_for("the transaction to be committed",
                       lambda: self.ask("SELECT COUNT(*) FROM relay_position")[0][0] == 1)
        self.assertTrue(mine.save(GTIDS))
        self.assertEqual(mine.load(), GTIDS)

    def test_a_place_in_the_log_of_another_server_is_refused(self):
        mine = self.store()
        for position, refused in ((PLACE, True), (GTIDS, False)):
            self.assertTrue(mine.save(position))
            self.cursor.execute("UPDATE relay_position SET server = 'that-other-one'")
            if refused:
                self.failed(mine.ask("load"), "fatal", "reading the position of lane fast", "that-other-one",
                            self.identity(), PLACE["file"], PLACE["offset"],
                            "`tallybox lanes begin fast --replace-position`")
            else:
                self.assertEqual(mine.load(), position)

    def test_the_commands_are_whole_whatever_names_are_in_the_text(self):
        lane = "n" * 64
        mine = self.store(lane=lane)
        self.assertTrue(mine.save(PLACE))
        for server in "3e11fa47-71ca-11e1-9e33-c80aa9429562", "from-table":
            self.cursor.execute("UPDATE relay_position SET server = %s", [server])
            self.failed(mine.ask("load"), "fatal", f"`tallybox relay source {lane} binlog --from-table`",
                        f"`tallybox lanes begin {lane} --replace-position`")

    def test_a_command_is_named_also_if_its_table_cannot_be_looked_at(self):
        edge = Edge(self.server.host, self.server.port)
        self.addCleanup(edge.close)
        mine = self.store(port=edge.port)
        self.assertTrue(mine.save(PLACE))
        self.cursor.execute("UPDATE relay_position SET server = 'that-other-one'")
        refused = edge.answer("column_key = 'PRI'", 1205)
        self.failed(mine.ask("load"), "fatal", "`tallybox relay source fast binlog --from-table`",
                    "`tallybox lanes begin fast --replace-position`")
        self.assertEqual(refused.hits, 1)

    def test_a_position_by_gtids_is_of_the_server_that_has_saved_it_until_it_moves(self):
        mine = self.store()
        self.assertTrue(mine.save(GTIDS))
        self.cursor.execute("UPDATE relay_position SET server = 'that-other-one'")
        self.assertEqual(mine.load(), GTIDS)
        self.assertTrue(mine.save(GTIDS))
        self.assertEqual(self.ask("SELECT server FROM relay_position"), (("that-other-one",),))
        self.assertTrue(mine.save({**GTIDS, "before": GTIDS["before"] + "0"}))
        self.assertEqual(self.ask("SELECT server FROM relay_position"), ((self.identity(),),))

    def test_a_lane_that_goes_on_from_its_table_has_no_place_in_the_log(self):
        mine = self.store()
        self.assertTrue(mine.save(GTIDS))
        self.cursor.execute("UPDATE relay_position SET server = 'from-table', by_gtid = 0")
        self.failed(mine.ask("load"), "fatal", "lane.fast.from_table",
                    "`tallybox relay source fast binlog --from-table`")

    def test_a_table_that_is_missing_is_named(self):
        self.cursor.execute("DROP TABLE relay_position")
        mine = self.store()
        self.failed(mine.ask("load"), "fatal", "relay_position")
        self.failed(mine.ask("save", position=GTIDS, epoch=EPOCH), "fatal", "relay_position")

    if suite.DATABASE == "mariadb":

        def test_a_position_keeps_the_server_that_it_was_loaded_from(self):
            """Also when the saver is connected to another one by then."""
            mine = self.store()
            mine.do("begin")
            before = self.identity()
            number = self.ask("SELECT @@GLOBAL.server_id")[0][0]
            self.cursor.execute("SET GLOBAL server_id = %s", [number + 1])
            self.addCleanup(self.restore_server_id, number)
            self.assertTrue(mine.save(PLACE))
            self.assertEqual(self.ask("SELECT server FROM relay_position"), ((before,),))
            self.failed(mine.ask("load"), "fatal", before, self.identity())

        def restore_server_id(self, number):
            with self.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SET GLOBAL server_id = %s", [number])


class Beginning(StoreCase):
    seconds = 15

    def begin_fails_with_rows(self, store):
        self.failed(store.ask("begin"), "fatal",
                    "finding where lane fast begins: table outbox has rows that may not be published yet: "
                    "publish its rows by `tallybox relay source fast binlog`, or stop its relays and say "
                    "that they are published by `tallybox lanes begin fast`")

    def test_a_lane_begins_at_the_end_of_the_log(self):
        mine = self.store()
        for _ in range(2):
            self.insert(count=3)
            self.assertEqual(mine.do("begin")["position"], self.end())
        self.assertEqual(self.ask("SELECT COUNT(*) FROM relay_position"), ((0,),))

    def test_a_table_with_a_row_is_refused_until_it_is_empty(self):
        mine = self.store()
        self.cursor.execute(PLAIN_INSERT)
        self.begin_fails_with_rows(mine)
        self.cursor.execute("DELETE FROM outbox")
        self.assertEqual(mine.do("begin")["position"], self.end())

    def test_an_open_transaction_with_a_row_is_waited_for(self):
        mine = self.store()
        connection, cursor = self.session()
        cursor.execute(PLAIN_INSERT)
        began = time.monotonic()
        self.failed(mine.ask("begin"), "retry", "(1205)")
        self.assertGreater(time.monotonic() - began, 1)
        connection.rollback()
        self.assertEqual(mine.do("begin")["position"], self.end())
        connection, cursor = self.session()
        cursor.execute(PLAIN_INSERT)
        self.failed(mine.ask("begin"), "retry", "(1205)")
        connection.commit()
        self.begin_fails_with_rows(mine)

    def test_a_log_without_whole_rows_is_refused_until_it_has_them(self):
        mine = self.store()
        for name, wrong, right in binlog_server.WRONG_VARIABLES:
            with self.subTest(name=name):
                self.cursor.execute(f"SET GLOBAL {name} = {wrong}")
                self.failed(mine.ask("begin"), "fatal", f"{name} = {wrong}", f"set {name} = {right}")
                self.cursor.execute(f"SET GLOBAL {name} = {right}")
                self.assertEqual(mine.do("begin")["position"], self.end())

    def test_a_table_that_is_missing_is_named(self):
        self.cursor.execute("DROP TABLE outbox")
        self.failed(self.store().ask("begin"), "fatal", "outbox")


class Keeping(StoreCase):
    seconds = 15

    def risk(self, store, file, age=0):
        return store.do("risk", position={**EMPTY, "file": file}, time=int(time.time()) - age)["risk"]

    def test_a_log_that_is_deleted_soon_is_named(self):
        mine = self.store()
        self.insert()
        self.cursor.execute("PURGE BINARY LOGS TO %s", [self.log_file()])
        self.cursor.execute("SET GLOBAL binlog_expire_logs_seconds = 600")
        oldest = self.log_file()
        # The file that is written to stays.
        self.assertEqual(self.risk(mine, oldest, 5000), "")
        self.cursor.execute("FLUSH BINARY LOGS")
        self.insert()
        self.assertEqual(self.risk(mine, oldest, 100), "")
        self.assertRegex(self.risk(mine, oldest, 500), f"{oldest}, the oldest file of the binary log, which "
                         r"the server may delete in \d+ s: .*binlog_expire_logs_seconds = 600")
        self.assertEqual(self.risk(mine, self.log_file(), 500), "")
        self.assertEqual(self.risk(mine, "", 500), "")
        self.cursor.execute("SET GLOBAL binlog_expire_logs_seconds = 0")
        self.assertEqual(self.risk(mine, oldest, 500), "")
        self.cursor.execute("PURGE BINARY LOGS TO %s", [self.log_file()])
        self.assertIn(f"the server has deleted {oldest} of the binary log", self.risk(mine, oldest))
        right = "REPLICATION CLIENT" if suite.DATABASE == "mysql" else "BINLOG MONITOR"
        self.cursor.execute(f"REVOKE {right} ON *.* FROM relay@'%'")
        other = self.store()
        self.assertEqual(other.ask("risk", position=PLACE, time=0)["rc"], "fatal")


class WithoutLog(StoreCase):
    seconds = 15
    arguments = ["--skip-log-bin"]

    def test_a_server_without_a_log_is_refused(self):
        self.failed(self.store().ask("begin"), "fatal", "log_bin = OFF")


class WithoutGtids(Beginning):
    """There the end is a file and an offset."""

    database = "mysql"
    arguments = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]

    def end(self):
        file, offset = self.ask("SHOW BINARY LOG STATUS")[0][:2]
        return {**EMPTY, "file": file, "offset": str(offset)}


if __name__ == "__main__":
    unittest.main()
