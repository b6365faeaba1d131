"""Configs are validated whole, and what is wrong is told in one line with the nearest known name."""

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.base import BaseEstimator, ClassifierMixin

from flows.run import parse_method
from tasks import catalogue, datasets
from tasks.configuration import DatasetConfig, ExperimentConfig, MethodConfig, find_config, load_config, parse_config
from tasks.decide import Rules
from tasks.errors import BadInput
from tasks.fit import build_kernel, build_solver
from tasks.reference import load_reference

MINIMAL = {"datasets": ["wine"], "methods": ["ls_svm"]}


def refusal(tree):
    with pytest.raises(BadInput) as caught:
        parse_config(tree, "here")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("here: ")
    return message


def test_the_shipped_quickstart_is_valid_and_found_by_name_and_by_path():
    assert load_config("quickstart") == load_config("configs/experiments/quickstart.yaml")
    assert load_config("quickstart").name == "quickstart"


def test_every_shipped_config_and_data_set_is_valid():
    for path in (catalogue.CONFIGS / "experiments").glob("*.yaml"):
        load_config(str(path))
    for name in datasets.entries():
        parse_config(MINIMAL | {"datasets": [name]}, "catalogue")


def test_a_path_wins_over_a_shipped_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").write_text("datasets: [wine]\nmethods: [msgd]\n")
    assert [m.solver for m in load_config("quickstart").methods] == ["msgd"]


def test_words_stand_for_sections():
    config = parse_config(MINIMAL | {"methods": ["sdcd", {"solver": "linear_svm", "sampler": "u1"}]}, "here")
    assert [m.label for m in config.methods] == ["sdcd", "u1+linear_svm"]
    assert config.datasets[0].source == "catalogue:wine"


def test_one_solver_can_stand_twice_under_two_names():
    twice = [
        {"solver": "sdcd", "params": {"tol": 1e-2}},
        {"solver": "sdcd", "name": "sdcd tight", "params": {"tol": 1e-5}},
    ]
    assert [m.label for m in parse_config(MINIMAL | {"methods": twice}, "here").methods] == ["sdcd", "sdcd tight"]


def test_a_kernel_stands_between_sampler_and_solver_and_gamma_is_searched_unless_given():
    def searched(**more):
        (method,) = parse_config(MINIMAL | {"methods": [{"solver": "svm_or", **more}]}, "here").methods
        return method.label, method.gamma_search

    assert searched() == ("svm_or", ())
    assert searched(kernel="gaussian") == ("gaussian+svm_or", catalogue.GAMMA_GRID)
    assert searched(kernel="polynomial", sampler="auto") == ("auto+polynomial+svm_or", catalogue.GAMMA_GRID)
    assert searched(kernel="gaussian", gamma_grid=[3, 0.5, 3])[1] == (0.5, 3.0)
    assert searched(kernel="gaussian", kernel_params={"gamma": 0.2})[1] == (1.0,)
    assert searched(kernel="gaussian", kernel_params={"gamma": 0.2}, gamma_grid=[1, 2])[1] == (1.0, 2.0)
    assert searched(kernel="gaussian", kernel_params={"gamma_factor": 5})[1] == (5.0,)


@pytest.mark.parametrize("gamma", [0.3, "scale", "spread", "loo"])
def test_a_gamma_of_ones_own_takes_the_place_of_the_usual_one(gamma):
    def built(**method):
        (method,) = parse_config(MINIMAL | {"methods": [method]}, "here").methods
        return build_solver(method, {}, 0), build_kernel(method, {}, 0)

    assert built(solver="kernel_svm")[0].gamma == "spread"
    assert built(solver="kernel_svm", params={"gamma": gamma})[0].gamma == gamma
    searched = {"solver": "kernel_svm", "search": {"gamma": [gamma, 0.1]}}
    assert parse_config(MINIMAL | {"methods": [searched]}, "here").methods[0].searched["gamma"].count(gamma) == 1
    assert built(solver="svm_or", kernel="gaussian")[1].gamma == "spread"
    if gamma != "loo":
        assert built(solver="svm_or", kernel="gaussian", kernel_params={"gamma": gamma})[1].gamma == gamma


