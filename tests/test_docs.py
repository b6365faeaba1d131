"""What docs/ says of the solvers agrees with the code: each has its place, its parameters exist and default to that."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from tasks import catalogue
from tasks.configuration import (
    DatasetConfig,
    ExperimentConfig,
    MethodConfig,
    PreprocessingConfig,
    ValidationConfig,
)
from tasks.datasets import Conversion
from tasks.decide import CHECKS
from tasks.retraining import RetrainConfig

DOCS = Path(__file__).parent.parent / "docs"
SAMPLERS = (DOCS / "samplers.md").read_text(encoding="utf-8")
OVERVIEW = (DOCS / "solvers.md").read_text(encoding="utf-8")
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DOCS / "solvers").glob("*.md"))}
TEXTS = PAGES | {"samplers": SAMPLERS}
SECTIONS = {
    title: body
    for text in PAGES.values()
    for title, body in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
}


def told_parameters(text):
    """Return name and default of each row of a parameter table."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", text, flags=re.MULTILINE)
    return {name: ast.literal_eval(default) for name, default in rows}


@pytest.mark.parametrize("name", catalogue.SOLVERS)
def test_every_solver_is_in_the_table_and_has_a_section(name):
    (row,) = re.findall(rf"^\| \[`{name}`\]\((.+?)\) \|.*\|$", OVERVIEW, flags=re.MULTILINE)
    page, _, anchor = row.partition("#")
    assert anchor == name
    assert f"\n## {name}\n" in (DOCS / page).read_text(encoding="utf-8")
    assert f"aucsolvers.{catalogue.SOLVERS[name].path.partition(':')[2]}" in SECTIONS[name]


@pytest.mark.parametrize("name", catalogue.SOLVERS)
def test_named_parameters_exist_with_the_default_that_is_told(name):
    entry = catalogue.SOLVERS[name]
    told, actual = told_parameters(SECTIONS[name]), entry.build().get_params()
    assert entry.grid[0] in told
    assert "(searched)" in re.search(rf"^\| `{entry.grid[0]}` .*$", SECTIONS[name], flags=re.MULTILINE).group()
    assert {parameter: actual[parameter] for parameter in told} == told
    assert not set(told) & {parameter for parameter, _ in entry.params}  # a config cannot set those


def test_the_kernels_parameters_exist_with_the_default_that_is_told():
    told, actual = told_parameters(PAGES["kernels"]), catalogue.KERNELS["gaussian"].build().get_params()
    of_polynomial = catalogue.KERNELS["polynomial"].build().get_params()
    assert of_polynomial == actual | {"kernel": "poly", "gamma": "scale"}
    assert {parameter: actual[parameter] for parameter in told} == told
    assert {*told, "kernel", "random_state"} == set(actual)
    assert all(f"`{kernel}`" in PAGES["kernels"] for kernel in catalogue.KERNELS if kernel != "none")


def test_solvers_that_have_a_kernel_of_their_own_are_named():
    own = [name for name, entry in catalogue.SOLVERS.items() if not entry.takes_kernel]
    for name in own:
        assert f"`{name}`" in PAGES["kernels"]
    (sentence,) = re.findall(r"Any of them but (.+?) also runs", OVERVIEW, flags=re.DOTALL)
    assert re.findall(r"`(\w+)`", sentence) == own


def test_methods_shown_in_yaml_are_valid():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGES["kernels"], flags=re.DOTALL)
    labels = [MethodConfig.model_validate(m).label for m in YAML(typ="safe", pure=True).load(block)["methods"]]
    assert labels == ["gaussian+svm_or", "polynomial+ls_svm", "auto+gaussian+svm_or"]


def test_samplers_are_all_told_of_and_their_methods_are_valid():
    for name in catalogue.SAMPLERS:
        assert re.search(rf"^\| `{name}` \|", SAMPLERS, flags=re.MULTILINE)
    blocks = re.findall(r"```yaml\n(.*?)```", SAMPLERS, flags=re.DOTALL)
    methods = [m for block in blocks for m in YAML(typ="safe", pure=True).load(block)["methods"]]
    assert [MethodConfig.model_validate(m).label for m in methods] == [
        *("auto+svm_or", "u1+zovr", "mwmote+kernel_svm", "NearMiss+ls_svm"),
        *("balanced SVC", "BalancedRandomForestClassifier", "gaussian+svm_or", "linear_svm_l2", "u2+svm_or"),
    ]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", [name for name, text in TEXTS.items() if "```python" in text])
def test_the_python_runs(page):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 4 == 0
    X = rng.normal(size=(60, 3)) + y[:, None]
    for block in re.findall(r"```python\n(.*?)```", TEXTS[page], flags=re.DOTALL):
        names = {"X": X, "y": y.astype(int), "chunks": [(X[:30], y[:30].astype(int)), (X[30:], y[30:].astype(int))]}
        exec(block, names)
        assert names["model"].decision_function(X).shape == (60,)


@pytest.mark.parametrize(
    ("section", "config", "from_elsewhere"),
    [
        ("An experiment", ExperimentConfig, {"name"}),
        ("A model that is kept up to date", RetrainConfig, set()),
        ("A data set", DatasetConfig, {"name"}),
        ("conversion", Conversion, set()),
        ("A method", MethodConfig, set()),
        ("validation", ValidationConfig, set()),
        ("preprocessing", PreprocessingConfig, set()),
    ],
)
def test_every_key_of_a_config_is_told_with_its_default_and_limits(section, config, from_elsewhere):
    page = (DOCS / "config.md").read_text(encoding="utf-8")
    (body,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, flags=re.DOTALL | re.MULTILINE)
    told = {key: rest for key, *rest in re.findall(r"^\| `(\w+)` \| (.+?) \| (.*)\|$", body, flags=re.MULTILINE)}
    assert set(told) == set(config.model_fields)
    for key in set(told) - from_elsewhere:
        field, (default, meaning) = config.model_fields[key], told[key]
        assert field.is_required() == (default == "needed"), key
        if not field.is_required():
            actual = field.get_default(call_default_factory=True)
            given = YAML(typ="safe", pure=True).load(default)
            given = type(actual)(**given) if isinstance(given, dict) else given
            assert given == (list(actual) if isinstance(actual, tuple) else actual), key
        limits = [getattr(one, bound) for one in field.metadata for bound in ("ge", "le") if hasattr(one, bound)]
        if meaning and key != "seed":
            assert all(re.search(rf"\b{limit:g}\b", meaning.replace(",", "")) for limit in limits), key


def test_every_finding_that_can_stop_a_promotion_is_told():
    page = (DOCS / "retraining.md").read_text(encoding="utf-8")
    assert {kind for kind in CHECKS if f"`{kind}`" in page} == set(CHECKS)


def anchors(path):
    """Return the names by which headings of a page are reached, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "path", [*sorted(DOCS.parent.glob("*.md")), *sorted(DOCS.rglob("*.md"))], ids=lambda path: path.name
)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith(("http", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        page = path.parent / file if file else path
        assert page.is_file(), target
        assert not anchor or anchor in anchors(page), target
