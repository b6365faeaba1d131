"""OpenLineage: a run's start and end as events that other systems' lineage can take in, made from its manifest.

Nothing is sent, and nothing imported, unless OpenLineage's own environment variables name a transport. The events are
made once the run has ended, from `lineage.json` alone: they claim nothing that the ledger does not. Standard facets say
what others understand; ours (``aucflow_…``) say the rest, each by the JSON schema of its version in ``tasks/facets``.
"""

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from tasks.errors import BadInput, without_password
from tasks.facts import aucflow_version
from tasks.ledger import canonical
from tasks.log import run_logger
from tasks.progress import NOTICE, announce

Tree = dict[str, Any]

FACETS = {  # name -> version of its schema; a field more, less or other is a new version in a new file
    "aucflow_conversion": 1,
    "aucflow_sampling": 1,
    "aucflow_certificate": 1,
    "aucflow_evaluation": 1,
    "aucflow_decision": 1,
}
STANDARD = {  # name -> class and version in OpenLineage's specification
    "parent": ("ParentRunFacet", "1-2-0"),
    "processing_engine": ("ProcessingEngineRunFacet", "1-1-1"),
    "errorMessage": ("ErrorMessageRunFacet", "1-0-1"),
    "jobType": ("JobTypeJobFacet", "2-0-4"),
    "dataSource": ("DatasourceDatasetFacet", "1-0-1"),
    "version": ("DatasetVersionDatasetFacet", "1-0-1"),
    "schema": ("SchemaDatasetFacet", "1-2-0"),
    "dataQualityMetrics": ("DataQualityMetricsInputDatasetFacet", "1-0-3"),
    "dataQualityAssertions": ("DataQualityAssertionsDatasetFacet", "1-1-0"),
}
ENDS = {"FINISHED": "COMPLETE", "FAILED": "FAIL", "KILLED": "ABORT"}  # MLflow's word -> OpenLineage's
NAMESPACE = "aucflow"
CLOSE_S = 10.0  # what a transport that sends in the background gets to finish

# Sending ----------------------------------------------------------------------------------------------------------


def is_configured() -> bool:
    """Tell whether the environment names a transport, and does not switch OpenLineage off."""
    named = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__")
    is_off = os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true"
    return not is_off and any(value and name.startswith(named) for name, value in os.environ.items())


def emit(manifests: Iterable[Tree]) -> int:
    """Send the events of ended runs as OpenLineage's environment says; return how many were sent.

    Whatever fails is told once, with the number that were sent before, and harms no run.
    """
    if not is_configured():
        return 0
    sent = 0
    announce("send events")  # seconds of retries, where the server is down
    try:
        client = _client()
        try:
            for manifest in manifests:
                for event in events(manifest, os.environ.get("OPENLINEAGE_NAMESPACE") or NAMESPACE):
                    client.emit(_typed(event))
                    sent += 1
        finally:
            client.close(CLOSE_S)
    except Exception as error:  # of whichever transport; lineage for others is a service and no part of the run
        cause = without_password(" ".join(f"{type(error).__name__}: {error}".split()))
        told = f"OpenLineage: {sent} events sent, then none, and the run goes on: {cause}"
        run_logger().warning("%s", told)
        announce(NOTICE, detail=told)
    return sent


def _client() -> Any:
    """Return the client; refuse one that, for want of a transport, would print the events."""
    try:
        from openlineage.client import OpenLineageClient
    except ImportError as error:
        raise BadInput(f"expected the extra, got: {error}. Run pip install 'aucflow[openlineage]'.") from None
    # the client would else tell the address of whatever repository the user stands in as that of our code
    client = OpenLineageClient(config={"facets": {"source_code_location": {"disabled": True}}})
    if client.transport.kind == "console" and (client.config.transport or {}).get("type") != "console":
        raise BadInput(
            "expected a transport in OPENLINEAGE_CONFIG or OPENLINEAGE__TRANSPORT__TYPE, got none. Name one."
        )
    return client


