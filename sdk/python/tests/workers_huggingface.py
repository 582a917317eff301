"""The same training under Hugging Face's ``Trainer``: a tiny Llama."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

from tests.workers import seed_everything, settings, trace
from warpyard import huggingface

BATCH = 2


class Tokens(Dataset[dict[str, torch.Tensor]]):
    """The same sentences in every process."""

    def __init__(self, samples: int) -> None:
        self._tokens = torch.randint(0, 64, (samples, 8), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._tokens[index], "labels": self._tokens[index]}


class Traced(Trainer):
    """Keeps the loss, for the judge's record."""

    loss = 0.0

    def training_step(self, *arguments: Any, **named: Any) -> torch.Tensor:
        """One step."""
        found = super().training_step(*arguments, **named)
        self.loss = found.item()
        time.sleep(float(os.environ.get("TEST_STEP_SECONDS", "0")))
        return found


class Tracer(TrainerCallback):
    """Writes the record, before anybody decides about the step."""

    trainer: Traced

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """A step is done."""
        trace(state.global_step, self.trainer.loss)


def quiet_arguments(folder: Path, batch: int, epochs: int, **named: Any) -> TrainingArguments:
    """On the processor, without anything that the ``Trainer`` writes by itself."""
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        num_train_epochs=epochs,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        logging_steps=1000,
        **named,
    )


def train_huggingface() -> None:
    """Two ranks, DDP over gloo."""
    out, epoch_steps, epochs, every_steps = settings()
    seed_everything()
    ddp = {"ddp_backend": "gloo", "ddp_find_unused_parameters": True}
    arguments = quiet_arguments(out / "own", BATCH, epochs, seed=7, data_seed=7, **ddp)
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        attention_dropout=0.1,
    )
    data = Tokens(epoch_steps * arguments.world_size * BATCH)
    tracer = Tracer()
    trainer = Traced(LlamaForCausalLM(config), arguments, train_dataset=data, callbacks=[tracer])
    tracer.trainer = trainer
    huggingface.attach(trainer, every_steps=every_steps)
    trainer.train()
    if arguments.process_index == 0:
        torch.save(trainer.model.state_dict(), out / "final.pt")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
