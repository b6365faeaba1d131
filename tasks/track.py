"""Track: one MLflow parent run per experiment, one child run per (data set, solver, sampler).

All calls go through one client with explicit run ids, from one thread. What was sent to a run is remembered and goes
into its manifest, which is the last thing written. A run ends in the ledger first and in the store then, so that the
store never claims what the ledger does not. One that breaks off is marked FAILED with the reason in the tag
``aucflow.reason`` and in its note.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Dataset as MlflowDataset
from mlflow.entities import DatasetInput, InputTag, LoggedModel, Metric, Param, Run
from mlflow.exceptions import MlflowException
from mlflow.utils.time import get_current_time_millis
from prefect.runtime import flow_run

from aucsolvers.adapters import chains, unwrapped
from tasks import numeric, plots, store
from tasks.configuration import ExperimentConfig, MethodConfig, is_number
from tasks.convert import load
from tasks.decide import Decision
from tasks.errors import RunFailed, without_password
from tasks.facts import environment, git_state, processor, user_name
from tasks.files import file_sha256
from tasks.ledger import canonical
from tasks.log import run_logger
from tasks.manifest import (
    artifact_sections,
    cell_list,
    cell_sections,
    code_section,
    environment_section,
    experiment_sections,
    fold_sections,
    plain,
)
from tasks.manifests import FILE, SCHEMA, SIGNATURE, inputs_of, metric_summary, utc
from tasks.models import log_ranker, make_ranker
from tasks.openlineage import emit
from tasks.progress import RECORDED, announce
from tasks.recovery import PROCESS, this_process
from tasks.runs import PARENT
from tasks.signing import PRIVATE_KEY, key_path, sign, signing_key
from tasks.stage import stage
from tasks.values import Dataset, Evaluation, ExperimentResult, FittedModel, MethodResult, Prepared, Scores

LARGEST_PARAM = 6000  # MLflow's limit on the length of a parameter's value
LARGEST_BATCH = 1000  # MLflow's limit on the metrics of one call
HOW_TO_READ = (
    "Parameters and model are those of the fit to all rows{held_out}. Metrics ending in `_mean` and `_sd` are over the "
    "folds, in `_mean_low` and `_mean_high` the ends of the 95 % interval of that mean; others in `train_…` and "
    "`test_…`, `threshold`, `certificate`, `chosen_…`, `rows_…`, `fit_s` and `search_s` have a value for each fold, "
    "which is the step, and what stands beside their names is the last one's. Seconds leave out `compile_s`, those of "
    "compiling kernels. `objective`, `dual_gap` and `auc`, of the training rows, are the solver's on its way."
)


@dataclass
class Logged:
    """What was sent to one run: what MLflow has to show for it when an auditor asks."""

    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, list[Metric]] = field(default_factory=dict)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    model: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as the manifest has it: every metric with its last value and a digest over all of them."""
        metrics = {name: metric_summary(values) for name, values in self.metrics.items()}
        return plain(vars(self) | {"metrics": metrics})


class TrackedRun:
    """An open MLflow run; ``sections`` is what its manifest will tell beside what all have in common.

    No dataclass: Prefect looks for futures in all that is in one, twice for each task that is called with it. That went
    through the manifests of all cells so far: each cell took longer than the one before.
    """

    def __init__(
        self, client: MlflowClient, run: Run, experiment: str, facts: dict[str, str], sections: dict[str, Any]
    ) -> None:
        self.client = client
        self.run = run
        self.experiment = experiment
        self.facts = facts
        self.sections = sections
        self.logged = Logged()
        self.parents: tuple[str, ...] = ()
        self.manifests: list[dict[str, Any]] = []  # of this run and those below it, as they ended
        self.causes: list[str] = []  # of ends of these runs that the store did not take, the first one first
        self.ended: dict[str, Any] | None = None  # what the ledger has of its end

    @property
    def run_id(self) -> str:
        return self.run.info.run_id


