"""A trainer for torchrun that loses no step when replicas leave or join: docs/programs.md, in plain PyTorch.

    torchrun -r 1 -t 1 train.py --folder /checkpoints --steps 1000

All replicas share the folder. In it are `checkpoint`, the newest, and `steps`: a line `STEP WORLD_SIZE` for each step
done, so that a step done twice is a step that was lost. One file, with nothing of this project in it: it runs in an
image that has PyTorch alone.
"""

import argparse
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

# Ranks that wait longer for another rank give up, and torchrun starts them again.
PATIENCE = timedelta(seconds=60)
PROGRESS_BYTES = 64
FEATURES, SAMPLES = 8, 4

_told: list[int] = []


def main() -> int:
    """Train; returns 0 if all steps are done, 1 after SIGTERM. For torchrun, 0 is the end of the job."""
    # Set before the import of PyTorch, which takes seconds: without a handler SIGTERM would end only this rank.
    signal.signal(signal.SIGTERM, lambda number, _: _told.append(number))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="of checkpoints, shared by all replicas")
    parser.add_argument("--steps", type=int, default=1000, help="to do in all (default: 1000)")
    parser.add_argument("--interval", type=int, default=20, help="steps between checkpoints (default: 20)")
    parser.add_argument(
        "--step-seconds", type=float, default=0.0, help="of each step, beside its own work (default: 0)"
    )
    arguments = parser.parse_args()
    return train(arguments.folder, arguments.steps, arguments.interval, arguments.step_seconds)


def train(folder: Path, steps: int, interval: int, step_seconds: float) -> int:
    """Train from the newest checkpoint until all steps are done or a rank gets SIGTERM; returns the exit code."""
    import torch
    import torch.distributed as ranks

    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    ranks.init_process_group("gloo", store=_store(ranks), rank=rank, world_size=world, timeout=PATIENCE)
    torch.manual_seed(1)
    model = torch.nn.Linear(FEATURES, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    done = 0
    if (folder / "checkpoint").exists():
        saved = torch.load(folder / "checkpoint")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["done"]
    shared = torch.nn.parallel.DistributedDataParallel(model)

    def save() -> None:
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}
            replace(folder / "checkpoint", lambda file: torch.save(state, file))
        ranks.barrier()  # no rank leaves before the checkpoint is there

    while done < steps:
        # The signal reaches ranks at different moments: they agree on the step after which they stop.
        told = torch.tensor(len(_told))
        ranks.all_reduce(told)
        if told.item():
            save()
            print(f"told to stop: {done} of {steps} steps are saved", flush=True)
            return 1
        optimizer.zero_grad()
        shared(torch.randn(SAMPLES, FEATURES)).square().mean().backward()
        optimizer.step()
        time.sleep(step_seconds)
        done += 1
        if rank == 0:
            note(folder / "steps", done, world)
            say_progress(done, steps)
        if done % interval == 0:
            save()
    save()
    return 0


def _store(ranks: Any) -> Any:
    """The store where the ranks of this round meet: torchrun's store, or None for PyTorch's default.

    The default is a store on the host of rank 0. Pods would need DNS and a Service for each pod to find it by name.
    """
    endpoint = os.environ.get("PET_RDZV_ENDPOINT")
    if not endpoint:
        return None
    host, _, port = endpoint.rpartition(":")
    # torchrun chooses a port in each round; it keeps the keys of rounds apart.
    this_round = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    return ranks.PrefixStore(this_round, ranks.TCPStore(host, int(port), is_master=False, timeout=PATIENCE))


def replace(path: Path, write: Any) -> None:
    """Replace the content of `path` atomically by the content that `write(file)` writes."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def note(path: Path, step: int, world: int) -> None:
    """Append a done step to the list of steps, in one write."""
    with path.open("a") as file:
        file.write(f"{step} {world}\n")


def say_progress(done: int, total: int) -> None:
    """Write how much of the work is done, if $VGPU_PROGRESS is set; see docs/progress.md."""
    if path := os.environ.get("VGPU_PROGRESS"):
        file = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(file, f"{done} {total}".ljust(PROGRESS_BYTES - 1).encode() + b"\n", 0)
        finally:
            os.close(file)


if __name__ == "__main__":
    sys.exit(main())
