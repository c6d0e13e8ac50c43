# SPDX-License-Identifier: MIT
"""A replica by GTID takes the place of the server that a binlog lane reads. It has all transactions, or lacks
some, or has one that the server never had. The relay reaches either by one address."""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mysql_edge  # noqa: E402
import suite  # noqa: E402
from binlog_lane import LaneCase, event, take_place  # noqa: E402

ARGUMENTS = {"mariadb": ["--server-id=2", "--log-slave-updates=ON", "--gtid-strict-mode=ON"],
             "mysql": ["--server-id=2", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]}[suite.DATABASE]
FOLLOW = {
    "mariadb": "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {port}, master_user = 'root', "
               "master_use_gtid = slave_pos",
    "mysql": "CHANGE REPLICATION SOURCE TO source_host = '127.0.0.1', source_port = {port}, "
             "source_user = 'root', source_auto_position = 1, get_source_public_key = 1"}[suite.DATABASE]
EXECUTED = {"mariadb": "@@GLOBAL.gtid_binlog_pos", "mysql": "@@GLOBAL.gtid_executed"}[suite.DATABASE]


class Replicated(LaneCase):
    """The usual server with a replica, which begins as a copy of its data."""

    arguments = ARGUMENTS
    # The lease outlasts the promotion.
    settings = {**LaneCase.settings, **suite.PATIENT}

    def setUp(self):
        super().setUp()
        self.server = suite.database()
        self.edge = mysql_edge.Edge(self.server.host, self.server.port)
        self.addCleanup(self.edge.close)
        self.replica = self.make_replica()
        self.events = []

    def make_replica(self):
        replica = suite.OwnServer(f"replica-{self.kind}", self.arguments)
        replica.folder.mkdir()
        self.addCleanup(shutil.rmtree, replica.folder, ignore_errors=True)
        self.server.stop()
        shutil.copytree(self.server.folder / "data", replica.folder / "data")
        # A replica has a name of its own.
        (replica.folder / "data" / "auto.cnf").unlink(missing_ok=True)
        self.server.restart()
        replica.start()
        self.addCleanup(replica.stop)
        return replica

    def on_replica(self, statement, **options):
        return self.stack.sql(statement, name=None, port=self.replica.port, **options)

    def follow(self):
        if suite.DATABASE == "mariadb":
            self.on_replica("SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos")
        self.on_replica(FOLLOW.format(port=self.server.port))
        self.on_replica("START REPLICA")

    def has_all(self):
        """Whether the replica has all transactions of the server; it may have others."""
        wanted = self.stack.sql(f"SELECT {EXECUTED}")[0][0]
        if suite.DATABASE == "mysql":
            return self.on_replica(f"SELECT GTID_SUBSET('{wanted}', @@GLOBAL.gtid_executed)")[0][0]
        return self.on_replica(f"SELECT MASTER_GTID_WAIT('{wanted}', 0)")[0][0] == 0

    def wait_all(self):
        suite.wait_for("the replica to have all transactions", self.has_all)

    def promote(self):
        """The server is killed, and the replica takes its place."""
        self.server.kill()
        self.addCleanup(self.server.restart)
        self.on_replica("STOP REPLICA")
        self.on_replica("RESET REPLICA ALL")
        self.lead_to(self.replica)

    def lead_to(self, server):
        put_back = take_place(server)
        self.addCleanup(put_back)
        self.edge.server_port = server.port
        self.edge.cut_all()

    def append(self, count):
        first = len(self.events)
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(first, first + count)]
        self.stack.append(events)
        self.events += events
        return events

    def relay_of_edge(self, **sets):
        return self.relay(sets={"mysql.port": self.edge.port, **sets})

    def write_errant(self):
        """A transaction of the replica alone; on MariaDB in a domain of its own, because in that of the
        server the replica would stop."""
        options = {"init_command": "SET gtid_domain_id = 9"} if suite.DATABASE == "mariadb" else {}
        self.on_replica(f"CREATE TABLE {self.stack.name}.errant (n INT)", **options)


