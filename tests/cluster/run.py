#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""./dev cluster test: scenarios on the cluster that runs, while votes flow, and the comparison of
all ledgers with what the cluster holds at the end. See README.md beside this file."""

import argparse
import pathlib
import random
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e"), str(HERE.parent / "chaos")]

import controls  # noqa: E402
import failover  # noqa: E402
import load  # noqa: E402
import pauses  # noqa: E402
import scenarios  # noqa: E402


def say(text):
    print(text, file=sys.stderr, flush=True)


class Test:
    """From the first vote to the comparison of all ledgers."""

    def __init__(self, options):
        self.options = options
        self.folder = pathlib.Path(options.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.controls = controls.Controls(self.folder)
        self.load = load.Load(self.controls, self.folder, options.seed, options.rate)
        self.watcher = pauses.Watcher(self.controls)
        self.violations = []
        self.passed = 0

    def mount_hosts(self):
        """In this run's own mount namespace: programs here find brokers by their names."""
        hosts = self.folder / "hosts"
        self.controls.write_hosts(hosts)
        if pathlib.Path("/etc/hosts").read_text() != hosts.read_text():
            subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)

    def chosen(self):
        if self.options.seconds:
            yield from self.drawn()
            return
        for name, method, short in scenarios.ORDER:
            if self.options.names:
                if any(part in method or part in name for part in self.options.names):
                    yield name, method
            elif short or not self.options.short:
                yield name, method

    def drawn(self):
        """Of chaos: one after the other by chance, of those after which the cluster is as before."""
        rng = random.Random(f"{self.options.seed} chaos")
        until = time.monotonic() + self.options.seconds
        while time.monotonic() < until:
            yield rng.choice([one[:2] for one in scenarios.ORDER if one[1] in scenarios.REPEATABLE])

    def run_one(self, world, name, method):
        began = time.monotonic()
        try:
            self.controls.write_hosts(self.folder / "hosts")
            line = getattr(world, method)()
            self.passed += 1
            say(f"{name} ({time.monotonic() - began:.0f} s): {line}")
        except Exception as reason:  # pylint: disable=broad-except
            self.violations.append(f"{name}: {reason}")
            say(f"FAILED: {name} ({time.monotonic() - began:.0f} s): {reason!r}")
        self.violations += [error for error in self.load.errors() if error not in self.violations]

    def begin(self):
        self.controls.wait_healthy()
        self.mount_hosts()
        self.load.start()
        self.watcher.start()

    def run_asynchronous(self):
        """The fail-over that loses votes, by its own rules. True when all is well."""
        self.begin()
        world = scenarios.Scenarios(self.controls, self.load, self.watcher, self.folder,
                                    self.options.seed, say)
        print(f"asynchronous: {failover.fail_over_asynchronously(world)}")
        for violation in self.load.finish():
            print(f"VIOLATION: {violation}")
            self.violations.append(violation)
        self.passed = 1
        return not self.violations

    def run(self):
        self.begin()
        world = scenarios.Scenarios(self.controls, self.load, self.watcher, self.folder,
                                    self.options.seed, say)
        world.flows()
        world.partitions = len(self.controls.topic(load.TOPIC))
        for name, method in self.chosen():
            self.run_one(world, name, method)
        self.violations += [error for error in self.load.finish() if error not in self.violations]
        try:
            load.wait_drained(self.controls, say)
            self.controls.write_hosts(self.folder / "hosts")
            self.watcher.end()
            return load.give_verdict(self.controls, self.load, say)
        except Exception as reason:  # pylint: disable=broad-except
            self.violations.append(f"what the cluster holds cannot be compared: {reason}")
            return None

    def report(self, verdict):
        """True when all is well."""
        for violation in self.violations:
            print(f"VIOLATION: {violation}")
        if verdict is None:
            return False
        print(verdict.text(), end="\n" if verdict.text() else "")
        print("ledger, topic, log: " + ", ".join(
            f"{name} {count}" for name, count in sorted(verdict.facts.items())))
        good = verdict.good and not self.violations and self.passed > 0
        print(f"cluster: votes={verdict.facts['votes ok']} {verdict.line()}", flush=True)
        return good


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="for ledgers and notes of this run")
    parser.add_argument("--short", action="store_true", help="the form for every change")
    parser.add_argument("--asynchronous", action="store_true",
                        help="the fail-over to a replica that lacks transactions, alone")
    parser.add_argument("--seconds", type=int, default=0,
                        help="scenarios by chance until the time is over")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rate", type=int, default=load.RATE, help="votes a second at most")
    parser.add_argument("names", nargs="*", help="only scenarios whose name contains one of them")
    return parser.parse_args()


def main():
    options = parse()
    say(f"cluster test: seed {options.seed}, at most {options.rate} votes/s")
    test = Test(options)
    try:
        good = test.run_asynchronous() if options.asynchronous else test.report(test.run())
    finally:
        test.load.stop.set()
    failed = len(test.violations) + (0 if good or test.violations else 1)
    print(f"{test.passed} passed, {failed} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
