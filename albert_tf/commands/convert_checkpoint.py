"""Converts a model and its head between the release's, Hugging Face's and our formats.

    python -m albert_tf convert_checkpoint --init_checkpoint=albert_base_v2.tar.gz --to=hugging_face \\
        --output_dir=albert_hf
    python -m albert_tf convert_checkpoint --init_checkpoint=model_dir --to=tf1 --output_dir=released

    python -m albert_tf convert_checkpoint --init_checkpoint=model_dir --to=hugging_face --output_dir=albert_hf \\
        --upload=org/name

Without weights, it writes random weights of a config or a published size:

    python -m albert_tf convert_checkpoint --albert_config_file=albert_base_v2 --output_dir=random

Optimizer slots are not written. So this script also replaces export_checkpoints of the release, and accepts its flags:

    python -m albert_tf convert_checkpoint --albert_directory=model_dir --checkpoint_name=model.ckpt-best \\
        --export_path=exported
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Iterable

from absl import logging

from albert_tf.export import FORMATS
from albert_tf.options import Config, Requirement
from albert_tf.utils.bounds import OneOf
from albert_tf.weights.hugging_face import DTYPES, hub
from albert_tf.weights.pooling import Pooling, pooling_arguments
from albert_tf.weights.source import (
    FirstLayers,
    HeadChoice,
    ReleasedCheckpoint,
    Sharing,
    TrainedSource,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Config):
    sharing: Sharing = Sharing()
    layers: FirstLayers = FirstLayers()
    pooling: Pooling = Pooling()
    released: ReleasedCheckpoint = ReleasedCheckpoint()
    head: HeadChoice = HeadChoice()
    source: TrainedSource = TrainedSource()
    to: Annotated[
        str, OneOf(list(FORMATS)), "The format to write: " + ", ".join(
            f"{each.description} ({name})" for name, each in FORMATS.items()) + "."] = "tf1"
    output_dir: Annotated[str | None, "Directory of the converted model. Another model in it is not replaced."] = None
    dtype: Annotated[str, OneOf(list(DTYPES)), "Data type of the weights that --to=hugging_face writes."] = "float32"
    upload: Annotated[
        str | None, "Repository of the Hugging Face Hub, org/name, to which --output_dir is also uploaded, with its "
        "model card. It is made if it does not exist."] = None
    hub_private_repo: Annotated[bool, "Whether the repository of --upload is private."] = True
    albert_directory: Annotated[
        str | None, "Directory of the checkpoint to convert (the release's flag; --init_checkpoint replaces it and "
        "--checkpoint_name)."] = None
    export_path: Annotated[
        str | None, "The release's name for --output_dir. In the release it is the prefix of a checkpoint, here a "
        "directory."] = None

    def requirements(self) -> Iterable[Requirement]:
        return [*super().requirements(),
                Requirement(("upload",), self.to == "hugging_face", "--to=hugging_face")]


def with_our_paths(options: Options) -> Options:
    """The options, with the release's flags of paths replaced by this package's."""
    for config, ours, releases in ((options.source, "init_checkpoint", "albert_directory"),
                                   (options, "output_dir", "export_path")):
        if getattr(config, ours) and getattr(options, releases):
            raise ValueError(f"--{ours} and --{releases} exclude each other: set one of them")
    if not options.albert_directory:
        return options
    checkpoint = options.released.checkpoint_in(options.albert_directory)
    return dataclasses.replace(options, source=dataclasses.replace(options.source, init_checkpoint=checkpoint))


def main(options: Options) -> None:
    from albert_tf.export.conversion import convert, save_random
    from albert_tf.weights.choice import choose
    from albert_tf.weights.transforms import RESHAPED, reshaped

    options = with_our_paths(options)
    path, sharing, output_dir = options.source.init_path, options.sharing, options.output_dir or options.export_path
    if not output_dir:
        raise ValueError("--output_dir is missing")
    if not (path or options.source.albert_config_file):
        raise ValueError("the model is missing: set --init_checkpoint to weights, or --albert_config_file for random "
                         "weights")
    if options.upload is not None:  # before anything is written
        hub.check_upload(options.upload)
    selected = choose(options.source, num_layers=options.layers.num_layers)
    config, vocabulary = selected.config, selected.vocabulary
    if vocabulary:
        vocabulary.tokenizer(config)  # raises if they belong to different models
    head = selected.head(options.head.model) if path else options.head.model or "pretrainer"
    arguments = pooling_arguments(selected, head, options.pooling)
    source = selected.weights
    if source is None:
        for name in ("share_layers", "kept_layers"):
            if getattr(sharing, name):
                raise ValueError(f"--{name} is for weights: set --init_checkpoint, or set the number of layers and "
                                 "groups in the file of --albert_config_file")
        config = config.replace(embedding_size=sharing.embedding_size or config.embedding_size)
        save_random(config, output_dir, options.to, head, vocabulary, options.dtype, **arguments)
    else:
        if sharing != Sharing():
            source = reshaped(source, sharing.embedding_size, sharing.share_layers, sharing.kept_layers)
            config = config.replace(**{name: getattr(source.config, name) for name in RESHAPED})
        convert(source, output_dir, options.to, head, config, vocabulary, options.dtype, **arguments)
    if options.upload is not None:
        url = hub.upload(output_dir, options.upload, options.hub_private_repo)
        logging.info("uploaded to %s", url)
