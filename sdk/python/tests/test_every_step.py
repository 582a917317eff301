"""One process, told to leave after each step in turn, and again two steps later.

What it goes on to is the training that nobody interrupted.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback

from tests.workers import dataset, network, seed_everything
from tests.workers_huggingface import Tokens, quiet_arguments
from tests.workers_lightning import Module, quiet_trainer
from warpyard import checkpoint, huggingface, lightning

EPOCHS = 3
#: The last batch of an epoch is a smaller one.
SAMPLES, BATCH, EPOCH_STEPS = 11, 3, 4
#: Two whole epochs, and the first step of another.
STEPS = range(1, 2 * EPOCH_STEPS + 2)

State = dict[str, torch.Tensor]
Train = Callable[[Path, int | None], State]


def tell(step: int, stop_after: int | None) -> None:
    """The notice, in the middle of the step."""
    if step == stop_after:
        os.kill(os.getpid(), signal.SIGTERM)


def train_plain(directory: Path, stop_after: int | None, workers: int = 0) -> State:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = DataLoader(dataset(SAMPLES), batch_size=BATCH, shuffle=True, num_workers=workers)
    run = checkpoint.attach(model, optimizer, directory=directory)
    for _ in run.epochs(EPOCHS):
        for inputs, targets in run.steps(loader):
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tell(run.step + 1, stop_after)
    return model.state_dict()


def train_huggingface(directory: Path, stop_after: int | None) -> State:
    class Teller(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            tell(state.global_step, stop_after)

    arguments = quiet_arguments(directory / "own", BATCH, EPOCHS)
    sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, attention_dropout=0.1, **sizes))
    trainer = Trainer(model, arguments, train_dataset=Tokens(SAMPLES), callbacks=[Teller()])
    huggingface.attach(trainer, directory=directory)
    trainer.train()
    state: State = model.state_dict()
    return state


def train_lightning(directory: Path, stop_after: int | None, workers: int = 0) -> State:
    class Teller(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, *_arguments: Any) -> None:
            tell(trainer.global_step, stop_after)

    module = Module()
    loader = DataLoader(dataset(SAMPLES), batch_size=BATCH, shuffle=True, num_workers=workers)
    trainer = quiet_trainer(directory, EPOCHS, Teller())
    lightning.attach(trainer, directory=directory)
    trainer.fit(module, loader)
    return module.state_dict()


def with_workers(train: Callable[[Path, int | None, int], State]) -> Train:
    return lambda directory, stop_after: train(directory, stop_after, 1)


@pytest.mark.parametrize(
    ("train", "steps"),
    [
        (train_plain, STEPS),
        (train_huggingface, STEPS),
        (train_lightning, STEPS),
        # In the first epoch, at its end, and in the second.
        (with_workers(train_plain), (2, EPOCH_STEPS, EPOCH_STEPS + 2)),
        (with_workers(train_lightning), (2, EPOCH_STEPS, EPOCH_STEPS + 2)),
    ],
    ids=["plain", "huggingface", "lightning", "plain-workers", "lightning-workers"],
)
def test_after_any_step_and_two_later_the_rest_is_the_same(
    train: Train, steps: range | tuple[int, ...], tmp_path: Path
) -> None:
    seed_everything()
    whole = train(tmp_path / "whole", None)
    different = []
    for step in steps:
        directory = tmp_path / str(step)
        # An attempt that resumed is itself interrupted, in the same epoch or the next.
        for stop_after in (step, step + 2):
            seed_everything()
            with pytest.raises(SystemExit) as left:
                train(directory, stop_after)
            assert left.value.code == 75
        seed_everything()
        rest = train(directory, None)
        if not all(torch.equal(rest[name], value) for name, value in whole.items()):
            different.append(step)
    assert different == []
