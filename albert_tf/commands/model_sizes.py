"""Prints variables, compute and pre-training cost of models, beside the paper's figures.

(Lan et al., 2020, tables 1, 3 and 4.)

    python -m albert_tf model_sizes                                      all sizes, and base with other E and sharing
    python -m albert_tf model_sizes --albert_config_file=my_config.json  the figures of another config
"""

from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.modeling import sizes

LEGEND = f"""\
compute   number of weights that a token is multiplied with; shared weights count once per layer
x tokens  times {sizes.PRETRAINING_TOKENS:.1e} tokens (125,000 steps of 4,096 x 512)
FLOPs     6 per weight and token, forward and backward"""


def define_flags() -> None:
    flags.DEFINE_string("albert_config_file", None, "Path of a config, or the name of a published size "
                        "(albert_base_v2), whose figures are printed. Default: all named sizes, and base with other E "
                        "and sharing.")


def main() -> None:
    config_file = flags.FLAGS.albert_config_file
    if config_file:
        print(sizes.table([("this config", AlbertConfig.from_file_or_preset(config_file), "-")]))
    else:
        print(sizes.table(sizes.published(sizes.NAMED_SIZES)), sizes.table(sizes.published(sizes.BASE_VARIANTS)),
              sep="\n\n")
    print(f"\n{LEGEND}")
