"""The registry: versions of a model under the aliases champion, challenger and previous, changed whole or not at all.

A change touches two places, the MLflow registry and the ledger, which no database transaction spans. So what is to be
done is first written to ``intent.json`` beside the ledger, and each ledger entry goes before the move that it tells of.
If a step fails, everything is taken back and a ``repair`` entry says so. If the process is killed, the intent stays:
the next change, or `recover`, finishes what the ledger already tells in full and takes back the rest. One process at a
time changes models; reading needs no lock.

The registry keeps no history: which version served when, and why, is computed from the ledger alone. An entry's
``data["aliases"]`` holds each alias that it moved as [from, to]; that of a ``repair`` also says with ``exists`` whether
the version is there now. `compare` lays these sums beside the registry and names every difference.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from mlflow import MlflowClient
from mlflow.entities import LoggedModel
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter

from tasks.classes import name_list
from tasks.errors import BadInput, RunFailed, in_short, nearest, without_password
from tasks.files import file_sha256, replacing
from tasks.ledger import Ledger, LedgerEntry, canonical
from tasks.log import run_logger
from tasks.recovery import in_words, is_alive, this_process
from tasks.runs import all_pages
from tasks.store import artifact_folder, ledger_place, told_elsewhere
from tasks.turns import turn

CHAMPION, CHALLENGER, PREVIOUS = ALIASES = ("champion", "challenger", "previous")
ARTIFACT = "model"  # the name under which a run logs its model
PREFIX = "aucflow."  # of our tags; others are the user's own
TRANSACTION = f"{PREFIX}transaction"
NO_NAME = '/:@"\\'  # MLflow's own signs, and those that its search does not take in a name
LARGEST_TAG = 5000  # what every MLflow database takes
LOCK_S = 60.0
TRIES = 20  # for a reader to find no change between two looks
WORDS = {"register": "registration", "promote": "promotion", "rollback": "rollback", "delete": "deletion"}
LEFT_BY_READERS = "registered_model_meta"  # MLflow writes it into a local model that is loaded by its registered name

Moves = dict[str, list[int | None]]  # alias -> the versions that it goes through
Action: TypeAlias = Literal["register", "promote", "rollback", "delete"]  # promote registers first
Seen = TypeVar("Seen", bound=Any)  # something with a kind and a subject


@dataclass(frozen=True)
class Version:
    """A version of a model as the registry has it."""

    model: str
    number: int
    run_id: str
    source: str  # where its files are
    aliases: tuple[str, ...]
    tags: dict[str, str]
    created: datetime
    status: str  # READY unless somebody changed it


@dataclass(frozen=True)
class Shown:
    """What the registry shows of a model, read once: it takes MLflow a tenth of a second."""

    versions: tuple[Version, ...]
    aliases: dict[str, int]  # alias -> the version that it names, which need not be there


@dataclass(frozen=True)
class Promotion:
    """A time for which a version was the champion, as the ledger has it."""

    model: str
    number: int
    since: datetime
    until: datetime | None  # None: it still is
    kind: str  # promote, rollback, or repair where a promotion was taken back
    reason: str
    seq: int  # the ledger's entry
    digest: str
    taken_back: bool = False  # it was announced, and a step failed: the registry may have had the one before all along


@dataclass(frozen=True)
class Disagreement:
    """Something that registry and ledger tell differently."""

    kind: str  # interrupted, alias, missing, unknown, changed, malformed
    subject: str  # MODEL/VERSION, or MODEL@ALIAS
    message: str
    is_note: bool = False  # worth telling, and no disagreement: a change that is going well


# Reading ----------------------------------------------------------------------------------------------------------


def versions(client: MlflowClient, model: str) -> tuple[Version, ...]:
    """Return every version of a model, the oldest first; none if there is no such model."""
    return () if any(sign in model for sign in NO_NAME) else shown(client, model).versions


def shown(client: MlflowClient, model: str) -> Shown:
    """Return the versions of a model, the oldest first, and all of its aliases; none if there is no such model."""
    aliases = _aliases(client, model)
    is_name = not any(sign in model for sign in NO_NAME)
    found = all_pages(client.search_model_versions, f'name="{model}"') if is_name else ()
    return Shown(tuple(sorted((_as_version(one, aliases) for one in found), key=lambda one: one.number)), aliases)


def registered(ledger: Ledger, model: str) -> dict[int, dict[str, str]]:
    """Return what the ledger says of each version that it registered: tags of ours, ``run_id`` and ``source``."""
    return _Book(ledger, model).registered


def as_registered(ledger: Ledger, version: Version) -> Version:
    """Return a version with the tags that the ledger says it was registered with: the registry's anybody may edit.

    One that the ledger did not register is refused, unless it does not know the model at all.
    """
    known = registered(ledger, version.model)
    if known and version.number not in known:
        raise RunFailed(
            f"Expected {version.model}/{version.number} to be a version that the ledger knows, got one that something "
            "else than aucflow made. Run `aucflow audit verify`."
        )
    told = {name: value for name, value in known.get(version.number, {}).items() if name.startswith(PREFIX)}
    return replace(version, tags=version.tags | told)


def told_by(client: MlflowClient, ledger: Ledger, model: str) -> str | None:
    """Return the place of the other ledger that tells of a model, None if this one does, or each version names none."""
    return None if stands(ledger, model) else place_of(versions(client, model))


def stands(ledger: Ledger, model: str) -> bool:
    """Tell whether the ledger has a version of the model that was not deleted or taken back, or one under way."""
    intent = pending(ledger)
    return bool(_Book(ledger, model).standing) or (intent is not None and intent.model == model)


def place_of(found: tuple[Version, ...]) -> str | None:
    """Return where the ledger of a model's newest version is, if each that says that it is ours names another's."""
    places = [told_elsewhere(version.tags) for version in claimed(found)]
    return places[-1] if places and all(places) else None


def claimed(found: tuple[Version, ...]) -> tuple[Version, ...]:
    """Return which of a model's versions say that they are ours."""
    return tuple(
        version
        for version in found
        # a version that MLflow copied from another model, tags and all, is where that one is
        if any(tag.startswith(PREFIX) for tag in version.tags) and not version.source.startswith("models:/")
    )


