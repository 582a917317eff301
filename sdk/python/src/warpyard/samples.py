"""The position in an epoch, counted in samples over all ranks, so that any number of ranks can resume from it.

A ``DistributedSampler`` deals one order to all ranks like cards: after k steps of W ranks with batches of B, the first
k·W·B of that order are used, whichever ranks had them. The rest is dealt anew to the present ranks.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from torch.utils.data import BatchSampler, DataLoader
from torch.utils.data.distributed import DistributedSampler

from warpyard.gang import Gang


@contextmanager
def batches_after(loader: Iterable[Any], used: int, gang: Gang) -> Iterator[Iterator[tuple[Any, int]]]:
    """The batches of this rank after ``used`` samples of the epoch, each with how many samples all ranks then used."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    if not isinstance(loader, DataLoader) or not isinstance(batch_sampler, BatchSampler):
        # Its samples are unknown: each batch counts as one, and used ones are read and discarded.
        yield ((batch, gang.world_size) for batch in islice(iter(loader), used // gang.world_size, None))
        return
    sampler = batch_sampler.sampler
    indices = indices_after(sampler, used, gang.rank, gang.world_size)
    counts = batch_sizes(len(indices), batch_sampler.batch_size, batch_sampler.drop_last)
    # A loader's sampler cannot be replaced, but that of its batches can; workers and collation stay the script's.
    batch_sampler.sampler = indices
    try:
        samples = (count * gang.world_size for count in counts)
        yield zip(iter(loader), samples, strict=False)
    finally:
        batch_sampler.sampler = sampler


def indices_after(sampler: Iterable[int], used: int, rank: int, world_size: int) -> list[int]:
    """The rest of the epoch for this rank."""
    if isinstance(sampler, DistributedSampler):
        return deal(whole_order(sampler), used, rank, world_size, sampler.drop_last)
    # Another sampler gives each rank an order of its own.
    return list(sampler)[used // world_size :]


def whole_order(sampler: DistributedSampler[Any]) -> list[int]:
    """The order that the sampler deals, before it is dealt."""
    whole = copy.copy(sampler)
    whole.num_replicas, whole.rank = 1, 0
    whole.num_samples = whole.total_size = len(sampler.dataset)  # type: ignore[arg-type]
    return list(whole)


def deal(order: Sequence[int], used: int, rank: int, world_size: int, drop_last: bool) -> list[int]:
    """This rank's part of the order without its first ``used``, as ``DistributedSampler`` deals a whole one."""
    rest = list(order[used:])
    if not rest:
        return []
    if drop_last:
        rest = rest[: len(rest) // world_size * world_size]
    missing = -len(rest) % world_size
    rest.extend(order[index % len(order)] for index in range(missing))
    return rest[rank::world_size]


def batch_sizes(samples: int, batch_size: int, drop_last: bool) -> list[int]:
    """How many samples each batch of a rank has."""
    whole, rest = divmod(samples, batch_size)
    return [batch_size] * whole + ([rest] if rest and not drop_last else [])
