# SPDX-License-Identifier: MIT
"""Certificates of our own making, by the openssl program: an authority and what it signs."""

import subprocess


def openssl(*words, stdin=None):
    done = subprocess.run(["openssl", *map(str, words)], input=stdin, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {words}: {done.stderr}")
    return done.stdout


class Authority:
    """Signs certificates for servers; `ca` is the file to trust."""

    def __init__(self, folder, name="authority"):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-keyout", self.key,
                "-out", self.ca, "-subj", f"/CN=tallybox test {name}",
                "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign")

    def issue(self, name, places):
        """(certificate, key) of a server at these places: "IP:127.0.0.1,DNS:localhost"."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request,
                "-subj", f"/CN={name}")
        extensions.write_text(f"subjectAltName={places}\n")
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key,
                "-CAcreateserial", "-days", 2, "-out", cert, "-extfile", extensions)
        key.chmod(0o600)
        return cert, key