def moved_by_hand(client: MlflowClient, ledger: Ledger, model: str) -> tuple["Disagreement", ...]:
    """Return the aliases that are not where the ledger left them; none of a model of which it knows no version."""

    def look() -> tuple[Disagreement, ...]:
        book, held, intent = _Book(ledger, model), _aliases(client, model), pending(ledger)
        odd = tuple(_odd_aliases(book, held)) if book.registered else ()
        if not odd or intent is None or intent.model != model:
            return odd
        excused = _half_done(ledger, book, intent, {one.number: one for one in versions(client, model)}, held)
        return tuple(one for one in odd if (one.kind, one.subject) not in excused)

    return unmoved(ledger, look)


def check_agreement(client: MlflowClient, ledger: Ledger, model: str) -> None:
    """Raise RunFailed where another than the ledger's version would be taken for the champion.

    Also of a model of another folder's: its ledger would not know who serves.
    """
    if place := _other_ledger(client, ledger, model):
        raise RunFailed(
            f"Expected a model of this folder's, or a new one, got '{model}': the ledger in {place} tells of it. "
            "Retrain it there, or choose another name."
        )
    odd = moved_by_hand(client, ledger, model)
    if odd:
        held = _aliases(client, model)
        strange = {held.get(alias) for alias in ALIASES} - {None, *registered(ledger, model)}
        keeps = "" if strange else ", `--to registry` keeps them"  # which `settle` refuses of a strange version
        raise RunFailed(
            f"Expected the aliases of '{model}' where the ledger left them, got {'; '.join(o.message for o in odd)}. "
            f"Something else than aucflow in this folder moved them: `aucflow settle {model} --to ledger` moves them "
            f"back{keeps}."
        )


def _other_ledger(client: MlflowClient, ledger: Ledger, model: str) -> str | None:
    """Return the place of another ledger that any version of a model names, None if a version of this one's stands.

    For a change one is enough, whoever made the others; an audit excuses none without a ledger (`told_by`).
    """
    if stands(ledger, model):
        return None
    places = [told_elsewhere(version.tags) for version in reversed(versions(client, model))]
    return next((place for place in places if place), None)


def champion(client: MlflowClient, model: str) -> Version | None:
    """Return the version that serves, None if no version does."""
    number = _aliases(client, model).get(CHAMPION)
    return None if number is None else _version(client, model, number)


def _version(client: MlflowClient, model: str, number: int) -> Version:
    try:
        return _as_version(client.get_model_version(model, str(number)), _aliases(client, model))
    except MlflowException as error:
        raise RunFailed(
            f"Expected version {number} of the model '{model}' in the registry, got: {error}. "
            "Run `aucflow audit verify`."
        ) from error


def _as_version(found: ModelVersion, aliases: dict[str, int]) -> Version:
    number = int(found.version)
    return Version(
        model=found.name,
        number=number,
        run_id=found.run_id or "",
        source=found.source or "",
        aliases=tuple(sorted(alias for alias, holder in aliases.items() if holder == number)),
        tags=dict(found.tags),
        created=datetime.fromtimestamp(found.creation_timestamp / 1000, UTC),
        status=found.status,
    )


