"""Serves models: a page to try them on, and TensorFlow Serving's REST interface.

    python -m albert_tf serve --init_checkpoint=albert_base_v2 --init_checkpoint=squad

Then open http://127.0.0.1:8501/. What a model can do depends on its head: fill masks, predict the order of sentences,
classify, answer questions about a text, choose, or tag. --onnx_model serves an ONNX model of export_to_onnx, which is
faster in int8. ONNX Runtime computes both; without it, TensorFlow computes the models of --init_checkpoint. Programs
send POST requests to /v1/models/NAME:predict; the page shows how. TensorFlow Serving serves the SavedModels
that scripts export with --export_dir.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import signal
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Callable

from absl import logging

from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf
from albert_tf.utils.imports import check_installed
from albert_tf.utils.processes import ending_signals, leave_terminal
from albert_tf.utils.progress import count_of
from albert_tf.weights.heads import HEAD_NAMES
from albert_tf.weights.pooling import Prompt, VectorSize
from albert_tf.weights.source import FirstLayers, VocabularySource

if TYPE_CHECKING:
    from albert_tf.server.signatures import ServedModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(VocabularySource, VectorSize, Prompt, FirstLayers):
    init_checkpoint: Annotated[
        tuple[str, ...], "Weights: a released directory or its .tar.gz, a checkpoint, a run's directory, a Hugging "
        "Face folder, or hf://org/name on the Hugging Face Hub. Repeat the flag for several models."] = ()
    onnx_model: Annotated[
        tuple[str, ...], "Directory of an ONNX model that export_to_onnx has written, or its .onnx file. Repeat the "
        "flag for several models."] = ()
    model: Annotated[
        str | None, OneOf(HEAD_NAMES), "The kind of the models of --init_checkpoint, which decides which heads they "
        "have. Default: inferred from the names of the variables."] = None
    host: Annotated[
        str, "Address to listen on. The default accepts connections from this machine only. There is no password: "
        "on another address, every machine that can connect to it can use the models."] = "127.0.0.1"
    port: Annotated[int, bounds.Bounds(0, 65_535), "Port to listen on. 0: any free port."] = 8501
    top_k: Annotated[int, bounds.CANDIDATES, "Number of pieces to show for each mask."] = 5
    predict_batch_size: Annotated[int, bounds.BATCH_SIZE, "Largest number of rows of a batch."] = 16
    allowed_hosts: Annotated[
        tuple[str, ...], "Name or address of a host, without its port, to which requests may be sent, such as a proxy "
        "in front of the server. Repeat the flag for several. Default: only loopback hosts, or any if --host is "
        "another address."] = ()
    max_body_bytes: Annotated[int, bounds.TOKENS, "Largest size of a request, in bytes."] = 1_000_000


def main(options: Options) -> None:
    check_installed("serve", "uvicorn", "starlette", "h11", "prometheus_client")
    from albert_tf.server.app import ModelServer, allowed_host, listen
    from albert_tf.server.batching import Batcher

    allowed_hosts = [allowed_host(host) for host in options.allowed_hosts]
    try:
        listener = listen(options.host, options.port)  # before the models, which take longer
    except (OSError, OverflowError) as error:
        raise ValueError(f"--host={options.host} --port={options.port} cannot be used: {error}. "
                         "--port=0 takes any free port") from error
    with listener:
        models = load(options)
        server = ModelServer(models, listener, options.max_body_bytes, allowed_hosts,
                             functools.partial(Batcher, options.predict_batch_size))

        def hang_up(number: int, _: FrameType | None) -> None:
            leave_terminal(number)
            server.shutdown()

        # uvicorn raises the signal again when all is answered: SIGTERM would end with status 143 by default.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if signal.SIGHUP in ending_signals():  # uvicorn does not know it
            signal.signal(signal.SIGHUP, hang_up)
        print(f"{count_of(len(models), 'model')}; open {server.url} (Ctrl-C ends)", flush=True)
        try:
            # It is not raised if a script started this process by `serve &`, and so made it ignore SIGINT.
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
            logging.info("ended")
        finally:
            server.server_close()


def load(options: Options) -> list[ServedModel]:
    from albert_tf.export.onnx.session import ENDING
    from albert_tf.server.models import names_of

    loaders: list[tuple[str, Callable[[Options, str, str], ServedModel]]] = [
        *[(path, from_weights) for path in options.init_checkpoint],
        *[(path, from_onnx_file) for path in options.onnx_model]]
    if not loaders:
        raise ValueError("there is nothing to serve: set --init_checkpoint or --onnx_model")
    names = names_of(path[: -len(ENDING)] if path.endswith(ENDING) else path for path, _ in loaders)
    models = []
    for name, (path, loader) in zip(names, loaders):
        models.append(loader(options, name, path))
        logging.info("%s: %s", path, models[-1].description)
    return models


def from_onnx_file(options: Options, name: str, path: str) -> ServedModel:
    from albert_tf.export.onnx.session import from_onnx
    from albert_tf.server.models import served_model

    model = from_onnx(path)
    tokenizer = model.vocabulary.with_overrides(options.user_vocabulary).tokenizer(model.config)
    return served_model(name, model, tokenizer, options.top_k, prompt_name=options.prompt_name)


def from_weights(options: Options, name: str, path: str) -> ServedModel:
    from albert_tf.server.models import model_of_source
    from albert_tf.weights.stored_model import open_model
    from albert_tf.weights.transforms import first_layers

    source = open_model(path)
    config = source.config
    source = first_layers(source, options.num_layers)
    source = dataclasses.replace(source, vocabulary=source.vocabulary.with_overrides(options.user_vocabulary))
    source.vocabulary.tokenizer(config)  # raises if they belong to different models
    return model_of_source(name, source, options.model, options.top_k, options.truncate_dim, options.prompt_name)
