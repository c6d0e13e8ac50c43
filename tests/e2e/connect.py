# SPDX-License-Identifier: MIT
"""Kafka Connect with one Debezium connector, from the jars in TALLYBOX_DEBEZIUM."""

import http.client
import json
import os
import signal
import subprocess
import time

import suite

HEAP = "-Xmx1g"

# How the connector speaks to each database.
SOURCES = {"mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
           "mysql": "io.debezium.connector.mysql.MySqlConnector"}
SSL_OFF = {"mariadb": "disable", "mysql": "disabled"}


def properties(path, values):
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))


class Connect:
    """A stand-alone Kafka Connect with one connector, as a process of its own."""

    def __init__(self, stack, connector, settings=None, state="RUNNING"):
        """settings: of the worker. state: what the connector is to be after the start."""
        self.folder = stack.folder / f"connect-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.connector = {"name": "peer", "tasks.max": "1", **connector}
        self.port = suite.free_port()
        self.log = self.folder / "log"
        worker = {
            "bootstrap.servers": suite.kafka().bootstrap,
            "listeners": f"http://127.0.0.1:{self.port}",
            "offset.storage.file.filename": self.folder / "offsets",
            "offset.flush.interval.ms": 1000, "plugin.discovery": "service_load",
            "plugin.path": self.folder / "plugins",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **(settings or {})}
        (self.folder / "plugins").mkdir()
        properties(self.folder / "worker.properties", worker)
        self.write_connector(state)
        properties(self.folder / "log4j2.properties", {
            "status": "error", "appender.out.type": "Console", "appender.out.name": "out",
            "appender.out.layout.type": "PatternLayout",
            "appender.out.layout.pattern": "%d %p %m (%c)%n", "rootLogger.level": "warn",
            "rootLogger.appenderRef.out.ref": "out"})
        self.process = None

    def write_connector(self, state="RUNNING"):
        config = {key: str(value) for key, value in self.connector.items()}
        (self.folder / "connector.json").write_text(json.dumps(
            {"name": "peer", "config": config, "initial_state": state}))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/connectors/peer"

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "java", HEAP,
                 f"-Djava.io.tmpdir={self.folder}", "-XX:-UsePerfData",
                 f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
                 "-cp", f"{os.environ['TALLYBOX_DEBEZIUM']}/libs/*",
                 "org.apache.kafka.connect.cli.ConnectStandalone",
                 str(self.folder / "worker.properties"),
                 str(self.folder / "connector.json")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    @property
    def pid(self):
        return self.process.pid

    def peak_rss_mib(self):
        return suite.peak_rss_mib(self.pid)

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body and json.dumps(body),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status >= 400:
                raise RuntimeError(f"Connect: {method} {path}: {answer.status} {body[:300]}")
            return json.loads(body) if body else None
        finally:
            connection.close()

    def state(self):
        """Of the connector's one task; a failed one ends the case with its reason."""
        if self.process.poll() is not None:
            raise RuntimeError(f"Connect ended with {self.process.returncode}\n"
                               f"{suite.tail(self.log)}")
        try:
            tasks = self.call("GET", "/connectors/peer/status")["tasks"]
        except (OSError, RuntimeError, http.client.HTTPException):
            return "STARTING"
        if tasks and tasks[0]["state"] == "FAILED":
            raise RuntimeError(f"Debezium's task failed: {tasks[0].get('trace', '')[:2000]}")
        return tasks[0]["state"] if tasks else "STARTING"

    def wait(self, what, probe, seconds=900):
        """As suite.wait_for(), but a task that has failed is not waited for."""
        looked = time.monotonic()

        def look():
            nonlocal looked
            if time.monotonic() - looked > 3:
                looked = time.monotonic()
                self.state()
            return probe()
        try:
            return suite.wait_for(what, look, seconds, 0.05)
        except AssertionError as reason:
            raise RuntimeError(f"{reason}\n{suite.tail(self.log)}") from None

    def wait_state(self, state):
        self.wait(f"the connector to be {state}", lambda: self.state() == state, 120)

    def connector_state(self):
        """Of the connector itself: one that is stopped has no task."""
        try:
            return self.call("GET", "/connectors/peer/status")["connector"]["state"]
        except (OSError, RuntimeError, http.client.HTTPException):
            return "STARTING"

    def stop_connector(self):
        self.call("PUT", "/connectors/peer/stop")
        self.wait("the connector to be STOPPED", lambda: self.connector_state() == "STOPPED", 120)

    def pause(self):
        self.call("PUT", "/connectors/peer/pause")
        self.wait_state("PAUSED")

    def resume(self):
        self.call("PUT", "/connectors/peer/resume")

    def stored_offset(self):
        """What a connector that runs would go on from after a kill; {}: it has stored none. When Connect
        answers, the file of the offsets is whole: one thread writes it and reads it."""
        try:
            offsets = self.call("GET", "/connectors/peer/offsets")["offsets"]
        except (OSError, RuntimeError, http.client.HTTPException):
            return {}
        return offsets[0]["offset"] if offsets else {}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """In peace, so that it knows next time where it was."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def source_of(stack, topic, replacement, **options):
    """A connector with the outbox event router for the stack's table outbox."""
    server = suite.database()
    return {
        "connector.class": SOURCES[suite.DATABASE],
        "database.hostname": server.host, "database.port": server.port, "database.user": "root",
        "database.password": "", "database.server.id": 5400, "database.ssl.mode": SSL_OFF[suite.DATABASE],
        "database.include.list": stack.name, "table.include.list": f"{stack.name}.outbox",
        "topic.prefix": "peer", "snapshot.mode": "no_data", "include.schema.changes": "false",
        "tombstones.on.delete": "false",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": stack.folder / f"history-{topic}",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.table.field.event.key": "aggregateid",
        "transforms.outbox.table.op.invalid.behavior": "warn",
        "transforms.outbox.route.topic.replacement": replacement,
        **options}
