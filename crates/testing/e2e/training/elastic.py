"""A training whose every step has the same samples, however many ranks share them: its losses can be compared."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from tests import workers
from warpyard import checkpoint

#: Of all ranks together.
BATCH = 16


def train_elastic() -> None:
    """Plain PyTorch, DDP over gloo. No dropout and no normalisation: both would depend on who has which sample."""
    out, epoch_steps, epochs, every_steps = workers.settings()
    dist.init_process_group("gloo")
    world_size = dist.get_world_size()
    workers.seed_everything()
    network = nn.Sequential(nn.Linear(workers.FEATURES, 32), nn.Tanh(), nn.Linear(32, 1))
    model = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = workers.dataset(epoch_steps * BATCH)
    loader = DataLoader(data, batch_size=BATCH // world_size, sampler=DistributedSampler(data, seed=3))
    run = checkpoint.attach(model, optimizer, every_steps=every_steps)
    for _ in run.epochs(epochs):
        for inputs, targets in run.steps(loader):
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach() / world_size
            dist.all_reduce(mean)
            workers.trace(run.step + 1, mean.item())
            time.sleep(float(os.environ.get("TEST_STEP_SECONDS", "0")))
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), out / "final.pt")
    dist.destroy_process_group()
