# SPDX-License-Identifier: MIT
"""Carries out the plan, and restarts every role that has ended, as a supervisor does. One thread
does all of it; only servers are restarted beside it, which takes seconds."""

import heapq
import itertools
import os
import pathlib
import signal
import threading
import time

import suite
import installation
import plan

RESTART_S = 0.5
RESTART_TRIES = 3  # of a server
NOTE_LINES = 15    # of a log that go into a note: nothing else is left of a good run
STOP_GRACE_S = 10  # past the stop's own bound, on a machine that has much to do


def knows_hangup(pid):
    """Whether a process is past the first moment of its life, when SIGHUP would end it."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in status.splitlines()
             if line.startswith(("SigBlk:", "SigCgt:"))]
    return any(mask & 1 << signal.SIGHUP - 1 for mask in masks)


class Supervisor:
    """Roles are up, down, frozen or ending; servers are up, down or frozen."""

    def __init__(self, world, watch, say):
        self.world, self.watch, self.say = world, watch, say
        self.state = dict.fromkeys((*plan.ROLES, *plan.SERVERS), "up")
        self.due = []  # heap of (time, n, function)
        self.numbers = itertools.count()
        self.counts = dict.fromkeys(
            ("kills", "stops", "cuts", "restarts", "reloads", "skipped"), 0)
        self.cuts = dict.fromkeys(plan.LINK_KINDS, 0)
        self.violations = []  # what must not happen
        self.notes = []   # what may, and is worth a look
        self.broken = None  # why nothing can be judged any more
        self.threads = []
        self.ending = {}  # role: until when
        self.healing = False

    def at(self, when, function, *arguments):
        heapq.heappush(self.due, (when, next(self.numbers), lambda: function(*arguments)))

    def load(self, faults, start):
        for fault in faults:
            self.at(start + fault.at, self.apply, fault)

    def tick(self):
        """Everything that is due, and a look at every process."""
        while self.due and self.due[0][0] <= time.monotonic():
            heapq.heappop(self.due)[2]()
        for name, role in self.world.roles.items():
            if self.state[name] in ("up", "ending") and not role.alive():
                self.ended(name, role)
        for name, until in list(self.ending.items()):
            if time.monotonic() > until:
                self.violations.append(f"{name} did not end within its bound after SIGTERM")
                self.kill_role(name, RESTART_S)
        if not self.world.proxy.alive():
            self.broken = "the proxy has ended"
        if self.broken:
            raise RuntimeError(self.broken)

    def apply(self, fault):
        """One fault of the plan; skipped when its target has another one already."""
        kind, target = fault.kind, fault.target
        if kind == "reload":
            self.reload()
        elif target in plan.LINKS:
            self.world.proxy.order(target, kind, fault.seconds)
            self.counts["cuts"] += 1
            self.cuts[kind] += 1
        elif self.state[target] != "up":
            self.counts["skipped"] += 1
        elif target in plan.SERVERS:
            self.server_fault(kind, target, fault.seconds)
        elif kind == "kill":
            self.kill_role(target, fault.seconds)
            self.counts["kills"] += 1
        elif kind == "restart":
            self.counts["restarts"] += 1
            self.state[target] = "ending"
            self.ending[target] = time.monotonic() + installation.STOP_MS / 1000 + STOP_GRACE_S
            self.world.roles[target].process.terminate()
        else:
            self.freeze(target, self.world.roles[target].pid, fault.seconds)

    def reload(self):
        self.counts["reloads"] += 1
        self.world.next_settings()
        for name, role in self.world.roles.items():
            if self.state[name] == "up" and role.alive() and knows_hangup(role.pid):
                os.kill(role.pid, signal.SIGHUP)

    def freeze(self, target, pid, seconds):
        os.kill(pid, signal.SIGSTOP)
        self.counts["stops"] += 1
        self.state[target] = "frozen"
        self.at(time.monotonic() + seconds, self.thaw, target, pid)

    def thaw(self, target, pid):
        if self.state[target] == "frozen":
            self.state[target] = "up"
            os.kill(pid, signal.SIGCONT)

    def kill_role(self, name, seconds):
        role = self.world.roles[name]
        self.ending.pop(name, None)
        self.state[name] = "down"
        self.watch.killed(name, role.pid)
        role.kill()
        self.at(time.monotonic() + seconds, self.start_role, name)

    def start_role(self, name):
        if self.state[name] == "down":
            self.world.roles[name].start()
            self.state[name] = "up"

    def ended(self, name, role):
        """It went by itself, or as told by SIGTERM."""
        code = role.process.returncode
        asked = self.ending.pop(name, None) is not None
        story = f"{name} ended with {code} {'after SIGTERM' if asked else 'by itself'}"
        if code < 0:
            crash = [line for line in role.log_text().splitlines() if "event=crashed" in line]
            self.violations.append("\n".join([f"{story}: see {role.log}", *crash[-1:]]))
        elif code > 0 or not asked:
            self.notes.append(f"{story}\n{suite.tail(role.log, NOTE_LINES)}")
        self.state[name] = "down"
        self.at(time.monotonic() + RESTART_S, self.start_role, name)

    def server_fault(self, kind, target, seconds):
        server = self.world.server(target)
        self.say(f"  {target} " + ("is killed" if kind == "kill" else
                                   f"is frozen for {seconds:.1f} s"))
        if kind == "stop":
            self.freeze(target, server.pid, seconds)
            return
        self.counts["kills"] += 1
        self.state[target] = "down"
        thread = threading.Thread(target=self.server_restart, args=(target, server, seconds))
        self.threads.append(thread)
        thread.start()

    def server_restart(self, target, server, seconds):
        try:
            server.kill()
            time.sleep(seconds)
            for tries_left in reversed(range(RESTART_TRIES)):
                try:
                    server.restart()
                    break
                except RuntimeError:
                    if not tries_left:
                        raise
            self.state[target] = "up"
        except Exception as reason:  # pylint: disable=broad-except
            self.broken = f"{target} did not come back: {reason}"

    def heal(self):
        """Ends every fault and starts what is down; waits for servers, not for roles."""
        self.due.clear()
        self.world.proxy.heal()
        for target, state in self.state.items():
            if state == "frozen":
                server = target in plan.SERVERS
                self.thaw(target, (self.world.server(target) if server
                                   else self.world.roles[target]).pid)
        for thread in self.threads:
            thread.join(300)
        for name in plan.ROLES:
            self.start_role(name)

    def stop_roles(self):
        """A clean end of every role, each within its bound."""
        for role in self.world.roles.values():
            if role.alive():
                role.process.terminate()
        until = time.monotonic() + installation.STOP_MS / 1000 + STOP_GRACE_S
        for name, role in self.world.roles.items():
            while role.alive() and time.monotonic() < until:
                time.sleep(0.05)
            if role.alive():
                self.violations.append(f"{name} did not end within its bound after SIGTERM")
            elif role.process.returncode != 0:
                self.notes.append(f"{name} ended with {role.process.returncode} after the last "
                                  f"SIGTERM\n{suite.tail(role.log, NOTE_LINES)}")
            role.kill()
