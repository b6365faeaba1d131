"""What a retrain config may say, and the parts of a challenge that need no store."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix, random

from tasks.convert import convert, load
from tasks.decide import Contender, Judged
from tasks.download import download
from tasks.errors import BadInput
from tasks.retraining import Opponent, RetrainConfig, as_trained, challenge, load_retrain_config
from tasks.split import HeldOut, all_rows
from tasks.values import ConversionRule

CONFIG = {"model": "claims", "data": {"source": "claims.csv"}, "method": {"solver": "ls_svm"}}


class TestConfig:
    def test_the_shipped_example_is_valid(self):
        config = load_retrain_config("example")
        assert (config.model, config.data.source) == ("example", "sklearn:breast_cancer")
        assert config.experiment.name == "example" and len(config.experiment.methods) == 1

    def test_defaults_hold_out_a_quarter_whatever_else_is_said(self):
        assert RetrainConfig.model_validate(CONFIG).validation.held_out == 0.25
        some = RetrainConfig.model_validate(CONFIG | {"validation": {"folds": 3}})
        assert (some.validation.held_out, some.validation.folds) == (0.25, 3)
        assert some.experiment.validation == some.validation

    @pytest.mark.parametrize("section", ["validation", "preprocessing", "rules"])
    def test_an_empty_section_means_the_defaults(self, section):
        assert RetrainConfig.model_validate(CONFIG | {section: None}) == RetrainConfig.model_validate(CONFIG)

    def test_files_are_beside_the_config_and_options_win(self, tmp_path):
        (tmp_path / "claims.yaml").write_text("model: claims\ndata: {source: claims.csv}\nmethod: ls_svm\n")
        config = load_retrain_config(str(tmp_path / "claims.yaml"), workers=2, offline=True)
        assert config.data.source == str(tmp_path / "claims.csv")
        assert (config.workers, config.offline) == (2, True)

    def test_the_digest_is_of_what_the_outcome_hangs_on(self):
        usual = RetrainConfig.model_validate(CONFIG).sha256
        assert RetrainConfig.model_validate(CONFIG | {"workers": 4, "offline": True}).sha256 == usual
        for change in ({"seed": 1}, {"rules": {"min_auc": 0.7}}, {"method": {"solver": "svm_or"}}, {"model": "other"}):
            assert RetrainConfig.model_validate(CONFIG | change).sha256 != usual

    def test_a_config_without_what_came_later_has_the_digest_that_it_always_had(self):
        """Else a new version of aucflow would retrain, and say that the config had changed. From before `gap` came."""
        before = "050d505acaa3c6e018f71390201eea41cadc111f18fddbe604cfe1ac45d56b56"
        assert RetrainConfig.model_validate(CONFIG).sha256 == before
        later = {"group": "patient", "time": "day", "gap": "30d"}
        for name in later:
            data = CONFIG["data"] | {key: later[key] for key in ("time", name)}
            assert RetrainConfig.model_validate(CONFIG | {"data": data}).sha256 != before

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "expected keys such as model, data and method"),
            ("- claims", "expected keys such as model, data and method"),
            ("model: claims\nmethod: ls_svm\n", "data"),
            ("model: claims\ndata: {source: claims.csv}\n", "method"),
            ("model: a/b\ndata: {source: claims.csv}\nmethod: ls_svm\n", "model"),
            ("model: claims\ndata: {source: claims.csv}\nmethod: ls_svm\nrule: {}\n", "rule"),
            ("model: claims\ndata: {source: claims.csv}\nmethod: ls_svm\nrules: {min_auk: 1}\n", "min_auk"),
            ("model: claims\ndata: {source: claims.csv}\nmethod: ls_svm\nvalidation: {held_out: 0}\n", "held_out > 0"),
            ("model: claims\ndata: {source: claims.csv}\nmethod: ls_svm\nvalidation: {held_out: 0.9}\n", "held_out"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_in_one_line(self, tmp_path, text, words):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(BadInput) as error:
            load_retrain_config(str(tmp_path / "bad.yaml"))
        assert words in str(error.value) and "bad.yaml" in str(error.value)


class TestAsTrained:
    def test_a_models_columns_in_its_order(self):
        model = SimpleNamespace(columns={"b": "number", "a": "number"}, n_features=2)
        assert list(as_trained(model, pd.DataFrame({"a": [1.0], "new": [2.0], "b": [3.0]}))) == ["b", "a"]

    @pytest.mark.parametrize("features", [3, 5, 9])
    def test_sparse_rows_are_cut_or_widened(self, features):
        X = csr_matrix(random(6, 5, 0.5, random_state=0))
        got = as_trained(SimpleNamespace(columns={}, n_features=features), X)
        want = np.zeros((6, features))
        want[:, :5] = X.toarray()[:, :features]
        np.testing.assert_array_equal(got.toarray(), want)
        assert X.shape == (6, 5), "the rows themselves stay as they are"


class TestChallenge:
    @pytest.fixture
    def data(self, tmp_path):
        rng = np.random.default_rng(0)
        fraud = np.arange(400) % 4 == 0
        frame = pd.DataFrame({"amount": rng.normal(size=400) + 2 * fraud, "fraud": np.where(fraud, "yes", "no")})
        frame.to_csv(tmp_path / "claims.csv", index=False)
        return convert.fn(download.fn("claims", str(tmp_path / "claims.csv")), ConversionRule("fraud"))

    def model(self, score):
        return SimpleNamespace(pipeline=SimpleNamespace(decision_function=score), threshold=1.0)

    def test_both_are_judged_on_the_opponents_rows_and_the_profile_is_of_all(self, data):
        held_out = all_rows(data, HeldOut.of(0.5, 0))
        rows = held_out.test[::2]
        scores = load(data).rows(rows).X["amount"].to_numpy()
        seen = Judged("unseen_rows", True, float(len(rows)), 1.0, "half of them")
        opponent = Opponent(SimpleNamespace(number=1), rows, (seen,), Contender(scores, 1.0))
        rules = RetrainConfig.model_validate(CONFIG | {"rules": {"max_psi": None, "max_ks": None}})
        made = challenge.fn(rules, data, held_out, self.model(lambda X: X["amount"].to_numpy()), (), opponent)
        assert made.decision.promote and made.decision.judged[0] is seen
        assert (
            f"on the same {len(rows)} rows" in made.decision.reason and "difference of +0.0000" in made.decision.reason
        )
        assert made.kept.of_all.n_rows == len(held_out.test)

    def test_scores_that_are_no_numbers_promote_nothing_and_have_no_profile(self, data):
        held_out = all_rows(data, HeldOut.of(0.5, 0))
        made = challenge.fn(
            RetrainConfig.model_validate(CONFIG),
            data,
            held_out,
            self.model(lambda X: np.full(len(X), np.nan)),
            (),
            None,
        )
        assert not made.decision.promote and "nan or infinite" in made.decision.reason
        assert made.kept.of_all is None
