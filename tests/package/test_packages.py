# SPDX-License-Identifier: MIT
"""The packages as files: same bytes from two builds, what they contain and need, the bill of materials,
and the libraries for C applications.

TALLYBOX_PACKAGES  a folder with first/ and second/ (two builds of this commit) and next/ (a build with
                   a higher version)
TALLYBOX_SPDX      the folder of spdx-tools, for PYTHONPATH"""

import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e"), str(HERE.parents[1] / "scripts")]
import machine  # noqa: E402
import page_files  # noqa: E402
import suite  # noqa: E402

# What the roles of the unit in OPERATIONS.md have that the packaged one has otherwise.
OTHER_LINES = {"Type=notify-reload", "ExecStart=/usr/local/bin/tallybox %i --config /etc/tallybox/tallybox.ini",
               "WantedBy=multi-user.target"}


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}\n{done.stdout[-3000:]}"
                             f"{done.stderr[-3000:]}")
    return done.stdout


class Packages(unittest.TestCase):
    """Both packages, unpacked."""

    any_database = True

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=suite.run().folder)
        cls.addClassCleanup(folder.cleanup)
        cls.out = machine.PACKAGES / "first"
        cls.deb, = cls.out.glob("tallybox_*.deb")
        cls.dev, = cls.out.glob("libtallybox-dev_*.deb")
        cls.root = pathlib.Path(folder.name) / "tallybox"
        cls.dev_root = pathlib.Path(folder.name) / "dev"
        run("dpkg-deb", "-x", cls.deb, cls.root)
        run("dpkg-deb", "-x", cls.dev, cls.dev_root)
        cls.version = run("dpkg-deb", "-f", cls.deb, "Version").strip()
        cls.documents = cls.root / "usr/share/doc/tallybox"

    def field(self, name, deb=None):
        return run("dpkg-deb", "-f", deb or self.deb, name).strip()


class Reproducible(Packages):
    """Two builds of one commit."""

    def test_two_builds_in_different_folders_have_the_same_bytes(self):
        first, second = ({path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                          for path in (machine.PACKAGES / name).iterdir()} for name in ("first", "second"))
        self.assertEqual(len(first), 3, first)
        self.assertEqual(first, second)
        for name, digest in sorted(first.items()):
            print(digest, name, file=sys.stderr)

    def test_no_file_names_the_folder_of_the_build_or_of_the_cache(self):
        for root in (self.root, self.dev_root):
            for path in root.rglob("*"):
                if path.is_file():
                    data = path.read_bytes()
                    data = gzip.decompress(data) if path.suffix == ".gz" else data
                    for folder in (suite.ROOT, pathlib.Path(os.environ["TALLYBOX_SPDX"]).parent):
                        self.assertNotIn(str(folder).encode(), data, path)

    def test_the_program_has_a_build_id(self):
        self.assertRegex(run("readelf", "-nW", self.root / "usr/bin/tallybox"), r"Build ID: [0-9a-f]{40}")