@contextmanager
def tracked_experiment(config: ExperimentConfig, datasets: tuple[Dataset, ...]) -> Iterator[TrackedRun]:
    """Open the parent run; mark it FAILED, or KILLED on an interrupt, if the block does not come to its end."""
    signing_key()  # one that cannot sign is told of before the run
    client = store.open_store()
    facts = git_state() | environment() | _facts_of_run(config)
    experiment_id = store.experiment_id(client, config.name)
    sections = {"kind": "experiment"} | experiment_sections(config, datasets)
    run = _start(client, experiment_id, config.name, config.name, facts, {}, sections)
    try:
        _log_params(run, _flat(config.model_dump(mode="json")))
        log_text(run, "config.json", config.model_dump_json(indent=2))
        _log_inputs(run, datasets)
        yield run
    except Exception as error:
        close_run(run, "FAILED", reason_of(error))
        raise
    except BaseException as error:
        close_run(run, "KILLED", "interrupted")
        error.add_note("the run is marked KILLED in MLflow")
        raise
    else:
        close_run(run, "FINISHED")
        announce(RECORDED, config.name)
    finally:
        emit(run.manifests)


def start_child(
    parent: TrackedRun, prepared: Prepared, method: MethodConfig, config: ExperimentConfig, seed: int
) -> TrackedRun:
    """Open the run of one (data set, solver, sampler) under the parent."""
    tags = {
        PARENT: parent.run_id,
        "aucflow.dataset": prepared.dataset.name,
        "aucflow.solver": method.solver,
        "aucflow.sampler": method.sampler,
        "aucflow.kernel": method.kernel,
    }
    name, experiment_id = f"{prepared.dataset.name} {method.label}", parent.run.info.experiment_id
    sections = {"kind": "run"} | cell_sections(prepared, method, config, seed)
    run = _start(parent.client, experiment_id, parent.experiment, name, parent.facts, tags, sections)
    run.parents, run.manifests, run.causes = (*parent.parents, parent.run_id), parent.manifests, parent.causes
    return run


def close_run(run: TrackedRun, status: str, reason: str | None = None) -> str:
    """End a run with a status, and with the reason where it did not finish; return its manifest's digest.

    The order is that of the claims: the manifest, then the ledger's entry with its digest, then the store's status.

    Of a run that did not finish, the ledger has the end, with the reason and without a manifest, also where the store
    does not take it: a server may have gone away. The next command brings it to the store. What the ledger has as ended
    is not ended otherwise: a second call only tells the store once more.

    Raises
    ------
    RunFailed
        If so, unless the run was interrupted, which is what the caller then goes on to tell.
    """
    if run.ended is not None:
        _tell_store(run)
        return str(run.ended["manifest_sha256"] or "")
    try:
        if status != "FINISHED" and not store.answers():  # each of the calls to follow would wait for it on end
            raise MlflowException("it does not answer")
        return _close(run, status, reason)
    except MlflowException as error:
        if status == "FINISHED":
            raise
        _end_in_ledger(run, reason or status, _facts_of_end(run, status, get_current_time_millis()))
        if status == "FAILED":
            because = reason or status
            run.causes.append(store.what_it_said(Exception(because.partition(": ")[2] or because)))
        first = f" ({run.causes[0]})" if run.causes and run.causes[0] not in str(error) else ""
        told = f"The ledger has it as {status}{first}; the next command brings that to the store."
        words = f"{_not_taken(run, error)} {told}"
        if status == "KILLED":
            run_logger().warning("%s", words)
            return ""
        raise RunFailed(words) from error


def _not_taken(run: TrackedRun, error: MlflowException) -> str:
    name = f"{run.run.info.run_name} ({run.run_id[:8]})"
    return f"Expected the MLflow store to take the end of run {name}, got: {store.what_it_said(error)}."


def _close(run: TrackedRun, status: str, reason: str | None) -> str:
    if reason:
        _set_tags(run, {"aucflow.reason": reason[:LARGEST_PARAM], "mlflow.note.content": reason[:LARGEST_PARAM]})
    end_time = get_current_time_millis()
    content = _manifest(run, status, reason, end_time)
    manifest = canonical(content)
    run.client.log_text(run.run_id, manifest.decode(), FILE)
    signature = _sign(run, manifest)
    digest = hashlib.sha256(manifest).hexdigest()
    data = _facts_of_end(run, status, end_time, digest) | ({"signature_sha256": signature} if signature else {})
    _end_in_ledger(run, reason or "finished", data)
    run.manifests.append(content)
    _tell_store(run)
    return digest


