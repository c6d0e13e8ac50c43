# SPDX-License-Identifier: MIT
"""cmake/version.cmake in repositories of its own: tags, commits after them, changes, archives."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
AFTER_HASH = r"[0-9a-f]{8}"


class Version(unittest.TestCase):
    """What the version of a folder is."""

    any_database = True

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "repository"
        self.build = self.folder.parent / "build"
        (self.folder / "cmake").mkdir(parents=True)
        for name in (".gitattributes", "cmake/version.cmake", "cmake/version.h.in", "cmake/version.txt"):
            (self.folder / name).write_bytes((ROOT / name).read_bytes())
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words):
        # 2026-03-01 in UTC, another day where the committer is.
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder.parent),
               "GIT_COMMITTER_DATE": "2026-03-01T23:30:00 -0800",
               "GIT_AUTHOR_DATE": "2026-02-01T12:00:00 +0000"}
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words],
                              cwd=self.folder, env=env, check=True, capture_output=True).stdout

    def commit(self):
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message=change")

    def configure(self, folder, *words):
        return subprocess.run(
            ["cmake", f"-DPROJECT_SOURCE_DIR={folder}", f"-DPROJECT_BINARY_DIR={self.build}",
             *words, "-P", str(folder / "cmake/version.cmake")], capture_output=True, text=True, check=False)

    def version(self, *words, folder=None):
        folder = folder or self.folder
        done = self.configure(folder, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        text = (self.build / "generated/tallybox_version.h").read_text()
        return re.search(r'TALLYBOX_VERSION "(.*)"', text)[1]

    def test_a_commit_without_a_tag_is_lower_than_any_version(self):
        version = self.version()
        self.assertRegex(version, rf"^0\.0~git20260302\.{AFTER_HASH}$")
        subprocess.run(["dpkg", "--compare-versions", version, "lt", "0.0"], check=True)

    def test_a_tag_is_the_version_and_a_commit_after_it_is_higher(self):
        self.git("tag", "v0.3", "--message=first")
        self.assertEqual(self.version(), "0.3")
        self.commit()
        later = self.version()
        self.assertRegex(later, rf"^0\.3\+1\.g{AFTER_HASH}$")
        self.git("tag", "v0.4")
        self.assertEqual(self.version(), "0.4")
        for lower, higher in (("0.3", later), (later, "0.4"), ("0.9", "0.10")):
            subprocess.run(["dpkg", "--compare-versions", lower, "lt", higher], check=True)

    def test_other_tags_do_not_count(self):
        self.git("tag", "verified")
        self.git("tag", "0.9")
        self.assertRegex(self.version(), r"^0\.0~git")

    def test_changes_that_are_not_committed_are_told(self):
        self.git("tag", "v0.3")
        (self.folder / "new").write_text("not of the repository\n")
        self.assertEqual(self.version(), "0.3")
        with open(self.folder / "cmake/version.h.in", "a", encoding="utf-8") as file:
            file.write("\n")
        self.assertEqual(self.version(), "0.3+local")

    def archive(self):
        place = self.folder.parent / "archive"
        place.mkdir()
        subprocess.run(["tar", "-x", "-C", str(place)], input=self.git("archive", "HEAD"), check=True)
        return place

    def test_an_archive_of_a_commit_knows_its_version(self):
        self.git("tag", "v0.3", "--message=first")
        self.assertEqual(self.version(folder=self.archive()), "0.3")

    def test_an_archive_of_a_commit_without_a_tag_knows_day_and_hash(self):
        self.assertRegex(self.version(folder=self.archive()), r"^0\.0~git20260302\.[0-9a-f]{7,}$")

    def test_a_copy_of_the_files_has_an_unknown_version(self):
        place = self.folder.parent / "copy"
        subprocess.run(["cp", "-r", str(self.folder), str(place)], check=True)
        subprocess.run(["rm", "-r", str(place / ".git")], check=True)
        self.assertEqual(self.version(folder=place), "0.0~unknown")

    def test_another_version_can_be_set(self):
        self.assertEqual(self.version("-DTALLYBOX_VERSION=7.1"), "7.1")

    def test_a_version_that_no_package_could_have_is_refused(self):
        for version in ("latest", "1 2", '1"', "1-2", "1" * 33, ""):
            with self.subTest(version):
                done = self.configure(self.folder, f"-DTALLYBOX_VERSION={version}")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("has to begin with a digit", done.stderr)


if __name__ == "__main__":
    unittest.main()
