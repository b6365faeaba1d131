"""The commands that change which model serves: retrain, roll back, delete, settle."""

import re
from typing import Any, Literal

from rich.console import Console

from flows.waiting import waiting
from tasks.errors import BadInput


def retrain_command(
    config: str, force: bool, replace_champion: bool, options: dict[str, Any], as_json: bool = False
) -> None:
    """Retrain a model and say what came of it."""
    from flows.console import print_json
    from flows.display import progress
    from flows.signals import stoppable
    from flows.start import ready
    from tasks.retraining import load_retrain_config

    given = {name: value for name, value in options.items() if value is not None}
    retraining = load_retrain_config(config, **given)
    with (
        stoppable(),
        progress(retraining.experiment, Console(stderr=True)),
        ready(retraining.experiment, "flows.retrain") as flow,
    ):
        outcome = flow.retrain(retraining, force, replace_champion)
    if as_json:
        print_json(outcome.as_dict())
    else:
        show(outcome)


def show(outcome: Any) -> None:
    """Print what a retraining came to."""
    from flows.console import relative

    serving = f"{outcome.model}/{outcome.champion.number}" if outcome.champion is not None else "none yet"
    lines = [("champion", serving)]
    if outcome.version is not None:
        lines += [("made", f"{outcome.model}/{outcome.version.number}"), ("because", outcome.cause)]
    verdict = {None: "", True: "promote. ", False: "do not promote. "}[outcome.decision and outcome.decision.promote]
    lines.append(("decision", f"{verdict}{outcome.reason}"))
    if outcome.report is not None:
        lines.append(("report", relative(outcome.report)))
    for name, text in lines:
        Console().print(f"{name:9}{text}", highlight=False, markup=False, soft_wrap=True)


def rollback_command(model: str, reason: str) -> None:
    """Make the previous champion the champion again."""
    with waiting():
        from tasks import registry, store

    _check_reason(reason)
    interrupted = registry.pending(store.ledger())
    client, ledger = _open(model)
    version = registry.rolled_back(client, model, interrupted) or registry.rollback(client, ledger, model, reason)
    Console().print(f"champion {model}/{version.number}, which was it before", highlight=False)


def delete_command(version: str, reason: str) -> None:
    """Remove a version from the registry; the ledger remembers it."""
    with waiting():
        from tasks import registry

    model, mark, number = version.rpartition("/")
    if not mark or not re.fullmatch(r"[0-9]{1,18}", number):
        raise BadInput(f"Expected MODEL/VERSION such as tumours/3, got '{version}'. `aucflow list models` lists them.")
    _check_reason(reason)
    client, ledger = _open(model)
    registry.delete_version(client, ledger, model, int(number), reason)
    Console().print(f"{version} is deleted", highlight=False)


def settle_command(model: str, to: Literal["ledger", "registry"], reason: str) -> None:
    """Make registry and ledger agree about a model again."""
    with waiting():
        from tasks import registry

    _check_reason(reason)
    client, ledger = _open(model)
    moves = registry.settle(client, ledger, model, to, reason)
    for alias, (old, new) in moves.items():
        words = " -> ".join("no version" if number is None else f"{model}/{number}" for number in (old, new))
        Console().print(f"{alias:11}{words}", highlight=False)
    Console().print(f"{model}: registry and ledger agree", highlight=False)


def settle_run_command(run: str, reason: str) -> None:
    """Note that a run was removed from the store on purpose."""
    with waiting():
        from tasks.gone import acknowledge

    _check_reason(reason)
    client, ledger = _open()
    for run_id in acknowledge(client, ledger, run, reason):
        Console().print(f"run {run_id[:8]} is gone, as was meant", highlight=False)


def _check_reason(reason: str) -> None:
    """Refuse an empty reason, and one that is no text: the ledger keeps one for each change, for whoever asks later."""
    if not reason.strip():
        raise BadInput("Expected a reason with --reason, got an empty text. Say why: the ledger keeps it.")
    try:
        reason.encode()
    except UnicodeEncodeError as error:  # the shell gave bytes that are no UTF-8
        raise BadInput(
            f"Expected a reason in UTF-8 with --reason, got {reason[error.start]!a} in position {error.start + 1}. "
            "Write it again: the ledger keeps it."
        ) from None


def _open(model: str = "") -> tuple[Any, Any]:
    """Return store and ledger, mended if a command was killed; a copy is refused of the folder that made a model."""
    from flows.start import recover
    from tasks import registry, store

    client = store.existing("aucflow retrain")
    store.check_store()
    for version in registry.versions(client, model) if model else ():
        store.refuse_copy(version.source)
    recover()
    return client, store.ledger()
