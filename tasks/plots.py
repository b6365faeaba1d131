"""Figures of an experiment, and the plain data behind each.

Everything here is a pure function of the values in ``tasks.values``. Figures are built through matplotlib's
object interface, never through pyplot: no global state, so threads may draw side by side. Colours are those of
Okabe and Ito (2008), which colour-blind readers can tell apart; line styles and markers differ too, for print.
"""

import io
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from tasks.catalogue import SEARCH_COLUMNS, VALUE
from tasks.configuration import is_number
from tasks.values import FittedModel, MethodResult

DPI = 110
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (9, 2)))
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<")
MAX_VERTICES = 500  # per drawn or stored ROC curve
EXACT = 1e-14  # a gap below this is rounding; it would only stretch a log axis
PARAMETER_LABELS = {"lam": "λ", "C": "C", "gamma_factor": "γ ×"}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Part = TypeVar("Part")


# --- the data behind the figures -------------------------------------------------------------------------------


def roc_data(result: MethodResult) -> dict[str, Any]:
    """Return each fold's test ROC curve, their vertical mean with its sd, and the AUC's mean and sd."""
    evaluations = _required(result.evaluations, result, "evaluations")
    curves = [_thinned(e.fpr, e.tpr) for e in evaluations]
    fpr, mean, sd = _vertical_mean(curves)
    auc, auc_sd = result.mean_sd("auc")
    return {
        "dataset": result.dataset,
        "method": result.method,
        "auc": {"mean": auc, "sd": auc_sd},
        "folds": [
            {"fold": e.fold, "auc": float(e.test.auc), "fpr": _plain(f), "tpr": _plain(t)}
            for e, (f, t) in zip(result.evaluations, curves, strict=True)
        ],
        "mean": {"fpr": _plain(fpr), "tpr": _plain(mean), "tpr_sd": _plain(sd)},
    }


def convergence_data(result: MethodResult) -> dict[str, Any]:
    """Return the history of the refit: equally long lists, None where a value is not finite."""
    final = _required(result.final, result, "a refitted model")
    return {
        "dataset": result.dataset,
        "method": result.method,
        "status": final.status,
        "history": {name: _plain(values) for name, values in final.history.items()},
    }


def search_data(result: MethodResult) -> dict[str, Any] | None:
    """Return the inner validation score against the searched parameter, or None where nothing was searched.

    The mean is taken over the outer folds' inner means; the sd is the root mean square of the inner sds, the
    spread that one inner search sees. It is the first parameter, at what each fold chose of all others.
    """
    searched = [_inner_search(model) for model in result.models if model.chosen and _has_curve(model)]
    if not searched:
        return None
    values, mean, sd = (np.concatenate(part) for part in zip(*searched, strict=True))
    grid, place = np.unique(values, return_inverse=True)
    if len(grid) < 2:
        return None
    times = np.bincount(place)
    return {
        "parameter": next(iter(result.models[0].chosen)),
        "values": _plain(grid),
        "mean": _plain(np.bincount(place, mean) / times),
        "sd": _plain(np.sqrt(np.bincount(place, sd**2) / times)),
    }


def _has_curve(model: FittedModel) -> bool:
    """Tell whether the first parameter has values that a log axis can hold."""
    values = model.search.get(VALUE, [])
    return bool(values) and all(is_number(value) and value > 0 for value in values)


def _inner_search(model: FittedModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return grid, mean and sd where a score was found: NaN says that the value was given, not searched."""
    grid, mean, sd = (np.asarray(model.search[name], dtype=float) for name in SEARCH_COLUMNS)
    others = [name for name in model.search if name not in SEARCH_COLUMNS]
    scored = np.isfinite(mean)
    for name in others:
        scored &= [value == model.chosen[name] for value in model.search[name]]
    return grid[scored], mean[scored], np.nan_to_num(sd[scored])


def _thinned(fpr: np.ndarray, tpr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most MAX_VERTICES vertices of a ROC curve.

    FPR + TPR rises from 0 to 2 along the curve. Vertices at most about 2/MAX_VERTICES apart in it leave out nothing
    that could be seen: between two of them the curve stays in a box of that half perimeter.
    """
    if len(fpr) <= MAX_VERTICES:
        return np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float)
    length = np.asarray(fpr) + np.asarray(tpr)
    kept = np.unique(np.searchsorted(length, np.linspace(0.0, length[-1], MAX_VERTICES)))
    return fpr[kept], tpr[kept]