def test_no_kernel_is_called_as_a_sampler_is():
    assert set(catalogue.KERNELS) & set(catalogue.SAMPLERS) == {"none"}


def test_the_resolved_config_reads_back_as_itself():
    config = load_config("quickstart")
    assert ExperimentConfig.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mehtods": ["sdcd"]}, ["got 'mehtods'", "Did you mean 'methods'?"]),
        ({"methods": ["sdcd_prem"]}, ["methods.0", "got 'sdcd_prem'", "Did you mean 'sdcd_perm'?"]),
        ({"methods": [{"solver": "sdcd", "sampler": "u3"}]}, ["got 'u3'", "out of none, auto, u1, u2, wu"]),
        ({"methods": [{"solver": "sdcd", "params": {"tool": 1}}]}, ["got 'tool'", "Did you mean 'tol'?"]),
        ({"methods": [{"solver": "sdcd", "params": {"lam": -1}}]}, ["lam", "> 0", "got -1"]),
        ({"methods": [{"solver": "sdcd", "params": {"max_iter": 2.5}}]}, ["max_iter", "integer >= 1", "got 2.5"]),
        ({"methods": [{"solver": "linear_svm", "params": {"tol": "small"}}]}, ["tol", "'small'"]),
        ({"methods": [{"solver": "sdcd", "sampler": "u1", "sampler_params": {"n_bins": 0}}]}, ["n_bins", "got 0"]),
        ({"methods": [{"solver": "sdcd", "params": {"order": "random"}}]}, ["got 'order'"]),
        ({"methods": [{"solver": "sdcd", "grid": [0.1, -0.5]}]}, ["grid.1", "greater than 0", "-0.5"]),
        ({"methods": [{"solver": "sdcd", "grid": [float("nan")]}]}, ["grid.0", "nan"]),
        ({"methods": [{"solver": "sdcd", "sampler_params": {"n_bins": 3}}]}, ["no sampler_params", "'none'"]),
        ({"methods": [{"solver": "sdcd", "kernel": "gausian"}]}, ["got 'gausian'", "Did you mean 'gaussian'?"]),
        ({"methods": [{"solver": "sdcd", "kernel_params": {"gamma": 3}}]}, ["no kernel_params", "'none'"]),
        ({"methods": [{"solver": "sdcd", "gamma_grid": [1]}]}, ["no gamma_grid", "'none'"]),
        (
            {"methods": [{"solver": "sdcd", "kernel": "gaussian", "kernel_params": {"n_component": 3}}]},
            ["got 'n_component'", "Did you mean 'n_components'?"],
        ),
        ({"methods": [{"solver": "sdcd", "kernel": "gaussian", "kernel_params": {"degree": 2}}]}, ["got 'degree'"]),
        (
            {"methods": [{"solver": "sdcd", "kernel": "polynomial", "kernel_params": {"n_components": 0}}]},
            ["n_components", "integer >= 1", "got 0"],
        ),
        (
            {
                "methods": [
                    {
                        "solver": "sdcd",
                        "kernel": "gaussian",
                        "kernel_params": {"gamma_factor": 2},
                        "gamma_grid": [1],
                    }
                ]
            },
            ["either gamma_grid or kernel_params.gamma_factor"],
        ),
        ({"methods": [{"solver": "kernel_svm", "kernel": "gaussian"}]}, ["a kernel of its own", "Leave out kernel"]),
        ({"methods": []}, ["methods: expected at least one entry", "got an empty one"]),
        ({"methods": ["sdcd", "sdcd"]}, ["'sdcd' twice"]),
        ({"datasets": ["digit"]}, ["got 'digit'", "Did you mean 'digits'?", "--data"]),
        ({"datasets": None}, ["datasets: expected a list, got nothing"]),
        ({"validation": {"folds": 1}}, ["validation.folds: expected a number greater than or equal to 2, got 1"]),
        ({"validation": {"held_out": "0.2"}}, ["validation.held_out: expected a number, got '0.2'"]),
        ({"validation": {"fold": 3}}, ["validation", "Did you mean 'folds'?"]),
        ({"seed": "today"}, ["seed: expected a whole number, got 'today'"]),
        ({"seed": True}, ["seed: expected a whole number, got True"]),
        ({"methods": [{"solver": "sdcd", "grid": [True]}]}, ["grid.0", "number"]),
        ({"methods": [{"solver": "sdcd", "grid": [0.1], "params": {"lam": 1.0}}]}, ["either grid or params.lam"]),
        ({"preprocessing": ["standard"]}, ["preprocessing: expected a mapping of keys to values"]),
        ({"preprocessing": {"scale": "robust"}}, ["preprocessing.scale", "'quantile', 'unit_rows'", "'robust'"]),
        ({"preprocessing": {"scale": []}}, ["preprocessing.scale", "got an empty list"]),
        ({"preprocessing": {"scale": ["standard", "std"]}}, ["preprocessing.scale", "'std'"]),
        ({"name": "../up"}, ["name", "'../up'"]),
        ({"datasets": [{"suite": "lu2091"}]}, ["got 'lu2091'", "Did you mean 'lu2019'?"]),
        ({"reference": "lu"}, ["reference", "got 'lu'"]),
        ({"methods": ["u1_zorv"]}, ["got 'u1_zorv'"]),
        ({"methods": ["u2_zovrr"]}, ["got 'u2_zovrr'", "Did you mean 'u2_zovr'?"]),
        ({"methods": ["U2+zovr"]}, ["sampler", "got 'U2'", "Did you mean 'u2'?"]),
        ({"name": "a/b"}, ["expected a name of letters a to z", "got 'a/b'"]),
        ({"name": "x" * 101}, ["expected at most 100 characters"]),
        ({"methods": [{"solver": "sdcd", "name": "Ä"}]}, ["methods.0.name", "expected a name of letters", "got 'Ä'"]),
        ({"datasets": [{"source": "sklearn:wine", "name": "a/b"}]}, ["datasets.0.name", "a name without /"]),
        (
            {"methods": [{"solver": "sklearn.svm.SVC", "committee": 5}]},
            ["candidates for a committee of SVC, got one", "Give it a search"],
        ),
        ({"methods": ["u3+zovr"]}, ["sampler", "got 'u3'", "Did you mean 'u"]),
        ({"methods": ["u1_gaussian_svm_or"]}, ["Did you mean 'u1+gaussian+svm_or'?"]),
        ({"methods": [{"solver": "gaussian+sdcd", "kernel": "polynomial"}]}, ["one kernel", "kernel 'polynomial'"]),
        ({"methods": [{"solver": "zovr", "params": {"certify": "no"}}]}, ["certify to be True or False, got 'no'"]),
        ({"methods": [{"solver": "u1_zovr", "sampler": "u2"}]}, ["one sampler", "'u1' in solver 'u1_zovr'"]),
        (
            {"methods": [{"solver": "u1_zovr", "sampler": "none"}]},
            ["one sampler", "sampler 'none'. Write"],
        ),
        ({"methods": [{"solver": "gaussian+sdcd", "kernel": "none"}]}, ["one kernel", "Write solver: sdcd."]),
        ({"methods": [{"solver": "sdcd", "kernel": "rbf"}]}, ["got 'rbf'", "Did you mean 'gaussian'?"]),
        ({"methods": ["SVC"]}, ["or an import path; got 'SVC'", "by its import path, 'sklearn.svm.SVC'"]),
        ({"methods": ["u2+randomforestclassifier"]}, ["'sklearn.ensemble.RandomForestClassifier'"]),
        ({"methods": ["NearMiss"]}, ["It is a sampler", "'imblearn.under_sampling.NearMiss+linear_svm'"]),
        ({"methods": ["imblearn.over_sampling.ADASYN"]}, ["It is a sampler", "ADASYN+linear_svm"]),
        ({"methods": [{"solver": "sdcd", "sampler": "ADASYN"}]}, ["import path, 'imblearn.over_sampling.ADASYN'"]),
        ({"methods": [{"solver": "sdcd", "sampler": "SMOTE"}]}, ["got 'SMOTE'", "Did you mean 'smote'?"]),
        ({"methods": ["u2_sklearn.svm.SVC"]}, ["Did you mean 'u2+sklearn.svm.SVC'?"]),
        ({"methods": ["sklearn.svm.SVCC"]}, ["that can be imported", "sklearn.svm.SVCC", "Did you mean 'SVC'?"]),
        ({"methods": ["no_such_package.Solver"]}, ["'no_such_package'. Check", "or put its folder on PYTHONPATH."]),
        ({"methods": ["sklearn.svm.SVR"]}, ["fit and decision_function or predict_proba", "sklearn.svm.SVR"]),
        ({"methods": ["os.path.join"]}, ["Expected a class with fit", "os.path.join"]),
        ({"methods": ["sklearn.ensemble.VotingClassifier"]}, ["made without arguments", "estimators"]),
        ({"methods": [{"solver": "sdcd", "sampler": "sklearn.svm.SVC"}]}, ["fit_resample as sampler"]),
        ({"methods": [{"solver": "sklearn.svm.SVC", "grid": [1]}]}, ["Expected search", "got grid"]),
        ({"methods": [{"solver": "sklearn.svm.SVC", "params": {"c": 1}}]}, ["got 'c'", "Did you mean 'C'?"]),
        ({"methods": [{"solver": "sklearn.svm.SVC", "params": {"C": -1}}]}, ["'C' parameter of SVC", "-1"]),
        ({"methods": [{"solver": "sklearn.svm.SVC", "search": {"C": [1, "much"]}}]}, ["'C' parameter", "much"]),
        ({"methods": [{"solver": "sdcd", "sampler": "smote", "sampler_params": {"k_neighbors": 0}}]}, ["k_neighbors"]),
        ({"methods": [{"solver": "sdcd", "sampler": "u1", "sampler_params": {"estimator": 3}}]}, ["got 'estimator'"]),
        *(
            (
                {"methods": [{"solver": "sdcd", "sampler": name, "sampler_params": {"sampling_strategy": given}}]},
                [*words, f"got {got!r}"],
            )
            for name, given, got, words in [
                ("u1", "foo", "foo", ["not minority, not majority, all, or by label"]),
                ("u1", 0.5, 0.5, ["Expected sampling_strategy out of auto"]),
                ("u2", "minority", "minority", ["out of auto, majority, not minority"]),
                ("smote", "majority", "majority", ["out of auto, minority, not minority"]),
                ("mwmote", 7, 7, ["a ratio above 0 and up to 1"]),
                ("mwmote", {"pos": 50}, "pos", ["by label, 1 (positive) or -1 (negative)"]),
                ("smote", {0: 50}, 0, ["by label, 1 (positive) or -1 (negative)"]),
            ]
        ),
        ({"methods": [{"solver": "linear_svm", "params": {"class_weight": {0: 1, 1: 9}}}]}, ["class_weight by label"]),
        *(
            ({"methods": [{"solver": "sklearn.linear_model.LogisticRegression"} | given]}, ["Expected finite numbers"])
            for given in (
                {"params": {"C": np.inf}},
                {"search": {"C": [1.0, np.inf]}},
                {"params": {"class_weight": {1: np.nan, -1: 1.0}}},
            )
        ),
        (
            {"methods": [{"solver": "sklearn.neural_network.MLPClassifier", "search": {"hidden_layer_sizes": [[5]]}}]},
            ["numbers, words, true, false or null to search hidden_layer_sizes in, got [5]"],
        ),
        (
            {"methods": [{"solver": "svm_or", "kernel": "gaussian", "search": {"gamma_factor": [1, 2]}}]},
            ["as gamma_grid, got gamma_factor in search"],
        ),
        ({"methods": [{"solver": "svm_or", "params": {"random_state": 3}}]}, ["the experiment's seed sets it"]),
        ({"methods": ["sklearn.semi_supervised.SelfTrainingClassifier"]}, ["learns from labels", "SelfTraining"]),
        ({"methods": ["sklearn.mixture.GaussianMixture"]}, ["learns from labels", "GaussianMixture"]),
        (
            {"methods": [{"solver": "sklearn.tree.DecisionTreeClassifier", "search": {"sd": [1, 2]}}]},
            ["no parameter named sd", "column of the search's own table"],
        ),
        ({"methods": ["sklearn.ensemble.IsolationForest"]}, ["learns from labels", "IsolationForest"]),
        ({"methods": ["sklearn.svm.OneClassSVM"]}, ["learns from labels", "OneClassSVM"]),
        ({"methods": [{"solver": "sdcd", "search": {"lam": [1]}, "grid": [1]}]}, ["either grid or search.lam"]),
        ({"methods": [{"solver": "sdcd", "search": {"lam": []}}]}, ["search.lam", "at least one entry"]),
        ({"methods": [{"solver": "sdcd", "search": {"lamb": [1]}}]}, ["got 'lamb'", "Did you mean 'lam'?"]),
        ({"methods": [{"solver": "sdcd", "search": {"gamma_factor": [1]}}]}, ["got 'gamma_factor'"]),
        ({"methods": [{"solver": "zovr_rbf", "search": {"gamma_factor": [0]}}]}, ["> 0 for gamma_factor"]),
        ({"methods": [{"solver": "zovr_rbf", "params": {"gamma": 1}, "search": {"gamma_factor": [1]}}]}, ["alone"]),
        ({"methods": [{"solver": "zo_svm", "params": {"lam1": 1}}]}, ["got 'lam1'"]),
        (
            {
                "methods": [
                    {"solver": "margin_mean", "search": {"lam1": list(range(1, 40)), "lam2": list(range(1, 40))}}
                ]
            },
            ["at most 1000 candidates, got 1521"],
        ),
        ({"methods": [{"solver": "sdcd", "probabilities": "platt"}]}, ["'sigmoid' or 'isotonic'", "'platt'"]),
    ],
)
def test_what_is_wrong_is_named_with_what_was_expected(change, words):
    message = refusal(MINIMAL | change)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("def Solver(:", "SyntaxError"),
        ("class Solver:\n    fit = decision_function = get_params = set_params = print", "made without arguments"),
    ],
)
def test_a_module_that_cannot_be_imported_is_refused_whatever_it_does(module, words, tmp_path, monkeypatch):
    """One that ended the interpreter ended the command, with exit code 0 and nothing done."""
    name = f"plugin_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(module + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    message = refusal(MINIMAL | {"methods": [f"{name}.Solver"]})
    assert words in message and f"{name}.Solver" in message


