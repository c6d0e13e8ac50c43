# SPDX-License-Identifier: MIT
"""The bench, tiny: every case that needs nothing fetched can be measured and says what it promises. No number of it
means anything."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bench")]
import suite  # noqa: E402

os.environ.setdefault("TALLYBOX_BENCH", str(suite.ROOT / "build/dev/tests/bench"))
import bench  # noqa: E402
import cases  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
import table  # noqa: E402

PROMISED = {"rows_per_s", "ceiling_rows_per_s", "ratio", "cpu_us_per_row", "rss_mib", "spread"}
# No program of ours can be a ceiling for these, or none makes sense.
BARE = ("relay_scale", "relay_writers", "relay_binlog_writers", "rollup", "pipeline")
# What lines of a case say beside that.
MORE = {"relay_writers": {"writers_share"}, "relay_binlog_writers": {"writers_share"},
        "memory_binlog_transaction": {"rows_per_s"}, "relay_scale_1m": {"of_small"},
        "relay_scale_5m": {"of_small"}, "consume_zipf": {"insert_rows_per_s", "of_insert"},
        "consume_uniform": {"insert_rows_per_s"}, "consume_duplicates": {"insert_rows_per_s"},
        **{f"retry_{processes}_{backlog}": {"server_cpu_us_per_row",
                                            "ceiling_server_cpu_us_per_row"}
           for processes in (1, 2, 4) for backlog in ("10k", "2m")},
        "serve_64_hot": {"hot_ratio"}, "serve_256_arrays": {"p99_ms"}, "serve_64": {"p99_ms"},
        **{f"lists_{kind}": {"p50_ms", "p99_ms", "votes_per_s", "kept_share"}
           for kind in ("cached", "live", "voter")}}
EXPECTED = {
    "relay": {"relay", "relay_plain", "relay_2_lanes", "relay_4_lanes"},
    "relay_scale": {"relay_scale_10k", "relay_scale_1m", "relay_scale_5m"},
    "latency": {f"latency_{see}_{rate}" for see in ("kafka", "log") for rate in (100, 1000, 10000)},
    "consume": {"consume_uniform", "consume_zipf", "consume_duplicates"},
    "serve": {"serve_64_hot", *(f"serve_{count}{kind}" for count in (1, 16, 64, 256)
                                for kind in ("", "_arrays"))},
    "lists": {"lists_cached", "lists_live", "lists_voter"},
    "retry": {"latency_retry_100", "latency_retry_1000"},
    "rebalance": {f"rebalance_{way}" for way in ("eager", "cooperative", "kip848")},
    "rollup": {"rollup_1", "rollup_10", "rollup_100"},
    "relay_binlog": {"relay_binlog", "relay_binlog_plain"},
    "relay_binlog_single": {"relay_binlog_single"},
    "relay_exactly_once": {"relay_exactly_once", "latency_exactly_once_1000"},
    "relay_binlog_writers": {"relay_binlog_writers"},
    "latency_binlog": {"latency_binlog_1000", "latency_binlog_log_1000"},
    "memory_binlog": {"memory_binlog_transaction", "memory_binlog_row",
                      "memory_binlog_refused_row"},
    "idle_binlog": {"idle_relay_binlog"},
    "disk": {f"disk_{table}" for table in
             ("vote_state", "vote_count", "outbox", "vote_document", "vote_tally", "vote_last",
              "retry_task_history", "retry_attempt")},
}
SCALE = 0.001


class Bench(unittest.TestCase):
    """On the servers of this process."""

    long = True
    seconds = 120

    def measure(self, name):
        """Runs one case; every line of it is checked."""
        with tempfile.NamedTemporaryFile(dir=suite.run().folder) as out:
            lines = report.Report(out.name)
            bench.CASES[name](cases.Bench(lines, 1, SCALE))
            written = [json.loads(text) for text in out.read().decode().splitlines()]
        self.assertTrue(written)
        self.assertTrue(lines.table())
        self.assertTrue(table.table_of(json.dumps(line) for line in
                                       [machine.line(1, 100 * SCALE, "./dev bench"), *written]))
        for missing in EXPECTED.get(name, set()) - {line["case"] for line in written}:
            self.fail(f"{name} has no line {missing}")
        for line in written:
            self.assertEqual(line["db"], suite.DATABASE)
            self.check(name, line)

    def check(self, name, line):
        wanted = PROMISED
        if line["case"].startswith("latency"):
            wanted = {"rate", "p50_ms", "p99_ms", "p999_ms", "spread"}
        elif name.startswith("idle"):
            wanted = {"idle_cpu_pct", "rss_mib"}
        elif name == "memory_binlog":
            wanted = {"rss_mib", "spread"}
        elif name == "rebalance":
            wanted = {"quiet_ms", "kept_ms", "moved_ms"}
        elif name == "disk":
            wanted = {"bytes_per_row"}
        elif name in BARE:
            wanted = {"rows_per_s", "cpu_us_per_row", "rss_mib", "spread"}
        wanted = wanted | MORE.get(line["case"], set())
        self.assertLessEqual(wanted, set(line), line)
        for key in wanted - {"spread", "idle_cpu_pct"}:
            self.assertGreaterEqual(line[key], 0, line)
        self.assertGreater(line.get("rows_per_s", 1), 0, line)

    def test_latency_sees_rows_that_commit_out_of_the_order_of_their_ids(self):
        def selects():
            return int(stack.sql("SHOW GLOBAL STATUS LIKE 'Com_select'")[0][1])

        def write(connection, voters):
            with connection.cursor() as cursor:
                for voter in voters:
                    cursor.execute(
                        "INSERT INTO vote_document (gmt_create, voter_id, content_id, voting, "
                        "votes, create_date, event_id, content_seq) VALUES (UTC_TIMESTAMP(3), %s, "
                        "1, 1, 1, UTC_DATE(), UNHEX(LPAD(%s, 32, '0')), %s)", [voter, voter, voter])

        # They end before the stack: its tables cannot be dropped under an open transaction.
        with cases.Bench(None, 1, SCALE).stack("order") as stack, \
                contextlib.closing(suite.connect(stack.name, autocommit=False)) as late, \
                contextlib.closing(suite.connect(stack.name, autocommit=False)) as early:
            words = cases.program_words("latency", {"see": "log", "rate": 10, "seconds": 1,
                                                    **cases.on_database(stack)})
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                write(late, range(1, 6))
                write(early, range(6, 11))
                suite.wait_for("its events", lambda: stack.number(
                    "SELECT COUNT(*) FROM outbox") == 10)
                early.commit()
                # Each look of it is one: it has seen the early ones.
                before = selects()
                suite.wait_for("it to look", lambda: selects() >= before + 3)
                late.commit()
                said, trouble = process.communicate(timeout=90)
        self.assertEqual((process.returncode, trouble), (0, ""))
        self.assertEqual(json.loads(said)["rows"], 8)

    def test_a_warm_up_is_the_run_that_is_counted_later(self):
        seen = []

        def run(*arguments, **options):
            seen.append((arguments, options))

        cases.Bench(None, 1, cases.WARM_SCALE / 2).warm_up(run, 1)
        cases.Bench(None, 1, cases.WARM_SCALE).warm_up(run, 2, exact=True)
        self.assertEqual(seen, [((2,), {"exact": True})])

    def test_a_case_that_is_not_there_is_said(self):
        with self.assertRaises(SystemExit) as ended, open(os.devnull, "w", encoding="utf-8") as out:
            kept, sys.stderr = sys.stderr, out
            try:
                bench.parse(["nothing"])
            finally:
                sys.stderr = kept
        self.assertEqual(ended.exception.code, 2)


MACHINE = {"case": "machine", "db": "mariadb", "date": "2026-11-01", "cores": 2, "memory_gib": 24,
           "kernel": "Linux 6.1", "database": "MariaDB 10.11.14", "kafka": "4.1.0",
           "librdkafka": "2.14.2", "debezium": "", "commit": "1234", "runs": 3, "scale": 100.0,
           "command": "./dev bench"}
RELAY = {"case": "relay", "db": "mariadb", "rows_per_s": 140000.0, "ceiling_rows_per_s": 250000.0,
         "ratio": 0.56, "cpu_us_per_row": 3.14, "rss_mib": 30.7, "spread": 0.1, "runs": 3}
PEER = {"case": "peers_relay", "db": "mariadb", "peer": "debezium", "mode": "tuned warm",
        "rows_per_s": 140000.0, "peer_rows_per_s": 68000.0, "rows_ratio": 2.06,
        "cpu_us_per_row": 3.1, "peer_cpu_us_per_row": 20.0, "cpu_ratio": 0.155, "rss_mib": 30.7,
        "peer_rss_mib": 1300.0, "spread": 0.1, "peer_spread": 0.1, "tuning": "a=1"}


class Table(unittest.TestCase):
    """What the tables of docs/performance.md are made with."""

    any_database = True
    seconds = 1

    @staticmethod
    def of(*lines):
        return table.table_of(json.dumps(line) for line in lines)

    def test_a_line_becomes_a_row_under_what_it_was_measured_with(self):
        said = self.of(MACHINE, RELAY)
        self.assertIn("| relay: 1 M rows published and deleted | 140 k/s | librdkafka alone: 250 k/s "
                      "| 0.56 | 3.1 | 31 |\n", said)
        for word in ("**MariaDB 10.11.14**", "Kafka 4.1.0", "librdkafka 2.14.2", "2026-11-01",
                     "2 cores and 24 GiB", "`./dev bench`", "3 runs;"):
            self.assertIn(word, said)
        self.assertNotIn("Debezium", said)

    def test_pauses_stand_beside_those_without_a_change(self):
        line = {"case": "rebalance_cooperative", "db": "mariadb", "quiet_ms": 61, "kept_ms": 140,
                "moved_ms": 1234, "runs": 3}
        self.assertIn("cooperative: longest pause of a partition | kept 140 ms, moved 1.2 s | "
                      "without a rebalance: 61 ms |", self.of(MACHINE, line))
        self.assertIn("| moved 1.2 s |", self.of(MACHINE, {**line, "kept_ms": 0}))

    def test_a_peer_is_named_with_what_it_took_and_how_it_was_tuned(self):
        said = self.of({**MACHINE, "debezium": "3.4.0"}, PEER)
        self.assertIn("Debezium's outbox router, tuned warm: 68.0 k/s | 2.1; CPU 0.15 "
                      "| 3.1 against 20.0 | 31 against 1,300 |\n", said)
        self.assertIn("Debezium 3.4.0", said)
        self.assertIn("Tuned, Debezium: `a=1`", said)

    def test_a_missed_target_is_said(self):
        line = {**RELAY, "case": "relay_binlog", "missed": {"ratio": 0.8}}
        self.assertIn("| 0.56; misses its target: ratio 0.8 |", self.of(MACHINE, line))

    def test_a_target_is_missed_above_or_below_it(self):
        line = {**RELAY, "case": "relay_binlog", "ratio": 0.79, "rss_mib": 40.1}
        self.assertEqual(report.missed_of(line), {"ratio": 0.8, "rss_mib": 40})
        self.assertEqual(report.missed_of({**line, "ratio": 0.8, "rss_mib": 40}), {})
        self.assertEqual(report.missed_of({**line, "case": "relay"}), {})
        beside = {**RELAY, "case": "relay_binlog_writers", "writers_share": 0.79}
        self.assertEqual(report.missed_of(beside), {"writers_share": 0.8})
        self.assertEqual(report.missed_of({**beside, "writers_share": 0.8}), {})

    def test_each_target_belongs_to_a_case_that_the_page_can_print(self):
        for name, targets in report.TARGETS.items():
            self.assertTrue(table.place_of(name), name)
            self.assertLessEqual(set(targets), set(table.MEASURES), name)

    def test_beside_a_peer_it_is_enough_to_be_near_the_ceiling(self):
        line = {**PEER, "case": "peers_binlog"}
        self.assertEqual(report.missed_of({**line, "of_ceiling": 0.79}), {"rows_ratio": 4})
        self.assertEqual(report.missed_of({**line, "of_ceiling": 0.8}), {})

    def test_the_last_file_counts_and_databases_have_tables_of_their_own(self):
        said = self.of(MACHINE, RELAY, {**MACHINE, "command": "./dev bench relay"},
                       {**RELAY, "ratio": 0.71}, {**MACHINE, "database": "MySQL 9.7.4"}, RELAY)
        self.assertEqual(said.count("| relay: 1 M"), 2)
        self.assertLess(said.index("| 0.71 |"), said.index("**MySQL 9.7.4**"))
        self.assertIn("`./dev bench`, `./dev bench relay`", said)

    def test_rows_that_are_not_all_are_said(self):
        self.assertIn("1 % of the rows", self.of({**MACHINE, "scale": 1.0}, RELAY))

    def test_what_is_no_result_is_refused(self):
        for lines in ([RELAY], [MACHINE, {**RELAY, "case": "nothing"}]):
            with self.assertRaises(ValueError):
                self.of(*lines)

    def test_the_page_has_its_place(self):
        text = (suite.ROOT / "docs/performance.md").read_text(encoding="utf-8")
        self.assertEqual(text.count("<!-- bench:"), 1)
        self.assertLess(text.index("<!-- bench:"), text.index("<!-- /bench -->"))


for case in (*bench.STANDARD, "relay_binlog", "relay_binlog_single", "relay_exactly_once",
             "relay_binlog_writers", "latency_binlog", "memory_binlog", "idle_binlog", "retry",
             "disk", "rebalance"):
    setattr(Bench, f"test_{case}_says_what_it_promises",
            lambda self, name=case: self.measure(name))


if __name__ == "__main__":
    unittest.main()
