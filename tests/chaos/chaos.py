#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The ledger chaos: see README.md beside this file, and ./dev chaos --help."""

import argparse
import contextlib
import os
import pathlib
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import pymysql  # noqa: E402

import clients  # noqa: E402
import finish  # noqa: E402
import suite  # noqa: E402
import installation  # noqa: E402
import plan  # noqa: E402
import supervisor  # noqa: E402
import watch  # noqa: E402

RATE = 300           # votes a second over HTTP, at most
RATE_MAX = 2000
PROGRESS_S = 5
PROGRESS_LINES_MAX = 240  # of a run
DISK_MIB_START, DISK_MIB_SECOND = 6000, 4  # a run that takes more has a fault that fills disks
VOTES_MIN_SECOND = 2  # fewer acknowledged votes prove nothing
READY_S = 120
# Of which there must be some in each run.
PROVEN = ("own votes", "lists by newest, whole", "lists by votes compared",
          "recommended lists compared", "removed remarks", "votes deleted", "effects of client",
          "tasks tried first, done")
QUIET_EVERY_S = 120  # of a run: another round of kills in quiet after it
QUIET_ROUNDS_MAX = 5
QUIET_DEAD_S = 30
OPERATOR_S = 2
RANK_EVERY = 5  # looks of the operator
LIMIT_S = 1
MOVE_S = 60


def say(text):
    print(text, file=sys.stderr, flush=True)