class TakesAnything(ClassifierMixin, BaseEstimator):
    """A classifier as LightGBM's: some of its parameters are not named."""

    def __init__(self, depth=3, **others):
        self.depth, self.others = depth, others

    def get_params(self, deep=True):
        return {"depth": self.depth, **self.others}

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


class TheOtherWayRound(BaseEstimator, ClassifierMixin):
    """A classifier that scikit-learn's tags do not know for one, without parameters."""

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_a_class_that_does_not_say_what_it_is_is_taken_and_its_parameters_checked():
    method = {"solver": f"{__name__}.TheOtherWayRound"}
    assert parse_config(MINIMAL | {"methods": [method]}, "here")
    assert "'depth'" in refusal(MINIMAL | {"methods": [method | {"params": {"depth": 3}}]})


def test_parameters_that_a_class_does_not_name_are_its_own_business():
    method = {"solver": f"{__name__}.TakesAnything", "params": {"scale_pos_weight": 3.0}}
    assert parse_config(MINIMAL | {"methods": [method]}, "here").methods[0].params == {"scale_pos_weight": 3.0}
    assert "'scale_pos_weight'" in refusal(
        MINIMAL | {"methods": [method | {"solver": "sklearn.tree.DecisionTreeClassifier"}]}
    )


def test_an_empty_section_means_the_defaults():
    assert parse_config(MINIMAL | {"preprocessing": None}, "here") == parse_config(MINIMAL, "here")
    empty = {"params": None, "sampler_params": None, "kernel_params": None, "search": None}
    assert MethodConfig.model_validate({"solver": "svm_or"} | empty) == MethodConfig.model_validate("svm_or")
    own = {"name": "wine", "source": "sklearn:wine"}
    assert DatasetConfig.model_validate(own | {"drop": None, "categories": None}) == DatasetConfig.model_validate(own)
    with pytest.raises(ValidationError):
        Rules.model_validate({"data_checks": None})  # no word for none, and none for the default


