from pathlib import Path

import pytest

from warpyard.contract import MTBF_SECONDS_OF_ONE_PROCESS, Contract


def test_without_the_platform_everything_has_a_meaning() -> None:
    contract = Contract.read({})
    assert (contract.rank, contract.world_size, contract.attempt, contract.checkpoint_dir) == (0, 1, None, None)
    assert contract.mtbf_seconds == MTBF_SECONDS_OF_ONE_PROCESS


def test_what_the_platform_says_is_read() -> None:
    contract = Contract.read(
        {
            "WARPYARD_ATTEMPT": "3",
            "WARPYARD_CHECKPOINT_DIR": "/ckpt",
            "WARPYARD_RESUME_STEP": "0",
            "WARPYARD_MTBF_SECONDS": "1e4",
            "WORLD_SIZE": "4",
            "RANK": "2",
        }
    )
    assert (contract.attempt, contract.resume_step, contract.rank, contract.world_size) == (3, 0, 2, 4)
    assert contract.checkpoint_dir == Path("/ckpt") and contract.mtbf_seconds == 10_000.0


def test_more_processes_fail_more_often() -> None:
    assert Contract.read({"WORLD_SIZE": "1000"}).mtbf_seconds == MTBF_SECONDS_OF_ONE_PROCESS / 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WARPYARD_ATTEMPT", "0"),
        ("WARPYARD_ATTEMPT", "three"),
        ("WARPYARD_RESUME_STEP", "-1"),
        ("WARPYARD_MTBF_SECONDS", "nan"),
        ("WARPYARD_GRACE_SECONDS", "inf"),
        ("WORLD_SIZE", "0"),
    ],
)
def test_a_value_that_cannot_be_meant_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        Contract.read({name: value})
