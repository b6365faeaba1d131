"""Plots: the data behind a figure obey laws that can be checked; the figures are drawn, named and told apart."""

import io
import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread
from sample_results import GRID, decaying_history, experiment, fitted
from sklearn.metrics import auc as area

from tasks import plots
from tasks.values import Evaluation, FittedModel, MethodResult


@pytest.fixture(scope="module")
def results() -> tuple[MethodResult, ...]:
    """Five methods on digits that worked, and one that failed."""
    return tuple(result for result in experiment().results if result.dataset == "digits_8")


@pytest.fixture(scope="module")
def sdcd(results) -> MethodResult:
    return results[0]


def with_curve(result: MethodResult, *curves) -> MethodResult:
    """Return the result with these ROC curves instead of its own, one per fold."""
    old = result.evaluations[0]
    evaluations = tuple(
        Evaluation(fold, 0.0, old.train, old.test, np.array(fpr, float), np.array(tpr, float))
        for fold, (fpr, tpr) in enumerate(curves)
    )
    return replace(result, evaluations=evaluations)


def with_final(result: MethodResult, history, **changes) -> MethodResult:
    arrays = {name: np.array(values, dtype=float) for name, values in history.items()}
    return replace(result, final=replace(result.final, history=arrays, **changes))


def with_search(result: MethodResult, *searches) -> MethodResult:
    models = [replace(fitted(i, "lam", decaying_history(0.5)), search=s) for i, s in enumerate(searches)]
    return replace(result, models=tuple(models))