def _aliases(client: MlflowClient, model: str) -> dict[str, int]:
    """Return which version each alias names; MLflow's search for versions leaves that out."""
    try:
        found = client.get_registered_model(model)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return {}
        raise
    return {alias: int(number) for alias, number in found.aliases.items()}


def models(client: MlflowClient) -> Iterator[str]:
    """Yield the names of all registered models, a page at a time."""
    yield from (found.name for found in all_pages(client.search_registered_models))


def artifact_sha256(source: str) -> str:
    """Return the ``folder_sha256`` of the model at an artifact address."""
    with artifact_folder(source) as folder:
        return folder_sha256(folder)


def folder_sha256(folder: Path) -> str:
    """Return the digest over the names and bytes of a model's files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != LEFT_BY_READERS)
    return files_sha256({path.relative_to(folder).as_posix(): file_sha256(path) for path in files})


def files_sha256(digests: dict[str, str]) -> str:
    """Return the digest over the names of files, their digests given."""
    return hashlib.sha256(canonical(digests)).hexdigest()


# Changing ---------------------------------------------------------------------------------------------------------


def register_and_promote(
    client: MlflowClient,
    ledger: Ledger,
    model: str,
    run: str,
    decision: dict[str, Any],
    reason: str,
    promote: bool,
    facts: dict[str, str],
    against: int | None = None,
) -> Version:
    """Make the model that a run logged a version, as challenger, or as champion if it is to be promoted.

    ``facts`` become tags, such as ``data_sha256`` and ``manifest_sha256``. ``against`` is the champion that the
    decision was made against, None if there was none.

    Raises
    ------
    BadInput
        If the model's name cannot be one, or the run has no whole model to register.
    RunFailed
        If somebody else is changing models, or another champion serves by now than the decision was made against.
    """
    _check_name(model)
    logged = _logged_model(client, run)
    tags = facts | {
        "run_id": run,
        "ledger": ledger_place(),
        "model_id": logged.model_id,
        "model_sha256": artifact_sha256(logged.artifact_location),
        "decision": "promoted" if promote else "not promoted",
        "reason": reason,
    }
    with _changing(client, ledger, model):
        intent = _intent(client, "promote" if promote else "register", model, None, reason)
        if promote:
            _check_champion(intent, against)
        tags = {f"{PREFIX}{name}": str(value)[:LARGEST_TAG] for name, value in tags.items()}
        details = {"run_id": run, "source": logged.artifact_location, "decision": decision}
        return _carry_out(client, ledger, intent, details | {"tags": tags | {TRANSACTION: intent.transaction}})


def rollback(client: MlflowClient, ledger: Ledger, model: str, reason: str) -> Version:
    """Make the previous champion the champion again, and the champion the previous one.

    Raises
    ------
    BadInput
        If the ledger knows no such model, or it has no previous champion.
    RunFailed
        If somebody else is changing models, or has changed the champion that was to go.
    """
    _check_told(client, ledger, model)
    serving = _aliases(client, model).get(CHAMPION)
    with _changing(client, ledger, model):
        held = _aliases(client, model)
        if held.get(CHAMPION) != serving:
            raise RunFailed(
                f"{model}: expected {_named(serving)} as champion, which was to go, got {_named(held.get(CHAMPION))}: "
                "another change was quicker. See `aucflow list models`."
            )
        number = held.get(PREVIOUS)
        if number is None:
            raise BadInput(
                f"Expected a previous champion of '{model}' to go back to, got none. Register another version, or "
                "promote one."
            )
        back = _version(client, model, number)
        intent = _intent(client, "rollback", model, number, reason)
        return _carry_out(client, ledger, intent, {"run_id": back.run_id})


def rolled_back(client: MlflowClient, model: str, interrupted: "Intent | None") -> Version | None:
    """Return the champion if an interrupted rollback of the model has made it that since: another would undo it."""
    if interrupted is None or (interrupted.action, interrupted.model) != ("rollback", model):
        return None
    serving = champion(client, model)
    return serving if serving is not None and serving.number == interrupted.number else None


def delete_version(client: MlflowClient, ledger: Ledger, model: str, number: int, reason: str) -> Version:
    """Take a version that does not serve out of the registry; return it as it was. Its run and files stay."""
    _check_told(client, ledger, model)
    with _changing(client, ledger, model):
        found = next((one for one in versions(client, model) if one.number == number), None)
        if found is None:
            raise BadInput(
                f"Expected a version of '{model}' to delete, got {number}, which is none. See `aucflow list models`."
            )
        if CHAMPION in found.aliases:
            raise BadInput(
                f"Expected a version of '{model}' that does not serve, got {number}, the champion. Promote another or "
                f"run `aucflow rollback {model}` first."
            )
        intent = _intent(client, "delete", model, number, reason)
        return _carry_out(client, ledger, intent, {"run_id": found.run_id})


def settle(client: MlflowClient, ledger: Ledger, model: str, to: Literal["ledger", "registry"], reason: str) -> Moves:
    """Make registry and ledger agree about a model's aliases after something else moved them; return the moves made.

    Either the registry's aliases go back to where the ledger left them, or the ledger takes over the registry's. It
    also takes over which of its versions are gone, and the entry acknowledges what it had told wrong before.
    """
    with _sole_writer(ledger):
        _recover(client, ledger)
        book, held = _Book(ledger, model), _aliases(client, model)
        if not book.standing:
            _check_told(client, ledger, model)
        there = {one.number for one in versions(client, model)}
        gone = sorted(book.standing - there)
        odd = [alias for alias in ALIASES if held.get(alias) != book.aliases.get(alias)]
        _check_settles(book, model, [] if to == "ledger" else odd, held, bool(odd or gone or book.findings))
        back = {alias: book.aliases.get(alias) for alias in odd if to == "ledger"}
        moved: Moves = {a: [held.get(a), target] for a, target in back.items() if target is None or target in there}
        taken: Moves = {alias: [book.aliases.get(alias), held.get(alias)] for alias in odd if alias not in moved}
        for number in gone:
            ledger.append("settle", f"{model}/{number}", reason, {"aliases": {}, "exists": False})
        _, serving = moved.get(CHAMPION, [None, held.get(CHAMPION)])
        number = serving or max(book.registered)
        ledger.append("settle", f"{model}/{number}", reason, {"aliases": taken, "moved": moved, "to": to})
        _move(client, model, {alias: target for alias, (_, target) in moved.items()})
        return moved or taken


def _check_settles(book: "_Book", model: str, taken: list[str], held: dict[str, int], differ: bool) -> None:
    """Refuse to settle where nothing differs, and the registry's aliases, if taken, where they are at unknown ones."""
    if not differ:
        raise BadInput(f"Expected registry and ledger to differ about '{model}', got no difference to settle.")
    for alias in taken:
        if held.get(alias) not in {None, *book.registered}:
            raise BadInput(
                f"Expected {alias} of '{model}' at a version that the ledger knows, got version {held[alias]}, which "
                "something else made. Settle it --to ledger."
            )