def _typed(event: Tree) -> Any:
    """Return an event as the client's own class, which it insists on and which checks it."""
    from openlineage.client import event_v2

    return event_v2.RunEvent(
        eventType=event_v2.RunState(event["eventType"]),
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=event_v2.Run(**event["run"]),
        job=event_v2.Job(**event["job"]),
        inputs=[event_v2.InputDataset(**data) for data in event["inputs"]],
        outputs=[event_v2.OutputDataset(**data) for data in event["outputs"]],
    )


# Events -----------------------------------------------------------------------------------------------------------


def events(manifest: Tree, namespace: str = NAMESPACE) -> list[Tree]:
    """Return the START and the COMPLETE, FAIL or ABORT event of an ended run, as JSON."""
    run = manifest["run"]
    data = manifest["data"] if isinstance(manifest["data"], list) else [manifest["data"]]
    inputs = [entry for section in data for entry in _inputs(section)]
    start = _event("START", run["started"], manifest, namespace)
    end = _event(ENDS[run["status"]], run["ended"], manifest, namespace)
    end["run"]["facets"] |= _results(manifest)
    end["outputs"] = _outputs(run["run_id"], manifest["artifacts"])
    return [event | {"inputs": inputs} for event in (start, end)]


def _event(kind: str, time: str, manifest: Tree, namespace: str) -> Tree:
    run = manifest["run"]
    is_cell = manifest["kind"] == "run"
    engine = _standard("processing_engine", name="aucflow", version=manifest["code"]["version"])
    job_type = {"processingType": "BATCH", "integration": "AUCFLOW", "jobType": manifest["kind"].upper()}
    return {
        "eventType": kind,
        "eventTime": time,
        "producer": _producer(),
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": _uuid(run["run_id"]), "facets": engine | _parent(run, namespace)},
        "job": {
            "namespace": namespace,
            "name": f"{run['experiment']}/{run['name']}" if is_cell else run["experiment"],
            "facets": _standard("jobType", **job_type),
        },
        "outputs": [],
    }


def _parent(run: Tree, namespace: str) -> Tree:
    """Return the facet that names the experiment's run that a cell's is part of."""
    if not run["parents"]:
        return {}
    job = {"namespace": namespace, "name": run["experiment"]}
    return _standard("parent", run={"runId": _uuid(run["parents"][-1])}, job=job)


def _results(manifest: Tree) -> Tree:
    """Return the run's facets that are known at its end: ours, and why it failed."""
    folds = manifest.get("folds", [])
    facets: Tree = {}
    if folds:
        facets |= _ours("aucflow_sampling", folds=[_picked(f, "fold") | _known(f["sample"]) for f in folds])
        certified = [_picked(f, "fold", "model_sha256") | _known(f["certificate"]) for f in folds]
        facets |= _ours("aucflow_certificate", folds=certified)
        tested = [f for f in folds if "test" in f]  # the refit on all rows has none
        scores = [_picked(f, "fold", "threshold", "train", "test", "test_scores_sha256") for f in tested]
        facets |= _ours("aucflow_evaluation", folds=scores)
    if "decision" in manifest:
        facets |= _ours("aucflow_decision", **_known(manifest["decision"]))
    if manifest["run"]["reason"] and manifest["run"]["status"] != "FINISHED":
        facets |= _standard("errorMessage", message=manifest["run"]["reason"], programmingLanguage="PYTHON")
    return facets


# Data in and out --------------------------------------------------------------------------------------------------


def _inputs(data: Tree) -> list[Tree]:
    """Return the raw files of a data set; what conversion made of them is told with the first."""
    entries: list[Tree] = []
    for raw in data["raw"]:
        namespace, name = _address(raw)
        source = _standard("dataSource", name=namespace, uri=_uri(namespace, name))
        facets = source | _standard("version", datasetVersion=raw["sha256"])
        entries.append({"namespace": namespace, "name": name, "facets": facets, "inputFacets": {}})
    entries[0]["facets"] |= _conversion(data)
    if "columns" in data:
        fields = [{"name": name, "type": kind} for name, kind in data["columns"].items()]
        entries[0]["facets"] |= _standard("schema", fields=fields)
    entries[0]["inputFacets"] = _quality(data)
    return entries