class Contents(Packages):
    """What is in the packages."""

    def test_lintian_finds_nothing(self):
        # Also an override that hides nothing.
        words = ["lintian", "--fail-on", "error,warning"]
        if os.geteuid() == 0:
            words.append("--allow-root")
        self.assertEqual(run(*words, self.deb, self.dev), "")

    def test_the_program_has_the_version_of_the_package(self):
        self.assertEqual(run(self.root / "usr/bin/tallybox", "version"), f"tallybox {self.version}\n")
        self.assertEqual(self.field("Version", self.dev), self.version)
        changelog = gzip.decompress((self.documents / "changelog.gz").read_bytes()).decode()
        self.assertTrue(changelog.startswith(f"tallybox ({self.version}) "), changelog)
        self.assertEqual(run("dpkg-parsechangelog", "-l-", "-SVersion", input=changelog).strip(),
                         self.version)
        self.assertTrue(self.deb.name.startswith(f"tallybox_{self.version}_"))

    def test_cmake_installs_the_same_files(self):
        place = self.root.parent / "installed"
        run("cmake", "--install", pathlib.Path(suite.BINARY).parent, env={**os.environ, "DESTDIR": str(place)})
        found = [{str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
                 for root in (place, self.root, self.dev_root)]
        self.assertEqual(found[0], found[1] | found[2])
        # Once more on an installation that was configured.
        settings = place / "etc/tallybox/tallybox.ini"
        self.assertEqual(settings.stat().st_mode & 0o777, 0o600)
        settings.write_text("[mysql]\nhost = db1\n")
        run("cmake", "--install", pathlib.Path(suite.BINARY).parent, env={**os.environ, "DESTDIR": str(place)})
        self.assertEqual(settings.read_text(), "[mysql]\nhost = db1\n")

    def test_the_program_is_hardened(self):
        run(suite.ROOT / "scripts/hardened", self.root / "usr/bin/tallybox",
            pathlib.Path(suite.BINARY).parent)

    def test_the_package_needs_the_packages_of_its_libraries(self):
        needed = re.findall(r"\[(lib\w+?)\.so", run("readelf", "-dW", self.root / "usr/bin/tallybox"))
        self.assertIn("libmariadb", needed)
        self.assertNotIn("librdkafka", needed)
        depends = self.field("Depends")
        for name in ("libc6", "libmariadb3", "libmicrohttpd12", "libcurl4", "libjansson4", "libinih1",
                     "libssl3", "libzstd1", "liblz4-1", "libsasl2-2", "zlib1g"):
            self.assertRegex(depends, rf"(^|, ){re.escape(name)} \(>= ")
        self.assertNotIn("rdkafka", depends)

    def test_librdkafka_is_told_with_its_licence(self):
        version = json.loads((self.documents / "tallybox.spdx.json").read_text())["packages"][1]
        self.assertEqual(version["name"], "librdkafka")
        description = self.field("Description")
        self.assertIn(f"librdkafka {version['versionInfo']} (BSD-2-Clause) is linked statically",
                      description)
        for documents in (self.documents, self.dev_root / "usr/share/doc/libtallybox-dev"):
            text = (documents / "copyright").read_text()
            self.assertIn(f"librdkafka {version['versionInfo']} is linked statically", text)
            for part in ("Permission is hereby granted", "librdkafka - Apache Kafka C driver library",
                         "LICENSE.cjson", "LICENSE.wingetopt"):
                self.assertIn(part, text)

    def test_every_command_has_a_man_page_that_man_can_read(self):
        overview = run(self.root / "usr/bin/tallybox", "man")
        commands = re.findall(r"tallybox\\-([a-z]+) \(1\)", overview)
        folder = self.root / "usr/share/man/man1"
        self.assertEqual({path.name for path in folder.iterdir()},
                         {"tallybox.1.gz", *(f"tallybox-{name}.1.gz" for name in commands)})
        for path in folder.iterdir():
            done = subprocess.run(["man", "--warnings", "-l", str(path)], capture_output=True, text=True,
                                  env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)
            self.assertIn("tallybox", done.stdout)

    def test_the_shells_find_the_completion(self):
        for path, part in (("bash-completion/completions/tallybox", "_tallybox()"),
                           ("zsh/vendor-completions/_tallybox", "#compdef tallybox")):
            self.assertIn(part, (self.root / "usr/share" / path).read_text())

    def test_only_root_can_read_the_settings_before_their_account_exists(self):
        modes = {line.split()[-1]: line.split()[0] for line in run("dpkg-deb", "-c", self.deb).splitlines()}
        self.assertEqual(modes["./etc/tallybox/"], "drwx------")
        self.assertEqual(modes["./etc/tallybox/tallybox.ini"], "-rw-------")
        self.assertEqual({mode for name, mode in modes.items() if "/etc/tallybox" not in name},
                         {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"})
        self.assertEqual([name for name, mode in modes.items() if mode == "-rwxr-xr-x"],
                         ["./usr/bin/tallybox"])
        self.assertEqual(run("dpkg-deb", "-I", self.deb, "conffiles"), "/etc/tallybox/tallybox.ini\n")

    def test_the_program_accepts_the_settings(self):
        ini = self.root / "etc/tallybox/tallybox.ini"
        told = run(self.root / "usr/bin/tallybox", "config", "--config", ini)
        self.assertIn("127.0.0.1:9092", told)
        # Those that are a comment, too.
        password = self.root / "relay.password"
        password.write_text("secret\n")
        password.chmod(0o600)
        text = re.sub(r"^#(?=\[|mysql)", "", ini.read_text(), flags=re.M)
        self.assertIn("/etc/tallybox/relay.password", text)
        (self.root / "all.ini").write_text(text.replace("/etc/tallybox/relay.password", str(password)))
        told = run(self.root / "usr/bin/tallybox", "config", "--config", self.root / "all.ini", "--role",
                   "relay")
        self.assertRegex(told, r"user *= *tallybox_relay")

    def test_the_unit_has_every_line_of_operations(self):
        folder = self.root / "lib/systemd/system"
        unit = (folder / "tallybox@.service").read_text()
        blocks = page_files.blocks((suite.ROOT / "OPERATIONS.md").read_text(encoding="utf-8"))
        shown = next(text for _, _, text in blocks if "tallybox@.service" in text)
        lines = {line for line in shown.splitlines() if line and not line.startswith("#")}
        self.assertEqual(lines - set(unit.splitlines()), OTHER_LINES)
        self.assertIn("ExecStart=/usr/bin/tallybox %i --config /etc/tallybox/tallybox.ini\n", unit)

    def test_the_documents_have_what_they_link_to(self):
        """But for what only the repository has."""
        missing = set()
        for page in self.documents.rglob("*.md"):
            for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
                if not (page.parent / link).exists():
                    missing.add(os.path.relpath(page.parent / link, self.documents))
        self.assertEqual({path for path in missing if not re.match(
            r"(tests|outbox)/|docker/.*README.md$|(ARCHITECTURE|CONTRIBUTING).md$|LICENSE$", path)}, set())


class Materials(Packages):
    """The bill of materials."""

    def setUp(self):
        self.path = self.out / f"tallybox_{self.version}.spdx.json"
        self.document = json.loads(self.path.read_text())
        self.packages = {one["name"]: one for one in self.document["packages"]}

    def related(self, kind):
        names = {one["SPDXID"]: one["name"] for one in self.document["packages"]}
        return {(names[one["spdxElementId"]], names[one["relatedSpdxElement"]])
                for one in self.document["relationships"] if one["relationshipType"] == kind}

    def validate(self, path):
        return subprocess.run(
            [sys.executable, "-c", "import sys; from spdx_tools.spdx.clitools.pyspdxtools import main; "
             "sys.exit(main())", "--infile", str(path), "--version", "SPDX-2.3"],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.environ["TALLYBOX_SPDX"]})

    def test_it_is_a_valid_document_of_spdx(self):
        done = self.validate(self.path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # The validator would tell.
        self.document["packages"][0]["licenseDeclared"] = "no licence AND"
        broken = suite.run().folder / "broken.spdx.json"
        broken.write_text(json.dumps(self.document))
        self.assertNotEqual(self.validate(broken).returncode, 0)

    def test_the_package_has_it(self):
        self.assertEqual((self.documents / "tallybox.spdx.json").read_bytes(), self.path.read_bytes())
        self.assertEqual(self.packages["tallybox"]["versionInfo"], self.version)

    def test_it_has_every_package_that_the_loader_uses_and_no_other(self):
        loaded = set()
        for path in re.findall(r"(/\S+) \(0x", run("ldd", self.root / "usr/bin/tallybox")):
            for name in (path, os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")):
                done = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True,
                                      check=False)
                if done.returncode == 0:
                    loaded.add(done.stdout.split(":")[0])
                    break
            else:
                self.fail(f"no package has {path}")
        listed = {name for name, one in self.packages.items()
                  if one["SPDXID"].startswith("SPDXRef-Debian-")}
        self.assertEqual(listed, loaded)
        for name in listed:
            version = run("dpkg-query", "-W", "-f", "${Version}", name)
            self.assertEqual(self.packages[name]["versionInfo"], version)

    def test_it_tells_direct_needs_from_others(self):
        direct = {needed for user, needed in self.related("DYNAMIC_LINK") if user == "tallybox"}
        depends = {word.split()[0] for word in self.field("Depends").split(", ") if word.startswith(
            ("lib", "zlib"))}
        self.assertEqual(direct, depends)
        self.assertIn("libgnutls30", self.packages)
        self.assertNotIn("libgnutls30", direct)

    def test_it_has_the_static_library_and_its_parts(self):
        self.assertEqual(self.related("STATIC_LINK"), {("tallybox", "librdkafka")})
        digest, = (one["checksumValue"] for one in self.packages["librdkafka"]["checksums"]
                   if one["algorithm"] == "SHA256")
        cache = (pathlib.Path(suite.BINARY).parent / "CMakeCache.txt").read_text()
        archive = re.search(r"^TALLYBOX_RDKAFKA_ARCHIVE:FILEPATH=(.+)$", cache, re.M)[1]
        self.assertEqual(digest, hashlib.sha256(pathlib.Path(archive).read_bytes()).hexdigest())
        parts = {part.split()[0] for whole, part in self.related("CONTAINS") if whole == "librdkafka"}
        self.assertLessEqual({"cjson", "crc32c", "murmur2", "snappy", "tinycthread"}, parts)
        self.assertNotIn("wingetopt", parts)


class Library(Packages):
    """libtallybox-dev, unpacked in a folder: the files for pkg-config find their own place."""

    def test_the_programs_of_the_page_are_built_and_run(self):
        folder = self.dev_root.parent
        env = {**os.environ, "PKG_CONFIG_PATH": str(next(self.dev_root.rglob("pkgconfig")))}
        page = page_files.files((suite.ROOT / "docs/clients/README.md").read_text(encoding="utf-8"))
        for command in page["build_c.sh"].splitlines():
            name = re.search(r"-o (\S+)", command)[1]
            run("bash", "-ec", command.replace(f"-o {name}", f"-o {folder / name}"),
                cwd=suite.ROOT / "docs/clients", env=env)
        self.assertEqual(run(folder / "notes", "version"), f"tallybox {self.version}\n")
        needed = run("readelf", "-dW", folder / "notes")
        self.assertNotIn("librdkafka", needed)
        self.assertNotIn("librdkafka", run("readelf", "-dW", folder / "shop"))

    def test_it_needs_the_packages_of_what_pkg_config_requires(self):
        depends = {word.split()[0] for word in self.field("Depends", self.dev).split(", ")}
        required = set()
        for path in self.dev_root.rglob("*.pc"):
            required |= set(re.search(r"^Requires: (.*)$", path.read_text(), re.M)[1].split(", "))
        found = set()
        for name in required:
            folder = run("pkg-config", "--variable=pcfiledir", name).strip()
            path = os.path.realpath(f"{folder}/{name}.pc")
            found.add(run("dpkg-query", "-S", path).split(":")[0])
        self.assertEqual(depends, found)


if __name__ == "__main__":
    unittest.main()