class Chaos:
    """One run from the first server to the verdict."""

    def __init__(self, seed, seconds, rate=RATE, faults=None):
        self.seed, self.seconds, self.rate = seed, seconds, rate
        self.faults = plan.make(seed, seconds) if faults is None else faults
        self.world = installation.Installation(seed, say)
        self.watch = watch.Watch(self.world)
        self.boss = supervisor.Supervisor(self.world, self.watch, say)
        self.stop = threading.Event()
        self.writers = []
        self.operator = threading.Thread(target=self.decide, name="operator", daemon=True)
        self.limiter = threading.Thread(target=self.watch_queue, name="limiter", daemon=True)
        self.tasks = 0
        self.began = None
        (self.world.folder / "plan").write_text(plan.text(seed, self.faults))

    def start(self):
        self.world.start_roles()
        self.watch.start()
        self.world.rolled_up.start()
        self.writers = self.world.make_writers(self.seed, self.stop, self.rate)
        for writer in self.writers:
            writer.start()
        self.operator.start()
        self.limiter.start()
        self.began = time.monotonic()

    def decide(self):
        """An operator who looks at blocked tasks now and then, and sometimes changes the weights of
        ranks."""
        looks = 0
        try:
            while not self.stop.wait(OPERATOR_S):
                looks += 1
                self.world.operator.act(clients.GROUP)
                if looks % RANK_EVERY == 0:
                    self.world.ranker.act()
        except Exception as reason:  # pylint: disable=broad-except
            self.boss.violations.append(f"the operator: {reason!r}")

    def watch_queue(self):
        """Tells the limit how long the retry queue is. While the database is down the limit stays
        as it is: the writers cannot write either."""
        try:
            while not self.stop.wait(LIMIT_S):
                with contextlib.suppress(pymysql.MySQLError, OSError):
                    self.tasks = self.world.stack.number("SELECT COUNT(*) FROM retry_task")
                    self.world.limit.update(self.tasks)
        except Exception as reason:  # pylint: disable=broad-except
            self.boss.violations.append(f"the limiter: {reason!r}")

    @property
    def votes(self):
        return sum(writer.votes for writer in self.writers)

    def run_faults(self):
        """Until the time is over."""
        self.boss.load(self.faults, self.began)
        told = self.began
        every = max(PROGRESS_S, self.seconds / PROGRESS_LINES_MAX)
        while time.monotonic() - self.began < self.seconds:
            self.boss.tick()
            if time.monotonic() - told >= every:
                told += every
                self.say_progress()
            time.sleep(0.02)

    def say_progress(self):
        counts = self.boss.counts
        away = " ".join(f"{name}:{state}" for name, state in self.boss.state.items()
                        if state != "up")
        say(f"  {time.monotonic() - self.began:4.0f} s  votes={self.votes} "
            f"events={sum(w.events for w in self.writers)} "
            f"unknown={sum(w.unknown for w in self.writers)} tasks={self.tasks} "
            f"kills={counts['kills']} "
            f"stops={counts['stops']} cuts={counts['cuts']} disk={self.check_disk()} MiB  {away}")

    def check_disk(self):
        """MiB; a run that fills the disk ends as one that cannot be judged."""
        mib = self.world.disk_mib()
        limit = DISK_MIB_START + DISK_MIB_SECOND * self.seconds
        if mib > limit:
            self.boss.broken = f"{self.world.folder} takes {mib} MiB, {limit} are due at most"
        return mib

    def heal(self):
        """Every fault ends; every role must recover."""
        say("healing everything")
        self.boss.heal()
        self.wait_ready()

    def quiet_deaths(self):
        """Kills relays and consumers one after the other, with nothing else wrong, to see how long
        what they hold takes to move on."""
        self.watch.begin_quiet()
        for _ in range(min(1 + self.seconds // QUIET_EVERY_S, QUIET_ROUNDS_MAX)):
            for names in (plan.RELAYS, plan.CONSUMERS):
                pids = {name: self.world.roles[name].pid for name in names}
                name = max(names, key=lambda name: self.watch.owns(pids[name]))
                say(f"  {name} is killed in quiet, holding {self.watch.owns(pids[name])}")
                self.boss.kill_role(name, QUIET_DEAD_S)
                self.boss.counts["kills"] += 1
                self.wait_moved(name)
                self.boss.start_role(name)
                self.wait_ready()

    def wait_moved(self, name):
        until = time.monotonic() + MOVE_S
        while not self.watch.moved():
            if time.monotonic() > until:
                self.boss.violations.append(f"the work of {name} did not move in {MOVE_S} s")
                self.watch.begin_quiet()
                return
            self.boss.tick()
            time.sleep(0.02)

    def settle(self):
        """Ends the writers, waits until nothing is under way, then ends the roles."""
        self.stop.set()
        for writer in self.writers:
            writer.join(60)
            if writer.is_alive():
                self.boss.violations.append(f"the writer {writer.name} hangs")
            elif writer.error:
                self.boss.violations.append(f"{writer.name}: {writer.error!r}")
        self.operator.join(150)
        self.world.effects.healthy = True
        self.world.clients.healthy.set()
        if self.world.clients.error:
            self.boss.violations.append(f"the clients: {self.world.clients.error!r}")
        left = finish.drain(self.world, self.boss.tick, say)
        if left:
            self.boss.violations.append(f"not drained in {finish.DRAIN_S} s, so lost and late items "
                                        f"cannot be told apart: {left}")
        for difference in finish.wait_lists(self.world, self.boss.tick, say):
            self.boss.violations.append(f"a list is not right in the end: {difference}")
        self.world.rolled_up.end()
        self.watch.end()
        self.boss.stop_roles()

    def wait_ready(self):
        """Every role must recover by itself once nothing is wrong any more."""
        until = time.monotonic() + READY_S
        for name, role in self.world.roles.items():
            while True:
                self.boss.tick()
                if self.boss.state[name] == "up" and role.alive() and role.ready():
                    break
                if time.monotonic() > until:
                    self.boss.violations.append(f"{name} is not ready {READY_S} s after everything "
                                                f"was healed: {role.why_not_ready()}")
                    break
                time.sleep(0.1)

    def judge(self):
        say("reading everything back")
        verdict = finish.give_verdict(self.world)
        (self.world.folder / "verdict").write_text(verdict.text() + "\n")
        return verdict

    def report(self, verdict):
        """Details, then the line; true when all is well."""
        counts = self.boss.counts
        for violation in self.watch.memory.violations():
            self.boss.violations.append(violation)
        for violation in self.boss.violations:
            print(f"VIOLATION: {violation}")
        for note in self.boss.notes:
            print(f"note: {note}")
        print(verdict.text(), end="\n" if verdict.text() else "")
        print("ledger, topics, log: " + ", ".join(
            f"{name} {count}" for name, count in sorted(verdict.facts.items())))
        links = ", ".join(f"{kind} {count}" for kind, count in self.boss.cuts.items())
        print(f"plan: {len(self.faults)} faults, {counts['skipped']} skipped (the target "
              f"had one already), {counts['restarts']} clean restarts, {counts['reloads']} "
              f"reloads; links: {links}; writers of tasks paused {self.world.limit.pauses} times")
        print(self.world.clients.text())
        for line in self.watch.text():
            print(line)
        enough = self.votes >= VOTES_MIN_SECOND * self.seconds
        if not enough:
            print(f"VIOLATION: {self.votes} acknowledged votes in {self.seconds} s prove nothing")
        unproven = [what for what in PROVEN if not verdict.facts[what]]
        if finish.exact_lanes(self.world.stack) and not verdict.facts["records of exactly-once lanes"]:
            unproven.append("lanes that publish exactly once")
        if not self.world.clients.pushed:
            unproven.append("configurations pushed to clients")
        if unproven:
            print(f"VIOLATION: the run proves nothing about: {', '.join(unproven)}")
        good = verdict.good and enough and not unproven and not self.boss.violations
        if not good:
            print(f"NOT GOOD with {suite.DATABASE}, seed {self.seed}: the plan, the ledgers, all "
                  f"logs and the servers' data are in {self.world.folder}")
        print(f"chaos: seconds={self.seconds} kills={counts['kills']} stops={counts['stops']} "
              f"cuts={counts['cuts']} votes={self.votes} {verdict.line()}", flush=True)
        return good

    def close(self):
        self.stop.set()
        self.watch.stop.set()
        self.world.rolled_up.halt.set()
        self.world.close()


def run(seed, seconds, rate=RATE):
    """True when every promise held."""
    say(f"chaos: {suite.DATABASE}, seed {seed}, {seconds} s, at most {rate} votes/s over HTTP")
    chaos = None
    try:
        chaos = Chaos(seed, seconds, rate)
        chaos.start()
        chaos.run_faults()
        chaos.heal()
        chaos.quiet_deaths()
        chaos.settle()
        return chaos.report(chaos.judge())
    finally:
        if chaos:
            chaos.close()


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--plan", action="store_true")
    options = parser.parse_args()
    if options.seconds < 10:
        parser.error("--seconds takes a number from 10")
    if not 10 <= options.rate <= RATE_MAX:
        parser.error(f"--rate takes a number from 10 to {RATE_MAX}")
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(3), "big")
    return options


def main():
    options = parse()
    if options.plan:
        print(plan.text(options.seed, plan.make(options.seed, options.seconds)), end="")
        return 0
    return 0 if run(options.seed, options.seconds, options.rate) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