def _end_in_ledger(run: TrackedRun, reason: str, facts: dict[str, Any]) -> None:
    store.ledger().append("run", run.run_id, reason, facts)
    run.ended = facts


def _tell_store(run: TrackedRun) -> None:
    """End a run in the store as the ledger has it; a store that does not take that is as a crash between the two."""
    facts = run.ended or {}
    try:
        run.client.set_terminated(run.run_id, facts["status"], facts["end_time"])
    except MlflowException as error:
        run_logger().warning("%s The ledger has it: a later command ends it in the store.", _not_taken(run, error))


def _facts_of_end(run: TrackedRun, status: str, end_time: int, manifest_sha256: str | None = None) -> dict[str, Any]:
    """Return what the ledger keeps of a run's end."""
    return {
        "experiment": run.experiment,
        "name": run.run.info.run_name,
        "status": status,
        "end_time": end_time,
        "manifest_sha256": manifest_sha256,
        "parent": next(reversed(run.parents), None),
    }


def _sign(run: TrackedRun, manifest: bytes) -> str | None:
    """Put the manifest's signature beside it and return its digest; None where the environment names no key."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        path.write_bytes(manifest)
        signature = path.with_name(SIGNATURE)
        if not sign(path, signature, key_path(PRIVATE_KEY)):
            return None
        run.client.log_artifact(run.run_id, str(signature))
        return file_sha256(signature)


def _manifest(run: TrackedRun, status: str, reason: str | None, end_time: int) -> dict[str, Any]:
    with ExitStack() as stack:
        uris = {"run": run.run.info.artifact_uri}
        if run.logged.model:
            uris["model"] = run.logged.model["artifact_location"]
        folders = {name: stack.enter_context(store.artifact_folder(uri)) for name, uri in uris.items()}
        artifacts = artifact_sections(folders)
    return {
        "schema": SCHEMA,
        **run.sections,
        "run": _run_section(run) | {"ended": utc(end_time), "status": status, "reason": reason},
        "store": run.logged.as_dict(),
        "artifacts": artifacts,
        "code": code_section(run.facts, run.sections),
        "environment": environment_section(run.facts),
    }


def _run_section(run: TrackedRun) -> dict[str, Any]:
    info = run.run.info
    return {
        "run_id": run.run_id,
        "experiment_id": info.experiment_id,
        "experiment": run.experiment,
        "name": info.run_name,
        "artifact_uri": info.artifact_uri,
        "parents": list(run.parents),
        "prefect_flow_run_id": run.facts["prefect_flow_run_id"],
        "started": utc(info.start_time),
        "user": run.facts["user"],
    }


@stage(name="track", task_run_name="track {result.dataset} {result.method}")
def track(
    run: TrackedRun, dataset: Dataset, method: MethodConfig, result: MethodResult, config: ExperimentConfig, seed: int
) -> None:
    """Log everything that one cell produced to its child run, the refitted model included."""
    run.sections.update(fold_sections(result, seed))
    announce("track", result.dataset, result.method)
    settings = config.model_dump(include={"validation", "preprocessing"}, mode="json")
    _log_params(run, _cell_params(dataset, method, result, config, seed) | _flat(settings))
    _log_inputs(run, (dataset,))
    _set_tags(run, {"mlflow.note.content": _how_to_read(result)})
    # the model before the metrics, which can then name it; the other way round MLflow reads every metric back
    final = result.all_models[-1]
    model_id = _log_model(run, dataset, final)
    metrics = [*_fold_metrics(result), *_mean_metrics(result), *_history_metrics(final)]
    _log_metrics(run, metrics, model_id)
    _log_curves(run, result)
    _log_numbers(run, result)
    log_text(run, "config.json", config.model_dump_json(indent=2))
    log_text(run, "folds.json", json.dumps(plain(_fold_table(result)), allow_nan=False, indent=2))


def _how_to_read(result: MethodResult) -> str:
    return HOW_TO_READ.format(held_out="" if result.held_out is None else " but those held out")


def _cell_params(
    dataset: Dataset, method: MethodConfig, result: MethodResult, config: ExperimentConfig, seed: int
) -> dict[str, Any]:
    """Return what made the refitted model of a cell, those of solver, sampler and kernel under their names."""
    final = result.all_models[-1]
    params = {
        "dataset": dataset.name,
        "dataset_sha256": dataset.sha256,
        "solver": method.solver,
        "sampler": method.sampler,
        "kernel": method.kernel,
        "committee": method.committee,
        "probabilities": method.probabilities or "none",
        "sampler_scheme": result.samples[-1].scheme,
        "seed": config.seed,
        "method_seed": seed,
        "threshold": final.threshold,
        "threshold_set_on": final.threshold_set_on,
    }
    solver = unwrapped(final.pipeline[-1])
    params |= {f"solver__{k}": v for k, v in solver.get_params().items()}
    params |= {f"sampler__{k}": v for k, v in method.sampler_settings.items()}
    kernel = chains(final.pipeline)[0].named_steps.get("kernel")
    if kernel is not None:
        params |= {f"kernel__{k}": v for k, v in kernel.get_params().items()} | {"gamma": kernel.gamma_}
    return params


def _log_model(run: TrackedRun, dataset: Dataset, final: FittedModel) -> str:
    with store.mlflow_on_store():
        mlflow.start_run(run_id=run.run_id)
        try:
            table = load(dataset)
            params = {name: str(value) for name, value in final.chosen.items()}
            info = log_ranker(make_ranker(final, dataset, table), table, params, dataset.layout)
        except Exception:
            _settle_half_logged(run)
            raise
        finally:
            mlflow.end_run("RUNNING")  # it goes on: as a context, the store would have it FINISHED before the ledger
    run.logged.model = _model_facts(run.client.get_logged_model(info.model_id))
    return info.model_id


def _settle_half_logged(run: TrackedRun) -> None:
    """Take in a model of which the logging broke off, or mark it deleted if it is no output of the run yet.

    Otherwise it would be one too many for whoever holds the store against the run's manifest.
    """
    with suppress(MlflowException):  # the store may be gone: then so be it
        outputs, home = run.client.get_run(run.run_id).outputs, run.run.info.experiment_id
        logged = {output.model_id for output in outputs.model_outputs} if outputs else set()
        for model in run.client.search_logged_models([home], f"source_run_id = '{run.run_id}'"):
            if model.model_id in logged:
                run.logged.model = _model_facts(model) | {"status": str(model.status)}
            else:
                run.client.delete_logged_model(model.model_id)


def _model_facts(model: LoggedModel) -> dict[str, Any]:
    return {
        "model_id": model.model_id,
        "name": model.name,
        "artifact_location": model.artifact_location,
        "source_run_id": model.source_run_id,
        "params": dict(model.params),
        "tags": dict(model.tags),
    }


@stage(name="track experiment", task_run_name="track {result.name}")
def track_experiment(run: TrackedRun, result: ExperimentResult, report: Path) -> None:
    """Log the parent run's summary: each cell's means, and the report."""
    run.sections["cells"] = cell_list(result.results)
    announce("track", result.name)
    metrics = []
    for cell in result.results:
        if cell.error is None:
            for metric in ("auc", "gmean"):
                metrics.append(_metric(f"{cell.dataset}/{cell.method}/test_{metric}_mean", cell.mean_sd(metric)[0]))
    _log_metrics(run, metrics)
    run.client.log_artifact(run.run_id, str(report))


def track_decision(run: TrackedRun, decision: Decision) -> None:
    """Log a retraining's decision, and what each of its rules found as a metric: MLflow's search goes by these."""
    run.sections["decision"] = decision.as_dict()
    log_text(run, "decision.json", json.dumps(decision.as_dict(), indent=2))
    found = {judged.rule: judged.value for judged in decision.judged if judged.value is not None}
    _log_metrics(run, [_metric(f"decision/{rule}", value) for rule, value in found.items()])


def dataset_input(dataset: Dataset) -> DatasetInput:
    """Return the data set as MLflow knows one; the digest column holds 36 characters, the tag all 64."""
    source = {"source": dataset.raw.source, "raw_sha256": dataset.raw.sha256, "raw_size_bytes": dataset.raw.size_bytes}
    profile = {
        "num_rows": dataset.n_rows,
        "num_features": dataset.n_features,
        "n_pos": dataset.n_pos,
        "n_neg": dataset.n_neg,
        "sha256": dataset.sha256,
        "rule": dataset.provenance.rule,
        "label_counts": dataset.provenance.label_counts,
        "label_sides": dataset.provenance.label_sides,
        "rows_left_out": dataset.provenance.rows_left_out,
    }
    entity = MlflowDataset(
        name=dataset.name,
        digest=dataset.sha256[:36],
        source_type="local",
        source=json.dumps(source),
        profile=json.dumps(profile),
    )
    return DatasetInput(entity, [InputTag("mlflow.data.context", "training"), InputTag("sha256", dataset.sha256)])


def _start(
    client: MlflowClient,
    experiment_id: str,
    experiment: str,
    name: str,
    facts: dict[str, str],
    tags: dict[str, str],
    sections: dict[str, Any],
) -> TrackedRun:
    known = {"mlflow.source.name": "aucflow run", "mlflow.source.type": "LOCAL", "mlflow.user": facts["user"]}
    if len(facts["git_commit"]) == 40:
        known["mlflow.source.git.commit"] = facts["git_commit"]
    own = {PROCESS: this_process(), store.LEDGER: store.ledger_place()}
    known |= {f"aucflow.{k}": v for k, v in facts.items()} | own | tags
    run = client.create_run(experiment_id, run_name=name, tags=known)
    tracked = TrackedRun(client, run, experiment, facts, sections)
    tracked.logged.tags.update(known)
    return tracked


def _set_tags(run: TrackedRun, tags: dict[str, str]) -> None:
    for name, value in tags.items():
        run.client.set_tag(run.run_id, name, value)
    run.logged.tags.update(tags)


def _log_inputs(run: TrackedRun, datasets: tuple[Dataset, ...]) -> None:
    run.client.log_inputs(run.run_id, [dataset_input(dataset) for dataset in datasets])
    # of data that a run of the experiment logged before, MLflow keeps and shows what that one said of their source
    run.logged.inputs = inputs_of(run.client.get_run(run.run_id))


def _facts_of_run(config: ExperimentConfig) -> dict[str, str]:
    return {
        "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seed": str(config.seed),
        "workers": str(config.workers),
        "prefect_flow_run_id": str(flow_run.id or "none"),
        "user": user_name(),
        "machine": f"{processor()}, {os.cpu_count()} cores",
    }


def _fold_metrics(result: MethodResult) -> Iterator[tuple[str, float, int]]:
    for evaluation in result.evaluations:
        yield _metric("threshold", evaluation.threshold, evaluation.fold)
    for part in ("train", "test"):
        for name in Scores.__dataclass_fields__:
            values = result.fold_values(name, part)
            if not np.isfinite(values).all():
                continue  # an interval that one fold has and the next has not would stand beside another fold's AUC
            for evaluation, value in zip(result.evaluations, values, strict=True):
                yield _metric(f"{part}_{name}", value, evaluation.fold)
    for sample in result.samples[:-1]:
        yield _metric("rows_kept", len(sample.rows), sample.fold)
        if sample.n_added:
            yield _metric("rows_added", sample.n_added, sample.fold)
    for model in result.models:
        yield _metric("fit_s", model.fit_s, model.fold)
        yield _metric("search_s", model.search_s, model.fold)
        yield _metric("certificate", model.certificate, model.fold)
        for name, value in model.chosen.items():
            if not is_number(value):  # a word, such as a scaling: it is in folds.json
                continue
            yield _metric(f"chosen_{name}", value, model.fold)


def _mean_metrics(result: MethodResult) -> Iterator[tuple[str, float, int]]:
    for part in ("train", "test"):
        for name in Scores.__dataclass_fields__:
            if name.startswith("n_"):
                continue
            mean, sd = result.mean_sd(name, part)
            yield _metric(f"{part}_{name}_mean", mean)
            yield _metric(f"{part}_{name}_sd", sd)
    for name, (low, high) in {"auc": result.auc_interval(), "gmean": result.gmean_interval()}.items():
        if low < high:  # a point, where no test row is ranked wrongly, would claim certainty
            yield _metric(f"test_{name}_mean_low", low)
            yield _metric(f"test_{name}_mean_high", high)
    if result.held_out is not None:
        for name, value in asdict(result.held_out.test).items():
            yield _metric(f"held_out_{name}", value)
    yield _metric("seconds", result.seconds)
    yield _metric("compile_s", result.compile_s)


def _history_metrics(model: FittedModel) -> Iterator[tuple[str, float, int]]:
    """Yield objective, certificate and training AUC of the refit, stepped by updates."""
    for name in ("objective", "dual_gap", "auc"):
        for updates, value in zip(model.history["updates"], model.history[name], strict=True):
            yield _metric(name, value, int(updates))


def _fold_table(result: MethodResult) -> list[dict[str, Any]]:
    def row(evaluation: Evaluation, model: FittedModel) -> dict[str, Any]:
        return {
            "fold": evaluation.fold,
            "threshold": evaluation.threshold,
            "train": asdict(evaluation.train),
            "test": asdict(evaluation.test),
            "chosen": model.chosen,
            "search": model.search,
            "status": model.status,
            "dual_gap": model.dual_gap,
        }

    return [row(e, m) for e, m in zip(result.evaluations, result.models, strict=True)]


def _log_curves(run: TrackedRun, result: MethodResult) -> None:
    curves = {
        "roc": (plots.roc_figure, plots.roc_data),
        "convergence": (plots.convergence_figure, plots.convergence_data),
    }
    if not result.all_models[-1].is_certified:
        del curves["convergence"]
    with tempfile.TemporaryDirectory() as folder:
        for name, (figure, data) in curves.items():
            Path(folder, f"{name}.png").write_bytes(plots.png_bytes(figure(result)))
            Path(folder, f"{name}.json").write_text(json.dumps(data(result)), encoding="utf-8")
        run.client.log_artifacts(run.run_id, folder, "curves")


def _log_numbers(run: TrackedRun, result: MethodResult) -> None:
    """Keep coefficients and test scores, so that a replay elsewhere can say how far off it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, numeric.FILE)
        numeric.write_numbers(path, numeric.numbers_of(result))
        run.client.log_artifact(run.run_id, str(path))


