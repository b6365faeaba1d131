"""Seeds by name: each random draw has its own, whatever the order or the number of workers."""

import hashlib


def seed_for(root: int, *names: object) -> int:
    """Return a 32-bit seed from the experiment's seed and the named dimensions of a draw.

    >>> seed_for(7, "digits", "split") == seed_for(7, "digits", "split")
    True
    >>> seed_for(7, "digits", "split") == seed_for(7, "wine", "split")
    False
    """
    text = "\x1f".join(str(part) for part in (root, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
