# SPDX-License-Identifier: MIT
"""The retry queue's store without its engine: tallybox-retry-store, one process for each connection,
and what tests do with it."""

import json
import os
import subprocess

import pymysql

import accounts
import suite

BESIDE = "tallybox-retry-store"
# Numbers of the servers for: try again.
COLLISIONS = (1205, 1213, 1020)


class Store:
    """One of them; every call gives its answer as a dict, with "rc" and "error"."""

    def __init__(self, stack, owner="me", port=None, compare_and_set=False):
        program, environment = suite.program_beside(BESIDE)
        account = stack.accounts.sets(["retry"], {})
        options = {"host": suite.database().host, "port": port or suite.database().port,
                   "user": account["mysql.user"], "password": accounts.PASSWORD,
                   "database": stack.name, "owner": owner, "compareAndSet": compare_and_set}
        self.process = subprocess.Popen([str(program), json.dumps(options)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment)

    def send(self, what, **more):
        """Asks without waiting for the answer."""
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the store ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, what, **more):
        self.send(what, **more)
        return self.answer()

    def do(self, what, **more):
        """The answer of a call that has to work."""
        answer = self.ask(what, **more)
        if answer["rc"] != "ok":
            raise AssertionError(f"{what}: {answer['rc']}: {answer['error']}")
        return answer

    def classes(self):
        return self.do("look")["classes"]

    def claim(self, rows=100, lease=30000, **only):
        """Tasks of all classes that `only` fits, at most so many of each."""
        tasks = []
        for one in self.classes():
            if one["due"] <= 0 and only.items() <= one.items():
                tasks += self.do("claim", rows=rows, lease=lease, **one)["tasks"]
        return tasks

    def finish(self, tasks, end="done", **more):
        """What became of all of these is the same."""
        results = [{"id": task["id"], "epoch": task["epoch"],
                    "sceneVersion": task.get("sceneVersion", 0), "end": end, **more}
                   for task in tasks]
        return self.do("finish", results=results)["lost"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def kill(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, 9)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Case(suite.Case):
    """A test class whose tables of the lane are empty before each test."""

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_attempt", "retry_scene"):
            self.stack.sql(f"DELETE FROM {table}")

    def store(self, owner="me", **more):
        store = Store(self.stack, owner, **more)
        self.addCleanup(store.kill)
        return store

    def session(self, **more):
        """A connection of an application or a person, in a transaction."""
        connection = suite.connect(self.stack.name, autocommit=False, **more)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.addCleanup(connection.close)
        return connection

    def insert(self, *keys, connection=None, scene="a", **more):
        """One plain INSERT for each ordering key, None for none; their ids."""
        mine = connection or suite.connect(self.stack.name)
        ids = []
        more = {"handler": "kafka", **more}
        names = ", ".join(["scene", "ordering_key", "params", *more])
        marks = ", ".join(["%s"] * (3 + len(more)))
        with mine.cursor() as cursor:
            for key in keys:
                cursor.execute("SELECT UUID()")
                params = cursor.fetchone()[0]
                cursor.execute(f"INSERT INTO retry_task ({names}) VALUES ({marks})",
                               [scene, key, params, *more.values()])
                ids.append(cursor.lastrowid)
        if connection is None:
            mine.close()
        return ids

    def wait_unlocked(self):
        """Until no session holds a task: the server may notice later that a connection was cut."""
        def look():
            try:
                self.stack.sql("SELECT id FROM retry_task FOR UPDATE")
                return True
            except pymysql.MySQLError as reason:
                if reason.args[0] not in COLLISIONS:
                    raise
                return False
        suite.wait_for("the tasks to be nobody's", look)

    def states(self):
        return dict(self.stack.sql("SELECT id, state FROM retry_task"))