class Promoted(Replicated):
    seconds = 40

    def test_a_replica_with_a_transaction_of_its_own_goes_on_where_the_server_was(self):
        relay = self.relay_of_edge()
        self.follow()
        self.append(200)
        self.wait_records(200)
        self.wait_all()
        self.write_errant()
        # The server dies with rows that the relay may or may not have.
        self.append(100)
        self.wait_all()
        self.promote()
        self.append(100)
        self.wait_records(400)
        self.check_order(self.events)
        suite.wait_for("the relay to be ready", relay.ready)
        self.assertGreaterEqual(
            relay.metrics()['tallybox_relay_database_changes_total{lane="outbox"}'], 1)


class Lacking(Replicated):
    """The position in Kafka says what the server had."""

    seconds = 90
    settings = {**Replicated.settings, "lane.outbox.exactly_once": "yes"}

    def setUp(self):
        super().setUp()
        self.sets = {"lane.outbox.transactional_id": f"{self.stack.name}-{self.kind}"}

    def refused(self, relay):
        """Whether the log or what is saved of the lease tells first depends on when it was saved last."""
        suite.wait_for("it to say why", lambda: any(text in relay.why_not_ready() for text in (
            "lacks transactions", "does not have the position of the lane", "the database was restored")))

    def test_a_server_without_transactions_that_were_published_is_refused(self):
        relay = self.relay_of_edge(**self.sets)
        self.follow()
        self.append(100)
        self.wait_records(100)
        self.wait_all()
        self.on_replica("STOP REPLICA")
        self.append(50)
        self.wait_records(150)
        self.promote()
        fresh = [event(self.kind, "fresh", n) for n in range(10)]
        self.stack.append(fresh)
        self.refused(relay)
        # Nothing is published before an operator has decided.
        self.assertEqual(len(self.records()), 150)
        relay.terminate()
        self.stack.tallybox("lanes", "begin", "outbox", "--replace-position", sets={
            "lane.outbox.source": "binlog", "lane.outbox.exactly_once": "yes",
            "mysql.port": self.edge.port, **self.sets})
        self.relay_of_edge(**self.sets)
        self.stack.append([event(self.kind, "fresh", 10)])
        self.wait_records(151)

    def test_the_old_server_lacks_a_transaction_of_the_replica(self):
        relay = self.relay_of_edge(**self.sets)
        self.follow()
        self.append(100)
        self.wait_records(100)
        self.wait_all()
        self.write_errant()
        self.on_replica("STOP REPLICA")
        self.on_replica("RESET REPLICA ALL")
        self.lead_to(self.replica)
        self.append(50)
        self.wait_records(150)
        self.assertEqual(self.check_order(self.events), 0)
        # An operator who leads the relay back loses what the replica has taken meanwhile.
        self.lead_to(self.server)
        self.refused(relay)
        self.assertEqual(len(self.records()), 150)


class Unlogged(Replicated):
    """The log of a replica without log_replica_updates lacks what it takes from its source."""

    seconds = 60
    arguments = [*ARGUMENTS, {"mariadb": "--log-slave-updates=OFF",
                              "mysql": "--log-replica-updates=OFF"}[suite.DATABASE]]

    def test_it_is_refused_while_it_takes_rows(self):
        self.follow()
        self.wait_all()
        self.lead_to(self.replica)
        relay = self.start("relay", sets={"mysql.port": self.edge.port}, ready=False)
        suite.wait_for("it to say why", lambda: "which its binary log lacks" in relay.why_not_ready())
        doctor = self.stack.tallybox("doctor", "--role", "relay", expect=None, sets={
            "lane.outbox.source": "binlog", "mysql.port": self.edge.port})
        self.assertIn("the server takes rows of another server", doctor.stdout)
        # Nothing is missing in the log any more when the replica takes no rows.
        self.on_replica("STOP REPLICA")
        suite.wait_for("the relay to be ready", relay.ready)
        self.append(10)
        self.wait_records(10)


if __name__ == "__main__":
    unittest.main()
