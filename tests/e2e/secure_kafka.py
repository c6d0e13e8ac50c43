# SPDX-License-Identifier: MIT
"""A broker that lets in only who has a password, over TLS, and lets each do only what it may."""

import pathlib
import subprocess

import certs
import suite

ALTER = "SCRAM-SHA-512=[iterations=4096,password={}]"


class SecureKafka(suite.Server):
    """Beside SASL_SSL it has a plain listener, on which the tests themselves may do everything."""

    def __init__(self, folder):
        super().__init__("kafka", folder / "broker")
        self.authority = certs.Authority(folder / "certs")
        self.secure, self.plain, self.controller = (
            f"127.0.0.1:{suite.free_port(keep=True)}" for _ in range(3))

    def properties(self):
        cert, key = self.authority.issue("broker", "IP:127.0.0.1")
        both = self.authority.folder / "broker.both.pem"
        both.write_text(key.read_text() + cert.read_text())
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return [
            f"listeners=PLAINTEXT://{self.plain},SASL_SSL://{self.secure},"
            f"CONTROLLER://{self.controller}",
            f"advertised.listeners=PLAINTEXT://{self.plain},SASL_SSL://{self.secure}",
            f"controller.quorum.voters=1@{self.controller}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,"
            "CONTROLLER:PLAINTEXT",
            "listener.name.sasl_ssl.ssl.keystore.type=PEM",
            f"listener.name.sasl_ssl.ssl.keystore.location={both}",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms=SCRAM-SHA-512",
            f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={module}",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        ]

    def start(self):
        done = subprocess.run(
            [suite.SERVER, "start", "kafka", str(self.folder), "--port",
             self.plain.split(":")[1], "--", *suite.SERVER_ARGUMENTS["kafka"], *self.properties()],
            capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"server start kafka: {done.stdout}{done.stderr}")
        self._read_env()
        suite.run().servers[str(self.folder)] = self

    def tool(self, name, *words):
        """One of Kafka's own commands, as the broker's administrator."""
        command = pathlib.Path(f"/proc/{self.env['PID']}/cmdline").read_text().split("\0")
        jars = command[command.index("-cp") + 1]
        done = subprocess.run(
            ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars, name,
             "--bootstrap-server", self.plain, *words],
            capture_output=True, text=True, timeout=240, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{name} {words}: {done.stdout}{done.stderr}")

    def user(self, name, password):
        self.tool("kafka.admin.ConfigCommand", "--alter", "--entity-type", "users",
                  "--entity-name", name, "--add-config", ALTER.format(password))

    def make_topic(self, topic):
        self.tool("org.apache.kafka.tools.TopicCommand", "--create", "--topic", topic,
                  "--partitions", "2")

    def allow(self, user, *words, action="--add"):
        """allow("relay", "--producer", "--topic", "votes")"""
        self.tool("org.apache.kafka.tools.AclCommand", action, "--force",
                  "--allow-principal", f"User:{user}", *words)