def recover(client: MlflowClient, ledger: Ledger) -> tuple[str, ...]:
    """Finish or take back a change that a crash interrupted; return what it was and what was done, in sentences."""
    if not _intent_path(ledger).exists():
        return ()
    with _sole_writer(ledger):
        return _recover(client, ledger)


def _check_known(client: MlflowClient, model: str) -> None:
    known = tuple(models(client))
    if model not in known:
        listed = f"the registry has {name_list(known)}" if known else "the registry is empty"
        raise BadInput(f"Expected the name of a registered model, got '{model}': {listed}.{nearest(model, known)}")


def _check_told(client: MlflowClient, ledger: Ledger, model: str) -> None:
    """Refuse a model of which the ledger registered no version: what it told of a change would contradict itself."""
    _check_known(client, model)
    place = _other_ledger(client, ledger, model)
    if place or not registered(ledger, model):
        told = f"the ledger in {place} tells of it: change it there" if place else "change it in MLflow"
        raise BadInput(f"Expected a model of which this folder's ledger registered a version, got '{model}': {told}.")


def _check_name(model: str) -> None:
    if not model.strip() or any(sign in model for sign in NO_NAME):
        raise BadInput(f"Expected a model's name without any of {' '.join(NO_NAME)}, got {model!r}. Choose another.")


def _logged_model(client: MlflowClient, run: str) -> LoggedModel:
    """Return the model that a run logged, or say why there is none to register."""
    try:
        found = client.get_run(run)
    except MlflowException as error:
        raise BadInput(f"Expected a run in the store, got {run!r}: {error}. See `aucflow list runs`.") from None
    if found.info.status in ("FAILED", "KILLED") or found.info.lifecycle_stage != "active":
        state = "deleted" if found.info.lifecycle_stage != "active" else found.info.status
        raise BadInput(f"Expected a run that went well, got {run}, which is {state}. Take another run.")
    outputs = found.outputs.model_outputs if found.outputs else ()
    models = [client.get_logged_model(output.model_id) for output in outputs]
    whole = [one for one in models if one.name == ARTIFACT and str(one.status) == "READY"]
    if not whole:
        raise BadInput(f"Expected a run that logged a model, got {run}, which logged none. Take a run of one method.")
    return whole[-1]


def _check_champion(intent: "Intent", against: int | None) -> None:
    serves = intent.before.get(CHAMPION)
    if serves == against:
        return
    expected = "no champion" if against is None else f"version {against} as champion"
    got = "none" if serves is None else f"version {serves}"
    raise RunFailed(
        f"{intent.model}: expected {expected}, which the decision was made against, got {got}: another change was "
        "quicker. Retrain again."
    )


