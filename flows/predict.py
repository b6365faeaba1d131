"""What `aucflow predict` does: new rows scored by a champion, or by any other model that was kept."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskProgressColumn

from flows.signals import stoppable
from flows.waiting import bar


def predict_command(
    model: str,
    data: str,
    out: str,
    format_: str | None = None,
    chunk_rows: int | None = None,
    drop: tuple[str, ...] = (),
    trust: tuple[str, ...] = (),
    force: bool = False,
) -> None:
    """Score the rows of a file with a model of the store, write the scores, say what was written."""
    with stoppable(), bar(count=TaskProgressColumn) as tell:
        tell(description="start")
        from tasks import store
        from tasks.download import download
        from tasks.predict import bring_model, check_out, digests, expected_rows, find_model, predict

        target = Path(out)
        check_out(target, data, force)
        client = store.existing()
        source = find_model(client, model)
        kept = bring_model(client, source, trust)
        tell(description="read")
        raw = download.fn("new rows", data, format_)
        tell(description="predict", total=expected_rows(raw))
        rows = {} if chunk_rows is None else {"rows": chunk_rows}
        facts = facts_of(source, kept.ranker, raw) | digests(client, source)
        scored = predict(kept, raw, target, facts, drop=drop, tell=lambda done: tell(completed=done), **rows)
    _show(source, kept.ranker, scored, target)
    told = [_on_foreign_texts(name, texts) for name, texts in scored.texts.items() if texts.is_foreign]
    if kept.changed:
        modules = ", ".join(kept.changed)
        told.append(f"the code of {modules} is not that which {source.name} was made with: its scores may be others.")
    for words in told:
        Console(stderr=True).print(f"aucflow: {words}", highlight=False, markup=False, soft_wrap=True)


def _on_foreign_texts(name: str, texts: Any) -> str:
    """Return what to say of a column that seems to be written in another way than in training."""
    from tasks.classes import name_list

    return (
        f"column '{name}': {texts.unknown:,} of {texts.cells:,} texts are none that training had "
        f"({name_list(texts.examples)}; it had {name_list(sorted(texts.known))}): each counts as none of them. "
        "Write them as in training."
    )


def facts_of(source: Any, ranker: Any, raw: Any) -> dict[str, str]:
    """Return what the file of scores tells of where they come from, beside the digests of the model."""
    from tasks.facts import aucflow_version

    return {
        "model": source.name,
        "run_id": source.run_id,
        "threshold": repr(float(ranker.threshold)),
        "data": raw.source,
        "data_sha256": raw.sha256,
        "version": aucflow_version(),
    }


def _show(source: Any, ranker: Any, scored: Any, out: Path) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    aliases = f" ({', '.join(source.aliases)})" if source.aliases else ""
    console.print(f"model    {source.name}{aliases}, run {source.run_id}")
    if scored.ignored:
        console.print(f"not read {', '.join(scored.ignored)}: the target, or no feature in training")
    new = [f"{name} {of.unknown:,} of {of.cells:,}" for name, of in scored.texts.items() if of.unknown]
    if new:
        console.print(f"new      {', '.join(new)}: texts that training had not")
    share = f"{scored.positive:,} above the threshold {ranker.threshold:.6g}, predicted {ranker.positive_label}"
    console.print(f"scores   {out}: {scored.rows:,} rows, {share}")