def _vertical_mean(curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return FPR, mean TPR and sd of TPR over the curves (Fawcett 2006, section 9.1, without a grid).

    A ROC curve jumps wherever negatives end a run of positives, so each FPR that any curve has a vertex at appears
    twice, with the limits from the left and from the right. The mean of piecewise linear functions is then exact:
    the area under it is the mean of the areas.
    """
    grid = np.unique(np.concatenate([fpr for fpr, _ in curves]))
    # np.interp answers a repeated abscissa with the last ordinate, the limit from the right; mirrored, from the left.
    right = np.array([np.interp(grid, fpr, tpr) for fpr, tpr in curves])
    left = np.array([np.interp(-grid, -fpr[::-1], tpr[::-1]) for fpr, tpr in curves])
    heights = np.stack([left, right], axis=2).reshape(len(curves), -1)
    sd = heights.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(heights.shape[1])
    return np.repeat(grid, 2), heights.mean(axis=0), sd


def _plain(values: np.ndarray) -> list[float | None]:
    """Return a list that JSON can hold: it knows neither NaN nor infinity."""
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def _required(value: Part | None, result: MethodResult, what: str) -> Part:
    if not value:
        raise ValueError(
            f"Expected {what} of {result.dataset} / {result.method}, got none (error: {result.error}). "
            "Draw only the cells that succeeded."
        )
    return value


# --- one method: the figures of a tracked run ------------------------------------------------------------------


def roc_figure(result: MethodResult) -> Figure:
    """Draw every fold's test ROC curve thin and their vertical mean bold, with a band of one sd."""
    data = roc_data(result)
    figure = _figure(5.4, 5.2, f"{result.dataset} · {result.method}: ROC on the test folds")
    axes = figure.add_axes((0.12, 0.11, 0.85, 0.8))
    _roc_axes(axes, (0.0, 1.0), (0.0, 1.0))
    for fold in data["folds"]:
        axes.plot(fold["fpr"], fold["tpr"], color="#777777", linewidth=0.7, label="one fold")
    fpr, tpr, sd = (np.array(data["mean"][key]) for key in ("fpr", "tpr", "tpr_sd"))
    low, high = np.clip(tpr - sd, 0, 1), np.clip(tpr + sd, 0, 1)
    band = axes.fill_between(fpr, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
    (mean,) = axes.plot(fpr, tpr, color=COLOURS[0], linewidth=2.4)
    folds = len(data["folds"])
    auc = f"{data['auc']['mean']:.4f} ± {data['auc']['sd']:.4f}"
    entries = {f"mean of {folds} folds, AUC {auc}": mean, "± 1 sd": band, "one fold": axes.lines[1]}
    _legend(axes, {**entries, "chance": axes.lines[0]}, loc="lower right")
    return figure


def convergence_figure(result: MethodResult) -> Figure:
    """Draw objective and dual gap (log scale), and the training AUC, against the updates of the refit."""
    final = _required(result.final, result, "a refitted model")
    history = {name: np.asarray(values, dtype=float) for name, values in final.history.items()}
    title = f"{result.dataset} · {result.method}: refit, {final.status}"
    figure = _figure(7.2, 4.2, title)
    values, ranking = _panels(figure, 2, 1, gap=0.13)
    # Only the margin-mean objective can fall below 0, where a log scale ends: say so rather than mark it exact.
    positive = np.where(history["objective"] > 0, history["objective"], np.nan)
    label = "objective" if np.isfinite(positive).all() else "objective, where positive"
    lines = _log_curve(values, history["updates"], positive, 0, label)
    lines |= _log_curve(values, history["updates"], history["dual_gap"], 1, "dual gap")
    lines |= {"AUC": ranking.plot(history["updates"], history["auc"], **_style(2, len(history["auc"])))[0]}
    _log_axis(values.yaxis, np.concatenate([history["objective"], history["dual_gap"]]))
    _unit_limits(ranking, history["auc"])
    values.set_ylabel("objective and dual gap")
    ranking.set_ylabel("AUC on the training rows")
    for axes in (values, ranking):
        axes.set_xlabel("updates")
        axes.set_xlim(0, 1.04 * max(1.0, history["updates"].max()))
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _compact(value)))
    _legend(figure, lines, loc="lower center", ncols=4)
    return figure