def test_a_missing_key_is_named():
    assert "methods: expected this key" in refusal({"datasets": ["wine"]})


def test_candidates_hang_on_no_order_of_names_and_labels_may_be_texts():
    """As a config that was stored as JSON comes back: names sorted, labels texts."""
    search = {"lam1": [0.1, 1], "hinge_weight": ["equal", "balanced"]}
    tried = [
        parse_config(MINIMAL | {"methods": [{"solver": "margin_mean", "search": dict(items)}]}, "here").methods[0]
        for items in (search.items(), sorted(search.items()))
    ]
    assert tried[0].solver_candidates == tried[1].solver_candidates
    assert list(tried[0].searched) == ["lam2", "lam1", "hinge_weight"]
    weighted = {"solver": "linear_svm", "params": {"class_weight": {"1": 3.0, "-1": 1.0}}}
    (method,) = parse_config(MINIMAL | {"methods": [weighted]}, "here").methods
    assert method.params == {"class_weight": {1: 3.0, -1: 1.0}}


def test_one_and_one_point_zero_are_two_values_and_are_tried_in_order():
    tree = {"solver": "sklearn.tree.DecisionTreeClassifier", "search": {"max_features": [1.0, 0.5, 1, 0.5]}}
    (method,) = parse_config(MINIMAL | {"methods": [tree]}, "here").methods
    assert [repr(value) for value in method.searched["max_features"]] == ["0.5", "1.0", "1"]