# The transaction --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Intent:
    """A change that is under way: what is to be done, and the aliases as they were."""

    action: Action
    model: str
    number: int | None  # None until the version is made
    reason: str
    before: dict[str, int]
    store: str
    owner: str  # the process that does it
    transaction: str = field(default_factory=lambda: uuid.uuid4().hex)  # in the version's tags and in each entry
    undo: bool = False  # a step failed: all of it is to be taken back

    @property
    def subject(self) -> str:
        return self.model if self.number is None else f"{self.model}/{self.number}"

    @property
    def words(self) -> str:
        return f"the {WORDS[self.action]} of {self.subject}"

    def stages(self) -> tuple[tuple[str, Moves], ...]:
        """Return the ledger entries to write, each with the moves of aliases that it tells of."""
        old, number = self.before.get, self.number
        if self.action == "delete":
            return (("delete", {alias: [number, None] for alias, holder in self.before.items() if holder == number}),)
        if self.action == "rollback":
            return (("rollback", {PREVIOUS: [number, old(CHAMPION)], CHAMPION: [old(CHAMPION), number]}),)
        register = ("register", {CHALLENGER: [old(CHALLENGER), number]})
        if self.action == "register":
            return (register,)
        follows = {} if old(CHAMPION) is None else {PREVIOUS: [old(PREVIOUS), old(CHAMPION)]}
        return (register, ("promote", follows | {CHAMPION: [old(CHAMPION), number], CHALLENGER: [number, None]}))

    def course(self) -> Moves:
        """Return every version that each alias goes through, from what it was to what it is to be."""
        course: Moves = {}
        for _, moves in self.stages():
            for alias, (old, new) in moves.items():
                course[alias] = [*course.get(alias, [old]), new]
        return course


def _intent(client: MlflowClient, action: Action, model: str, number: int | None, reason: str) -> Intent:
    held = _aliases(client, model)
    before = {alias: held[alias] for alias in ALIASES if alias in held}
    return Intent(action, model, number, reason, before, _store_name(client), this_process())


def _carry_out(client: MlflowClient, ledger: Ledger, intent: Intent, details: dict[str, Any]) -> Version:
    """Do what the intent says, or take back what was done of it; return the version that it is about."""
    try:
        _write_intent(ledger, intent)
        number = intent.number
        if number is None:
            number = _make_version(client, intent.model, details, _Book(ledger, intent.model).registered)
            intent = replace(intent, number=number)
            _write_intent(ledger, intent)
        version = _do_stages(client, ledger, intent, number, details)
        _intent_path(ledger).unlink()
    except BaseException as error:
        _take_back(client, ledger, intent, error)
        raise
    run_logger().info(f"{intent.words}: {intent.reason}")
    return version


def _do_stages(client: MlflowClient, ledger: Ledger, intent: Intent, number: int, details: dict[str, Any]) -> Version:
    """Tell each stage to the ledger, then do it; return the version as it then is, or as it was before its deletion."""
    for kind, moves in intent.stages():
        told = {"transaction": intent.transaction, "aliases": moves}
        ledger.append(kind, intent.subject, intent.reason, details | told)
        details = {"run_id": details["run_id"]}  # the rest stands in the first entry
        if kind == "delete":
            version = _version(client, intent.model, number)
            client.delete_model_version(intent.model, str(number))
            return version
        _move(client, intent.model, {alias: new for alias, (_, new) in moves.items()})
    return _version(client, intent.model, number)


def _make_version(client: MlflowClient, model: str, details: dict[str, Any], known: dict[int, Any]) -> int:
    """Return the number of a new version, which is none of the ``known`` ones: no number is given twice.

    MLflow begins again at 1 after a whole model was deleted, and counts on after a version was.
    """
    try:
        client.create_registered_model(model)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    model_id = details["tags"][f"{PREFIX}model_id"]
    for _ in range(len(known) + 1):
        made = client.create_model_version(
            model,
            details["source"],
            details["run_id"],
            tags=details["tags"],
            description=details["tags"][f"{PREFIX}reason"],
            model_id=model_id,
        )
        if int(made.version) not in known:
            return int(made.version)
        client.delete_model_version(model, made.version)
    raise RunFailed(
        f"Expected a number for a version of '{model}' that the ledger does not know, got {made.version} again: the "
        "model was deleted from the registry. Train it under another name."
    )


def _move(client: MlflowClient, model: str, targets: dict[str, int | None]) -> None:
    for alias, number in targets.items():
        if number is None:
            client.delete_registered_model_alias(model, alias)
        else:
            client.set_registered_model_alias(model, alias, str(number))


