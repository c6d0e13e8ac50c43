# SPDX-License-Identifier: MIT
"""A cluster that says for a moment that it has no brokers: who hears it comes again."""

import json
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import lone_broker  # noqa: E402


class LoneBroker(suite.Case):
    """The only way to Kafka leads to a broker that is going away."""

    seconds = 30

    def comes_again(self, name):
        port = suite.free_port()
        broker = lone_broker.LoneBroker(port)
        self.addCleanup(broker.close)
        role = self.start(name, ready=False, sets={
            "kafka.bootstrap.servers": f"127.0.0.1:{port}"})
        suite.wait_for("the word that there are no brokers", lambda: broker.denied)
        suite.wait_for(f"{name} to come again and again", lambda: broker.denied >= 3, 60)
        self.assertTrue(role.alive())
        return role

    def wait_unready(self, role):
        suite.wait_for("it to be unready", lambda: role.admin("/readyz").status == 503)

    def test_a_consumer_that_hears_of_no_brokers_comes_again(self):
        self.wait_unready(self.comes_again("consume"))

    def test_a_relay_that_hears_of_no_brokers_comes_again(self):
        self.stack.append([{"id": "lone", "aggregatetype": "lone", "type": "Happened",
                            "aggregateid": "k", "payload": b"{}"}])
        self.wait_unready(self.comes_again("relay"))
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 1)

    def test_a_retry_queue_that_hears_of_no_brokers_comes_again(self):
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES ('default', "
                       "'lone', %s)", [json.dumps({"wait": "fixed 1s", "attempts": 0})])
        self.stack.sql("INSERT INTO retry_task (scene, handler, options, params) VALUES ('lone', "
                       "'kafka', %s, '{}')", [json.dumps({"topic": "lone"})])
        self.comes_again("retry")
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 1)


class SilentBroker(suite.Case):
    """A broker that answers no more, while its connections stay."""

    def test_a_consumer_stops_in_its_time(self):
        place = self.stack.folder / "broker"
        broker = subprocess.Popen(
            [pathlib.Path(suite.BINARY).with_name("tallybox-broker"), "--topic", self.stack.topic,
             "--partitions", "2", "--port-file", place], stdout=subprocess.DEVNULL)
        self.addCleanup(broker.wait)
        self.addCleanup(broker.kill)
        suite.wait_for("the broker to come up", lambda: place.exists() and place.read_text())
        consumer = self.start("consume", sets={
            "kafka.bootstrap.servers": place.read_text().strip(), "admin.stop_timeout_ms": 3000})
        suite.wait_for("partitions of its own",
                       lambda: consumer.metric("tallybox_consumer_partitions") == 2)
        broker.send_signal(signal.SIGSTOP)
        consumer.process.terminate()
        self.assertEqual(consumer.process.wait(60), 0, suite.tail(consumer.log))
        self.assertNotIn("stop_timed_out", consumer.log_text())


if __name__ == "__main__":
    unittest.main()
