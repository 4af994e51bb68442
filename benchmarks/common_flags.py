"""The flags that several benchmarks have."""

from absl import flags

from albert_tf.commands.flags import define_float, define_required

flags.disclaim_key_flags()  # a flag belongs to the benchmark that calls the function


def define_rounds(default: int) -> None:
    flags.DEFINE_integer("rounds", default, "Number of turns of each program. The median is reported.", lower_bound=1)


def define_peer_python(packages: str = "torch and transformers") -> None:
    define_required("peer_python", f"Path of Python in an environment with {packages}.")


def define_model() -> None:
    define_required("model", "Folder of a BERT in Hugging Face's format.")


def define_output_dir() -> None:
    define_required("output_dir", "Folder of the runs and the results.")


def define_precisions() -> None:
    flags.DEFINE_multi_enum("precision", ["float32", "bfloat16"], ["float32", "bfloat16"],
                            "Data type of the computations. May be repeated.")


def define_precision() -> None:
    flags.DEFINE_enum("precision", "bfloat16", ["float32", "bfloat16"], "Data type of the computations.")


def define_dropout() -> None:
    define_float("dropout", 0.0, "Rate of hidden and of attention dropout.", lower_bound=0.0)


def define_cpu_time() -> None:
    flags.DEFINE_bool("cpu_time", False, "Whether to measure the processor's time, on one thread each, and not the "
                      "clock's, on two: for a machine that does other work besides.")


def define_turns() -> None:
    flags.DEFINE_integer("turns", 100, "Number of single sentences for the latency of each program.", lower_bound=1)


def define_turn_seconds() -> None:
    define_float("seconds", 10, "Approximate number of seconds of a turn.", lower_bound=0.1)


def define_distillation(temperature: float = 2.0, alpha: float = 0.9) -> None:
    define_float("temperature", temperature, "The temperature of the distillation.", 0.0)
    define_float("alpha", alpha, "The weight of the teacher's logits.", 0.0, 1.0)