# --- one data set: the figures of the report -------------------------------------------------------------------


def roc_comparison(results: Sequence[MethodResult]) -> Figure | None:
    """Draw every method's mean test ROC curve, whole and at the upper left corner; None if all failed."""
    drawn = [(rank, roc_data(result)) for rank, result in enumerate(results) if result.evaluations]
    if not drawn:
        return None
    rows = _legend_rows(len(drawn), 2)
    figure = _figure(7.2, 3.95 + 0.2 * rows, f"{results[0].dataset}: mean ROC on the test folds")
    whole, corner = _panels(figure, 2, rows)
    _roc_axes(whole, (0.0, 1.0), (0.0, 1.0))
    side = _corner_side([data for _, data in drawn])
    ticks = np.arange(0.0, side + 1e-9, 0.05 if side <= 0.2 else 0.1)
    _roc_axes(corner, (0.0, side), (1.0 - side, 1.0))
    corner.set(ylabel="", xticks=ticks, yticks=1 - ticks)
    lines = {}
    for rank, data in drawn:
        for axes in (whole, corner):
            # 2,000 staircase vertices need no marker each; dashes carry the distinction
            style = _style(rank, MAX_VERTICES)
            (line,) = axes.plot(data["mean"]["fpr"], data["mean"]["tpr"], **style)
        lines[f"{data['method']}  AUC {data['auc']['mean']:.4f} ± {data['auc']['sd']:.4f}"] = line
    _legend(figure, lines, loc="lower center", ncols=2)
    return figure


def search_comparison(results: Sequence[MethodResult], score: str = "AUC") -> Figure | None:
    """Draw the inner validation score against the searched parameter, a panel for each; None without a search."""
    found = [(rank, result.method, search_data(result)) for rank, result in enumerate(results)]
    drawn = [(rank, method, data) for rank, method, data in found if data is not None]
    if not drawn:
        return None
    parameters = list(dict.fromkeys(data["parameter"] for _, _, data in drawn))
    rows = _legend_rows(len(drawn), 3)
    figure = _figure(7.2, 3.95 + 0.2 * rows, f"{results[0].dataset}: inner cross-validation on the training rows")
    panels = dict(zip(parameters, _panels(figure, len(parameters), rows), strict=True))
    lines = {method: _search_curve(panels[data["parameter"]], rank, data) for rank, method, data in drawn}
    spread = [np.add(data["mean"], np.multiply(sign, data["sd"])) for _, _, data in drawn for sign in (-1, 1)]
    for parameter, axes in panels.items():
        shown = [data["values"] for _, _, data in drawn if data["parameter"] == parameter]
        _log_axis(axes.xaxis, np.concatenate(shown))
        _unit_limits(axes, np.concatenate(spread))
        axes.set_xlabel(PARAMETER_LABELS.get(parameter, _drawable(parameter)))
    panels[parameters[0]].set_ylabel(f"validation {score} (band: ± 1 sd)")
    _legend(figure, lines, loc="lower center", ncols=3)
    return figure


