"""The same training under Lightning's ``Trainer``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.workers import BATCH, dataset, network, seed_everything, settings, trace
from warpyard import lightning


class Module(pl.LightningModule):
    """With dropout and normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        """One step."""
        inputs, targets = batch
        loss: torch.Tensor = nn.functional.mse_loss(self.network(inputs), targets)
        self.last_loss = loss.item()
        time.sleep(float(os.environ.get("TEST_STEP_SECONDS", "0")))
        return loss

    def configure_optimizers(self) -> Any:
        """With a scheduler that steps by epoch."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)]


class Tracer(pl.Callback):
    """Writes the record, before anybody decides about the step."""

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_arguments: Any) -> None:
        """A step is done."""
        trace(trainer.global_step, pl_module.last_loss)


def quiet_trainer(folder: Path, epochs: int, callback: pl.Callback, **named: Any) -> pl.Trainer:
    """On the processor, without anything that Lightning writes by itself."""
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[callback],
        **named,
    )


def train_lightning() -> None:
    """Two ranks, DDP over gloo."""
    out, epoch_steps, epochs, every_steps = settings()
    world_size = int(os.environ["WORLD_SIZE"])
    seed_everything()
    data = dataset(epoch_steps * world_size * BATCH)
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    ddp = {"strategy": "ddp_find_unused_parameters_true", "num_nodes": world_size}
    trainer = quiet_trainer(out, epochs, Tracer(), **ddp)
    module = Module()
    lightning.attach(trainer, every_steps=every_steps)
    trainer.fit(module, loader)
    if trainer.is_global_zero:
        torch.save(module.state_dict(), out / "final.pt")
