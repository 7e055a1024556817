"""The commands that read and write objects: `kubectl get`, `apply`, `delete` and others."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from hack.embedded.kubectl import tables
from hack.embedded.kubectl.api import Api, KubectlError, NotFoundError, Object, Resource, documents, resource

LOOK_SECONDS = 0.2


def named_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose objects: KIND [NAME...] or KIND/NAME..., a selector, all namespaces."""
    parser.add_argument("what", nargs="*", metavar="KIND [NAME] | KIND/NAME")
    parser.add_argument("-l", "--selector", default="")
    parser.add_argument("-A", "--all-namespaces", action="store_true")


def get_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl get`."""
    named_arguments(parser)
    parser.add_argument("-o", "--output", default="", help="json, yaml, name or wide")
    parser.add_argument("--field-selector", default="")
    parser.add_argument("--raw", default="", metavar="PATH")


def get(api: Api, args: argparse.Namespace) -> int:
    """Print objects."""
    if args.raw:
        print(api.text(args.raw), end="")
        return 0
    shown = 0
    for of, name in _targets(args.what):
        found = _found(api, args, of, name)
        if args.output in ("json", "yaml"):
            print(
                _text(found[0] if name else {"apiVersion": "v1", "kind": "List", "items": found}, args.output)
            )
        elif args.output == "name":
            print("\n".join(f"{of.singular}/{each['metadata']['name']}" for each in found))
        elif found:
            print("\n" if shown else "", end="")
            several = args.all_namespaces and of.namespaced
            print(tables.table(of.plural, found, namespaces=several, wide=args.output == "wide"))
        shown += len(found)
    if not shown and args.output not in ("json", "yaml"):
        where = "" if args.all_namespaces else f" in {api.namespace} namespace"
        print(f"No resources found{where}.", file=sys.stderr)
    return 0


def describe(api: Api, args: argparse.Namespace) -> int:
    """Print objects in YAML, each with the events about it."""
    for of, name in _targets(args.what):
        for found in _found(api, args, of, name):
            metadata = found["metadata"]
            print(_text(found, "yaml").rstrip())
            where = resource("events").path(metadata.get("namespace", "default"))
            about = f"involvedObject.uid={metadata['uid']}"
            events = sorted(
                api.get(where, fieldSelector=about)["items"],
                key=lambda event: (
                    str(event.get("lastTimestamp")),
                    int(event["metadata"]["resourceVersion"]),
                ),
            )
            told = tables.table("events", events).replace("\n", "\n  ") if events else "<none>"
            print(f"events:\n  {told}")
    return 0


def _found(api: Api, args: argparse.Namespace, of: Resource, name: str) -> list[Object]:
    """The object of this name; without a name, all selected objects."""
    if name:
        return [api.get(of.path(api.namespace, name))]
    where = of.path("" if args.all_namespaces else api.namespace)
    listed = api.get(where, labelSelector=args.selector, fieldSelector=getattr(args, "field_selector", ""))
    head = {"apiVersion": listed["apiVersion"], "kind": of.kind}
    return [{**head, **each} for each in listed["items"]]


def _text(found: Object, output: str) -> str:
    if output == "json":
        return json.dumps(found, indent=4)
    import yaml

    return str(yaml.safe_dump(found, sort_keys=True)).rstrip()


def _targets(words: Sequence[str]) -> Iterator[tuple[Resource, str]]:
    """Yield kind and name of each argument: `pods`, `pods,jobs`, `pod NAME...`, `pod/NAME ...`. Raises KubectlError."""
    if not words:
        raise KubectlError("error: you must specify the type of resource")
    if "/" in words[0]:
        for word in words:
            kind, _, name = word.partition("/")
            yield resource(kind), name
        return
    for kind in words[0].split(","):
        for name in words[1:] or [""]:
            yield resource(kind), name


def file_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl apply`."""
    parser.add_argument("-f", "--filename", required=True, help="a file, or - for standard input")


def apply(api: Api, args: argparse.Namespace) -> int:
    """Create or update the objects of a file."""
    for body, of, where in _bodies(api, args.filename):
        name = body["metadata"].get("name", "")
        try:
            was = api.get(of.path(where, name))
        except NotFoundError:
            api.post(of.path(where), body)
            print(f"{of.singular}/{name} created")
            continue
        now = api.patch(of.path(where, name), body)
        same = was["metadata"]["resourceVersion"] == now["metadata"]["resourceVersion"]
        print(f"{of.singular}/{name} {'unchanged' if same else 'configured'}")
    return 0


def create_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl create`."""
    parser.add_argument("-f", "--filename", default="")
    parser.add_argument("what", nargs="*", metavar="quota NAME | namespace NAME")
    parser.add_argument("--hard", default="", help="of a quota: RESOURCE=AMOUNT,...")