def convergence_comparison(results: Sequence[MethodResult]) -> Figure | None:
    """Draw the dual gap of every method's refit against its updates, both on log scales; None if all failed."""
    drawn = [(rank, result.method, result.final) for rank, result in enumerate(results) if result.final is not None]
    if not drawn:
        return None
    rows = _legend_rows(len(drawn) + 1, 3)  # the triangles of exact points take an entry
    figure = _figure(7.2, 3.95 + 0.2 * rows, f"{results[0].dataset}: certificate of the refit")
    (axes,) = _panels(figure, 1, rows)
    lines: dict[str, Line2D] = {}
    updates, gaps = [], []
    for rank, method, final in drawn:
        # A log axis has no place for the state before the first update.
        started = np.asarray(final.history["updates"], dtype=float) > 0
        updates.append(np.asarray(final.history["updates"], dtype=float)[started])
        gaps.append(np.asarray(final.history["dual_gap"], dtype=float)[started] / final.gap_unit)
        lines |= _log_curve(axes, updates[-1], gaps[-1], rank, method)
    _log_axis(axes.xaxis, np.concatenate(updates))
    _log_axis(axes.yaxis, np.concatenate(gaps))
    axes.set_xlabel("updates (each solver's own unit of work)")
    axes.set_ylabel("certificate (units of the objective at w = 0)")
    _legend(figure, lines, loc="lower center", ncols=3)
    return figure


def png_bytes(figure: Figure) -> bytes:
    """Return the figure as PNG: the same bytes for the same figure and the same matplotlib."""
    buffer = io.BytesIO()
    # Level 3 instead of 6: 2 % more bytes for a tenth of the time.
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None}, pil_kwargs={"compress_level": 3})
    return buffer.getvalue()


# --- pieces ----------------------------------------------------------------------------------------------------


def _figure(width: float, height: float, title: str) -> Figure:
    """Return an empty figure, in inches, with a title at the left."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.02, 1 - 0.12 / height, _drawable(title), va="top", fontsize=10, weight="bold", parse_math=False)
    return figure


def _panels(figure: Figure, count: int, legend_rows: int, gap: float = 0.08) -> list[Axes]:
    """Return axes side by side, with room below for the legend: fixed places cost less than a layout engine."""
    height = figure.get_figheight()
    bottom, top = (0.62 + 0.2 * legend_rows) / height, 1 - 0.42 / height
    left, right = 0.1, 0.98
    width = (right - left - gap * (count - 1)) / count
    panels = [figure.add_axes((left + i * (width + gap), bottom, width, top - bottom)) for i in range(count)]
    for axes in panels:
        _frame(axes)
    return panels


def _frame(axes: Axes) -> None:
    axes.grid(True, color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def _roc_axes(axes: Axes, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Label ROC axes and draw the diagonal of chance."""
    _frame(axes)
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1.0, linestyle=(0, (2, 2)))
    margin = 0.01 * (x[1] - x[0])
    axes.set(xlim=(x[0] - margin, x[1]), ylim=(y[0], y[1] + margin))
    axes.set(xlabel="false positive rate (1 − specificity)", ylabel="true positive rate (sensitivity)")


def _corner_side(curves: Sequence[dict[str, Any]]) -> float:
    """Return the side of the upper left corner in which the curves differ: twice the largest equal error rate."""
    means = [(np.array(data["mean"]["fpr"]), np.array(data["mean"]["tpr"])) for data in curves]
    equal_error = max(np.minimum(fpr, 1 - tpr).max() for fpr, tpr in means)
    return float(np.clip(np.ceil(20 * equal_error) / 10, 0.1, 0.5))


def _search_curve(axes: Axes, rank: int, data: dict[str, Any]) -> Line2D:
    mean, sd = np.array(data["mean"]), np.array(data["sd"])
    axes.fill_between(data["values"], mean - sd, mean + sd, color=COLOURS[rank % len(COLOURS)], alpha=0.1, linewidth=0)
    (line,) = axes.plot(data["values"], mean, **_style(rank, len(mean)))
    return line


