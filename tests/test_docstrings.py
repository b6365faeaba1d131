"""Examples in docstrings are run: they are the first thing that a reader copies."""

import doctest
import importlib
import re
from pathlib import Path

import pytest
from sklearn.datasets import make_classification

import aucsolvers

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("aucsolvers", "tasks", "flows")
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_say_what_they_show(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0 and failed == 0  # what differed is in the captured output


SKLEARN_S = {"n_features_in_", "feature_names_in_", "sampling_strategy_"}  # explained in its own documentation


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(aucsolvers.__all__) - {"Ranker"}))  # made of fitted parts: no fit
def test_attributes_that_a_fit_sets_are_explained(name):
    X, y = make_classification(200, weights=[0.8], flip_y=0.1, random_state=0)
    made = getattr(aucsolvers, name)
    estimator = made(aucsolvers.LSSVM()) if name == "GMeanThreshold" else made()
    (estimator.fit_resample if hasattr(estimator, "fit_resample") else estimator.fit)(X, y)
    section = re.search(r"\n +Attributes\n(.*?)\n +(Raises|Warns|Notes|Examples)\n", made.__doc__, re.DOTALL)
    explained = section.group(1) if section else ""
    assert {a for a in vars(estimator) if a.endswith("_") and a not in explained} <= SKLEARN_S
