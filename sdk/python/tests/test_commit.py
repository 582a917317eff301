import json
from pathlib import Path

import pytest

from warpyard.commit import Damaged, Fenced, Manifest, Store, begun_attempt, write_synced


def commit(store: Store, step: int, text: str = "weights") -> Manifest:
    folder = store.partial(step)
    folder.mkdir()
    seal = write_synced(folder / "a.bin", text.encode())
    return store.commit(step, {"a.bin": seal}, {"epoch": 1})


def test_a_commit_is_found_with_what_was_said_about_it(tmp_path: Path) -> None:
    store = Store.begin(tmp_path, 1)
    commit(store, 10)
    manifest = store.manifest(10)
    assert (manifest.step, manifest.attempt, manifest.progress, manifest.size) == (10, 1, {"epoch": 1}, 7)
    assert store.damage(manifest) == {}
    assert store.steps() == [10]


def test_what_is_being_written_is_no_checkpoint(tmp_path: Path) -> None:
    store = Store.begin(tmp_path, 1)
    store.partial(10).mkdir()
    assert store.steps() == []


@pytest.mark.parametrize(("content", "word"), [(b"weightz", "SHA-256"), (b"weight", "6 bytes"), (None, "missing")])
def test_damage_names_the_file_and_what_is_wrong(tmp_path: Path, content: bytes | None, word: str) -> None:
    store = Store.begin(tmp_path, 1)
    manifest = commit(store, 10)
    file = store.complete(10) / "a.bin"
    file.unlink() if content is None else file.write_bytes(content)
    ((name, what),) = store.damage(manifest).items()
    assert name == "a.bin" and word in what


def test_shares_of_many_ranks_look_at_every_file_once(tmp_path: Path) -> None:
    store = Store.begin(tmp_path, 1)
    store.partial(1).mkdir()
    seals = {f"{n}.bin": write_synced(store.partial(1) / f"{n}.bin", b"x") for n in range(7)}
    manifest = store.commit(1, seals, {})
    for path in store.complete(1).glob("*.bin"):
        path.write_bytes(b"y")
    found = [line for share in range(3) for line in store.damage(manifest, share, 3)]
    assert len(found) == len(set(found)) == 7


def test_a_manifest_with_any_other_byte_is_damaged(tmp_path: Path) -> None:
    store = Store.begin(tmp_path, 1)
    data = commit(store, 10).encode()
    changed = data.replace(b'"epoch": 1', b'"epoch": 2')
    for wrong in (changed, data[:-5], b"", b"[]", b"null", json.dumps({"files": 3}).encode()):
        with pytest.raises(Damaged):
            Manifest.decode(wrong)


def test_a_manifest_of_another_step_is_damaged(tmp_path: Path) -> None:
    store = Store.begin(tmp_path, 1)
    commit(store, 10)
    store.complete(10).rename(store.complete(11))
    with pytest.raises(Damaged, match="step 10"):
        store.manifest(11)


def test_a_former_attempt_that_is_still_alive_commits_nothing(tmp_path: Path) -> None:
    zombie = Store.begin(tmp_path, 1)
    commit(zombie, 10)
    Store.begin(tmp_path, 2)
    with pytest.raises(Fenced, match="attempt 2 has begun"):
        commit(zombie, 20)
    assert zombie.steps() == [10]
    with pytest.raises(Fenced):
        Store.begin(tmp_path, 1)


def test_an_attempt_may_begin_again_and_one_without_a_number_is_the_next(tmp_path: Path) -> None:
    assert Store.begin(tmp_path, 4).attempt == 4
    assert Store.begin(tmp_path, 4).attempt == 4
    assert Store.begin(tmp_path, None).attempt == 5
    assert begun_attempt(tmp_path) == 5


def test_the_two_newest_stay_and_what_the_dead_left_goes(tmp_path: Path) -> None:
    first = Store.begin(tmp_path, 1)
    for step in (10, 20, 30):
        commit(first, step)
    first.partial(40).mkdir()
    (tmp_path / "step-5.old").mkdir()
    first.complete(10)
    second = Store.begin(tmp_path, 2)
    second.partial(40).mkdir()
    second.tidy(keep=1)
    assert second.steps() == [20, 30]
    assert not first.partial(40).exists() and second.partial(40).exists()
    assert not (tmp_path / "step-5.old").exists()


def test_what_is_set_aside_frees_its_step_and_goes_when_it_is_passed(tmp_path: Path) -> None:
    store = Store.begin(tmp_path, 1)
    commit(store, 10)
    commit(store, 20, "bad")
    store.set_aside(20)
    store.tidy()
    assert store.steps() == [10] and (tmp_path / "step-20.aside").exists()
    commit(store, 20, "good")
    store.tidy()
    assert store.steps() == [10, 20] and not (tmp_path / "step-20.aside").exists()
