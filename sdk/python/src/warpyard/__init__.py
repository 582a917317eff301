"""What a training script says to Warpyard, and hears from it.

``warpyard.checkpoint``   plain PyTorch: save on notice, save by itself, go on where the last attempt ended
``warpyard.huggingface``  the same for a Hugging Face ``Trainer``
``warpyard.lightning``    the same for a Lightning ``Trainer``

All of it works without the platform too: then only a directory is needed. Nothing here blocks training on a network,
and nothing is imported that a script does not use. The contract itself, for other frameworks and languages, is one
page: ``docs/reference/run-contract.md``.
"""

from warpyard.contract import REQUEUE_EXIT_CODE, Contract

__all__ = ["REQUEUE_EXIT_CODE", "Contract"]
