#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The bill of materials of a program, SPDX 2.3 in JSON, from what the linker put into it: the static
librdkafka with what that has of others, and the Debian packages of all shared libraries that the loader
finds, also those that are needed by others.

    sbom.py --version V --time SECONDS --output FILE [--librdkafka VERSION ARCHIVE LICENSES] PROGRAM"""

import argparse
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

# The parts of librdkafka by a member of the archive that only they have: name in LICENSES.txt, licence.
# None: there is no SPDX name for it, so the text itself is given.
PARTS = {
    "cJSON.c.o": ("cjson", "MIT"),
    "crc32c.c.o": ("crc32c", "Zlib"),
    "lz4.c.o": ("lz4", "BSD-2-Clause"),
    "metrics.pb.c.o": ("opentelemetry", "Apache-2.0"),
    "pb_decode.c.o": ("nanopb", "Zlib"),
    "rdcrc32.c.o": ("pycrc", "MIT"),
    "rdfnv1a.c.o": ("fnv1a", None),
    "rdhdrhistogram.c.o": ("hdrhistogram", "MIT"),
    "rdkafka_queue.c.o": ("queue", "BSD-3-Clause"),
    "rdmurmur2.c.o": ("murmur2", "MIT"),
    "rdxxhash.c.o": ("lz4", "BSD-2-Clause"),
    "regexp.c.o": ("regexp", None),
    "snappy.c.o": ("snappy", "BSD-3-Clause"),
    "tinycthread.c.o": ("tinycthread", "Zlib"),
}
# In the texts of librdkafka's error messages and so in each program that has it.
MARK_OF_LIBRDKAFKA = b"librdkafka"


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"})
    if done.returncode != 0:
        raise SystemExit(f"sbom.py: {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def checksums(path):
    with open(path, "rb") as file:
        data = file.read()
    return [{"algorithm": name, "checksumValue": hashlib.new(name.lower(), data).hexdigest()}
            for name in ("SHA1", "SHA256")]


def identifier(*words):
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", word) for word in words)


def loaded_libraries(program):
    """{soname: path} of all libraries that the loader maps."""
    found = {}
    for line in run("ldd", program).splitlines():
        match = re.match(r"\s*(\S+) => (/\S+) \(", line) or re.match(r"\s*(/\S+)() \(", line)
        if match:
            path = match[2] or match[1]
            found[os.path.basename(match[1])] = path
        elif "not found" in line:
            raise SystemExit(f"sbom.py: a library is missing: {line.strip()}")
    return found


def needed_libraries(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-dW", path))


class Debian:
    """The packages of files of this machine."""

    def __init__(self):
        release = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release", encoding="utf-8")
                       if "=" in line)
        self.distribution = "-".join(release.get(key, "").strip('"') for key in ("ID", "VERSION_ID"))

    @staticmethod
    def package_of(path):
        """dpkg knows a file by one of its names, with or without /usr."""
        real = os.path.realpath(path)
        for name in (path, real, real.removeprefix("/usr"), "/usr" + path):
            done = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True,
                                  check=False, env={**os.environ, "LC_ALL": "C"})
            if done.returncode == 0:
                return done.stdout.split(": ")[0].split(",")[0]
        raise SystemExit(f"sbom.py: no package has {path}")

    def describe(self, package):
        """The entry of a package that is installed."""
        name, version, machine, source = run(
            "dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\t${source:Package}",
            package).split("\t")
        escaped = version.replace(":", "%3A").replace("+", "%2B")
        return {
            "SPDXID": identifier("Debian", name), "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "supplier": "Organization: Debian", "sourceInfo": f"source package {source}",
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "licenseComments": f"/usr/share/doc/{name}/copyright", "copyrightText": "NOASSERTION",
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{name}@{escaped}?arch={machine}"
                                    f"&distro={self.distribution}"}],
        }


class Document:
    """What is found so far."""

    def __init__(self, program, version):
        self.program = program
        self.version = version
        self.packages = []
        self.relationships = []
        self.licenses = []

    def add(self, entry):
        if entry["SPDXID"] not in [one["SPDXID"] for one in self.packages]:
            self.packages.append(entry)
        return entry["SPDXID"]

    def relate(self, first, kind, second):
        entry = {"spdxElementId": first, "relationshipType": kind, "relatedSpdxElement": second}
        if entry not in self.relationships:
            self.relationships.append(entry)

    def add_program(self):
        """The package itself, with its program as its file."""
        package = self.add({
            "SPDXID": identifier("tallybox"), "name": "tallybox", "versionInfo": self.version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "supplier": "Organization: the tallybox authors", "primaryPackagePurpose": "APPLICATION",
            "licenseConcluded": "MIT", "licenseDeclared": "MIT",
            "copyrightText": "Copyright (c) 2026 the tallybox authors"})
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", package)
        return package

    def add_librdkafka(self, user, version, archive, licenses):
        """The static library and those of its parts that the archive has."""
        with open(self.program, "rb") as file:
            if MARK_OF_LIBRDKAFKA not in file.read():
                raise SystemExit(f"sbom.py: {self.program} has no librdkafka in it")
        with open(licenses, encoding="utf-8") as file:
            texts = dict(re.findall(r"^LICENSE\.(\w+)\n-+\n(.*?)(?=^LICENSE|\Z)", file.read(),
                                    re.M | re.S))
        library = self.add({
            "SPDXID": identifier("librdkafka"), "name": "librdkafka", "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "checksums": checksums(archive), "comment": "the static library that was linked",
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "BSD-2-Clause",
            "copyrightText": "Copyright (c) 2012-2022, Magnus Edenhill; 2023, Confluent Inc.",
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:github/confluentinc/librdkafka@v{version}"}]})
        self.relate(user, "STATIC_LINK", library)
        members = set(run("ar", "t", archive).split())
        for name, license_name in sorted({PARTS[one] for one in members & set(PARTS)},
                                         key=lambda part: part[0]):
            self.relate(library, "CONTAINS", self.add_part(name, license_name, texts))
        return library

    def add_part(self, name, license_name, texts):
        if name not in texts:
            raise SystemExit(f"sbom.py: librdkafka has no text LICENSE.{name}")
        text = texts[name].strip()
        declared = license_name or f"LicenseRef-librdkafka-{name}"
        if not license_name:
            self.licenses.append({"licenseId": declared, "name": f"librdkafka LICENSE.{name}",
                                  "extractedText": text})
        return self.add({
            "SPDXID": identifier("librdkafka", name), "name": f"{name} (in librdkafka)",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": declared,
            "copyrightText": "\n".join(re.findall(r"Copyright \(c\).*", text, re.I)) or "NONE"})

    def add_libraries(self, user):
        """The packages of the libraries that are loaded, each related to what needs it."""
        debian = Debian()
        loaded = loaded_libraries(self.program)
        packages = {name: self.add(debian.describe(debian.package_of(path)))
                    for name, path in sorted(loaded.items())}
        for name in needed_libraries(self.program):
            self.relate(user, "DYNAMIC_LINK", packages[name])
        for name, path in sorted(loaded.items()):
            for other in needed_libraries(path):
                if other in packages and packages[other] != packages[name]:
                    self.relate(packages[name], "DEPENDS_ON", packages[other])

    def as_json(self, seconds):
        digests = checksums(self.program)
        when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
        document = {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"tallybox-{self.version}",
            # Nothing needs to be there; it is another one for each program.
            "documentNamespace": f"https://spdx.org/spdxdocs/tallybox-{self.version}-"
                                 f"{digests[1]['checksumValue']}",
            "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: tallybox-sbom.py",
                                          "Organization: the tallybox authors"]},
            "packages": self.packages,
            "relationships": self.relationships,
        }
        if self.licenses:
            document["hasExtractedLicensingInfos"] = self.licenses
        return json.dumps(document, indent=1) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--time", default="")
    parser.add_argument("--librdkafka", nargs=3, metavar=("VERSION", "ARCHIVE", "LICENSES"))
    parser.add_argument("--output", required=True)
    parser.add_argument("program")
    words = parser.parse_args()
    document = Document(words.program, words.version)
    package = document.add_program()
    if words.librdkafka:
        document.add_librdkafka(package, *words.librdkafka)
    document.add_libraries(package)
    now = datetime.datetime.now(datetime.timezone.utc).timestamp()
    text = document.as_json(int(words.time) if words.time else int(now))
    with open(words.output, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