def _log_curve(axes: Axes, x: np.ndarray, y: np.ndarray, rank: int, label: str) -> dict[str, Line2D]:
    """Plot y where a log axis can hold it and return what the legend says.

    A gap of 0, or one lost in rounding, is the best news of all: it becomes an open triangle on the lower edge.
    """
    shown = np.isfinite(y) & (y > EXACT)
    exact = np.isfinite(y) & ~shown
    (line,) = axes.plot(x[shown], y[shown], **_style(rank, int(shown.sum())))
    if not exact.any():
        return {label: line}
    colour, edge = COLOURS[rank % len(COLOURS)], np.full(int(exact.sum()), 0.02)
    mark = dict[str, Any](linestyle="none", marker="v", markersize=8, markerfacecolor="white", color=colour)
    (zero,) = axes.plot(x[exact], edge, transform=axes.get_xaxis_transform(), **mark)
    return {f"{label}: 0 (exact)": zero} if exact.all() else {label: line, "0 (exact)": zero}


def _log_axis(axis: XAxis | YAxis, values: np.ndarray) -> None:
    """Give an axis a log scale over the decades around the positive values.

    Fixed ticks with plain-text labels: matplotlib's own log labels go through its mathematics parser and would
    cost as much as the rest of the figure.
    """
    positive = values[np.isfinite(values) & (values > EXACT)]
    exponents = np.log10(positive) if len(positive) else np.zeros(1)
    # An exponent off by rounding must not open another decade.
    low, high = int(np.floor(exponents.min() + 1e-9)), int(np.ceil(exponents.max() - 1e-9))
    if low == high:
        low, high = low - 1, high + 1
    margin = 10 ** (0.04 * (high - low))
    limits = (10.0**low / margin, 10.0**high * margin)
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": limits})
    step = -(-(high - low) // 7)
    axis.set_major_locator(FixedLocator([10.0**e for e in range(low, high + 1, step)]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _power_of_ten(value)))


def _unit_limits(axes: Axes, values: np.ndarray) -> None:
    """Set the limits of an axis of AUC or G-mean around the values, never narrower than 0.01 and hardly above 1."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.5, 1.0)
    margin = max(0.005, 0.06 * (high - low))
    axes.set_ylim(max(0.0, low - margin), min(1.003, high + margin))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3f}"))


def _style(rank: int, points: int) -> dict[str, Any]:
    """Return the look of the method with this rank; markers only where the points are few enough to be told apart.

    7 colours and 5 dash patterns have no common factor, so 35 methods get 35 different pairs.
    """
    marker = MARKERS[rank % len(MARKERS)] if points <= 40 else None
    style = {"color": COLOURS[rank % len(COLOURS)], "linestyle": DASHES[rank % len(DASHES)], "linewidth": 1.6}
    return {**style, "marker": marker, "markersize": 4.5, "markeredgewidth": 0}


def _legend_rows(entries: int, columns: int) -> int:
    return -(-entries // columns)


def _legend(parent: Axes | Figure, entries: dict[str, Any], **place: Any) -> None:
    legend = parent.legend(
        list(entries.values()), [_drawable(e) for e in entries], fontsize=8.5, handlelength=3, frameon=False, **place
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _drawable(text: str) -> str:
    """Return the text with what matplotlib's own font cannot draw replaced, and not longer than a title may be.

    DejaVu Sans covers the Latin, Greek and Cyrillic blocks and the signs used here; a missing glyph would warn.
    """
    seen = "".join(c if (c.isprintable() and ord(c) < 0x0530) or c in "−–…" else "?" for c in text)
    return seen if len(seen) <= 78 else f"{seen[:77]}…"


def _power_of_ten(value: float) -> str:
    """Return a tick label: 10⁻³, and plainly 1 and 10."""
    exponent = round(np.log10(value))
    return {0: "1", 1: "10"}.get(exponent, f"10{str(exponent).translate(SUPERSCRIPTS)}")


def _compact(value: float) -> str:
    """Return a count in short: 250k, 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"
