"""The program that a process runs whose first call is measured: ``python -m benchmarks.first_fit NAME ...``.

It fits the named solvers of the catalogue on a few rows, dense and CSR, and prints the seconds as JSON. It stands apart
from the parts, which between them import every peer.
"""

import json
import sys
import warnings
from functools import partial

import numpy as np
from scipy import sparse

from benchmarks.contest import timed
from tasks import catalogue


def main(names: list[str]) -> None:
    """Fit each named solver once on dense and once on CSR rows; print what its import and both fits took."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) < 20, 1, -1)
    X = rng.normal(size=(60, 5)) + (y > 0)[:, None]
    rows = sparse.csr_matrix(X)
    report = {}
    for name in names:
        import_s, model = timed(catalogue.solver(name).build)
        dense_s, csr_s = (timed(partial(model.fit, form, y))[0] for form in (X, rows))
        report[name] = {"import_s": import_s, "dense_s": dense_s, "csr_s": csr_s}
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1:])
