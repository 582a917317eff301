"""Checkpoints for a Hugging Face ``Trainer``.

::

    huggingface.attach(trainer)
    trainer.train()

The ``Trainer`` writes and reads its own format, which is complete. We decide when it saves, commit its files, and tell
it where to go on. Saves stop the training while they are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput

from warpyard.learning import LearningSession
from warpyard.session import SaveTimes, Session

_OF_RANK = re.compile(r"rng_state_(\d+)\.pth")


def attach(
    trainer: Trainer, *, directory: Path | str | None = None, every_steps: int | None = None, keep: int = 2
) -> None:
    """From now on ``trainer.train()`` goes on where the last attempt ended, and leaves with exit code 75 on SIGTERM.

    The arguments are those of ``warpyard.checkpoint.attach``. The number of ranks has to stay the same.
    """
    session = LearningSession(directory, every_steps, keep, is_background=False)
    session.require_same_world_size()
    callback = CheckpointCallback(session)
    trainer.add_callback(callback)
    train, save = trainer.train, trainer._save_checkpoint

    def train_and_leave(resume_from_checkpoint: str | bool | None = None, **named: Any) -> TrainOutput:
        output = train(resume_from_checkpoint or callback.resume_from(), **named)
        callback.leave_if_told()
        return output

    def save_and_tell(*arguments: Any, **named: Any) -> None:
        callback.write(lambda: save(*arguments, **named))

    trainer.train, trainer._save_checkpoint = train_and_leave, save_and_tell


class CheckpointCallback(TrainerCallback):  # type: ignore[misc]
    """Decides after each step, and commits the ``Trainer``'s saves."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._times = SaveTimes()
        #: The folder of the script's own checkpoints, while one of ours is being written.
        self._output_dir: str | None = None
        #: Why this rank could not write its part of that one.
        self._error: Exception | None = None
        self._is_told = False

    def resume_from(self) -> str | None:
        """The checkpoint that was verified."""
        step = self._session.step
        return str(_inner(self._session.store.complete(step), step)) if self._session.found else None

    def leave_if_told(self) -> None:
        """Ends the process if a notice came; otherwise the training is done."""
        if self._is_told:
            self._session.leave()
        self._session.close()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_named: Any) -> None:
        """All ranks agree whether to save and whether to stop."""
        decision = self._session.boundary(state.global_step)
        if decision.save and (decision.stop or not control.should_save):
            # Otherwise the script's own checkpoint of this step comes first, and ours one step later.
            self._session.begun_step = state.global_step
            self._session.interval.save_begins()
            self._times = SaveTimes()
            self._output_dir = args.output_dir
            args.output_dir = str(self._session.store.partial(state.global_step))
            control.should_save = True
        if decision.stop:
            self._is_told = True
            control.should_training_stop = True

    def write(self, save: Callable[[], None]) -> None:
        """Lets the ``Trainer`` write. An error in a checkpoint of ours is kept, until all ranks hear of it."""
        self._error = None
        try:
            save()
        except Exception as error:
            if self._output_dir is None:
                raise
            self._error = error

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_named: Any) -> None:
        """The ``Trainer`` has written a checkpoint: if it is ours, it is committed."""
        if self._output_dir is None:
            return
        args.output_dir, self._output_dir = self._output_dir, None
        step = state.global_step
        try:
            self._session.commit(step, lambda: self._names(step), {}, self._times)
        except Exception as error:
            if self._is_told:
                raise
            self._session.save_failed(step, error)

    def _names(self, step: int) -> list[str]:
        if self._error is not None:
            raise self._error
        folder = self._session.store.partial(step)
        names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
        return [name for name in names if writer_of(name) == self._session.gang.rank]


def writer_of(name: str) -> int:
    """The rank that wrote the file: rank 0, except for states of random numbers."""
    found = _OF_RANK.fullmatch(Path(name).name)
    return int(found[1]) if found else 0


def _inner(folder: Path, step: int) -> Path:
    return folder / f"{PREFIX_CHECKPOINT_DIR}-{step}"
