import json
import logging
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from warpyard import checkpoint, randomness
from warpyard.checkpoint import Run
from warpyard.commit import Damaged, Fenced, Store

EPOCHS = 3
EPOCH_STEPS = 5


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Training:
    """One process, one small model, noise from all generators."""

    def __init__(self, directory: Path, every_steps: int = 2) -> None:
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 4)
        data = TensorDataset(torch.arange(3 * 2 * EPOCH_STEPS, dtype=torch.float32).reshape(-1, 3) / 30)
        self.loader = DataLoader(data, batch_size=2, shuffle=True)
        self.run: Run = checkpoint.attach(
            self.model, self.optimizer, scheduler=self.scheduler, directory=directory, every_steps=every_steps
        )

    def train(self, until: int | None = None, notice_at: int | None = None) -> None:
        """All of it, or up to a step as if killed then, or with SIGTERM in a step."""
        for _ in self.run.epochs(EPOCHS):
            for (inputs,) in self.run.steps(self.loader):
                loss = self.model(inputs + random.random() + numpy.random.random()).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                if self.run.step + 1 == notice_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                if self.run.step + 1 == until:
                    return

    def fingerprint(self) -> list[list[float]]:
        return [parameter.flatten().tolist() for parameter in self.model.parameters()]


@pytest.fixture
def undisturbed(tmp_path: Path) -> list[list[float]]:
    training = Training(tmp_path / "undisturbed")
    training.train()
    assert training.run.step == EPOCHS * EPOCH_STEPS
    return training.fingerprint()


@pytest.mark.parametrize("step", [1, 4, 5, 6, 14])
def test_a_notice_saves_that_step_and_leaves_with_75(tmp_path: Path, step: int, undisturbed: list[list[float]]) -> None:
    with pytest.raises(SystemExit) as left:
        Training(tmp_path).train(notice_at=step)
    assert left.value.code == 75
    again = Training(tmp_path)
    assert again.run.step == step
    again.train()
    assert again.fingerprint() == undisturbed


def test_a_run_without_notice_goes_on_from_its_last_save(tmp_path: Path, undisturbed: list[list[float]]) -> None:
    first = Training(tmp_path)
    first.train(until=9)
    first.run._wait()
    again = Training(tmp_path)
    assert 9 - 2 <= again.run.step < 9
    again.train()
    assert again.fingerprint() == undisturbed


def test_training_goes_on_while_a_save_is_written_and_does_not_change_it(tmp_path: Path) -> None:
    training = Training(tmp_path, every_steps=100)
    training.train(until=3)
    expected = training.fingerprint()
    training.run._save(is_blocking=False)
    with torch.no_grad():
        for parameter in training.model.parameters():
            parameter.zero_()
    training.run._wait()
    assert Training(tmp_path).fingerprint() == expected


@pytest.mark.parametrize("name", ["__0_0.distcp", "manifest.json", "rank-0.json", "objects.pt", ".metadata"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_loaded(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, undisturbed: list[list[float]]
) -> None:
    Training(tmp_path).train()
    newest = EPOCHS * EPOCH_STEPS
    file = tmp_path / f"step-{newest}" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        again = Training(tmp_path)
    assert again.run.step < newest
    assert f"step {newest} is damaged" in caplog.text and name in caplog.text
    again.train()
    assert again.fingerprint() == undisturbed
    assert Training(tmp_path).run.step == newest


def test_a_step_to_resume_from_is_taken_once_and_what_was_newer_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        Training(tmp_path).train(notice_at=7)
    steps = Store(tmp_path, 1).steps()
    older = steps[0]
    assert older < 7
    monkeypatch.setenv("WARPYARD_RESUME_STEP", str(older))
    monkeypatch.setenv("WARPYARD_ATTEMPT", "2")
    again = Training(tmp_path)
    assert again.run.step == older
    with pytest.raises(SystemExit):
        again.train(notice_at=older + 1)
    # The same attempt, started again after its own save.
    assert Training(tmp_path).run.step == older + 1


def test_a_step_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        Training(tmp_path).train(notice_at=1)
    monkeypatch.setenv("WARPYARD_RESUME_STEP", "3")
    with pytest.raises(RuntimeError, match=r"step 3 .* there are \[1\]"):
        Training(tmp_path)


def test_step_0_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        Training(tmp_path).train(notice_at=4)
    monkeypatch.setenv("WARPYARD_RESUME_STEP", "0")
    assert Training(tmp_path).run.step == 0


def test_a_damaged_step_that_was_asked_for_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        Training(tmp_path).train(notice_at=1)
    (tmp_path / "step-1" / "rank-0.json").unlink()
    monkeypatch.setenv("WARPYARD_RESUME_STEP", "1")
    with pytest.raises(Damaged, match=r"rank-0.json"):
        Training(tmp_path)


def test_a_zombie_ends_at_its_next_save(tmp_path: Path) -> None:
    zombie = Training(tmp_path)
    Training(tmp_path)
    with pytest.raises(Fenced):
        zombie.train()
    assert Store(tmp_path, 2).steps() == []


def test_a_save_that_fails_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(tmp_path)
    commit, failures = Store.commit, []

    def fail_once(store: Store, *arguments: object) -> object:
        if not failures:
            failures.append(arguments)
            raise OSError(28, "No space left on device")
        return commit(store, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "commit", fail_once)
    training.train()
    assert failures and "No space left" in caplog.text
    assert Store(tmp_path, 1).steps()[-1] == EPOCHS * EPOCH_STEPS
    assert not list(tmp_path.glob("*.partial")), "a save that failed keeps its space"


def test_a_folder_that_cannot_be_made_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    training = Training(tmp_path)
    store = training.run._session.store
    for step in range(1, EPOCH_STEPS):
        store.partial(step).touch()
    training.train()
    assert "training goes on" in caplog.text and "exists" in caplog.text
    assert store.steps()[-1] == EPOCHS * EPOCH_STEPS


def test_a_save_under_notice_that_fails_is_an_error_and_keeps_no_space(tmp_path: Path) -> None:
    training = Training(tmp_path)
    partial = training.run._session.store.partial(3)
    (partial / "rank-0.json").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        training.train(notice_at=3)
    assert not partial.exists()


def test_without_a_directory_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPYARD_CHECKPOINT_DIR", raising=False)
    monkeypatch.setenv("WARPYARD_RUN", "train")
    with pytest.raises(ValueError, match="job file"):
        checkpoint.attach(nn.Linear(1, 1))
    monkeypatch.delenv("WARPYARD_RUN")
    with pytest.raises(ValueError, match="WARPYARD_CHECKPOINT_DIR"):
        checkpoint.attach(nn.Linear(1, 1))


def test_all_random_numbers_come_again() -> None:
    states = json.loads(json.dumps(randomness.capture()))
    draw = lambda: (random.gauss(), numpy.random.normal(), torch.rand(3).tolist())  # noqa: E731
    first = draw()
    randomness.restore(states)
    assert draw() == first
