"""Configs are validated whole, and what is wrong is told in one line with the nearest known name."""

import pytest

from tasks import catalogue, datasets
from tasks.configuration import ExperimentConfig, find_config, load_config, parse_config
from tasks.errors import BadInput

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
        ({"validation": {"fold": 3}}, ["validation", "Did you mean 'folds'?"]),
        ({"seed": "today"}, ["seed: expected a whole number, got 'today'"]),
        ({"seed": True}, ["seed: expected a whole number, got True"]),
        ({"methods": [{"solver": "sdcd", "grid": [True]}]}, ["grid.0", "number"]),
        ({"methods": [{"solver": "sdcd", "grid": [0.1], "params": {"lam": 1.0}}]}, ["either grid or params.lam"]),
        ({"preprocessing": ["standard"]}, ["preprocessing: expected a mapping of keys to values"]),
        ({"preprocessing": {"scale": "robust"}}, ["preprocessing.scale", "'quantile', 'unit_rows'", "'robust'"]),
        ({"name": "../up"}, ["name", "'../up'"]),
    ],
)
def test_what_is_wrong_is_named_with_what_was_expected(change, words):
    message = refusal(MINIMAL | change)
    for word in words:
        assert word in message


def test_an_empty_section_means_the_defaults():
    assert parse_config(MINIMAL | {"preprocessing": None}, "here") == parse_config(MINIMAL, "here")


def test_a_missing_key_is_named():
    assert "methods: expected this key" in refusal({"datasets": ["wine"]})


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


def test_bytes_that_are_not_text(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00name: x")
    with pytest.raises(BadInput, match="UTF-8"):
        load_config(str(path))


def test_yaml_1_2_keeps_yes_a_word_and_exponents_numbers(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "datasets: [{source: my.csv, target: fraud, positive: yes}]\nmethods: [{solver: sdcd, grid: [1e-6, 1]}]\n"
    )
    config = load_config(str(path))
    assert config.datasets[0].positive == "yes"
    assert config.methods[0].search == ("lam", (1e-6, 1.0))


def test_files_are_relative_to_the_config_and_named_after_themselves(tmp_path):
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "mine.yaml"
    path.write_text("datasets: [{source: my.csv, target: fraud}]\nmethods: [sdcd]\n")
    config = load_config(str(path))
    assert config.name == "mine"
    assert (config.datasets[0].name, config.datasets[0].source) == ("my", str(tmp_path / "here" / "my.csv"))


def test_an_unknown_config_lists_the_shipped_ones():
    with pytest.raises(BadInput, match=r"found no 'quikstart'. Did you mean 'quickstart'\?"):
        find_config("quikstart")


def test_a_folder_is_no_config(tmp_path):
    with pytest.raises(BadInput, match="got the folder"):
        find_config(str(tmp_path))