def legend_of(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


# --- the data --------------------------------------------------------------------------------------------------


def test_area_under_the_mean_roc_is_the_mean_auc(results):
    """The vertical mean keeps both limits at every jump, so no area is lost: it holds to rounding, not to a grid."""
    for result in results[:5]:
        mean = plots.roc_data(result)["mean"]
        assert area(mean["fpr"], mean["tpr"]) == pytest.approx(result.fold_values("auc").mean(), abs=1e-12)


def test_mean_of_two_staircases_by_hand(sdcd):
    """A perfect ranking and the diagonal: the mean jumps to ½ at 0 and climbs to 1; its sd is that of {1, x}."""
    data = plots.roc_data(with_curve(sdcd, ([0, 0, 1], [0, 1, 1]), ([0, 0.5, 1], [0, 0.5, 1])))
    assert data["mean"]["fpr"] == [0, 0, 0.5, 0.5, 1, 1]
    assert data["mean"]["tpr"] == [0, 0.5, 0.75, 0.75, 1, 1]
    assert data["mean"]["tpr_sd"] == pytest.approx([0, 0.5**0.5, 0.125**0.5, 0.125**0.5, 0, 0])


def test_single_fold_has_no_spread(sdcd):
    data = plots.roc_data(with_curve(sdcd, ([0, 0, 1], [0, 1, 1])))
    assert set(data["mean"]["tpr_sd"]) == {0.0}


def test_long_curves_are_thinned_within_the_stated_bound(sdcd):
    """Of 20,001 vertices 500 are kept; the area moves by less than 1/(2·500), the bound for boxes of that size."""
    fpr = np.linspace(0, 1, 20_001)
    fold = plots.roc_data(with_curve(sdcd, (fpr, fpr**0.2)))["folds"][0]
    assert len(fold["fpr"]) <= plots.MAX_VERTICES
    assert (fold["fpr"][0], fold["tpr"][0], fold["fpr"][-1], fold["tpr"][-1]) == (0, 0, 1, 1)
    assert area(fold["fpr"], fold["tpr"]) == pytest.approx(area(fpr, fpr**0.2), abs=1 / (2 * plots.MAX_VERTICES))


def test_data_are_strict_json_even_where_values_are_not_finite(sdcd):
    history = {"updates": [0, 1], "objective": [1, 0.5], "dual_gap": [np.inf, np.nan], "auc": [0.5, 0.9]}
    data = plots.convergence_data(with_final(sdcd, history))
    assert data["history"]["dual_gap"] == [None, None]
    json.dumps([data, plots.roc_data(sdcd), plots.search_data(sdcd)], allow_nan=False)


def test_search_is_averaged_over_the_outer_folds(sdcd):
    """Means are averaged, sds by root mean square: √((3² + 4²)/2) of 0.03 and 0.04 is 0.0354."""
    searches = [{"value": [0.1, 1], "mean": [0.7, 0.8], "sd": [0.03, 0.03]}]
    searches += [{"value": [0.1, 1], "mean": [0.9, 0.8], "sd": [0.04, 0.03]}]
    data = plots.search_data(with_search(sdcd, *searches))
    assert data["parameter"] == "lam"
    assert data["values"] == [0.1, 1]
    assert data["mean"] == pytest.approx([0.8, 0.8])
    assert data["sd"] == pytest.approx([np.sqrt((0.03**2 + 0.04**2) / 2), 0.03])


def test_with_a_kernel_the_search_is_shown_at_the_gamma_that_each_fold_chose(sdcd):
    search = {"value": [0.1, 1.0] * 2, "gamma_factor": [1.0, 1.0, 10.0, 10.0], "sd": [0.0] * 4}
    searched = with_search(sdcd, search | {"mean": [0.7, 0.8, 0.9, 0.6]}, search | {"mean": [0.5, 0.6, 0.4, 0.4]})
    chosen = [{"lam": 0.1, "gamma_factor": 10.0}, {"lam": 1.0, "gamma_factor": 1.0}]
    models = [replace(model, chosen=c) for model, c in zip(searched.models, chosen, strict=True)]
    data = plots.search_data(replace(searched, models=tuple(models)))
    assert (data["parameter"], data["values"]) == ("lam", [0.1, 1.0])
    assert data["mean"] == pytest.approx([(0.9 + 0.5) / 2, (0.6 + 0.6) / 2])


@pytest.mark.parametrize(
    "search",
    [
        {"value": [0.1], "mean": [np.nan], "sd": [np.nan]},
        {"value": [0.1, 1.0], "mean": [np.nan] * 2, "sd": [np.nan] * 2},
    ],
    ids=["one value given", "too few rows to search"],
)
def test_what_was_not_searched_is_not_drawn(sdcd, search):
    assert plots.search_data(with_search(sdcd, search)) is None
    assert plots.search_comparison([with_search(sdcd, search)]) is None


# --- the figures -----------------------------------------------------------------------------------------------


def test_failed_cells_are_left_out_and_refused_on_their_own(results):
    failed = results[-1]
    with pytest.raises(ValueError, match=r"Expected evaluations of digits_8 / oam_seq, got none .*Draw only"):
        plots.roc_figure(failed)
    with pytest.raises(ValueError, match="Expected a refitted model"):
        plots.convergence_figure(failed)
    for draw in (plots.roc_comparison, plots.search_comparison, plots.convergence_comparison):
        assert draw([failed]) is None
        assert not any("oam_seq" in entry for entry in legend_of(draw(results)))


def test_legends_name_every_method_and_its_auc(results):
    legend = legend_of(plots.roc_comparison(results))
    assert len(legend) == 5
    mean, sd = results[0].mean_sd("auc")
    assert legend[0] == f"sdcd  AUC {mean:.4f} ± {sd:.4f}"
    (text, *_) = plots.roc_figure(results[0]).axes[0].get_legend().get_texts()
    assert text.get_text() == f"mean of 5 folds, AUC {mean:.4f} ± {sd:.4f}"


def test_lambda_and_cost_have_panels_of_their_own(results):
    """λ multiplies the regulariser, C the loss: on one axis their curves would run against each other."""
    figure = plots.search_comparison(results)
    assert [axes.get_xlabel() for axes in figure.axes] == ["λ", "C"]
    assert [len(axes.lines) for axes in figure.axes] == [4, 1]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert "G-mean" in plots.search_comparison(results, "G-mean").axes[0].get_ylabel()


def test_thirty_five_methods_look_different_in_colour_and_eight_in_grey():
    looks = [plots._style(rank, 10) for rank in range(35)]
    assert len({(look["color"], look["linestyle"]) for look in looks}) == 35
    assert len({(look["linestyle"], look["marker"]) for look in looks[:8]}) == 8


def test_a_method_keeps_its_colour_in_every_figure(results):
    """The failed method keeps its place too, so a rerun in which it works changes no other colour."""
    shuffled_in = (results[-1], *results[:-1])
    for draw in (plots.roc_comparison, plots.search_comparison, plots.convergence_comparison):
        first = plots.COLOURS[1]  # rank 1: sdcd, after the failed method
        assert draw(shuffled_in).legends[0].legend_handles[0].get_color() == first


def test_exact_solution_is_drawn_on_the_edge_and_named(results):
    ls_svm = results[3]
    assert ls_svm.final.dual_gap == 0
    assert "ls_svm: 0 (exact)" in legend_of(plots.convergence_comparison(results))
    assert "dual gap: 0 (exact)" in legend_of(plots.convergence_figure(ls_svm))


def test_negative_objective_is_not_called_exact(sdcd):
    history = {"updates": [0, 1], "objective": [1, -0.5], "dual_gap": [1, 0.1], "auc": [0.5, 0.9]}
    assert legend_of(plots.convergence_figure(with_final(sdcd, history)))[0] == "objective, where positive"
    assert legend_of(plots.convergence_figure(sdcd)) == ["objective", "dual gap", "AUC"]


@pytest.mark.parametrize(
    "gap",
    [[0.0, 0.0], [0.1, 0.0], [0.1, 1e-17], [np.nan, np.nan], [np.inf, 0.1], [-1e-18, 1e-9]],
    ids=str,
)
def test_odd_histories_are_drawn_without_a_warning(sdcd, gap):
    history = {"updates": [0, 7], "objective": [1, -0.5], "dual_gap": gap, "auc": [0.5, np.nan]}
    result = with_final(sdcd, history)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.png_bytes(plots.convergence_figure(result))
        plots.png_bytes(plots.convergence_comparison([result]))


@pytest.mark.parametrize(
    "name",
    ["a$b$_{", "<script>", "支持向量机", "line\nbreak", "x" * 300, "", "\\frac{1}{2}"],
    ids=["mathematics", "markup", "no such glyph", "control character", "long", "empty", "TeX"],
)
def test_any_name_can_be_a_title(sdcd, name):
    result = replace(sdcd, dataset=name, method=f"m {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for draw in (plots.roc_figure, plots.convergence_figure, lambda r: plots.roc_comparison([r])):
            assert plots.png_bytes(draw(result)).startswith(b"\x89PNG")


def test_nothing_leaves_the_canvas(results):
    """Every text lies inside the figure, also with twelve methods in the legend."""
    many = [replace(r, method=f"{r.method}_{i}") for i, r in enumerate((*results[:5], *results[:5], *results[:2]))]
    for draw in (plots.roc_comparison, plots.search_comparison, plots.convergence_comparison):
        figure = draw(many)
        figure.canvas.draw()
        assert _overlap_free(figure)


def _overlap_free(figure) -> bool:
    """Return whether the legend lies inside the figure and under the axes' labels."""
    legend = figure.legends[0].get_window_extent()
    lowest = min(axes.get_tightbbox().y0 for axes in figure.axes)
    inside = legend.x0 >= 0 and legend.y0 >= 0 and legend.x1 <= figure.bbox.x1
    return inside and legend.y1 <= lowest + 1


def test_bytes_are_the_same_in_every_thread_and_carry_no_date(results):
    def draw(_):
        return plots.png_bytes(plots.search_comparison(results))

    with ThreadPoolExecutor(4) as pool:
        drawn = set(pool.map(draw, range(8)))
    (png,) = drawn
    assert b"tEXt" not in png and b"tIME" not in png
    height, width, _ = imread(io.BytesIO(png)).shape
    assert 700 <= width <= 900 and height <= 600


def test_ticks_of_a_log_axis_are_powers_of_ten():
    assert [plots._power_of_ten(v) for v in (1e-12, 1e-3, 0.1, 1.0, 10.0, 1e6)] == [
        "10⁻¹²",
        "10⁻³",
        "10⁻¹",
        "1",
        "10",
        "10⁶",
    ]
    assert [plots._compact(v) for v in (0, 500, 2500, 1.5e6, 3e9)] == ["0", "500", "2.5k", "1.5M", "3G"]


def test_the_examples_are_what_train_hands_on():
    """The keys of ``search`` are a contract with `tasks.train`; this fails first if the examples go stale."""
    model: FittedModel = experiment().results[0].models[0]
    assert list(model.search) == ["value", "mean", "sd"] and model.search["value"] == GRID
