"""Ways to the peers that are not estimators of scikit-learn: what is absent is reported, never required."""

import os
from pathlib import Path


def named_file(variable: str) -> str | None:
    """Return the file, a program or a library, that an environment variable names, if it is there."""
    named = os.environ.get(variable)
    return named if named and Path(named).is_file() else None