def test_several_errors_are_counted():
    assert refusal(MINIMAL | {"methods": ["nope"], "seed": -1}).endswith("(and 1 more)")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("datasets: [wine\nmethods: [sdcd]\n", ["line 2", "expected valid YAML"]),
        ("datasets: [wine]\ndatasets: [digits]\nmethods: [sdcd]\n", ["line 2", "duplicate key"]),
        ("", ["an empty file"]),
        ("- sdcd\n", ["a list"]),
        ("a: \x07", ["expected valid YAML"]),
        ("a: " + "[" * 5000, ["nested too deeply"]),
        ("methods:\n  - &m {solver: ls_svm, params: {x: [*m]}}", ["an alias inside what it stands for"]),
    ],
)
def test_unreadable_yaml_is_one_line_with_the_line_number(tmp_path, text, words):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        load_config(str(path))
    assert "\n" not in str(caught.value)
    for word in (str(path), *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("methods", "overrides", "place", "more"),
    [
        ("- sdcd\n- {solver: sdcd, sampler: u9}\n", {}, ", line 5: methods.1.sampler:", ""),
        ("- sdcd\n-\n    solver: sdcd\n    params:\n      lam: -1\n", {}, ", line 6: methods.1", ""),
        ("- sdcd\nvalidation:\n  inner_folds: 2\n  fold: 3\n", {}, ", line 7: validation:", ""),
        ("- sdcd\nmehtods: 2\n", {}, ", line 5: config:", ""),
        ("- {solver: 1, sampler: u9}\n- sdcdd\nseed: x\n", {}, ", line 6: seed:", " (and 3 more, lines 4, 5)"),
        ("- &a\n  solver: sdcd\n- <<: *a\n  bogus: 1\n", {}, ", line 7: methods.1:", ""),
        ("- sdcd\n- sdcd\n", {}, ": config: Expected each method once", ""),
        ("- sdcd\nworkers: 2\n", {"workers": 0}, ": workers:", ""),
        ("- sdcdd\nworkers: 2\n", {"workers": 0}, ", line 4: methods.0", " (and 1 more)"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, methods, overrides, place, more):
    path = tmp_path / "config.yaml"
    path.write_text(f"name: x\ndatasets: [wine]\nmethods:\n{methods}")
    with pytest.raises(BadInput) as caught:
        load_config(str(path), **overrides)
    assert str(caught.value).startswith(f"{path}{place}")
    assert str(caught.value).endswith(more) and ("more" in str(caught.value)) == bool(more)


def test_bytes_that_are_not_text(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00name: x")
    with pytest.raises(BadInput, match="UTF-8"):
        load_config(str(path))


def test_parts_that_stand_in_many_places_are_read_once(tmp_path):
    """Ten aliases of ten aliases, eight times: walked through place by place, they took a day."""
    levels = [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 9)]
    (tmp_path / "c.yaml").write_text("\n".join(["a0: &a0 [1]", *levels]))
    with pytest.raises(BadInput, match="got 'a0'"):
        load_config(str(tmp_path / "c.yaml"))


def test_yaml_1_2_keeps_yes_a_word_and_exponents_numbers(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "datasets: [{source: my.csv, target: fraud, positive: yes}]\nmethods: [{solver: sdcd, grid: [1e-6, 1]}]\n"
    )
    config = load_config(str(path))
    assert config.datasets[0].positive == "yes"
    assert config.methods[0].searched == {"lam": (1e-6, 1.0)}


def test_files_are_relative_to_the_config_and_named_after_themselves(tmp_path):
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "mine.yaml"
    path.write_text("datasets: [{source: my.csv, target: fraud}]\nmethods: [sdcd]\n")
    config = load_config(str(path))
    assert config.name == "mine"
    assert (config.datasets[0].name, config.datasets[0].source) == ("my", str(tmp_path / "here" / "my.csv"))


def test_a_home_that_nobody_has_is_left_for_the_reader_to_refuse(tmp_path):
    path = tmp_path / "tilde.yaml"
    path.write_text("datasets: [{source: ~nobody-of-that-name/x.csv, target: t}]\nmethods: [ls_svm]\n")
    assert load_config(str(path)).datasets[0].source == "~nobody-of-that-name/x.csv"


def test_half_a_character_is_bad_input(tmp_path):
    path = tmp_path / "half.yaml"
    path.write_text('datasets: [wine]\nmethods: ["\\ud800"]\n')
    with pytest.raises(BadInput, match="whole characters"):
        load_config(str(path))


def test_an_unknown_config_lists_the_shipped_ones():
    with pytest.raises(BadInput, match=r"found no 'quikstart'. Did you mean 'quickstart'\?"):
        find_config("quikstart")


def test_a_folder_is_no_config(tmp_path):
    with pytest.raises(BadInput, match="got the folder"):
        find_config(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("u1_zovr", ("u1", "zovr", "u1+zovr")),
        ("u2_zovr", ("u2", "zovr", "u2+zovr")),
        ("u1_margin_mean_rbf", ("u1", "margin_mean_rbf", "u1+margin_mean_rbf")),
        ("mwmote_kernel_svm", ("mwmote", "kernel_svm", "mwmote+kernel_svm")),
        ("svm_or", ("none", "svm_or", "svm_or")),
        ("sklearn.svm.SVC", ("none", "sklearn.svm.SVC", "SVC")),
        ("none_zovr", ("none", "zovr", "zovr")),
        ("u1+zovr", ("u1", "zovr", "u1+zovr")),
        ("gaussian+svm_or", ("none", "svm_or", "gaussian+svm_or")),
        ("smote+gaussian+svm_or", ("smote", "svm_or", "smote+gaussian+svm_or")),
        ({"solver": "u2+zovr", "grid": [1.0]}, ("u2", "zovr", "u2+zovr")),
    ],
)
def test_solvers_may_be_spelt_with_their_sampler_as_papers_and_tables_do_or_by_import_path(name, expected):
    (method,) = parse_config(MINIMAL | {"methods": [name]}, "here").methods
    assert (method.sampler, method.solver, method.label) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u2+zovr_rbf", ("u2", "none", "zovr_rbf")),
        ("u1_zovr", ("u1", "none", "zovr")),
        ("smote+gaussian+svm_or", ("smote", "gaussian", "svm_or")),
        (
            "imblearn.under_sampling.NearMiss+sklearn.svm.LinearSVC",
            ("imblearn.under_sampling.NearMiss", "none", "sklearn.svm.LinearSVC"),
        ),
    ],
)
def test_the_command_line_takes_them_all(text, expected):
    method = parse_method(text)
    assert (method.sampler, method.kernel, method.solver) == expected


