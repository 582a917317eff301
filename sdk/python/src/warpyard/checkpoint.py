"""Checkpoints for plain PyTorch.

::

    run = checkpoint.attach(model=model, optimizer=optimizer, scheduler=scheduler)
    for epoch in run.epochs(10):
        for inputs, targets in run.steps(loader):
            ...

``attach`` loads the newest checkpoint that is whole, if there is one. ``steps`` goes on after the last saved sample,
saves in the background at the best interval, and on SIGTERM saves on all ranks at the same step and leaves with exit
code 75.
"""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

from warpyard import randomness
from warpyard.commit import Manifest
from warpyard.learning import LearningSession
from warpyard.samples import batches_after
from warpyard.session import SaveTimes, Session

T = TypeVar("T")

_LOG = logging.getLogger("warpyard")


def attach(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | list[torch.optim.Optimizer] | None = None,
    *,
    directory: Path | str | None = None,
    every_steps: int | None = None,
    accumulate: int = 1,
    keep: int = 2,
    **others: Any,
) -> Run:
    """Begins an attempt: loads the last checkpoint into these objects, or leaves them as they are.

    ``others`` are saved too: any object with ``state_dict`` and ``load_state_dict``, like a scheduler or a scaler.
    ``directory`` is WARPYARD_CHECKPOINT_DIR if not given. ``every_steps`` bounds what a failure without notice costs;
    without it the bound is chosen from measured times. With gradients accumulated over several batches, ``accumulate``
    says over how many, so that none is saved in between.
    """
    return Run(LearningSession(directory, every_steps, keep), model, optimizer, accumulate, others)


