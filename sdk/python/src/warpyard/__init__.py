"""The connection between a training script and Warpyard.

``warpyard.checkpoint``   plain PyTorch: save on notice and periodically, go on where the last attempt ended
``warpyard.huggingface``  the same for a Hugging Face ``Trainer``
``warpyard.lightning``    the same for a Lightning ``Trainer``

All of it also works without the platform, with only a directory. Nothing here blocks training on a network, and only
what a script uses is imported. The contract itself, for other frameworks and languages, is one page:
``docs/reference/run-contract.md``.
"""

from warpyard.contract import REQUEUE_EXIT_CODE, Contract

__all__ = ["REQUEUE_EXIT_CODE", "Contract"]