def test_what_is_searched_by_default_by_grid_by_search_and_what_is_given():
    def searched(solver="margin_mean_rbf", **more):
        return parse_config(MINIMAL | {"methods": [{"solver": solver, **more}]}, "here").methods[0].searched

    usual = {"lam2": catalogue.GAUSSIAN_LAM2_GRID, "gamma_factor": catalogue.GAMMA_GRID}
    assert searched() == usual
    assert searched(grid=[3, 1]) == usual | {"lam2": (1.0, 3.0)}
    assert searched(search={"lam1": [2, 0.5]}) == usual | {"lam1": (0.5, 2)}
    assert searched(search={"gamma": [0.1, 1]}) == {"lam2": catalogue.GAUSSIAN_LAM2_GRID, "gamma": (0.1, 1)}
    assert searched(params={"gamma": 0.5, "lam2": 7}) == {"lam2": (7.0,)}
    usual = {"C": catalogue.GAUSSIAN_C_GRID, "gamma_factor": catalogue.GAMMA_GRID}
    assert searched("kernel_svm") == usual
    assert searched("kernel_svm", search={"gamma_factor": [1, 2]}) == usual | {"gamma_factor": (1, 2)}
    assert searched("svm_or") == searched("svm_or", kernel="polynomial") == {"lam": catalogue.LAMBDA_GRID}
    assert searched("svm_or", kernel="gaussian") == {"lam": catalogue.GAUSSIAN_LAMBDA_GRID}
    assert searched("linear_svm", kernel="gaussian") == {"C": catalogue.GAUSSIAN_C_GRID}
    assert searched("svm_or", kernel="gaussian", grid=[2, 1]) == {"lam": (1.0, 2.0)}
    assert searched("svm_or", kernel="gaussian", params={"lam": 1}) == {"lam": (1.0,)}
    assert searched("sklearn.svm.SVC") == {}
    mixed = searched("sklearn.ensemble.RandomForestClassifier", search={"max_features": ["sqrt", 1, 1.0, None]})
    assert mixed == {"max_features": ("sqrt", 1, 1.0, None)}


