# SPDX-License-Identifier: MIT
"""A cluster that says for a moment that it has no brokers: who hears it comes again."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import house  # noqa: E402
import lone_broker  # noqa: E402


class LoneBroker(house.Case):
    """The consumer's only way to Kafka leads to a broker that is going away."""

    def test_a_consumer_that_hears_of_no_brokers_comes_again_and_finds_them(self):
        port = house.free_port()
        broker = lone_broker.LoneBroker(port)
        self.addCleanup(broker.close)
        consume = self.start("consume", ready=False, sets={
            "kafka.bootstrap.servers": f"127.0.0.1:{port}"})
        house.wait_for("the word that there are no brokers", lambda: broker.denied)
        house.wait_for("the consumer to come again and again", lambda: broker.denied >= 3)
        self.assertTrue(consume.alive())
        self.assertEqual(consume.admin("/readyz").status, 503)


if __name__ == "__main__":
    unittest.main()