def _conversion(data: Tree) -> Tree:
    rule = data["conversion"]
    labels = {"rule": rule["in_words"], **_picked(rule, "label_counts", "positive_label", "negative_label")}
    made = _picked(data, "sha256", "X_sha256", "y_sha256", "n_rows", "n_features", "n_pos", "n_neg")
    return _ours("aucflow_conversion", **labels, **made)


def _quality(data: Tree) -> Tree:
    """Return what the checks of the data counted and found, in the words that OpenLineage has for it."""
    missing = {name: {"nullCount": count} for name, count in data.get("missing_cells", {}).items()}
    counts = {"rowCount": data["n_rows"], "bytes": data["raw"][0]["size_bytes"], "fileCount": len(data["raw"])}
    facets = _standard("dataQualityMetrics", **counts, columnMetrics=missing)
    if "findings" in data:
        assertions = [
            {"assertion": f["kind"], "success": False, "severity": f["severity"], "description": f["message"]}
            for f in data["findings"]
        ]
        facets |= _standard("dataQualityAssertions", assertions=assertions)
    return facets


def _outputs(run_id: str, artifacts: list[Tree]) -> list[Tree]:
    """Return the model and the reports among a run's artifacts; a model's version is a digest over its files'."""
    model = [a for a in artifacts if a["path"].startswith("model/")]
    made = {"model": model} if model else {}
    made |= {a["path"].removeprefix("run/"): [a] for a in artifacts if a["path"].endswith(".html")}
    return [_output(f"runs:/{run_id}/{name}", files) for name, files in made.items()]


def _output(name: str, files: list[Tree]) -> Tree:
    listed = [_picked(file, "path", "sha256") for file in files]
    digest = files[0]["sha256"] if len(files) == 1 else hashlib.sha256(canonical(listed)).hexdigest()
    facets = _standard("version", datasetVersion=digest)
    return {"namespace": "mlflow", "name": name, "facets": facets, "outputFacets": {}}


def _address(raw: Tree) -> tuple[str, str]:
    """Return a raw file's namespace and name; a password or token in an address stays here."""
    source = raw["source"]
    parts = urlsplit(source)
    if parts.scheme in ("http", "https"):
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.lstrip("/")
    kind, _, name = source.partition(":")
    if kind in ("sklearn", "openml", "catalogue"):
        return kind, name
    return "file", os.path.normpath(raw["path"]) if _is_local(raw) else source


def _is_local(raw: Tree) -> bool:
    """Tell whether a raw file is one that the user named, whose path is its source made absolute, and no cached one."""
    source = Path(raw["source"]).parts
    named = source[1:] if source[:1] and source[0].startswith("~") else source
    return Path(raw["path"]).parts[-len(named) :] == named


def _uri(namespace: str, name: str) -> str:
    if "//" in namespace:
        return f"{namespace}/{name}"
    return Path(name).as_uri() if namespace == "file" and Path(name).is_absolute() else name


# Facets -----------------------------------------------------------------------------------------------------------


def schema_id(name: str) -> str:
    """Return what the schema of one of our facets is called; we have no site of our own, so it is a name."""
    return f"urn:aucflow:facet:{name}:{FACETS[name]}"


def _ours(name: str, /, **fields: Any) -> Tree:
    return {name: {"_producer": _producer(), "_schemaURL": schema_id(name), **fields}}


def _standard(name: str, /, **fields: Any) -> Tree:
    kind, version = STANDARD[name]
    url = f"https://openlineage.io/spec/facets/{version}/{kind}.json#/$defs/{kind}"
    return {name: {"_producer": _producer(), "_schemaURL": url, **fields}}


@cache  # it reads the installed package's metadata
def _producer() -> str:
    return f"urn:aucflow:{aucflow_version()}"


def _uuid(run_id: str) -> str:
    return str(UUID(run_id))  # MLflow's 32 digits are one


def _known(value: Any) -> Any:
    """Return a value without the fields that have none, at every depth: the client would leave them out."""
    if isinstance(value, dict):
        return {name: _known(member) for name, member in value.items() if member is not None}
    return [_known(member) for member in value] if isinstance(value, list) else value


def _picked(section: Tree, *names: str) -> Tree:
    return _known({name: section.get(name) for name in names})
