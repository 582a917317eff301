from itertools import pairwise

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from warpyard.gang import Gang
from warpyard.samples import batch_sizes, batches_after, deal, indices_after, whole_order


def sampler(samples: int, rank: int, world: int, **more: bool) -> DistributedSampler[object]:
    data = TensorDataset(torch.arange(samples))
    found: DistributedSampler[object] = DistributedSampler(data, num_replicas=world, rank=rank, seed=5, **more)
    found.set_epoch(2)
    return found


@pytest.mark.parametrize("samples", [1, 3, 16, 17, 23])
@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_whole_epoch_is_dealt_as_the_sampler_deals_it(samples: int, world: int, drop_last: bool) -> None:
    for rank in range(world):
        one = sampler(samples, rank, world, drop_last=drop_last)
        if drop_last and samples < world:
            assert indices_after(one, 0, rank, world) == []
        else:
            assert indices_after(one, 0, rank, world) == list(one)


@pytest.mark.parametrize("samples", [16, 17, 23])
def test_the_rest_of_an_epoch_is_what_the_sampler_would_still_give(samples: int) -> None:
    for rank in range(4):
        one = sampler(samples, rank, 4)
        for used in range(0, samples, 4):
            assert indices_after(one, used, rank, 4) == list(one)[used // 4 :]


def test_another_number_of_ranks_goes_on_with_the_samples_that_are_left() -> None:
    order = whole_order(sampler(24, 0, 4))
    used = 8
    for world in (1, 2, 4, 8):
        rest = [index for rank in range(world) for index in deal(order, used, rank, world, False)]
        assert sorted(rest) == sorted(order[used:])


def test_an_epoch_that_is_used_up_gives_nothing() -> None:
    assert deal(range(10), 12, 0, 4, False) == []


def test_batches_have_the_sizes_that_a_loader_gives() -> None:
    for samples in range(1, 12):
        for drop_last in (False, True):
            loader = DataLoader(TensorDataset(torch.arange(samples)), batch_size=4, drop_last=drop_last)
            assert batch_sizes(samples, 4, drop_last) == [len(batch[0]) for batch in loader]


def test_a_loader_goes_on_after_what_was_used_and_is_left_as_it_was() -> None:
    data = TensorDataset(torch.arange(10))
    loader = DataLoader(data, batch_size=4, sampler=RandomSampler(data))
    before = loader.batch_sampler.sampler  # type: ignore[union-attr]
    torch.manual_seed(1)
    with batches_after(loader, 0, Gang()) as batches:
        whole = [(batch[0].tolist(), samples) for batch, samples in batches]
    torch.manual_seed(1)
    with batches_after(loader, 4, Gang()) as batches:
        rest = [(batch[0].tolist(), samples) for batch, samples in batches]
    assert [samples for _, samples in whole] == [4, 4, 2]
    assert rest == whole[1:]
    assert loader.batch_sampler.sampler is before  # type: ignore[union-attr]


def test_any_iterable_goes_on_after_the_batches_that_were_used() -> None:
    with batches_after(["a", "b", "c"], 1, Gang()) as batches:
        assert [batch for batch, _ in batches] == ["b", "c"]


def test_two_epochs_have_two_orders() -> None:
    one = sampler(16, 0, 1)
    orders = []
    for epoch in range(3):
        one.set_epoch(epoch)
        orders.append(whole_order(one))
    assert all(a != b for a, b in pairwise(orders))
