# SPDX-License-Identifier: MIT
"""Kafka over SASL_SSL: a vote passes from HTTP to the log, and a wrong password, authority or right
is reported."""

import concurrent.futures
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import certs  # noqa: E402
import suite  # noqa: E402
import secure_kafka  # noqa: E402

PASSWORDS = {"relay": "the-relay's-own-Password1", "consume": "the-consumer's-own-Password2"}
WRONG = "not-its-Password3"


class Sasl(unittest.TestCase):
    """One broker, two users with no more rights than they need."""

    seconds = 30

    @classmethod
    def setUpClass(cls):
        cls.broker = secure_kafka.SecureKafka(suite.run().folder / "secure")
        cls.broker.start()
        cls.addClassCleanup(cls.broker.stop)
        cls.stack = suite.Stack(cls.__name__, {"kafka.bootstrap.servers": cls.broker.secure})
        cls.addClassCleanup(cls.stack.close)
        topic = cls.stack.topic
        # Each is a Java program that takes seconds to start.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            done = [
                *[pool.submit(cls.broker.user, *item) for item in PASSWORDS.items()],
                # Kafka's operator creates the topic: the relay has no right to.
                pool.submit(cls.broker.make_topic, topic),
                pool.submit(cls.broker.allow, "relay", "--producer", "--topic", topic),
                pool.submit(cls.broker.allow, "consume", "--consumer", "--topic", topic,
                            "--group", cls.stack.group),
            ]
        for one in done:
            one.result()

    def start(self, name, user=None, password=None, ca=None, ready=False, **sets):
        """A role with a user of Kafka; its password is in no environment, only in
        a file of settings of its own."""
        user = user or name
        ini = self.stack.folder / f"{name}-{len(self.stack.roles)}.ini"
        ini.write_text(self.stack.ini.read_text() + f"""
[kafka]
security.protocol = sasl_ssl
sasl.mechanism = SCRAM-SHA-512
sasl.username = {user}
sasl.password = {password or PASSWORDS[user]}
ssl.ca.location = {ca or self.broker.authority.ca}
""")
        role = self.stack.role(name, ready=ready, arguments=["--config", str(ini)],
                               sets={key.replace("__", "."): str(value)
                                     for key, value in sets.items()})
        self.addCleanup(role.end)
        return role

    def wait_said(self, role, *words, ready=False):
        """Until /readyz or the log says all of these words; no password is in either. The role's
        end: another one gets its lane."""
        def text():
            return role.admin("/readyz").body.decode() + role.log_text()
        suite.wait_for(f"{role.name} to say {words}", lambda: all(w in text() for w in words))
        if not ready:
            suite.wait_for("it not to be ready", lambda: role.admin("/readyz").status == 503)
        for secret in (*PASSWORDS.values(), WRONG):
            self.assertNotIn(secret, text())
        role.end()

    def test_votes_travel_the_whole_way(self):
        roles = [self.stack.role("serve"), self.start("relay", ready=True),
                 self.start("consume", ready=True)]
        self.addCleanup(roles[0].end)
        roles[0].vote(*[(voter, 1, 1) for voter in range(1, 51)])
        self.stack.wait_rows("vote_document", 50)
        self.stack.wait_drained()
        self.stack.tallybox("verify")

    def append(self):
        """Something to publish: without it a relay has no need of a broker."""
        self.stack.append([{"id": "x", "aggregatetype": "vote", "aggregateid": "1", "type": "x"}])
        self.addCleanup(self.stack.sql, "DELETE FROM outbox")

    def test_a_wrong_password(self):
        self.append()
        for name in ("relay", "consume"):
            with self.subTest(role=name):
                self.wait_said(self.start(name, password=WRONG), "uthentication")

    def test_an_unknown_authority(self):
        self.append()
        other = certs.Authority(self.stack.folder / "other", "other")
        for name in ("relay", "consume"):
            with self.subTest(role=name):
                self.wait_said(self.start(name, ca=other.ca), "certificate")

    def test_a_user_that_may_not(self):
        """Each has the other's rights, which are not those it needs."""
        self.append()
        self.wait_said(self.start("relay", user="consume"), "Cluster authorization failed",
                       "lacks the ACL Write on its topics")
        self.wait_said(self.start("relay", relay__topics="vote=not-my-topic"),
                       "topic not-my-topic is missing (or hidden from this account), and this "
                       "account may not make it", ready=True)
        # It is refused for this row alone, and goes by the retry queue.
        suite.wait_for("the row to be moved", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task") == 1)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 0)
        self.wait_said(self.start("consume", user="relay"), "GROUP_AUTHORIZATION_FAILED",
                       "lacks the ACL Read on the consumer group")
        self.wait_said(self.start("consume", consumer__topics="not-my-topic"),
                       "TOPIC_AUTHORIZATION_FAILED", "lacks an ACL on the topic", "not-my-topic")


if __name__ == "__main__":
    unittest.main()