def create(api: Api, args: argparse.Namespace) -> int:
    """Create the objects of a file, a quota or a namespace."""
    if args.filename:
        made = list(_bodies(api, args.filename))
    elif len(args.what) == 2 and resource(args.what[0]).kind in ("ResourceQuota", "Namespace"):
        of, name = resource(args.what[0]), args.what[1]
        body: Object = {"apiVersion": "v1", "kind": of.kind, "metadata": {"name": name}}
        if of.kind == "ResourceQuota":
            body["spec"] = {"hard": dict(each.split("=", 1) for each in args.hard.split(",") if each)}
        made = [(body, of, api.namespace)]
    else:
        raise KubectlError("error: write create -f FILE, create quota NAME --hard=… or create namespace NAME")
    for body, of, where in made:
        print(f"{of.singular}/{api.post(of.path(where), body)['metadata']['name']} created")
    return 0


def _bodies(api: Api, file: str) -> Iterator[tuple[Object, Resource, str]]:
    """The objects of a file, each with its kind and namespace. Raises KubectlError."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise KubectlError(f'error: the path "{file}" cannot be read: {error.strerror}') from error
    for each in documents(text):
        for body in each["items"] if each.get("kind") == "List" else [each]:
            yield body, resource(body["kind"]), body["metadata"].get("namespace") or api.namespace


def delete_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl delete`."""
    named_arguments(parser)
    parser.add_argument("-f", "--filename", default="")
    parser.add_argument("--now", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--grace-period", type=int, default=-1)
    parser.add_argument("--wait", default="true")
    parser.add_argument("--all", action="store_true")


def delete(api: Api, args: argparse.Namespace) -> int:
    """Delete objects, and wait until they are gone."""
    if args.filename:
        named = [(of, where, body["metadata"]["name"]) for body, of, where in _bodies(api, args.filename)]
    else:
        named = [
            (of, api.namespace, each["metadata"]["name"])
            for of, name in _targets(args.what)
            for each in ([{"metadata": {"name": name}}] if name else _found(api, args, of, ""))
        ]
    options: Object = {"propagationPolicy": "Background"}
    if args.now or args.force or args.grace_period >= 0:
        options["gracePeriodSeconds"] = 1 if args.now else max(args.grace_period, 0)
    for of, where, name in named:
        api.delete(of.path(where, name), options)
        from_ = f" from {where} namespace" if of.namespaced else ""
        print(f'{of.singular} "{name}" deleted{from_}', flush=True)
    for of, where, name in named if args.wait == "true" else ():
        while not _is_gone(api, of.path(where, name)):
            time.sleep(LOOK_SECONDS)
    return 0


def _is_gone(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except NotFoundError:
        return True
    return False


def label_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl label`."""
    parser.add_argument("kind")
    parser.add_argument("words", nargs="+", metavar="NAME... KEY=VALUE|KEY-...")
    parser.add_argument("--overwrite", action="store_true")


def label(api: Api, args: argparse.Namespace) -> int:
    """Set or remove labels."""
    of = resource(args.kind)
    names = [word for word in args.words if "=" not in word and not word.endswith("-")]
    changes = {
        word.partition("=")[0].removesuffix("-"): word.partition("=")[2] if "=" in word else None
        for word in args.words[len(names) :]
    }
    for name in names:
        was = api.get(of.path(api.namespace, name))["metadata"].get("labels") or {}
        taken = [key for key, value in changes.items() if value is not None and was.get(key, value) != value]
        if taken and not args.overwrite:
            raise KubectlError(
                f"error: '{taken[0]}' already has a value ({was[taken[0]]}), and --overwrite is false"
            )
        api.patch(of.path(api.namespace, name), {"metadata": {"labels": changes}})
        removed = all(value is None for value in changes.values())
        changed = any(was.get(key) != value for key, value in changes.items())
        print(
            f"{of.singular}/{name} {'not labeled' if not changed else 'unlabeled' if removed else 'labeled'}"
        )
    return 0


def wait_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl wait`."""
    named_arguments(parser)
    parser.add_argument("--for", dest="condition", required=True, metavar="condition=NAME[=VALUE] | delete")
    parser.add_argument("--timeout", default="30s", help="such as 30s, 3m or 1h")


def wait(api: Api, args: argparse.Namespace) -> int:
    """Wait until objects are gone, or have a condition."""
    end = time.monotonic() + seconds(args.timeout)
    kind, _, asked = args.condition.partition("=")
    name, _, value = asked.partition("=")
    if kind not in ("condition", "delete"):
        raise KubectlError(
            f"error: --for={args.condition} is not served here: write condition=NAME or delete"
        )
    for of, called in _targets(args.what):
        for each in [called] if called else [one["metadata"]["name"] for one in _found(api, args, of, "")]:
            path = of.path(api.namespace, each)
            met = (
                partial(_is_gone, api, path)
                if kind == "delete"
                else partial(_has, api, path, name, value or "True")
            )
            _until(end, met, f"{of.plural}/{each}")
            print(f"{of.singular}/{each} condition met", flush=True)
    return 0


def seconds(text: str) -> float:
    """The seconds of a text such as 90s, 3m or 1h. Raises KubectlError."""
    try:
        return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1:]]
    except (KeyError, ValueError):
        raise KubectlError(f"error: {text!r} is no time: write 30s, 3m or 1h") from None


def _has(api: Api, path: str, name: str, value: str) -> bool:
    """True if an object has the condition `name` with this value."""
    conditions = (api.get(path).get("status") or {}).get("conditions") or ()
    return any(
        each["type"].lower() == name.lower() and each["status"].lower() == value.lower()
        for each in conditions
    )


def _until(end: float, look: Callable[[], bool], what: str) -> None:
    while not look():
        if time.monotonic() > end:
            raise KubectlError(f"error: timed out waiting for the condition on {what}")
        time.sleep(LOOK_SECONDS)


def rollout_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl rollout status`."""
    parser.add_argument("verb", choices=["status"])
    parser.add_argument("what", nargs="+", metavar="KIND/NAME")
    parser.add_argument("--timeout", default="3m")


def rollout(api: Api, args: argparse.Namespace) -> int:
    """Wait until all pods of the workloads are Ready."""
    end = time.monotonic() + seconds(args.timeout)
    for of, name in _targets(args.what):
        _until(end, partial(_is_ready, api, of.path(api.namespace, name)), f"{of.plural}/{name}")
        kind = "daemon set" if of.kind == "DaemonSet" else of.kind.lower()
        print(f'{kind} "{name}" successfully rolled out')
    return 0


def _is_ready(api: Api, path: str) -> bool:
    """True if all pods of a workload are Ready."""
    found = api.get(path)
    status = found.get("status") or {}
    wanted = status.get("desiredNumberScheduled", found["spec"].get("replicas", 1))
    return bool(status.get("numberReady", status.get("readyReplicas", 0)) >= wanted)


def version(api: Api, args: argparse.Namespace) -> int:  # noqa: ARG001 - as all commands are called
    """Print the versions of this program and of the API server."""
    print(f"Client Version: one-machine cluster\nServer Version: {api.get('/version')['gitVersion']}")
    return 0