def test_candidates_are_tried_scale_by_scale_and_the_first_parameter_changes_fastest():
    method = {"solver": "margin_mean_rbf", "search": {"lam2": [1, 2], "gamma_factor": [3, 4]}}
    config = parse_config(MINIMAL | {"methods": [method], "preprocessing": {"scale": ["minmax", "standard"]}}, "here")
    tried = config.methods[0].candidates(config.preprocessing.scales)
    assert [tuple(candidate.values()) for candidate in tried] == [
        (lam2, gamma, scale) for scale in ("minmax", "standard") for gamma in (3, 4) for lam2 in (1, 2)
    ]


def test_a_list_of_one_scale_is_no_choice_and_a_list_reads_back():
    one = parse_config(MINIMAL | {"preprocessing": {"scale": ["minmax"]}}, "here")
    assert one.preprocessing.scale == "minmax"
    several = parse_config(MINIMAL | {"preprocessing": {"scale": ["minmax", "quantile", "minmax"]}}, "here")
    assert several.preprocessing.scales == ("minmax", "quantile")
    assert ExperimentConfig.model_validate(several.model_dump(mode="json")) == several


def test_a_suite_stands_for_its_sets_among_others():
    config = parse_config(MINIMAL | {"datasets": ["wine", {"suite": "lu2019"}]}, "here")
    assert [d.name for d in config.datasets] == ["wine", *datasets.suites()["lu2019"]]


def test_the_config_of_seed_003_runs_all_sixteen_sets_with_its_figures():
    config = load_config("lu2019")
    assert len(config.datasets) == 16
    assert {figure.dataset for figure in load_reference(config.reference).figures} == {d.name for d in config.datasets}
    assert (config.validation.select_by, config.validation.folds) == ("gmean", 5)
