"""kubectl of the one-machine cluster, as far as `vgpu run` and the job engine's commands need it.

    kubectl_stand_in.install(folder, root, api, explain)

It starts fast, with nothing but the standard library.
"""

import json
import sys
import time
import urllib.request
from pathlib import Path

_SCRIPT = """\
#!{python} -IS
import sys
sys.argv[1:1] = {values!r}
exec(compile(open({file!r}).read(), {file!r}, "exec"))
"""


def install(folder: Path, root: Path, api: str, explain: str) -> None:
    """Put a `kubectl` for the cluster below `root`, with these addresses, into a folder."""
    script = _SCRIPT.format(python=sys.executable, values=[str(root), api, explain], file=__file__)
    folder.mkdir(exist_ok=True)
    (folder / "kubectl").write_text(script)
    (folder / "kubectl").chmod(0o755)


def _logs(root: str, api: str, namespace: str, pod: str) -> None:
    """Print the lines of the pod's container, each with a time, until it has ended."""
    (file,) = Path(root).glob(f"*/logs/{namespace}_{pod}_main.log")
    count = 0
    with file.open() as log:
        while True:
            over = _ended(api, namespace, pod)
            for line in log:
                count += 1
                print(f"2026-01-01T00:00:00.{count:09}Z {line}", end="", flush=True)
            if over:
                return
            time.sleep(0.05)


def _ended(api: str, namespace: str, pod: str) -> bool:
    asked = urllib.request.Request(  # noqa: S310 - the stand-in's own address
        f"{api}/api/v1/namespaces/{namespace}/pods/{pod}", headers={"Authorization": "Bearer system:admin"}
    )
    with urllib.request.urlopen(asked) as answer:  # noqa: S310
        return json.load(answer)["status"].get("phase") in ("Succeeded", "Failed")


def main(root: str, api: str, explain: str, namespace: str, command: str, *words: str) -> int:
    """One command of kubectl."""
    if command == "logs":
        _logs(root, api, namespace.partition("=")[2], words[0])
    elif command == "port-forward":
        print(f"Forwarding from {explain} -> 9404", flush=True)
        time.sleep(1000)
    else:
        print(f"error: {command} is not served here", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
