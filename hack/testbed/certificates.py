"""Makes keys, certificates and kubeconfig files; every user of the cluster authenticates by a client certificate."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

DAYS = 30
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    """A certificate authority with its files in `folder`: ca.crt, ca.key, and NAME.crt, NAME.key of each identity."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"

    def create(self) -> None:
        """Make the authority, and the key pair that signs service-account tokens."""
        self.folder.mkdir(parents=True, mode=0o700)
        self._request("ca", "/CN=vgpu-testbed", "-addext", "basicConstraints=critical,CA:TRUE")
        tokens = self.folder / "tokens.key"
        _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(tokens))
        _openssl("pkey", "-in", str(tokens), "-pubout", "-out", str(self.folder / "tokens.pub"))

    def issue(self, name: str, user: str, group: str = "", hosts: Sequence[str] = ()) -> None:
        """Make a client certificate of `user` in `group`; with `hosts` (names, addresses) also for a server."""
        usage = "clientAuth,serverAuth" if hosts else "clientAuth"
        options = ["-CA", str(self.certificate), "-CAkey", str(self.folder / "ca.key")]
        options += ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"extendedKeyUsage={usage}"]
        if hosts:
            names = (f"{'IP' if host[0].isdigit() else 'DNS'}:{host}" for host in hosts)
            options += ["-addext", f"subjectAltName={','.join(names)}"]
        self._request(name, (f"/O={group}" if group else "") + f"/CN={user}", *options)

    def file(self, name: str, kind: str) -> str:
        """The path of the file NAME.KIND; the kind is crt, key or pub."""
        return str(self.folder / f"{name}.{kind}")

    def kubeconfig(self, name: str, server: str, path: Path) -> None:
        """Write a kubeconfig for the identity `name`."""
        user = {"client-certificate": self.file(name, "crt"), "client-key": self.file(name, "key")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {"server": server, "certificate-authority": str(self.certificate)},
                }
            ],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": name}}],
            "current-context": "testbed",
        }
        path.write_text(json.dumps(config, indent=1), encoding="utf-8")
        path.chmod(0o600)

    def _request(self, name: str, subject: str, *options: str) -> None:
        files = ("-keyout", self.file(name, "key"), "-out", self.file(name, "crt"))
        _openssl("req", "-x509", *_KEY, *files, "-days", str(DAYS), "-subj", subject, *options)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
