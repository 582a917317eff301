"""The training that tests interrupt: small, random in all the ways that real training is, and the same every time."""

from __future__ import annotations

import os
import random
import struct
import time
from pathlib import Path

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from warpyard import checkpoint

FEATURES = 8
BATCH = 4


def settings() -> tuple[Path, int, int, int | None]:
    """Where to write, steps in an epoch, epochs, and the bound of the interval unless the SDK chooses it."""
    env = os.environ
    every_steps = int(env["TEST_EVERY_STEPS"]) if "TEST_EVERY_STEPS" in env else None
    return Path(env["TEST_OUT"]), int(env["TEST_EPOCH_STEPS"]), int(env["TEST_EPOCHS"]), every_steps


def seed_everything(seed: int = 7) -> None:
    """The same numbers in every attempt, and one thread, so that sums are made in one order."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def dataset(samples: int) -> TensorDataset:
    """The same in every process."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, FEATURES, generator=generator)
    return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))


def network() -> nn.Sequential:
    """With dropout, which draws random numbers, and normalisation, which has buffers."""
    return nn.Sequential(
        nn.Linear(FEATURES, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 16), nn.Linear(16, 1)
    )


def trace(step: int, loss: float) -> None:
    """Appends the step and its loss, bit by bit, to this rank's record: the judge's own, beside the SDK's."""
    line = f"{os.environ['WARPYARD_ATTEMPT']} {step} {struct.pack('>d', loss).hex()}\n"
    path = Path(os.environ["TEST_OUT"]) / f"trace-{os.environ['RANK']}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def train_plain() -> None:
    """Plain PyTorch, DDP over gloo."""
    out, epoch_steps, epochs, every_steps = settings()
    dist.init_process_group("gloo")
    world_size = dist.get_world_size()
    seed_everything()
    # Without `find_unused_parameters` DDP sorts its buckets anew after the first iteration, and each attempt has one:
    # with more than two ranks sums would be made in another order.
    model = nn.parallel.DistributedDataParallel(network(), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * epoch_steps)
    data = dataset(epoch_steps * world_size * BATCH)
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data, seed=3))
    run = checkpoint.attach(model, optimizer, scheduler=scheduler, every_steps=every_steps)
    for _ in run.epochs(epochs):
        for inputs, targets in run.steps(loader):
            noise = random.random() + numpy.random.random()
            loss = nn.functional.mse_loss(model(inputs), targets + 0.01 * noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            trace(run.step + 1, loss.item())
            time.sleep(float(os.environ.get("TEST_STEP_SECONDS", "0")))
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), out / "final.pt")
    dist.destroy_process_group()