def _take_back(client: MlflowClient, ledger: Ledger, intent: Intent, error: BaseException) -> None:
    """Undo a change of which a step failed; if that fails too, the intent stays for the next change to undo it."""
    cause = f"{type(error).__name__}: {without_password(str(error))}"
    try:
        undone = replace(intent, undo=True)
        _write_intent(ledger, undone)
        error.add_note(_settle(client, ledger, undone, f"failed ({cause})"))
    except Exception as second:
        raise RunFailed(
            f"{intent.words} failed ({cause}), and it could not be taken back now ({second}). The next change to a "
            "model takes it back."
        ) from error


def _recover(client: MlflowClient, ledger: Ledger) -> tuple[str, ...]:
    intent = pending(ledger)
    if intent is None:
        return ()
    if intent.store != _store_name(client):
        raise RunFailed(
            f"{intent.words} was interrupted: expected its store {intent.store} to finish or undo it, got "
            f"{_store_name(client)}. Set MLFLOW_TRACKING_URI to that store."
        )
    return (_settle(client, ledger, intent, f"was interrupted ({in_words(intent.owner)})"),)


def _settle(client: MlflowClient, ledger: Ledger, intent: Intent, cause: str) -> str:
    """Finish a change that the ledger tells in full, take back any other; return in a sentence what was done.

    It may be called again after a crash in its midst: each step looks first at what is there.
    """
    there = versions(client, intent.model)
    if intent.number is None:  # it broke off before it could note down the version that it made
        made = [one.number for one in there if one.tags.get(TRANSACTION) == intent.transaction]
        intent = replace(intent, number=made[0]) if made else intent
    told = [entry for entry in ledger.entries() if entry.data.get("transaction") == intent.transaction]
    finish = _is_to_finish(intent, told, {one.number for one in there})
    sentence = f"{intent.words} {cause}; it was {'finished' if finish else 'taken back'}"
    if not any(entry.kind == "repair" for entry in told):
        if not finish:
            intent = replace(intent, undo=True)
            _write_intent(ledger, intent)
        _bring(client, intent, there, finish)
        ledger.append("repair", intent.subject, sentence, _repair(intent, told, finish))
    _intent_path(ledger).unlink()
    return f"{sentence[0].upper()}{sentence[1:]}."


def _is_to_finish(intent: Intent, told: list[LedgerEntry], there: set[int]) -> bool:
    """Tell whether the ledger claims the whole change already, so that the store has to follow."""
    if intent.number is None or {kind for kind, _ in intent.stages()} - {entry.kind for entry in told}:
        return False
    if intent.action == "delete":  # what is gone cannot be brought back
        return not intent.undo or intent.number not in there
    return not intent.undo and intent.number in there


def _bring(client: MlflowClient, intent: Intent, there: tuple[Version, ...], finish: bool) -> None:
    """Bring the store to the change's end or to its beginning; what somebody else moved meanwhile stays."""
    if intent.number is None:
        return
    numbers = {one.number for one in there}
    held = _aliases(client, intent.model)
    for alias, course in intent.course().items():
        target = course[-1] if finish else course[0]
        is_ours = held.get(alias) in course and held.get(alias) != target
        if is_ours and (target is None or target in numbers):
            _move(client, intent.model, {alias: target})
    is_left_over = intent.action in ("register", "promote") and not finish
    if (is_left_over or (intent.action == "delete" and finish)) and intent.number in numbers:
        client.delete_model_version(intent.model, str(intent.number))


def _repair(intent: Intent, told: list[LedgerEntry], finish: bool) -> dict[str, Any]:
    """Return what the ledger's entry holds: which entries it withdraws, and what is true instead."""
    kinds = {entry.kind for entry in told}
    back: Moves = {}
    for kind, moves in intent.stages() if intent.number is not None and not finish else ():
        for alias, (_, new) in moves.items() if kind in kinds else ():
            back[alias] = [new, intent.before.get(alias)]
    return {
        "transaction": intent.transaction,
        "intent": asdict(intent),
        "withdrawn": [] if finish else [entry.seq for entry in told],
        "aliases": back,
        "exists": (intent.action == "delete") != finish if intent.action != "rollback" else True,
    }


# What is kept beside the ledger -----------------------------------------------------------------------------------


def pending(ledger: Ledger) -> Intent | None:
    """Return the change that is under way or was interrupted, None if there is none."""
    path = _intent_path(ledger)
    try:
        return TypeAdapter(Intent).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunFailed(
            f"{path}: expected what was interrupted, got: {in_short(error)}. Somebody changed the file: restore "
            "or remove it, then run `aucflow audit verify`."
        ) from None


def _intent_path(ledger: Ledger) -> Path:
    return ledger.folder / "intent.json"


