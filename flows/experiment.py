"""The experiment flow: download → convert → check → split → search → undersample → train → evaluate → report."""

import time
from dataclasses import replace
from pathlib import Path

from prefect import flow

from flows.preflight import conversion_rule
from flows.signals import is_stopped
from tasks.cell import cell_seed, compute, divide, identity
from tasks.configuration import DatasetConfig, ExperimentConfig, MethodConfig
from tasks.convert import convert
from tasks.download import download
from tasks.errors import RunFailed
from tasks.flow_runs import AS_TEXT, claim_flow_run
from tasks.log import run_logger
from tasks.progress import announce
from tasks.report import write_report
from tasks.store import FOLDER
from tasks.track import TrackedRun, close_run, reason_of, start_child, track, track_experiment, tracked_experiment
from tasks.values import ExperimentResult, MethodResult, Prepared


@flow(name="experiment", flow_run_name="{config.name}", validate_parameters=False, **AS_TEXT)
def run_experiment(config: ExperimentConfig) -> tuple[ExperimentResult, Path]:
    """Run every method on every data set; return the result and where its report is.

    All data are read and checked before anything is written to the store, so bad input leaves no trace there.
    """
    claim_flow_run()
    prepared = [prepare(entry, config) for entry in config.datasets]
    with tracked_experiment(config, tuple(p.dataset for p in prepared)) as run:
        cells = [run_method(p, method, config, run) for p in prepared for method in config.methods]
        result = ExperimentResult(
            name=config.name,
            datasets=tuple(p.dataset for p in prepared),
            findings={p.dataset.name: p.findings for p in prepared},
            results=tuple(cells),
            config=config.model_dump(mode="json"),
            run_id=run.run_id,
            facts=run.facts,
        )
        report = write_report(result, (FOLDER / "reports" / f"{config.name}-{run.run_id[:8]}.html").resolve())
        track_experiment(run, result, report)
        failed = [cell for cell in cells if cell.error]
        if failed:
            reasons = "; ".join(f"{c.dataset} {c.method}: {c.error}" for c in failed)
            raise RunFailed(f"{len(failed)} of {len(cells)} cells failed: {reasons}", (result, report))
    return result, report


def prepare(entry: DatasetConfig, config: ExperimentConfig) -> Prepared:
    """Bring one data set in: download, convert, check, split."""
    announce("download", entry.name)
    raw = download(entry.name, entry.source, entry.format, config.offline)
    announce("convert", entry.name)
    dataset = convert(raw, conversion_rule(entry, config.offline))
    announce("check", entry.name)
    prepared = divide(dataset, config)
    announce("split", entry.name, done=True)
    return prepared


def run_method(prepared: Prepared, method: MethodConfig, config: ExperimentConfig, parent: TrackedRun) -> MethodResult:
    """Track one method on one data set; a failure is this cell's own and is tracked."""
    seed = cell_seed(config, prepared.dataset.name, method)
    child = start_child(parent, prepared, method, config, seed)
    start = time.perf_counter()
    try:
        result = compute(prepared, method, config, seed)
        track(child, prepared.dataset, method, result, config, seed)
        digest = close_run(child, "FINISHED")
        # of a million features, what the folds of a few methods have fitted takes gigabytes, and is recorded by now
        models = tuple(replace(model, pipeline=None) for model in result.models)
        samples = tuple(replace(sample, preprocessing=None) for sample in result.samples)
        return replace(result, models=models, samples=samples, run_id=child.run_id, manifest_sha256=digest)
    except (Exception, SystemExit) as error:
        if is_stopped(error):
            close_run(child, "KILLED", "interrupted")
            raise KeyboardInterrupt from error
        reason = reason_of(error)
        run_logger().error("%s %s failed: %s", prepared.dataset.name, method.label, reason)
        ended = {"run_id": child.run_id, "manifest_sha256": close_run(child, "FAILED", reason), "error": reason}
        return MethodResult(**(identity(prepared.dataset, method) | ended), seconds=time.perf_counter() - start)
    except BaseException:
        close_run(child, "KILLED", "interrupted")
        raise
