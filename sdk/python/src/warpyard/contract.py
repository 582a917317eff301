"""The environment of a run's member: ``docs/reference/run-contract.md`` in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: "Saved, requeue me": EX_TEMPFAIL of sysexits.h.
REQUEUE_EXIT_CODE = 75

#: One failure in 50,000 hours of one GPU: Llama 3 saw 419 in 54 days on 16,384 of them, 2.0e-5 per GPU-hour.
MTBF_SECONDS_OF_ONE_PROCESS = 50_000 * 3600.0


@dataclass(frozen=True)
class Contract:
    """The variables of the contract, checked. All of them may be missing: then the SDK works without."""

    run: str | None
    attempt: int | None
    rank: int
    world_size: int
    checkpoint_dir: Path | None
    resume_step: int | None
    grace_seconds: float
    mtbf_seconds: float
    report_url: str | None
    report_token_file: Path | None
    report_ca_file: Path | None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Contract:
        """Reads the environment; an impossible value is an error that names the variable."""
        world_size = _integer(environment, "WORLD_SIZE", minimum=1) or 1
        return cls(
            run=environment.get("WARPYARD_RUN") or None,
            attempt=_integer(environment, "WARPYARD_ATTEMPT", minimum=1),
            rank=_integer(environment, "RANK", minimum=0) or 0,
            world_size=world_size,
            checkpoint_dir=_path(environment, "WARPYARD_CHECKPOINT_DIR"),
            resume_step=_integer(environment, "WARPYARD_RESUME_STEP", minimum=0),
            grace_seconds=_seconds(environment, "WARPYARD_GRACE_SECONDS") or 30.0,
            mtbf_seconds=_seconds(environment, "WARPYARD_MTBF_SECONDS") or MTBF_SECONDS_OF_ONE_PROCESS / world_size,
            report_url=environment.get("WARPYARD_REPORT_URL") or None,
            report_token_file=_path(environment, "WARPYARD_REPORT_TOKEN_FILE"),
            report_ca_file=_path(environment, "WARPYARD_REPORT_CA_FILE"),
        )


def _integer(environment: Mapping[str, str], name: str, minimum: int) -> int | None:
    text = environment.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) >= minimum):
        raise ValueError(f"{name} is {text!r}, which is no whole number from {minimum} on")
    return int(text)


def _seconds(environment: Mapping[str, str], name: str) -> float | None:
    text = environment.get(name, "")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    # A hundred years: larger values, infinity and NaN are mistakes.
    if not 0 < seconds < 100 * 365.25 * 86_400:
        raise ValueError(f"{name} is {text!r}, which is no number of seconds above 0")
    return seconds


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    text = environment.get(name, "")
    return Path(text) if text else None
