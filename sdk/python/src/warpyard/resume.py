"""The start of an attempt: the newest checkpoint that all ranks can verify, or the requested one.

::

    newest ─► rank 0 reads the manifest, each rank hashes its share
      ▲         ├─ all hashes match                           ─► it is loaded, and newer ones are set aside
      │         ├─ other bytes, or files that rank 0 misses   ─► damaged: the one before; after the last, an error
      └─────────┘
                └─ a rank cannot read, or alone misses a file ─► an error: nobody knows

Nothing is moved before one is found whole. So an attempt that fails here leaves everything to the next one.
"""

from __future__ import annotations

import logging

from warpyard.commit import MISSING, Damaged, Manifest, Store, Unreadable
from warpyard.contract import Contract
from warpyard.gang import Gang, attempt
from warpyard.reached import file_of

_LOG = logging.getLogger("warpyard")


def find(store: Store, gang: Gang, contract: Contract) -> Manifest | None:
    """The manifest of what to load; None is the beginning. Collective: every rank gets the same, or the same error."""
    command = f"warpyard resume {contract.run or 'NAME'} --from"
    wanted = gang.by_rank_0(lambda: _wanted_step(store, contract.resume_step))
    if wanted == 0:
        _abandon_after(store, gang, 0)
        return None
    steps = gang.by_rank_0(store.steps)
    if wanted is not None and wanted not in steps:
        raise RuntimeError(f"there is no checkpoint of step {wanted} to resume from: there are {steps}")
    for step in [wanted] if wanted is not None else reversed(steps):
        try:
            manifest = _verified(store, gang, step)
        except Unreadable as error:
            advice = f"mend what is wrong with {store.directory}, or choose another step: {command} STEP"
            raise Unreadable(f"the checkpoint of step {step} may be whole, but {error}\n\nhint: {advice}") from error
        except Damaged as error:
            text = f"the checkpoint of step {step} is damaged: {error}"
            if wanted is not None:
                raise Damaged(text) from error
            if gang.rank == 0:
                _LOG.warning("%s. Looking at the one before.", text)
            continue
        _abandon_after(store, gang, step)
        return manifest
    if steps:
        advice = f"to begin anew: {command} 0; without the platform set WARPYARD_RESUME_STEP=0"
        raise Damaged(f"no checkpoint in {store.directory} is whole: all of {steps} are damaged\n\nhint: {advice}")
    return None


def _wanted_step(store: Store, resume_step: int | None) -> int | None:
    """The order to resume from a step holds until this attempt has committed a checkpoint itself."""
    # An attempt that has not begun has not committed: the order holds, whether or not the directory
    # can be read.
    if resume_step is None or not file_of(store.directory, store.attempt).exists():
        return resume_step
    for step in store.steps():
        try:
            if store.manifest(step).attempt == store.attempt:
                return None
        except Damaged:
            continue
    return resume_step


def _verified(store: Store, gang: Gang, step: int) -> Manifest:
    """The manifest of that step, if all ranks find it whole; else ``Damaged``, or ``Unreadable`` if one cannot tell."""
    try:
        manifest = gang.by_rank_0(lambda: store.manifest(step))
    except OSError as error:
        raise Unreadable(f"rank 0 cannot read it: {error}") from error
    wrong: dict[str, str] = {}
    misses: dict[str, int] = {}
    for rank, part in enumerate(gang.from_all(attempt(lambda: store.damage(manifest, gang.rank, gang.world_size)))):
        if isinstance(part, Exception):
            raise Unreadable(f"rank {rank} cannot read it: {part}")
        wrong |= part
        misses |= {name: rank for name, what in part.items() if what == MISSING}
    # A mount that lacks a file, or all of them, must not cost the others a checkpoint.
    if seen := gang.by_rank_0(lambda: [name for name in misses if store.has(step, name)]):
        raise Unreadable(f"rank {misses[seen[0]]} does not see {seen[0]}, which rank 0 sees")
    if wrong:
        raise Damaged("; ".join(f"{name} {what}" for name, what in sorted(wrong.items())[:5]))
    return manifest


def _abandon_after(store: Store, gang: Gang, step: int) -> None:
    """Newer checkpoints are damaged, or belong to abandoned work."""

    def set_aside() -> None:
        for newer in [it for it in store.steps() if it > step]:
            store.set_aside(newer)

    gang.by_rank_0(set_aside)
