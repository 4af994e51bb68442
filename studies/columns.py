"""The values that a study can measure: for each the run that writes it, and its name in the results."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Column:
    """A measured value of a configuration.

    Args:
      title: the title in tables and plots.
      run: the run of the scale whose eval_results.json has the value.
      key: the name of the value in eval_results.json.
      scale: the factor of the shown value; accuracies are shown in percent, as in the paper.
    """

    title: str
    run: str
    key: str
    scale: float = 100.0


COLUMNS = {
    "masked_lm": Column("masked LM", "pretraining", "masked_lm_accuracy"),
    "masked_lm_long": Column("masked LM, long inputs", "pretraining", "dev_long/masked_lm_accuracy"),
    "masked_lm_ngram3": Column("masked LM, n-grams", "pretraining", "dev_ngram3/masked_lm_accuracy"),
    "sop": Column("SOP pairs", "pretraining", "sentence_order_accuracy"),
    "sop_long": Column("SOP pairs, long inputs", "pretraining", "dev_long/sentence_order_accuracy"),
    "nsp": Column("NSP pairs", "pretraining", "dev_nsp/sentence_order_accuracy"),
    "sst2": Column("SST-2", "sst2", "eval_accuracy"),
    "rte": Column("RTE", "rte", "eval_accuracy"),
    "stsb": Column("STS-B, Pearson", "stsb", "pearson"),
    "squad": Column("SQuAD 1.1 F1", "squad", "f1", scale=1.0),
    "blimp": Column("BLiMP", "blimp", "all"),
    "sst2_ensemble": Column("SST-2", "sst2_ensemble", "eval_accuracy"),
}
