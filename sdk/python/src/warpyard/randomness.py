"""The state of every random number generator that a training step may draw from, as JSON."""

from __future__ import annotations

import base64
import random
import sys
from typing import Any

import torch

States = dict[str, Any]


def capture() -> States:
    """The states of Python's, NumPy's (if the script uses it), PyTorch's, and this process' GPU's generator."""
    version, words, gauss = random.getstate()
    states: States = {"python": [version, list(words), gauss], "torch": _encode(torch.get_rng_state())}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, position, has_gauss, cached = numpy.random.get_state()
        states["numpy"] = [kind, [int(key) for key in keys], int(position), int(has_gauss), float(cached)]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = _encode(torch.cuda.get_rng_state())
    return states


def restore(states: States) -> None:
    """Restores the generators to the states of ``capture``; a generator that is missing now is skipped."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    torch.set_rng_state(_decode(states["torch"]))
    if "numpy" in states:
        import numpy

        kind, keys, position, has_gauss, cached = states["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, cached))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(_decode(states["cuda"]))


def _encode(state: torch.Tensor) -> str:
    return base64.b64encode(bytes(state.tolist())).decode()


def _decode(text: str) -> torch.Tensor:
    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)
