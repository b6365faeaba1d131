"""The retraining flow: newest data → check → changed? → train → judge against the champion → register → report.

The parent run in MLflow is the retraining: the child is the challenger's training, the decision and the report are
the parent's. Whatever breaks off leaves the champion as it was.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow

from flows.experiment import prepare, run_method
from tasks import registry, store
from tasks.decide import Decision
from tasks.errors import RunFailed
from tasks.flow_runs import AS_TEXT, claim_flow_run
from tasks.log import run_logger
from tasks.report import write_report
from tasks.retraining import (
    Opponent,
    RetrainConfig,
    alone,
    challenge,
    fingerprint,
    meet_champion,
    record_other_bytes,
    what_changed,
)
from tasks.stage import stage
from tasks.track import TrackedRun, log_text, track_decision, track_experiment, tracked_experiment
from tasks.values import ExperimentResult, MethodResult, Prepared


@dataclass(frozen=True)
class Outcome:
    """What a retraining came to; without a decision nothing was trained."""

    model: str
    reason: str
    champion: registry.Version | None  # that serves now
    cause: str = ""  # why something was trained
    version: registry.Version | None = None  # that was made
    decision: Decision | None = None
    report: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it: versions by their numbers, each rule with what it found."""
        decision = None if self.decision is None else self.decision.as_dict()
        return {
            "model": self.model,
            "champion": None if self.champion is None else self.champion.number,
            "made": None if self.version is None else self.version.number,
            "run_id": None if self.version is None else self.version.run_id,
            "because": self.cause or None,
            "promoted": None if decision is None else decision["promote"],
            "reason": self.reason,
            "rules": [] if decision is None else decision["judged"],
            "report": None if self.report is None else str(self.report),
        }


@flow(name="retrain", flow_run_name="retrain {config.model}", validate_parameters=False, **AS_TEXT)
def retrain(config: RetrainConfig, force: bool = False, replace_champion: bool = False) -> Outcome:
    """Train a challenger if anything has changed, and promote it if the rules say so.

    ``force`` trains though nothing has changed; ``replace_champion`` does too, and promotes over a champion that cannot
    be compared. The model changes hands last of all, so that whatever fails before leaves the champion as it was.
    """
    claim_flow_run()
    client, experiment = store.open_store(), config.experiment
    with alone(config.model):
        registry.check_agreement(client, store.ledger(), config.model)
        prepared = prepare(experiment.datasets[0], experiment)
        now = fingerprint(config, prepared.dataset)
        versions = registry.versions(client, config.model)
        cause = what_changed(versions, now)
        champion = registry.champion(client, config.model)
        if not (cause or force or replace_champion):
            check_files(champion)
            record_other_bytes(client, versions[-1], prepared.dataset)
            reason = "data, config and code are those of the newest version: nothing to train"
            if champion is not None and champion.number != versions[-1].number:
                reason += f". That is {_name(versions[-1])}, which does not serve; --force trains it again"
            run_logger().info("%s: skipped: %s", config.model, reason)
            return Outcome(config.model, reason, champion)
        cause = cause or "it was asked for"
        run_logger().info("%s: training, for %s", config.model, cause)
        with tracked_experiment(experiment, (prepared.dataset,)) as run:
            log_text(run, "retrain.json", config.model_dump_json(indent=2))
            cell = run_method(prepared, experiment.methods[0], experiment, run)
            if cell.error:
                raise RunFailed(f"{config.model}: the challenger could not be trained: {cell.error}")
            opponent = meet_champion(client, champion, config, prepared.dataset, prepared.refit) if champion else None
            decision = decide_and_log(run, prepared, cell, config, opponent, replace_champion)
            report = report_retraining(run, prepared, cell, decision, {"cause": cause, "against": _name(champion)})
            version = register(run, cell, decision, champion, now, config.model)
        return Outcome(
            config.model, decision.reason, registry.champion(client, config.model), cause, version, decision, report
        )


def check_files(champion: registry.Version | None) -> None:
    """Raise RunFailed if the champion's files are gone from this machine: with nothing to train it would stay so."""
    files = None if champion is None else store.artifact_path(champion.source)
    if files is not None and not files.is_dir():
        raise RunFailed(
            f"Expected the files of {_name(champion)}, the champion, at {files}, got none. Restore them, or train "
            "another with --force."
        )


def _name(version: registry.Version | None) -> str:
    return "none yet" if version is None else f"{version.model}/{version.number}"


def decide_and_log(
    run: TrackedRun,
    prepared: Prepared,
    cell: MethodResult,
    config: RetrainConfig,
    opponent: Opponent | None,
    replace_champion: bool,
) -> Decision:
    """Judge the challenger; keep the decision, and the scores' distribution for the next one, in the parent run."""
    made = challenge(
        config, prepared.dataset, prepared.refit, cell.all_models[-1], prepared.findings, opponent, replace_champion
    )
    track_decision(run, made.decision)
    for name, text in made.kept.as_files().items():
        log_text(run, name, text)
    return made.decision


def report_retraining(
    run: TrackedRun, prepared: Prepared, cell: MethodResult, decision: Decision, told: dict[str, str]
) -> Path:
    """Write the page of the retraining and keep it in its parent run; ``told`` goes beside the decision."""
    dataset = prepared.dataset
    result = ExperimentResult(
        name=run.experiment,
        datasets=(dataset,),
        findings={dataset.name: prepared.findings},
        results=(cell,),
        config=run.sections["config"],
        run_id=run.run_id,
        facts=run.facts,
        decision=decision.as_dict() | told,
    )
    report = write_report(result, (store.FOLDER / "reports" / f"{run.experiment}-{run.run_id[:8]}.html").resolve())
    track_experiment(run, result, report)
    return report


@stage(name="register", task_run_name="register {model}")
def register(
    run: TrackedRun,
    cell: MethodResult,
    decision: Decision,
    champion: registry.Version | None,
    now: dict[str, str],
    model: str,
) -> registry.Version:
    """Make the challenger a version, and the champion if it is to be: whole, or not at all."""
    return registry.register_and_promote(
        run.client,
        store.ledger(),
        model,
        cell.run_id,
        decision.as_dict(),
        decision.reason,
        decision.promote,
        now | {"manifest_sha256": cell.manifest_sha256, "retraining": run.run_id},
        against=None if champion is None else champion.number,
    )
