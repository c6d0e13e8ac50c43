# SPDX-License-Identifier: MIT
"""A Debian 12 machine with a systemd of its own, in a container that shares the network of this one.

TALLYBOX_CONTAINER  the root from which each machine is copied (scripts/part_container.sh)
TALLYBOX_PACKAGES   a folder with packages, which is /packages in the machine

systemd-nspawn needs no systemd on this machine, but a control group of its own: without one two
machines would share their groups. It runs in a namespace of processes of its own, which ends with the
process that started it: a systemd-nspawn that is killed leaves its machine running."""

import atexit
import contextlib
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
PROPAGATE = pathlib.Path("/run/systemd/nspawn/propagate")
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
        self.clean_killed()
        # unittest runs no cleanup of a test that is interrupted.
        atexit.register(self.stop)

    def start(self):
        if not self.root.exists():
            self.folder.mkdir(parents=True)
            subprocess.run(["cp", "-a", "--reflink=auto", CONTAINER, str(self.root)], check=True)
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child",
                 "--mount-proc", "systemd-nspawn", "--quiet", "--boot", "--register=no",
                 f"--directory={self.root}", f"--machine={self.name}", "--link-journal=no",
                 "--resolv-conf=off", "--timezone=off", "--console=pipe",
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

    def first_of(self, depth):
        """The pid, on this machine, of the process 1 so many namespaces below: 1 is systemd-nspawn, 2 the
        machine's systemd. NotThere before it is started."""
        left = [self.process.pid]
        while left:
            pid = left.pop()
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                numbers = status.split("NSpid:")[1].split("\n")[0].split()
                if numbers[-1] == "1" and len(numbers) == depth + 1:
                    return pid
                for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                    left += map(int, (task / "children").read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue
        raise suite.NotThere(f"{self.name} has no process 1")

    def call(self, command, seconds=COMMAND_S, stdin=None):
        """A command of a shell there, as root; nothing of this machine's environment."""
        return subprocess.run(
            ["nsenter", "--target", str(self.first_of(2)), "--mount", "--uts", "--ipc", "--pid",
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
        try:
            os.kill(self.first_of(1), signal.SIGTERM)
            self.process.wait(60)
        except (suite.NotThere, ProcessLookupError, subprocess.TimeoutExpired) as reason:
            print(f"{self.name} is killed: {reason}\n{suite.tail(self.console)}", file=sys.stderr)
            self.process.kill()
            self.process.wait()
        self.process = None
        self.clean(self.name)

    @classmethod
    def clean(cls, name):
        """What systemd-nspawn leaves on this machine. A group can be removed when nothing runs in it."""
        for hierarchy in hierarchies():
            for folder, _, _ in os.walk(hierarchy / name, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        shutil.rmtree(PROPAGATE / name, ignore_errors=True)

    @classmethod
    def clean_killed(cls):
        """The same for machines whose process was killed."""
        for path in [*PROPAGATE.glob("tallybox-*"), *(
                path for hierarchy in hierarchies() for path in hierarchy.glob("tallybox-*-*"))]:
            number = path.name.rsplit("-", 1)[1]
            if number.isdigit() and not os.path.exists(f"/proc/{number}"):
                cls.clean(path.name)