def _write_intent(ledger: Ledger, intent: Intent) -> None:
    """Replace the intent at once, and come back when it is on the disk."""
    with replacing(_intent_path(ledger)) as draft:
        draft.write_bytes(canonical(asdict(intent)))


@contextmanager
def _changing(client: MlflowClient, ledger: Ledger, model: str) -> Iterator[None]:
    """Let one process at a time change a model, from what a crash left unfinished and only where all is as told."""
    with _sole_writer(ledger):
        for sentence in _recover(client, ledger):
            run_logger().warning(sentence)
        check_agreement(client, ledger, model)
        yield


def _sole_writer(ledger: Ledger) -> AbstractContextManager[None]:
    """Take the lock; wait for another's turn to end, or tell whom it was waited for."""
    return turn(
        ledger.folder / "registry",
        LOCK_S,
        lambda other: (
            f"Expected to be the only one that changes models in {ledger.folder}, got {other}, still at it "
            f"after {LOCK_S:g} s. Wait for it or stop it."
        ),
    )


def _store_name(client: MlflowClient) -> str:
    """Return what tells stores apart, without passwords, and without the folder, which may be moved."""
    uri = urlsplit(client.tracking_uri)
    port = f":{uri.port}" if uri.port else ""
    return f"{uri.scheme}://{uri.hostname or ''}{port}/{Path(uri.path).name}"


# What the ledger tells --------------------------------------------------------------------------------------------


def history(ledger: Ledger, model: str) -> tuple[Promotion, ...]:
    """Return which versions were champion, when and why, the first one first; from the ledger alone."""
    return tuple(_Book(ledger, model).champions)


def slips(ledger: Ledger, model: str) -> tuple[Disagreement, ...]:
    """Return where the ledger contradicts itself about a model, unless somebody has acknowledged it."""
    return _Book(ledger, model).findings


def unmoved(ledger: Ledger, look: Callable[[], tuple[Seen, ...]]) -> tuple[Seen, ...]:
    """Return what is found while no model changes hands: after a change, it looks again, up to TRIES times.

    If it never stands still, what each look found, by kind and subject: what is wrong stays so, what is half done not.
    """
    looks = []
    for _ in range(TRIES):
        before = _moment(ledger)
        found = look()
        if _moment(ledger) == before:
            return found
        looks.append({(one.kind, one.subject) for one in found})
    return tuple(one for one in found if (one.kind, one.subject) in set.intersection(*looks))


