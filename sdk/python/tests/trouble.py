"""Gangs of two ranks of which one has trouble with the file system: the other must neither wait for it nor lose by it.

    python -m tests.trouble mount           one rank cannot read a checkpoint, or misses a file of it
    python -m tests.trouble plain           one rank cannot write its part of the first checkpoints
    python -m tests.trouble huggingface     the same
    python -m tests.trouble lightning       the same

Files are in the way of a rank as folders, which nothing can be written to.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from tests.gangs import Gang
from tests.interruptions import worker_of
from warpyard.commit import FileSeal, Store, write_synced

STEPS = 12
#: Up to this step no checkpoint can be written.
BAD_STEPS = 7

#: By framework: what is in the way, in the folder of a step.
OBSTACLES = {
    "plain": ["rank-1.json", "objects.pt", "__0_0.distcp"],
    "huggingface": ["checkpoint-{step}/rng_state_1.pth", "checkpoint-{step}/trainer_state.json"],
    "lightning": ["rank-1.json", "lightning.ckpt"],
}


def saves(framework: str, obstacle: str, folder: Path, worker: Callable[[], None]) -> list[str]:
    """Trains with that in the way; what is wrong."""
    checkpoints = folder / "checkpoints"
    store = Store(checkpoints, 1)
    for step in range(1, BAD_STEPS + 1):
        (store.partial(step) / obstacle.format(step=step)).mkdir(parents=True)
    environment = {
        "WARPYARD_CHECKPOINT_DIR": str(checkpoints),
        "WARPYARD_ATTEMPT": "1",
        "TEST_OUT": str(folder),
        "TEST_EPOCHS": "1",
        "TEST_EPOCH_STEPS": str(STEPS),
        "TEST_EVERY_STEPS": "3",
    }
    gang = Gang(worker, 2, environment, folder / "log")
    codes = gang.wait()
    log = (folder / "log").read_text(errors="replace")
    failed = [int(step) for step in re.findall(r"The checkpoint of step (\d+) failed, training goes on", log)]
    wrong = []
    if set(codes.values()) != {0}:
        wrong.append(f"exit codes {codes}")
    if not failed or any(failed.count(step) != 2 for step in failed):
        wrong.append(f"not all ranks told of each failure: {failed}")
    if left := [step for step in failed if store.partial(step).exists()]:
        wrong.append(f"what was written of steps {left} keeps its space")
    if not any(step > BAD_STEPS for step in store.steps()):
        wrong.append(f"nothing was committed afterwards: {store.steps()}")
    return [f"{framework}, {obstacle}: {it}\n{gang.log()}" for it in wrong]


def full_disk_for_lightning() -> None:
    """Rank 0 fails where ``Trainer.save_checkpoint`` writes: the others would wait in the barrier that follows."""
    from tests.workers_lightning import Module, train_lightning

    def on_save_checkpoint(module: Module, _checkpoint: object) -> None:
        if module.global_rank == 0 and module.global_step <= BAD_STEPS:
            raise OSError(28, "No space left on device")

    Module.on_save_checkpoint = on_save_checkpoint
    train_lightning()


def mount(is_missing: bool, folder: Path) -> list[str]:
    """Rank 1 sees the same directory but for one checkpoint; what is wrong."""
    store = Store.begin(folder / "0" / "checkpoints", 1)
    for step in (10, 20):
        seals: dict[str, FileSeal] = {}
        store.partial(step).mkdir()
        for name in ("a", "b"):
            seals[name] = write_synced(store.partial(step) / name, b"weights")
        store.commit(step, seals, {})
    view = folder / "1" / "checkpoints"
    view.mkdir(parents=True)
    for name in ("attempt", "step-10"):
        (view / name).symlink_to(store.directory / name)
    # An empty folder, or one that cannot be read.
    (view / "step-20").mkdir() if is_missing else (view / "step-20").symlink_to("step-20")
    gang = Gang(look, 2, {"TEST_OUT": str(folder)}, folder / "log")
    codes = gang.wait()
    expected = "rank 1 does not see b, which rank 0 sees" if is_missing else "rank 1 cannot read it"
    log = gang.log()
    wrong = []
    if set(codes.values()) != {1} or log.count(f"the checkpoint of step 20 may be whole, but {expected}") < 2:
        wrong.append(f"ranks did not fail with {expected!r}, but with {codes}")
    if store.steps() != [10, 20]:
        wrong.append(f"of steps 10 and 20 only {store.steps()} are left")
    return [f"mount, is_missing={is_missing}: {it}\n{log}" for it in wrong]


def look() -> None:
    """Begins an attempt where this rank sees its checkpoints."""
    from warpyard.session import Session

    os.chdir(Path(os.environ["TEST_OUT"]) / os.environ["RANK"])
    dist.init_process_group("gloo")
    Session(Path("checkpoints"), every_steps=None, keep=2)


def main() -> int:
    """Prints what is wrong; 1 if anything is."""
    (what,) = sys.argv[1:]
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        if what == "mount":
            for is_missing in (False, True):
                wrong += mount(is_missing, Path(temporary) / str(is_missing))
            trials = []
        else:
            trials = [(obstacle, worker_of(what)) for obstacle in OBSTACLES[what]]
        if what == "lightning":
            trials.append(("nothing", full_disk_for_lightning))
        for number, (obstacle, worker) in enumerate(trials):
            wrong += saves(what, obstacle, Path(temporary) / str(number), worker)
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
