"""A store as `aucflow run` leaves one behind: models of small data, registered, the newest of each the champion."""

from dataclasses import dataclass
from pathlib import Path

import mlflow
import numpy as np
from mlflow import MlflowClient
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline

from aucsolvers import LSSVM, Ranker
from tasks import registry
from tasks.configuration import PreprocessingConfig
from tasks.convert import convert, load
from tasks.download import download
from tasks.ledger import Ledger
from tasks.models import column_types, log_ranker
from tasks.preprocess import make_preprocessing
from tasks.values import ConversionRule, Layout, Table


@dataclass(frozen=True)
class Kept:
    """A model in the store: the rows that it was trained on and the pipeline in memory."""

    run_id: str
    table: Table
    ranker: Ranker


class Shop:
    """A store in a folder's ``mlruns``, where `aucflow` finds it from that folder."""

    def __init__(self, folder: Path):
        self.folder = folder / "mlruns"
        self.folder.mkdir()
        self.uri = f"sqlite:///{self.folder / 'mlflow.db'}"
        self.client, self.ledger = MlflowClient(self.uri), Ledger(self.folder / "ledger")
        location = (self.folder / "artifacts").as_uri()
        self.experiment = self.client.create_experiment("shop", artifact_location=location)

    def crown(self, name: str, path: Path, rule: ConversionRule, layout: Layout) -> Kept:
        """Train on a file, log the model, make it the champion of this name."""
        table = load(convert.fn(download.fn(name, str(path)), rule))
        preprocessing = make_preprocessing(table.X, PreprocessingConfig()).fit(table.X)
        scorer = Pipeline([("preprocessing", preprocessing), ("solver", LSSVM(lam=1e-3))]).fit(table.X, table.y)
        threshold = float(np.median(scorer.decision_function(table.X)))
        ranker = Ranker(
            scorer,
            threshold=threshold,
            positive_label="yes",
            negative_label="no",
            sparse=issparse(table.X),
            columns=column_types(table),
        )
        mlflow.set_tracking_uri(self.uri)
        try:
            with mlflow.start_run(experiment_id=self.experiment) as run:
                log_ranker(ranker, table, {}, layout)
            facts = {"manifest_sha256": "0" * 64, "data_sha256": "1" * 64}
            registry.register_and_promote(
                self.client, self.ledger, name, run.info.run_id, {"promote": True}, "the first", True, facts
            )
        finally:
            mlflow.set_tracking_uri(None)
        return Kept(run.info.run_id, table, ranker)
