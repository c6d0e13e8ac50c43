#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the bench on real servers: bench.py [--json FILE] [--runs N] [--scale PERCENT] [CASE...]

A case is a function of cases.py, binlog.py, votes.py, lists.py, retry.py, disk.py, peers.py or
rebalance.py whose name begins with case_.
Environment as for the e2e tests, and TALLYBOX_BENCH, the folder of the bench's programs."""
import argparse
import pathlib
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import cases  # noqa: E402
import suite  # noqa: E402
import binlog  # noqa: E402
import disk  # noqa: E402
import lists  # noqa: E402
import machine  # noqa: E402
import peers  # noqa: E402
import rebalance  # noqa: E402
import report  # noqa: E402
import retry  # noqa: E402
import votes  # noqa: E402

CASES = {name[len("case_"):]: case for module in (cases, binlog, votes, lists, retry, disk,
                                      peers, rebalance)
         for name, case in vars(module).items() if name.startswith("case_")}
# In this order: a JVM's code gets faster for minutes, so what takes it hardest comes last of those
# that need Kafka. The others are measured when they are named.
STANDARD = ("relay", "relay_scale", "relay_writers", "consume", "pipeline", "latency", "idle",
            "serve", "lists", "rollup")

# The tests' servers are made to start fast; these are set for work, with everything durable.
SERVERS = {
    "mariadb": ["--innodb-buffer-pool-size=2G", "--innodb-log-file-size=1G"],
    "mysql": ["--innodb-buffer-pool-size=2G", "--innodb-redo-log-capacity=1G"],
    "kafka": ["-Xms1g", "-Xmx1g", "-XX:TieredStopAtLevel=4"],
}
# Records after which the broker's code is compiled.
WARM_RECORDS = 1500000


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev bench", add_help=False)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=100)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {unknown[0]}: it is one of {', '.join(CASES)}")
    if options.runs < 1 or not 0 < options.scale <= 100:
        parser.error("--runs has to be 1 or more, --scale a percentage of 0 to 100")
    return options


def command_of(options):
    """What a person types for the same again."""
    words = ["./dev", "bench"]
    if suite.DATABASE != "mariadb":
        words += ["--db", suite.DATABASE]
    if options.runs != 3:
        words += ["--runs", str(options.runs)]
    if options.scale != 100:
        words += ["--scale", f"{options.scale:g}"]
    return " ".join([*words, *options.cases])


def measure(bench, names):
    """The names of those that could not be measured, and the seconds that each took."""
    failed, took = [], {}
    for name in names:
        began = time.monotonic()
        print(f"==> {name} ({suite.DATABASE})", file=sys.stderr, flush=True)
        try:
            CASES[name](bench)
        except Exception as reason:  # pylint: disable=broad-except
            # One case that cannot be measured does not take the others along.
            failed.append(name)
            print(f"FAILED: {name}: {type(reason).__name__}: {reason}", flush=True)
        took[name] = time.monotonic() - began
        print(f"    {took[name]:.0f} s", file=sys.stderr, flush=True)
    return failed, took


def main():
    options = parse(sys.argv[1:])
    for kind, words in SERVERS.items():
        suite.SERVER_ARGUMENTS[kind] = [*suite.SERVER_ARGUMENTS[kind], *words]
    lines = report.Report(options.json)
    bench = cases.Bench(lines, options.runs, options.scale / 100)
    began = time.monotonic()
    lines.add(machine.line(options.runs, options.scale, command_of(options)))
    print("==> warming up Kafka", file=sys.stderr, flush=True)
    cases.produce_run(bench.rows(WARM_RECORDS))
    failed, took = measure(bench, options.cases or STANDARD)
    print()
    print(lines.table())
    print(f"\n{time.monotonic() - began:.0f} s: "
          f"{', '.join(f'{name} {seconds:.0f}' for name, seconds in took.items())}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