def _moment(ledger: Ledger) -> tuple[bytes, ...]:
    """Return what moves with every step of a change: the ledger's head, and the intent."""

    def content(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return b""

    return content(ledger.head_path), content(_intent_path(ledger))


def compare(client: MlflowClient, ledger: Ledger, model: str) -> tuple[Disagreement, ...]:
    """Return all that registry and ledger tell differently; nothing if they agree.

    It is one look: what a change moves meanwhile, it sees half done, unless it is made through `unmoved`.
    """
    return compare_shown(ledger, model, shown(client, model))


def compare_shown(ledger: Ledger, model: str, seen: Shown) -> tuple[Disagreement, ...]:
    """Do that with what the registry has shown of the model."""
    book = _Book(ledger, model)
    there, held = {one.number: one for one in seen.versions}, seen.aliases
    missing = [
        Disagreement("missing", f"{model}/{n}", f"version {n} stands in the ledger and is gone from the registry")
        for n in sorted(book.standing - set(there))
    ]
    found = (*book.slips, *missing, *_odd_versions(book, there), *_odd_aliases(book, held))
    intent = pending(ledger)
    if intent is None or intent.model != model:
        return found
    excused = _half_done(ledger, book, intent, there, held)
    return (_under_way(intent), *(one for one in found if (one.kind, one.subject) not in excused))


def _under_way(intent: Intent) -> Disagreement:
    """Return what is to be said of a change that is not done: nothing is wrong as long as its process lives."""
    process = in_words(intent.owner)
    if is_alive(intent.owner):
        return Disagreement("interrupted", intent.subject, f"{intent.words} is under way ({process})", is_note=True)
    words = f"{intent.words} is under way or was interrupted ({process}): the next change settles it"
    return Disagreement("interrupted", intent.subject, words)


def _half_done(
    ledger: Ledger, book: "_Book", intent: Intent, there: dict[int, Version], held: dict[str, int]
) -> set[tuple[str, str]]:
    """Return kinds and subjects of the disagreements that a change makes before it is done.

    The intent is not believed, which anybody may have written: before the ledger tells of the change, there may be the
    version that it made, and then what the ledger tells may not have come about yet.
    """
    made = [one for one in there.values() if one.tags.get(TRANSACTION) == intent.transaction]
    excused = {("unknown", f"{one.model}/{one.number}") for one in made if one.number not in book.registered}
    entries = [entry for entry in ledger.entries() if entry.subject.rpartition("/")[0] == intent.model]
    if not entries or entries[-1].data.get("transaction") != intent.transaction:
        return excused
    for entry in entries:
        if entry.data.get("transaction") == intent.transaction:
            moves = entry.data["aliases"].items()
            excused |= {("alias", f"{intent.model}@{alias}") for alias, course in moves if held.get(alias) in course}
            excused |= {(kind, entry.subject) for kind in ("missing", "unknown")}
    return excused


class _Book:
    """What the ledger says of one model, summed over its entries."""

    def __init__(self, ledger: Ledger, model: str):
        self.model = model
        self.registered: dict[int, dict[str, str]] = {}  # every version ever, by what must stay as it was
        self.standing: set[int] = set()  # those that were neither deleted nor taken back
        self.aliases: dict[str, int] = {}
        self.champions: list[Promotion] = []
        self.slips: list[Disagreement] = []
        for entry in ledger.entries():
            name, _, number = entry.subject.rpartition("/")
            if name == model and number.isdecimal():
                self._take(entry, int(number))

    @property
    def findings(self) -> tuple[Disagreement, ...]:
        """What it tells wrong, and nobody has acknowledged."""
        return tuple(one for one in self.slips if not one.is_note)

    def _take(self, entry: LedgerEntry, number: int) -> None:
        try:
            if entry.kind == "settle":
                self.slips = [replace(one, is_note=True) for one in self.slips]
            if entry.kind == "register" and number in self.registered:
                self._note(entry.subject, f"entry {entry.seq} registers version {number} a second time")
            if entry.kind == "register":
                self.registered[number] = _registered(entry)
            if entry.kind == "register" or entry.data.get("exists") is True:
                self.standing |= {number} & self.registered.keys()
            if entry.kind == "delete" or entry.data.get("exists") is False:
                self.standing.discard(number)
            if entry.kind == "repair":
                back = {*entry.data.get("withdrawn", ())}
                self.champions = [replace(one, taken_back=one.taken_back or one.seq in back) for one in self.champions]
            for alias, (old, new) in entry.data["aliases"].items():
                self._move(entry, alias, old, new)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._note(entry.subject, f"entry {entry.seq} is none that a change of models writes: {error!r}")

    def _move(self, entry: LedgerEntry, alias: str, old: int | None, new: int | None) -> None:
        held = self.aliases.get(alias)
        if held != old:
            words = f"{alias} was {_named(old)} when entry {entry.seq} was written, the ledger had left it at "
            self._note(f"{self.model}@{alias}", f"{words}{_named(held)}")
        if alias == CHAMPION and new != held:
            self._crown(entry, new)
        self.aliases.pop(alias, None)
        if new is not None:
            self.aliases[alias] = new

    def _note(self, subject: str, message: str) -> None:
        self.slips.append(Disagreement("alias" if "@" in subject else "malformed", subject, message))

    def _crown(self, entry: LedgerEntry, number: int | None) -> None:
        moment = datetime.fromisoformat(entry.time)
        if self.champions and self.champions[-1].until is None:
            self.champions[-1] = replace(self.champions[-1], until=moment)
        if number is not None:
            self.champions.append(
                Promotion(self.model, number, moment, None, entry.kind, entry.reason, entry.seq, entry.digest)
            )


def _registered(entry: LedgerEntry) -> dict[str, str]:
    return dict(entry.data["tags"]) | {"run_id": entry.data["run_id"], "source": entry.data["source"]}


def _odd_versions(book: _Book, there: dict[int, Version]) -> Iterator[Disagreement]:
    """Yield the versions that the ledger does not know, or knows differently."""
    for number, version in there.items():
        subject = f"{book.model}/{number}"
        if number not in book.standing:
            known = number in book.registered
            story = "the ledger says that it was deleted" if known else "no entry of the ledger registers it"
            yield Disagreement("unknown", subject, f"version {number} is in the registry; {story}")
            continue
        ours = {name: value for name, value in version.tags.items() if name.startswith(PREFIX)}
        now, then = ours | {"run_id": version.run_id, "source": version.source}, book.registered[number]
        for name in sorted(now.keys() | then.keys()):
            if now.get(name) != then.get(name):
                message = f"{name} is {now.get(name)!r}, was registered as {then.get(name)!r}"
                yield Disagreement("changed", subject, message)


def _odd_aliases(book: _Book, held: dict[str, int]) -> Iterator[Disagreement]:
    for alias in ALIASES:
        now, then = held.get(alias), book.aliases.get(alias)
        if now != then:
            message = f"{alias} is {_named(now)}, the ledger left it at {_named(then)}"
            yield Disagreement("alias", f"{book.model}@{alias}", message)


def _named(number: int | None) -> str:
    return "no version" if number is None else f"version {number}"
