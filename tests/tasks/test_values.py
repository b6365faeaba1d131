"""An experiment's result as a person meets it at the prompt of Python."""

import numpy as np
from sample_results import experiment


class TestExperimentResult:
    def test_as_a_frame_it_has_a_row_for_each_cell(self):
        result = experiment()
        frame = result.as_frame()
        assert list(zip(frame["dataset"], frame["method"], strict=True)) == [
            (cell.dataset, cell.method) for cell in result.results
        ]
        for cell, (_, row) in zip(result.results, frame.iterrows(), strict=True):
            if cell.error is None:
                for metric in ("auc", "gmean", "sensitivity", "specificity", "average_precision"):
                    assert (row[metric], row[f"{metric}_sd"]) == cell.mean_sd(metric)

    def test_what_failed_has_no_numbers_but_a_reason(self):
        failed = experiment().as_frame().query("method == 'oam_seq'")
        assert len(failed) == 2 and failed["auc"].isna().all() and failed["gmean_sd"].isna().all()
        assert (failed["error"] == "ValueError: Expected lam > 0, got 0").all()

    def test_it_prints_as_a_table_and_not_as_its_arrays(self):
        result = experiment()
        first, header, *rows = repr(result).splitlines()
        assert first == "Experiment 'quickstart', run 0f3c2a"
        assert header.split() == ["dataset", "method", "auc", "gmean", "seconds", "error"]
        assert [row.split()[:3] for row in rows] == [
            [cell.dataset, cell.method, f"{cell.mean_sd('auc')[0]:.4f}" if cell.evaluations else "NaN"]
            for cell in result.results
        ]
        assert np.isfinite([float(row.split()[2]) for row in rows if "oam_seq" not in row]).all()
