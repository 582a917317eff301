"""Checkpoints for a Lightning ``Trainer``.

::

    lightning.attach(trainer)
    trainer.fit(model, loader)

The ``Trainer`` writes and reads its own format. We add what that lacks: random numbers, and the position in the epoch's
data. Saves stop the training while they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import BatchSampler, DataLoader

from warpyard import randomness
from warpyard.gang import Gang
from warpyard.learning import LearningSession
from warpyard.samples import indices_after
from warpyard.session import SaveTimes, Session

_FILE = "lightning.ckpt"


def attach(
    trainer: pl.Trainer, *, directory: Path | str | None = None, every_steps: int | None = None, keep: int = 2
) -> None:
    """From now on ``trainer.fit()`` goes on where the last attempt ended, and leaves with exit code 75 on SIGTERM.

    The arguments are those of ``warpyard.checkpoint.attach``. The number of ranks has to stay the same.
    """
    fit = trainer.fit

    def fit_and_commit(*arguments: Any, ckpt_path: Any = None, **named: Any) -> None:
        if trainer.world_size > 1:
            environment = trainer.strategy.cluster_environment
            if environment is None or not environment.creates_processes_externally:
                raise RuntimeError("start one process for each rank, as torchrun does: Lightning must not start them")
            # Ranks agree on what to load before Lightning loads it; it finds the group that it would have made.
            trainer.strategy.setup_environment()
        session = LearningSession(directory, every_steps, keep, is_background=False)
        session.require_same_world_size()
        callback = CheckpointCallback(session)
        trainer.callbacks.append(callback)
        process = trainer.strategy.process_dataloader

        def process_and_order(loader: Any) -> Any:
            # The last place where a loader is seen before it is iterated, with the sampler that Lightning gave it.
            return process(callback.order(loader) if trainer.training else loader)

        trainer.strategy.process_dataloader = process_and_order
        found = session.store.complete(session.step) / _FILE if session.found else None
        fit(*arguments, ckpt_path=ckpt_path or found, **named)
        session.close()

    trainer.fit = fit_and_commit


class CheckpointCallback(pl.Callback):  # type: ignore[misc]
    """Decides after each step; saves, commits and leaves."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._order: Order | None = None
        self._position = _read_position(session) if session.found else None

    def order(self, loader: Any) -> Any:
        """Makes the loader's order resumable."""
        batch_sampler = getattr(loader, "batch_sampler", None)
        if not isinstance(loader, DataLoader) or not isinstance(batch_sampler, BatchSampler):
            raise TypeError("the position in this train_dataloader cannot be found: give Lightning one DataLoader")
        # On a second training, the loader already has our sampler.
        inner = batch_sampler.sampler
        sampler = inner.sampler if isinstance(inner, Order) else inner
        self._order = Order(sampler, loader, batch_sampler.batch_size, self._session.gang, self._position)
        batch_sampler.sampler = self._order
        return loader

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Everything is loaded; the position in the data is found when the first batch is read."""
        if not isinstance(trainer.train_dataloader, DataLoader):
            raise TypeError("the position in several loaders cannot be found: give Lightning one DataLoader")
        # Lightning's own handler talks to other ranks from within the signal: it could hang, and ours is enough.
        self._session.notice.listen()

    def on_train_batch_start(self, trainer: pl.Trainer, *_arguments: Any) -> None:
        """The first batch is read: the next epoch is a whole one."""
        # Lightning that resumed after the last batch of an epoch forgets to count that the next one has begun. What it
        # saved then would look like the end of an epoch, and be resumed with a whole one.
        progress = trainer.fit_loop.epoch_progress
        if progress.current.started == progress.current.processed:
            progress.increment_ready()
            progress.increment_started()
        self._position = None
        if self._order is not None:
            self._order.position = None

    def on_train_batch_end(self, trainer: pl.Trainer, *_arguments: Any) -> None:
        """All ranks agree whether to save and whether to leave."""
        step = trainer.global_step
        if step == self._session.step:
            # Gradients are still gathered over several batches.
            return
        decision = self._session.boundary(step)
        if decision.save:
            self._save(trainer, step, is_last=decision.stop)
        if decision.stop:
            self._session.leave()

    def _save(self, trainer: pl.Trainer, step: int, is_last: bool) -> None:
        times, session = SaveTimes(), self._session
        session.begun_step = step
        session.interval.save_begins()
        epoch, batches = trainer.current_epoch, trainer.fit_loop.epoch_loop.batch_progress.current.ready
        if batches >= trainer.num_training_batches:
            # After the last batch of an epoch Lightning goes on with the next one.
            epoch, batches = epoch + 1, 0
        folder, position = session.store.partial(step), {"epoch": epoch, "batches": batches}
        try:
            session.commit(step, lambda: self._write(trainer, folder), position, times)
        except Exception as error:
            if is_last:
                raise
            session.save_failed(step, error)

    def _write(self, trainer: pl.Trainer, folder: Path) -> list[str]:
        folder.mkdir(exist_ok=True)
        # Like `trainer.save_checkpoint`, without the barrier at its end, at which all would wait for a failed rank.
        trainer.strategy.save_checkpoint(trainer._checkpoint_connector.dump_checkpoint(), folder / _FILE)
        rank = self._session.gang.rank
        states = {"now": randomness.capture(), "order": self._order.states if self._order else None}
        (folder / f"rank-{rank}.json").write_text(json.dumps(states))
        return [f"rank-{rank}.json", *([_FILE] if rank == 0 else [])]


@dataclass(frozen=True)
class Position:
    """The position of an attempt: the epoch, the batches done, and the random numbers."""

    epoch: int
    batches: int
    #: When the last batch was done.
    now: randomness.States
    #: When the order of the epoch was drawn.
    order: randomness.States


def _read_position(session: Session) -> Position:
    folder = session.store.complete(session.step)
    states = json.loads((folder / f"rank-{session.gang.rank}.json").read_text())
    progress = session.found.progress if session.found else {}
    return Position(progress["epoch"], progress["batches"], states["now"], states["order"])


class Order:
    """A loader's sampler: remembers how each epoch's order was drawn, and returns the rest of an interrupted epoch."""

    def __init__(
        self, sampler: Any, loader: DataLoader[Any], batch_size: int, gang: Gang, position: Position | None
    ) -> None:
        self.sampler = sampler
        self.position = position
        self.states: randomness.States | None = None
        self._loader = loader
        self._batch_size = batch_size
        self._gang = gang

    def __len__(self) -> int:
        """The length of the whole epoch: Lightning itself subtracts what is done."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[int]:
        if self.position is None:
            self.states = randomness.capture()
            return iter(self.sampler)
        position = self.position
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(position.epoch)
        randomness.restore(position.order if position.batches else position.now)
        if position.batches == 0 and not self._loader.persistent_workers:
            # A loader draws one number before an order is drawn, and has done so before we restored the numbers.
            torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator)
        self.states = randomness.capture()
        used = position.batches * self._batch_size * self._gang.world_size
        rest = indices_after(self.sampler, used, self._gang.rank, self._gang.world_size)
        if position.batches:
            randomness.restore(position.now)
        return iter(rest)
