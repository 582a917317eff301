"""Goes on with another number of ranks: 4, then 2, then 4. Every sample of the epoch is used once, and nothing is lost.

Run it by ``python -m tests.resharding``.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from tests.gangs import DEADLINE_SECONDS, Gang
from warpyard import checkpoint

SAMPLES = 480
BATCH = 2


def train() -> None:
    """One epoch; each rank writes down which samples it used."""
    out = Path(os.environ["TEST_OUT"])
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.arange(SAMPLES))
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data))
    run = checkpoint.attach(model, optimizer, every_steps=1000)
    moments = [value["exp_avg"].abs().sum().item() for value in optimizer.state.values()]
    if run.step > 0 and not (moments and all(moments)):
        raise AssertionError("the optimiser's state was not loaded")
    for _ in run.epochs(1):
        for (indices,) in run.steps(loader):
            loss = model(indices[:, None] / SAMPLES).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with (out / f"used-{os.environ['WARPYARD_ATTEMPT']}-{dist.get_rank()}").open("a") as file:
                file.write("".join(f"{index}\n" for index in indices.tolist()))
            time.sleep(0.01)
    dist.destroy_process_group()


def main() -> int:
    """1 if a sample was used twice or not at all."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        for attempt, world_size in enumerate([4, 2, 4], start=1):
            environment = {
                "WARPYARD_CHECKPOINT_DIR": str(out / "checkpoints"),
                "WARPYARD_ATTEMPT": str(attempt),
                "TEST_OUT": temporary,
            }
            gang = Gang(train, world_size, environment, out / f"attempt-{attempt}.log")
            if attempt < 3:
                await_steps(out / f"used-{attempt}-0", 12, gang)
                gang.signal(world_size - 1, signal.SIGTERM)
            codes = set(gang.wait().values())
            if codes != ({75} if attempt < 3 else {0}):
                raise AssertionError(f"attempt {attempt} ended with {codes}:\n{gang.log()}")
        used = sorted(int(line) for path in out.glob("used-*") for line in path.read_text().split())
    print(f"4, 2 and 4 ranks used {len(used)} samples, {len(set(used))} different ones, of {SAMPLES}")
    return int(used != list(range(SAMPLES)))


def await_steps(path: Path, steps: int, gang: Gang) -> None:
    """Until that rank has made so many steps."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not path.exists() or path.read_text().count("\n") < steps * BATCH:
        if gang.poll() or time.monotonic() > deadline:
            raise AssertionError(gang.log())
        time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
