"""Trains a small network on made-up data with plain PyTorch. Start it with torchrun."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from warpyard import checkpoint

EPOCHS = int(os.environ.get("EPOCHS", "3"))

dist.init_process_group("gloo")
torch.manual_seed(0)
inputs = torch.randn(512, 8)
data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
run = checkpoint.attach(model, optimizer)
for epoch in run.epochs(EPOCHS):
    loader.sampler.set_epoch(epoch)
    for x, y in run.steps(loader):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch} is done", flush=True)
dist.destroy_process_group()