class Run:
    """The attempt under way."""

    def __init__(
        self,
        session: Session,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | list[torch.optim.Optimizer] | None,
        accumulate: int,
        others: dict[str, Any],
    ) -> None:
        self._session = session
        self._model = model
        self._optimizers = optimizer if optimizer is not None else []
        self._accumulate = accumulate
        self._others = others
        self._epoch = 0
        self._used_samples = 0
        self._epoch_states: randomness.States | None = None
        self._loaded_states: randomness.States | None = None
        self._save_under_way: _Save | None = None
        if session.found is not None:
            self._load(session.store.complete(session.step), session.found)

    @property
    def step(self) -> int:
        """How many steps are done, over all attempts."""
        return self._session.step

    @property
    def epoch(self) -> int:
        """The epoch under way, from 0."""
        return self._epoch

    def epochs(self, number: int) -> Iterator[int]:
        """The epochs that are not done yet; after the last one everything is saved."""
        while self._epoch < number:
            epoch = self._epoch
            yield epoch
            if self._epoch == epoch:
                # The script left the epoch early.
                self._epoch, self._used_samples = epoch + 1, 0
        self.finish()

    def steps(self, loader: Iterable[T]) -> Iterator[T]:
        """The batches of this epoch that are not done yet; what the loop does with one is a step."""
        states, self._loaded_states = self._loaded_states, None
        if states is None or self._epoch_states is None:
            self._epoch_states = randomness.capture()
        else:
            # The order of an epoch may be drawn at its beginning: it is drawn again, then the numbers go on.
            randomness.restore(self._epoch_states)
        set_epoch = getattr(getattr(loader, "sampler", None), "set_epoch", None)
        if set_epoch is not None:
            set_epoch(self._epoch)
        with batches_after(loader, self._used_samples, self._session.gang) as batches:
            if states is not None:
                randomness.restore(states)
            for number, (batch, samples) in enumerate(batches, start=1):
                yield batch
                self._used_samples += samples
                if number % self._accumulate == 0:
                    self._stepped()
        self._epoch += 1
        self._used_samples = 0

    def save(self) -> None:
        """Saves now, and returns when it is committed. Every rank must call it."""
        self._wait()
        if self._session.committed_step < self.step:
            self._save(is_blocking=True)

    def finish(self) -> None:
        """The training is done: saves the last step, and tells the platform."""
        self.save()
        self._session.close()

    def _stepped(self) -> None:
        session = self._session
        if self._save_under_way is not None and self._save_under_way.is_done():
            self._wait()
        if self._save_under_way is not None and session.interval.must_wait(self.step + 1, session.committed_step):
            self._wait()
        decision = session.boundary(self.step + 1, is_saving=self._save_under_way is not None)
        if decision.save:
            self._wait()
            self._save(is_blocking=decision.stop)
        if decision.stop:
            session.leave()

    def _save(self, is_blocking: bool) -> None:
        session, times = self._session, SaveTimes()
        session.begun_step = self.step
        session.interval.save_begins()
        save = _Save(session, self._position(), self._small_files(), times)
        state = self._state()
        use_buffers_of_rank_0(self._model, state["model"])
        writer = FileSystemWriter(save.folder, sync_files=False)
        group = {"process_group": session.gang.saves, "no_dist": not session.gang.is_distributed}
        if is_blocking:
            save.complete(lambda: state_dict_saver.save(state, storage_writer=writer, **group))
            return
        written = state_dict_saver.async_save(state, storage_writer=writer, **group)
        assert isinstance(written, Future)  # noqa: S101
        times.stalled()
        save.complete_in_background(written)
        self._save_under_way = save

    def _wait(self) -> None:
        """Ends the save under way. If it failed, training goes on: the next one may succeed."""
        save, self._save_under_way = self._save_under_way, None
        if save is None:
            return
        if (error := save.wait()) is not None:
            self._session.save_failed(save.step, error)

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizers)
        return {"model": model, "optimizer": optimizer}

    def _position(self) -> dict[str, Any]:
        return {"epoch": self._epoch, "samples": self._used_samples}

    def _small_files(self) -> dict[str, bytes]:
        """Everything but parameters and optimiser, taken now, written later."""
        states = {"now": randomness.capture(), "epoch": self._epoch_states}
        files = {f"rank-{self._session.gang.rank}.json": json.dumps(states).encode()}
        if self._session.gang.rank == 0:
            objects = io.BytesIO()
            torch.save({name: other.state_dict() for name, other in self._others.items()}, objects)
            files["objects.pt"] = objects.getvalue()
        return files

    def _load(self, folder: Path, found: Manifest) -> None:
        state = self._state()
        gang = self._session.gang
        reader = FileSystemReader(folder)
        state_dict_loader.load(state, storage_reader=reader, process_group=gang.saves, no_dist=not gang.is_distributed)
        set_state_dict(
            self._model,
            self._optimizers,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        # The bytes are verified and contain no code.
        objects = torch.load(folder / "objects.pt", weights_only=True)
        for name, other in self._others.items():
            if name not in objects:
                raise RuntimeError(f"the checkpoint in {folder} has no state of {name!r}: it has {sorted(objects)}")
            other.load_state_dict(objects[name])
        self._epoch, self._used_samples = found.progress["epoch"], found.progress["samples"]
        states = f"rank-{gang.rank}.json"
        # A rank that the former attempt did not have begins with the numbers that its script seeded.
        if states in found.files:
            loaded = json.loads((folder / states).read_text())
            self._loaded_states, self._epoch_states = loaded["now"], loaded["epoch"]
        _LOG.info("Resuming from step %d of attempt %d.", self.step, found.attempt)


def use_buffers_of_rank_0(model: nn.Module, state: dict[str, Any]) -> None:
    """DDP gives rank 0's buffers to all at the next step; until then each rank has its own, and any could be saved."""
    if not isinstance(model, DistributedDataParallel):
        return
    names = {name for name, _ in model.module.named_buffers()}
    for name in sorted(names & state.keys()):
        state[name] = state[name].clone()
        dist.broadcast(state[name], group=model.process_group, group_src=0)


class _Save:
    """A checkpoint being written."""

    def __init__(
        self, session: Session, position: dict[str, Any], small_files: dict[str, bytes], times: SaveTimes
    ) -> None:
        self.step = session.step
        self.folder = session.store.partial(session.step)
        self._session = session
        self._position = position
        self._small_files = small_files
        self._times = times
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def complete(self, write_parameters: Callable[[], Any]) -> None:
        """Writes the parameters, or waits until they are written; adds the small files, and commits."""
        self._session.commit(self.step, lambda: self._write(write_parameters), self._position, self._times)

    def _write(self, write_parameters: Callable[[], Any]) -> list[str]:
        """PyTorch makes the folder, and tells all ranks what failed on one."""
        try:
            write_parameters()
        except CheckpointException as error:
            # It is none of Python's `Exception`s, and its text has the stacks of all ranks.
            failures = [f"rank {rank}: {failure}" for rank, (failure, _) in sorted(error.failures.items())]
            raise RuntimeError("; ".join(failures)) from error
        rank = self._session.gang.rank
        for name, data in self._small_files.items():
            (self.folder / name).write_bytes(data)
        shards = [path.name for path in self.folder.glob(f"__{rank}_*.distcp")]
        return [*shards, *self._small_files, *([".metadata"] if rank == 0 else [])]

    def complete_in_background(self, written: Future[Any]) -> None:
        """Does the same while training goes on."""

        def work() -> None:
            try:
                self.complete(written.result)
            except Exception as error:
                self._error = error

        self._thread = threading.Thread(target=work, name="warpyard-save", daemon=True)
        self._thread.start()

    def is_done(self) -> bool:
        """Whether it is over: committed or failed."""
        return self._thread is None or not self._thread.is_alive()

    def wait(self) -> Exception | None:
        """Why it failed, if it did."""
        if self._thread is not None:
            self._thread.join()
        return self._error
