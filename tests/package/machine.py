# SPDX-License-Identifier: MIT
"""A Debian 12 machine with a systemd of its own, in a container that shares the network of this one.

TALLYBOX_CONTAINER  the root from which each machine is copied (scripts/part_container.sh)
TALLYBOX_PACKAGES   a folder with packages, which is /packages in the machine

systemd-nspawn needs no systemd on this machine, but a control group of its own: without one two
machines would share their groups. The machine ends with the process that started it."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e")]
import suite  # noqa: E402

PACKAGES = pathlib.Path(os.environ.get("TALLYBOX_PACKAGES", "/nonexistent"))
CONTAINER = os.environ.get("TALLYBOX_CONTAINER", "/nonexistent")
GROUPS = pathlib.Path("/sys/fs/cgroup")
BOOT_S = 120
COMMAND_S = 300
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def hierarchies():
    """Where systemd keeps its groups: the only one, or the named one and the one of version 2."""
    if (GROUPS / "cgroup.procs").exists():
        return [GROUPS]
    return [path for path in (GROUPS / "systemd", GROUPS / "unified")
            if (path / "cgroup.procs").exists()]


class Machine:
    """One machine. Its files stay until the run ends."""

    def __init__(self, name):
        # The name has to be another one in each run, because other machines may be there.
        self.name = f"tallybox-{name}-{os.getpid()}"
        self.folder = suite.run().folder / self.name
        self.root = self.folder / "root"
        self.console = self.folder / "console"
        self.process = None
        self.managed = os.path.isdir("/run/systemd/system")

    def start(self):
        if not self.root.exists():
            self.folder.mkdir(parents=True)
            subprocess.run(["cp", "-a", "--reflink=auto", CONTAINER, str(self.root)], check=True)
        words = ["setpriv", "--pdeathsig", "KILL", "systemd-nspawn", "--quiet",
                 f"--directory={self.root}", f"--machine={self.name}", "--boot", "--register=no",
                 "--link-journal=no", "--resolv-conf=off", "--timezone=off", "--console=pipe",
                 f"--bind-ro={PACKAGES}:/packages"]
        if not self.managed:
            words.append("--keep-unit")
        with open(self.console, "ab") as console:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=console,
                                            stderr=console, preexec_fn=self._enter_group)
        suite.wait_for(f"{self.name} to boot", self.booted, BOOT_S, every=0.2)
        return self

    def _enter_group(self):
        for hierarchy in [] if self.managed else hierarchies():
            group = hierarchy / self.name
            group.mkdir(exist_ok=True)
            (group / "cgroup.procs").write_text("0")

    def _leave_group(self):
        """Groups can be removed when nothing runs in them."""
        for hierarchy in [] if self.managed else hierarchies():
            for folder, _, _ in os.walk(hierarchy / self.name, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError as reason:
                    print(f"{folder} stays: {reason}", file=sys.stderr)

    def init(self):
        """The pid, on this machine, of the machine's process 1; NotThere before it is started."""
        left = [self.process.pid]
        while left:
            pid = left.pop()
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                if status.split("NSpid:")[1].split("\n")[0].split()[1:] == ["1"]:
                    return pid
                for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                    left += map(int, (task / "children").read_text().split())
            except FileNotFoundError:
                continue
        raise suite.NotThere(f"{self.name} has no process 1")

    def call(self, command, seconds=COMMAND_S, stdin=None):
        """A command of a shell there, as root; nothing of this machine's environment."""
        return subprocess.run(
            ["nsenter", "--target", str(self.init()), "--mount", "--uts", "--ipc", "--pid",
             "--cgroup", "--", "/usr/bin/env", "-i", f"PATH={PATH}", "LC_ALL=C.UTF-8", "HOME=/root",
             "DEBIAN_FRONTEND=noninteractive", "/bin/bash", "-c", f"cd / && {command}"],
            input=stdin, capture_output=True, text=True, timeout=seconds, check=False)

    def run(self, command, expect=0, **options):
        """The output of a command that has to end with this code."""
        done = self.call(command, **options)
        if done.returncode != expect:
            raise AssertionError(f"{command}\nended with {done.returncode} instead of {expect}\n"
                                 f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def booted(self):
        if self.process.poll() is not None:
            raise AssertionError(f"systemd-nspawn ended with {self.process.returncode}\n"
                                 f"{suite.tail(self.console)}")
        return self.call("systemctl is-system-running").stdout.strip() in ("running", "degraded")

    def show(self, unit, name):
        """A property of a unit."""
        return self.run(f"systemctl show --value --property={name} '{unit}'").strip()

    def journal(self, unit):
        return self.run(f"journalctl --no-pager --output=cat --unit='{unit}'")

    def stop(self):
        """Ends it as a power switch does; by force if it does not obey."""
        if self.process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.process.send_signal(number)
            try:
                self.process.wait(60)
                break
            except subprocess.TimeoutExpired:
                print(f"{self.name} did not end by {number}\n{suite.tail(self.console)}",
                      file=sys.stderr)
        self.process = None
        self._leave_group()
        shutil.rmtree(f"/run/systemd/nspawn/propagate/{self.name}", ignore_errors=True)
