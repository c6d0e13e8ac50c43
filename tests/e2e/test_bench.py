# SPDX-License-Identifier: MIT
"""The bench, tiny: every standard case can be measured and says what it promises. No number of it
means anything."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bench")]
import house  # noqa: E402

os.environ.setdefault("TALLYBOX_BENCH", str(house.ROOT / "build/dev/tests"))
import bench  # noqa: E402
import cases  # noqa: E402
import report  # noqa: E402

PROMISED = {"rows_per_s", "ceiling_rows_per_s", "ratio", "cpu_us_per_row", "rss_mib", "spread"}
# No program of ours can be a ceiling for these, or none makes sense.
BARE = ("relay_scale", "relay_writers", "rollup", "pipeline")
SCALE = 0.001


class Bench(unittest.TestCase):
    """On the servers of this process."""

    seconds = 120

    def measure(self, name):
        """Runs one case; every line of it is checked."""
        with tempfile.NamedTemporaryFile(dir=house.run().folder) as out:
            lines = report.Report(out.name)
            bench.CASES[name](cases.Bench(lines, 1, SCALE))
            written = [json.loads(text) for text in out.read().decode().splitlines()]
        self.assertTrue(written)
        self.assertTrue(lines.table())
        for line in written:
            self.assertEqual(line["db"], house.DATABASE)
            self.check(name, line)

    def check(self, name, line):
        wanted = PROMISED
        if name == "latency":
            wanted = {"rate", "p50_ms", "p99_ms", "p999_ms", "spread"}
        elif name == "idle":
            wanted = {"idle_cpu_pct", "rss_mib"}
        elif name in BARE:
            wanted = {"rows_per_s", "spread"}
        self.assertLessEqual(wanted, set(line), line)
        for key in wanted - {"spread", "idle_cpu_pct"}:
            self.assertGreaterEqual(line[key], 0, line)
        self.assertGreater(line.get("rows_per_s", 1), 0, line)

    def test_a_case_that_is_not_there_is_said(self):
        with self.assertRaises(SystemExit) as ended, open(os.devnull, "w", encoding="utf-8") as out:
            kept, sys.stderr = sys.stderr, out
            try:
                bench.parse(["nothing"])
            finally:
                sys.stderr = kept
        self.assertEqual(ended.exception.code, 2)


for case in bench.STANDARD:
    setattr(Bench, f"test_{case}_says_what_it_promises",
            lambda self, name=case: self.measure(name))


if __name__ == "__main__":
    unittest.main()