def log_text(run: TrackedRun, name: str, text: str) -> None:
    """Keep a text among a run's artifacts."""
    run.client.log_text(run.run_id, text, name)


def _log_params(run: TrackedRun, params: dict[str, Any]) -> None:
    entries = [Param(k, str(v)[:LARGEST_PARAM]) for k, v in params.items()]
    for start in range(0, len(entries), 100):
        run.client.log_batch(run.run_id, params=entries[start : start + 100])
    run.logged.params |= {entry.key: entry.value for entry in entries}


def _log_metrics(run: TrackedRun, metrics: list[tuple[str, float, int]], model_id: str | None = None) -> None:
    now = get_current_time_millis()
    # a NaN (one positive: no DeLong variance) is no metric
    finite = [
        Metric(_metric_name(name), value, now, step, model_id=model_id)
        for name, value, step in metrics
        if np.isfinite(value)
    ]
    for start in range(0, len(finite), LARGEST_BATCH):
        run.client.log_batch(run.run_id, metrics=finite[start : start + LARGEST_BATCH])
    for metric in finite:
        run.logged.metrics.setdefault(metric.key, []).append(metric)


def _metric(name: str, value: float, step: int = 0) -> tuple[str, float, int]:
    return name, float(value), step


def _metric_name(name: str) -> str:
    """Return the name with every character that MLflow refuses replaced."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name)


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested sections as one level with dotted names; lists stay as text."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat


def reason_of(error: BaseException) -> str:
    """Return why a run failed; a solver's or a sampler's own code that ends the process ends its cell alone."""
    words = f"something called sys.exit({error.code!r})" if isinstance(error, SystemExit) else str(error)
    return without_password(f"{type(error).__name__}: {words}")
