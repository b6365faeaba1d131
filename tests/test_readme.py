"""What the README shows is true: its config is valid, its Python runs, its commands and names exist."""

import re
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from flows.cli import cli
from tasks import catalogue
from tasks.configuration import parse_config

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_config_is_valid():
    (text,) = blocks("yaml")
    config = parse_config(YAML(typ="safe", pure=True).load(text), "README.md")
    assert [m.label for m in config.methods] == ["sdcd_perm", "u2+linear_svm", "gaussian+svm_or"]
    assert config.datasets[0].positive == "yes"


def test_the_python_runs():
    code = blocks("python")[0]
    rng = np.random.default_rng(0)
    y = np.where(np.arange(80) < 20, 1, -1)
    names = {"X": rng.normal(size=(80, 3)) + (y > 0)[:, None], "y": y}
    exec(code, names)
    assert names["model"][-1].status_ == "converged"


@pytest.mark.parametrize("option", ["--data", "--target", "--positive", "--method", "--folds", "--seed", "--workers"])
def test_the_options_exist(option):
    assert option in README
    assert option in {name for parameter in cli.commands["run"].params for name in parameter.opts}


def test_every_solver_and_sampler_is_told_of():
    for name in (*catalogue.SOLVERS, *catalogue.SAMPLERS, *catalogue.KERNELS):
        assert f"`{name}`" in README or name == "none"


def test_links_to_files_lead_somewhere():
    targets = re.findall(r"\]\((docs/[^)#]+)\)", README)
    assert "docs/solvers.md" in targets
    for target in targets:
        assert (Path(__file__).parent.parent / target).is_file(), target


def test_every_command_is_told_of():
    for name in cli.commands:
        assert f"`aucflow {name}" in README
