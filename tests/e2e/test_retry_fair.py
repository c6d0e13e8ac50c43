# SPDX-License-Identifier: MIT
"""Isolation of the retry queue on real servers: what slow scenes, dead destinations and deadlines do
to tasks beside them."""

import json
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import house  # noqa: E402

SLOW_S = 4


class FairCase(house.Case):
    """Tasks that run programs."""

    settings = {"retry.poll_ms": 50, "retry.sweep_ms": 500, "retry.threads": 3}

    def setUp(self):
        self.stack.sql("DELETE FROM retry_task")
        self.stack.sql("DELETE FROM retry_task_history")
        self.stack.sql("DELETE FROM retry_scene")

    def program(self, name, text):
        path = self.stack.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def scene(self, name, **policy):
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES ('default', %s, %s)",
                       [name, json.dumps(policy)])

    def put(self, scene, handler, options, count=1):
        rows = [(scene, handler, f"{scene} {time.monotonic_ns()} {n}", json.dumps(options))
                for n in range(count)]
        connection = house.connect(self.stack.name)
        try:
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO retry_task (scene, handler, idempotency_key, options) "
                                   "VALUES (%s, %s, %s, %s)", rows)
            connection.commit()
        finally:
            connection.close()

    def left(self, scene):
        return self.stack.number("SELECT COUNT(*) FROM retry_task WHERE scene = %s", [scene])


class Threads(FairCase):
    """Worker threads are shared between scenes."""

    seconds = 60

    def test_a_slow_scene_does_not_delay_another_one(self):
        slow, quick = self.program("slow", f"sleep {SLOW_S}"), self.program("quick", "true")
        role = self.start("retry", sets={"retry.exec_programs": f"{slow},{quick}",
                                         "admin.stale_ms": 3000})
        self.put("slow", "exec", {"program": slow}, 150)
        house.wait_for("many to be claimed", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE state = 1") >= 100)
        waits = []
        for _ in range(10):
            begun = time.monotonic()
            self.put("quick", "exec", {"program": quick})
            house.wait_for("the quick one to be done", lambda: self.left("quick") == 0)
            waits.append(time.monotonic() - begun)
        # Two threads need 300 s for the slow ones; one FIFO would let each quick one wait for many.
        self.assertGreater(self.left("slow"), 50)
        self.assertLess(sorted(waits)[len(waits) // 2], SLOW_S / 2, waits)
        # Those that are claimed wait for a thread, and it is told.
        house.wait_for("the age in readiness", lambda: "is due for" in role.why_not_ready())
        house.wait_for("the age in the metric", lambda: role.metrics().get(
            'tallybox_retry_oldest_due_age_seconds{group="default",scene="slow"}', 0) > 3, 30)


if __name__ == "__main__":
    unittest.main()
