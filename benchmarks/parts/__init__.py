"""The parts of the benchmark, in the order of the report; each module says what it compares and at which quality."""

from benchmarks.part import Part
from benchmarks.parts import (
    first_call,
    kernel_svm,
    lineage,
    linear_svm,
    online,
    pair_updates,
    reading,
    samplers,
    square_loss,
    svm_or,
    threads,
    whole_methods,
)

PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        svm_or.HINGE,
        svm_or.SQUARED,
        pair_updates.PART,
        linear_svm.PART,
        kernel_svm.PART,
        square_loss.LS_SVM,
        square_loss.SPDAM_PART,
        online.PART,
        first_call.PART,
        threads.PART,
        samplers.AGAINST_NEAR_MISS,
        samplers.AGAINST_ITS_SVM,
        whole_methods.PART,
        reading.PART,
        lineage.PART,
    )
}
