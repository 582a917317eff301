"""Checkpoints for a Hugging Face ``Trainer``.

::

    huggingface.attach(trainer)
    trainer.train()

The ``Trainer`` writes and reads its own format, with everything that it needs; we say when, commit what it wrote, and
tell it from where to go on. Saves stop the training while they are written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput

from warpyard.session import SaveTimes, Session

_OF_RANK = re.compile(r"rng_state_(\d+)\.pth")


def attach(
    trainer: Trainer, *, directory: Path | str | None = None, every_steps: int | None = None, keep: int = 2
) -> None:
    """From now on ``trainer.train()`` goes on where the last attempt ended, and leaves with exit code 75 on SIGTERM.

    The arguments are those of ``warpyard.checkpoint.attach``. The number of ranks has to stay the same.
    """
    session = Session(directory, every_steps, keep, is_background=False)
    session.require_same_world_size()
    callback = CheckpointCallback(session)
    trainer.add_callback(callback)
    train = trainer.train

    def train_and_leave(resume_from_checkpoint: str | bool | None = None, **named: Any) -> TrainOutput:
        output = train(resume_from_checkpoint or callback.resume_from(), **named)
        callback.leave_if_told()
        return output

    trainer.train = train_and_leave


class CheckpointCallback(TrainerCallback):  # type: ignore[misc]
    """Decides after each step, and commits what the ``Trainer`` saved."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._times = SaveTimes()
        #: Where the script's own checkpoints go, while one of ours is being written.
        self._output_dir: str | None = None
        self._is_told = False

    def resume_from(self) -> str | None:
        """The checkpoint that was found whole."""
        step = self._session.step
        return str(_inner(self._session.store.complete(step), step)) if self._session.found else None

    def leave_if_told(self) -> None:
        """Ends the process if a notice came; else the training is done."""
        if self._is_told:
            self._session.leave()
        self._session.close()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_named: Any) -> None:
        """All ranks agree whether to save and whether to stop."""
        decision = self._session.boundary(state.global_step)
        if decision.save and (decision.stop or not control.should_save):
            # Otherwise the script's own checkpoint of this step comes first, and ours one step later.
            self._session.begun_step = state.global_step
            self._times = SaveTimes()
            self._output_dir = args.output_dir
            args.output_dir = str(self._session.store.partial(state.global_step))
            control.should_save = True
        if decision.stop:
            self._is_told = True
            control.should_training_stop = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_named: Any) -> None:
        """The ``Trainer`` has written a checkpoint: if it is ours, it is committed."""
        if self._output_dir is None:
            return
        args.output_dir, self._output_dir = self._output_dir, None
        folder = self._session.store.partial(state.global_step)
        names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
        own = [name for name in names if writer_of(name) == self._session.gang.rank]
        self._session.commit(state.global_step, own, {}, self._times)


def writer_of(name: str) -> int:
    """Which rank wrote the file: all but the states of random numbers are rank 0's."""
    found = _OF_RANK.fullmatch(Path(name).name)
    return int(found[1]) if found else 0


def _inner(folder: Path, step: int) -> Path:
    return folder / f"{PREFIX_CHECKPOINT_DIR}-{step}"
