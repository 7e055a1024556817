"""The supervisor of one machine: it runs the machine's programs, and takes orders about them at a socket.

An order is one line of JSON, {"do": "stop", "program": "kubelet"}; the answer is one line, {"error": "..."} if the
order could not be carried out. `machine.py` starts the supervisor in the machine's namespaces.
"""

import json
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STOP_SECONDS = 30.0
KEEP_SECONDS = 0.5


class OrderError(Exception):
    """An order that cannot be carried out; the text gives the reason."""


@dataclass(frozen=True)
class Program:
    """One program of a machine: its command line, run in the machine's folder, with its output in NAME.log."""

    name: str
    command: Sequence[str]


class Supervisor:
    """Runs the programs of the machine with this folder."""

    def __init__(self, folder: Path, programs: Sequence[Program]) -> None:
        self._folder = folder
        self._programs = {program.name: program for program in programs}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._wanted: set[str] = set()
        self._lock = threading.Lock()

    def boot(self) -> None:
        """Start all programs, in their order."""
        for name in self._programs:
            self.start(name)

    def crash(self) -> None:
        """End all programs with SIGKILL."""
        for name in self._programs:
            self.stop(name, signal.SIGKILL)

    def run(self, command: Sequence[str]) -> dict[str, object]:
        """Run `command` on this machine; returns its exit status and its output."""
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            cwd=self._folder,
        )  # fmt: skip
        return {"status": done.returncode, "output": done.stdout.decode(errors="replace")}

    def start(self, name: str) -> None:
        """Start the program, if it does not run; `keep` starts it again if it ends by itself."""
        self._program(name)
        with self._lock:
            self._wanted.add(name)
            self._ensure(name)

    def keep(self) -> None:
        """Restart programs that end by themselves, as an init system does; never returns.

        A program may end because it needs another program that does not run yet.
        """
        while True:
            time.sleep(KEEP_SECONDS)
            with self._lock:
                for name in self._wanted:
                    self._ensure(name)

    def send(self, name: str, number: int) -> None:
        """Send the program a signal. Raises OrderError if it does not run."""
        self._program(name)
        with self._lock:
            process = self._process(name)
        if process is None:
            raise OrderError(f"{name} does not run")
        process.send_signal(number)

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """Send the program a signal that ends it, and wait until it has ended; SIGKILL follows after 30 s."""
        self._program(name)
        with self._lock:
            self._wanted.discard(name)
            process = self._running.get(name)
        if process is not None and process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pids(self) -> dict[str, int]:
        """The process id of each program that runs, by its name."""
        with self._lock:
            running = {name: self._process(name) for name in self._programs}
        return {name: process.pid for name, process in running.items() if process is not None}

    def status(self) -> dict[str, bool]:
        """For each program, by its name, true if it runs."""
        with self._lock:
            return {name: self._process(name) is not None for name in self._programs}

    def _ensure(self, name: str) -> None:
        if self._process(name) is None:
            with (self._folder / f"{name}.log").open("ab") as log:
                self._running[name] = subprocess.Popen(
                    self._programs[name].command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    cwd=self._folder, start_new_session=True,
                )  # fmt: skip

    def _process(self, name: str) -> "subprocess.Popen[bytes] | None":
        process = self._running.get(name)
        return process if process is not None and process.poll() is None else None

    def _program(self, name: str) -> Program:
        if name not in self._programs:
            raise OrderError(f"no program {name} here; there are {', '.join(self._programs)}")
        return self._programs[name]

    def obey(self, order: Mapping[str, Any]) -> dict[str, object]:
        """Carry out one order, and return the answer. Raises OrderError if it cannot be carried out."""
        name = order.get("program", "")
        match order.get("do"):
            case "boot":
                self.boot()
            case "crash":
                self.crash()
            case "run":
                return self.run(order["command"])
            case "start":
                self.start(name)
            case "stop":
                self.stop(name)
            case "kill":
                self.stop(name, signal.SIGKILL)
            case "pause":
                self.send(name, signal.SIGSTOP)
            case "resume":
                self.send(name, signal.SIGCONT)
            case "status":
                return {"programs": self.status()}
            case other:
                raise OrderError(f"no order {other}")
        return {}

    def serve(self, control: Path) -> None:
        """Keep the programs running, and take orders at the socket `control`; never returns."""
        supervisor = self
        threading.Thread(target=self.keep, daemon=True).start()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                try:
                    answer = supervisor.obey(json.loads(self.rfile.readline()))
                except (OrderError, OSError, ValueError) as error:
                    answer = {"error": str(error)}
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        with socketserver.ThreadingUnixStreamServer(str(control), Handler) as server:
            server.serve_forever()


def order(control: Path, do: str, **details: object) -> dict[str, Any]:
    """Give one order, and return its answer. Raises OrderError, and OSError if no supervisor listens."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(control))
        connection.sendall(json.dumps({"do": do, **details}).encode() + b"\n")
        with connection.makefile("rb") as answer:
            said: dict[str, Any] = json.loads(answer.readline() or b'{"error": "the supervisor is gone"}')
    if "error" in said:
        raise OrderError(str(said["error"]))
    return said
