"""What an attempt begins from when the file system misbehaves. The errors are real: a link to itself cannot be read."""

import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_commit import commit
from warpyard import commit as commit_module
from warpyard.commit import MANIFEST, Damaged, Store, Unreadable
from warpyard.session import Session


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_module, "PAUSES_SECONDS", (0.01, 0.01))


@pytest.fixture
def two(tmp_path: Path) -> Store:
    """Steps 10 and 20, of a former attempt."""
    store = Store.begin(tmp_path / "checkpoints", 1)
    commit(store, 10)
    commit(store, 20)
    return store


def begin(store: Store) -> int:
    """The step from which the next attempt begins."""
    session = Session(store.directory, every_steps=None, keep=2)
    session.close()
    return session.step


def hide(path: Path) -> None:
    """Reading it is an error, and not that it is missing."""
    path.rename(path.with_name(f"{path.name}.hidden"))
    path.symlink_to(path.name)


def unhide(path: Path) -> None:
    path.with_name(f"{path.name}.hidden").replace(path)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", ["a.bin", MANIFEST])
def test_what_cannot_be_read_is_not_damaged_and_stays(two: Store, name: str) -> None:
    file = two.complete(20) / name
    hide(file)
    for _ in range(2):
        with pytest.raises(Unreadable, match=r"step 20 may be whole.*rank 0 cannot read it.*symbolic links") as failed:
            begin(two)
        assert "warpyard resume NAME --from STEP" in str(failed.value)
    assert two.steps() == [10, 20]
    unhide(file)
    assert begin(two) == 20


def test_what_cannot_be_read_for_a_moment_is_waited_for(two: Store) -> None:
    file = two.complete(20) / "a.bin"
    hide(file)
    mending = threading.Timer(0.5, unhide, [file])
    mending.start()
    assert begin(two) == 20
    mending.join()


@pytest.mark.parametrize("name", ["a.bin", MANIFEST])
def test_a_file_that_is_missing_is_damage_and_the_one_before_is_loaded(
    two: Store, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (two.complete(20) / name).unlink()
    assert begin(two) == 10
    assert f"step 20 is damaged: {name} is missing" in caplog.text
    assert two.steps() == [10] and (two.directory / "step-20.aside").exists()


def test_a_folder_that_is_gone_is_no_damage(two: Store) -> None:
    shutil.rmtree(two.complete(20))
    with pytest.raises(FileNotFoundError):
        two.manifest(20)


def test_if_none_is_whole_nothing_is_moved_and_the_error_says_how_to_begin_anew(
    two: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in two.steps():
        (two.complete(step) / "a.bin").write_bytes(b"weightz")
    monkeypatch.setenv("WARPYARD_RUN", "llama")
    for _ in range(2):
        with pytest.raises(Damaged, match=r"all of \[10, 20\] are damaged") as failed:
            begin(two)
        assert "warpyard resume llama --from 0" in str(failed.value)
        assert two.steps() == [10, 20]
    monkeypatch.setenv("WARPYARD_RESUME_STEP", "0")
    assert begin(two) == 0
    monkeypatch.delenv("WARPYARD_RESUME_STEP")
    # That attempt was killed before it saved: the next one begins anew as well.
    assert begin(two) == 0


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("step", ["0", "10"])
def test_an_order_holds_though_others_cannot_be_read(two: Store, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    hide(two.complete(20) / MANIFEST)
    monkeypatch.setenv("WARPYARD_RESUME_STEP", step)
    assert begin(two) == int(step)


def test_an_attempt_that_was_killed_before_its_first_commit_is_followed_by_one_from_the_beginning(
    tmp_path: Path,
) -> None:
    store = Store.begin(tmp_path, 1)
    store.partial(1).mkdir()
    (store.partial(1) / MANIFEST).write_bytes(b"{")
    assert begin(store) == 0
    assert not store.partial(1).exists()
