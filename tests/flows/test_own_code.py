"""A solver of the user's own: trained, replayed and served as any other, and told of where its code is another."""

import importlib
import json
import sys
from pathlib import Path

import pytest
from retrained import claims, write

from tasks import catalogue, imported, manifests, store
from tasks.claims import claim_of

MODULE = """import sys
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class Means(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.w_ = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
        return self

    def decision_function(self, X):
        return X @ self.w_

class Quits(Means):
    def fit(self, X, y):
        sys.exit(0)
"""
CONFIG = """model: claims
data: {source: claims.csv, target: fraud, positive: "yes"}
method: {solver: own_means.SOLVER}
validation: {folds: 2}
rules: {min_auc: 0.5, min_gmean: 0.1, min_positives: 5}
"""


@pytest.fixture
def module(folder, monkeypatch):
    """A module on the path, as a function that writes it as if for new processes."""
    monkeypatch.syspath_prepend(folder)

    def write_module(text):
        Path("own_means.py").write_text(text)
        forget()

    write_module(MODULE)
    write(claims())
    Path("claims.yaml").write_text(CONFIG.replace("SOLVER", "Means"))
    yield write_module
    forget()


def forget():
    importlib.invalidate_caches()
    sys.modules.pop("own_means", None)
    for remembered in (imported._files, imported._digest, imported._unit, imported._imported_by, catalogue._imported):
        remembered.cache_clear()


def test_another_code_is_no_code_of_the_model(aucflow, module):
    """Nothing knew: retrain had nothing to train, replay claimed every bit, predict scored otherwise in silence."""
    assert aucflow("retrain", "claims.yaml")[0] == 0
    code, out, _ = aucflow("retrain", "claims.yaml", "--json")
    told = json.loads(out)
    assert (code, told["champion"], told["promoted"], "nothing to train" in told["reason"]) == (0, 1, None, True)
    predict = ("predict", "--model", "claims@champion", "--data", "claims.csv", "--trust", "own_means", "--force")
    assert aucflow(*predict, "--out", "scores.csv")[::2] == (0, "")

    module(MODULE.replace("X @ self.w_", "X**3 @ self.w_"))
    code, _, err = aucflow(*predict, "--out", "scores.csv")
    assert code == 0
    assert err == "aucflow: the code of own_means is not that which claims/1 was made with: its scores may be others.\n"
    _, out, _ = aucflow("audit", "claims@champion")
    assert "other code is installed here now" in " ".join(out.split())
    manifest = manifests.find_manifest("claims Means")
    assert "the module own_means is another" in claim_of(manifest.content).reasons
    code, out, _ = aucflow("retrain", "claims.yaml")
    assert (code, "the imported code changed since version 1" in out) == (0, True)
    assert "do not promote" in out
    assert "Expected the code of own_means that it was made with" in out
    assert store.ledger().verify() == ()


def test_a_champion_by_ones_own_solver_is_met_again(aucflow, module):
    """Its package was not trusted: no challenger could ever be compared with it."""
    assert aucflow("retrain", "claims.yaml")[0] == 0
    write(claims(320))
    code, out, _ = aucflow("retrain", "claims.yaml")
    assert (code, "cannot be used" in out) == (0, False)
    assert "paired DeLong" in out


def test_a_solver_that_ends_the_process_ends_its_cell(aucflow, module):
    """The command ended with code 0 and not a word."""
    Path("both.yaml").write_text(
        "datasets: [{source: claims.csv, target: fraud}]\n"
        "methods: [own_means.Quits, own_means.Means]\nvalidation: {folds: 2}\n"
    )
    code, out, err = aucflow("run", "both.yaml")
    assert code == 1
    assert "1 of 2 cells failed: claims Quits: SystemExit: something called sys.exit(0)" in err
    assert "Means" in out
    Path("claims.yaml").write_text(CONFIG.replace("SOLVER", "Quits"))
    code, _, err = aucflow("retrain", "claims.yaml")
    assert (code, "something called sys.exit(0)" in err) == (1, True)
