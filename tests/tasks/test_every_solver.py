"""Every solver of the catalogue, as a config names it, on real sets of four formats: fitted, finite, kept, better than
chance.
"""

import warnings

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tasks import catalogue
from tasks.configuration import ExperimentConfig
from tasks.convert import convert, load
from tasks.download import download
from tasks.evaluate import score_rows
from tasks.models import make_ranker, trusted_types
from tasks.search import choose
from tasks.split import make_splits
from tasks.train import fit_model
from tasks.undersample import draw_sample
from tasks.values import ConversionRule

# file, how its labels become classes, an AUC that the weakest solver reaches
SETS = {
    "keel": ("keel/yeast4.dat", ConversionRule(), 0.65),
    "svmlight, sparse": ("libsvm/dna.scale", ConversionRule(positive="1"), 0.9),
    "csv, texts and gaps": ("uci/eighthr.data", ConversionRule(target="-1"), 0.65),
    "parquet": ("uci/sonar.all-data.csv", ConversionRule(target="-1"), 0.65),
}
METHODS = [
    *({"solver": name} for name in catalogue.SOLVERS),
    {"solver": "svm_or", "kernel": "gaussian"},
    {"solver": "svm_or", "kernel": "polynomial", "sampler": "u1"},
]
FIXED = {"lam": 1e-2, "C": 0.1, "lam2": 10.0}


@pytest.fixture(scope="module", params=SETS)
def data(request, mirror, tmp_path_factory):
    """A set and its arrays; the last one is written as Parquet first, which no public copy is."""
    file, rule, floor = SETS[request.param]
    raw = download.fn("real", str(mirror / file), None)
    if request.param == "parquet":
        path = tmp_path_factory.mktemp("parquet") / "sonar.parquet"
        table = load(convert.fn(raw, rule))
        table.X.assign(is_mine=table.y > 0).to_parquet(path)
        raw, rule = download.fn("real", str(path), None), ConversionRule("is_mine")
    dataset = convert.fn(raw, rule)
    return dataset, load(dataset), floor


def experiment(method):
    searched = catalogue.SOLVERS[method["solver"]].grid[0]
    rounds = {"params": {"max_iter": 100}} if method["solver"].startswith("zo") else {}
    fixed = {"grid": [FIXED[searched]]} | rounds | ({"kernel_params": {"gamma": "scale"}} if "kernel" in method else {})
    return ExperimentConfig.model_validate({"datasets": ["wine"], "methods": [method | fixed]})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", catalogue.SOLVERS)
def test_features_whose_squares_overflow_are_refused_in_the_same_words(name, form):
    X = np.arange(20.0).reshape(10, 2)
    X[7, 1] = 1e200
    with pytest.raises(ValueError, match="squared norms overflow"):
        catalogue.solver(name).build().fit(form(X), [0, 1] * 5)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda m: "+".join(reversed(m.values())))
def test_it_trains_scores_and_is_kept(data, method):
    dataset, table, floor = data
    config = experiment(method)
    (split, *_) = make_splits(table.y, 3, 1, seed=0)
    sample = draw_sample(table, split, config.methods[0], config.preprocessing, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        choice = choose(table, split, config.methods[0], config, 1)
        model = fit_model(table, split, sample, choice, config.methods[0], config, 1)
    test = table.rows(split.test)
    scores, _ = score_rows(model, test)
    assert floor < scores.auc <= 1
    assert np.isfinite([model.objective, model.dual_gap, model.threshold, scores.gmean]).all()
    assert model.dual_gap >= -1e-9 * model.gap_unit  # up to rounding
    assert model.status in ("converged", "max_iter")
    ranker = make_ranker(model, dataset, table)
    copy = skops.io.loads(skops.io.dumps(ranker), trusted=trusted_types(ranker))
    assert np.array_equal(copy.predict(test.X), ranker.predict(test.X))
