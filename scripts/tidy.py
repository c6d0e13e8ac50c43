#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""clang-tidy on every file of a build: tidy.py BUILD CACHE FILE...

Runs one clang-tidy per core on the FILEs that BUILD/compile_commands.json compiles, the largest
first. A file that was clean is remembered in CACHE under a hash of everything that its result
depends on: the bytes of the file and of all that it includes, its command, .clang-tidy and the
version of clang-tidy. It is checked again when one of them is another. Only clean files are
remembered. The last line of the output counts what was checked; exit code 1 when a file is not
clean."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

TIDY = "clang-tidy-14"
KEPT_S = 30 * 24 * 3600
NOISE = re.compile(r"^\d+ warnings?( and \d+ errors?)? generated")


class Tidy:
    def __init__(self, build, cache):
        self.build = build
        self.cache = pathlib.Path(cache)
        self.root = os.getcwd()
        self.began = time.time()
        self.bytes = {}  # path: hash of what it holds
        version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
        self.base = version + pathlib.Path(".clang-tidy").read_bytes()

    def hash_of(self, path):
        if path not in self.bytes:
            self.bytes[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        return self.bytes[path]

    def key(self, entries):
        """What the result of a file depends on, without the place of the clone: clang-tidy runs each
        of its commands. None when it cannot be told, also because a file is being edited."""
        key = hashlib.sha256(self.base)
        for entry in entries:
            words = shlex.split(entry["command"])
            if "-o" in words:
                at = words.index("-o")
                del words[at:at + 2]
            listed = subprocess.run([*words, "-M", "-MT", "x"], cwd=entry["directory"],
                                    capture_output=True, text=True, check=False)
            if listed.returncode != 0:
                return None
            key.update("\0".join(words).replace(self.root, "").encode())
            for path in listed.stdout.replace("\\\n", " ").split()[1:]:
                path = os.path.normpath(os.path.join(entry["directory"], path))
                if os.path.getmtime(path) > self.began:
                    return None
                key.update(f"\0{path.removeprefix(self.root)}\0{self.hash_of(path)}".encode())
        return key.hexdigest()

    def check(self, file, entries):
        """(whether it is clean, whether clang-tidy had to run, what it says)"""
        key = self.key(entries)
        mark = self.cache / key if key else None
        if mark and mark.exists():
            os.utime(mark)
            return True, False, ""
        done = subprocess.run([TIDY, "--quiet", "-p", self.build, file],
                              capture_output=True, text=True, check=False)
        said = "\n".join(line for line in (done.stdout + done.stderr).splitlines()
                         if not NOISE.match(line))
        # Once more: it must be of the bytes that clang-tidy has read.
        if done.returncode == 0 and not said.strip() and mark and self.key(entries) == key:
            mark.touch()
        return done.returncode == 0, True, said

    def forget_old(self):
        for mark in self.cache.iterdir():
            if mark.stat().st_mtime < time.time() - KEPT_S:
                mark.unlink(missing_ok=True)


def main():
    build, cache, *names = sys.argv[1:]
    os.makedirs(cache, exist_ok=True)
    wanted = {os.path.abspath(name) for name in names}
    entries = {}
    for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text()):
        if entry["file"] in wanted:
            entries.setdefault(entry["file"], []).append(entry)
    tidy = Tidy(build, cache)
    bad = ran = 0
    order = sorted(entries, key=lambda file: -os.path.getsize(file))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for clean, had_to_run, said in pool.map(tidy.check, order, map(entries.get, order)):
            bad += not clean
            ran += had_to_run
            if said.strip():
                print(said, flush=True)
    tidy.forget_old()
    print(f"{len(entries)} files, {ran} of them checked now and the others known to be clean",
          flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
