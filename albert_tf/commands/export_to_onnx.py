"""Exports an ALBERT as ONNX models: float32, float16 and int8.

    python -m albert_tf export_to_onnx --init_checkpoint=albert_base_v2 --output_dir=onnx

writes onnx/pretrainer_float32.onnx and so on, and prints the size of each and the largest difference between its
outputs in ONNX Runtime and the model's. The files take batches of any size and length. Weights that layers share are
stored once. It needs the packages onnx and onnxruntime.

With --score_data, the model is scored on a dev file before and after the export. --max_score_drop=0.005 writes nothing
if a precision loses more than half a per cent of the score. The server reads the directory:

    python -m albert_tf serve --onnx_model=onnx/pretrainer_int8.onnx

--layout=hugging_face writes a folder that transformers.js, fastembed and other programs of ONNX models read, and serve
as well: config.json, tokenizer.json and others, and onnx/model.onnx, onnx/model_fp16.onnx and
onnx/model_quantized.onnx.

--layout=web writes such a folder with the int8 model, and the page of serve, which computes in the reader's browser
without a server:

    npm install --ignore-scripts onnxruntime-web@1.30.0 @huggingface/tokenizers@0.2.0
    python -m albert_tf export_to_onnx --init_checkpoint=albert_tiny_en --layout=web --output_dir=page
    python -m http.server --directory page
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING, Annotated, Iterable

from albert_tf.export import ALBERT_TF, LAYOUTS, PRECISIONS, WEB
from albert_tf.options import Requirement
from albert_tf.tasks.config import ModelToExport
from albert_tf.utils.bounds import OneOf
from albert_tf.utils.imports import check_installed
from albert_tf.utils.manifests import check_export, model_files
from albert_tf.utils.outputs import used_alone, write_bytes
from albert_tf.weights.pooling import pooling_arguments

if TYPE_CHECKING:
    from albert_tf.export.onnx.session import OnnxModel
    from albert_tf.weights.stored_model import StoredModel

# The number of tokens and masked tokens of the inputs on which a file is compared with the model.
_COMPARED_LENGTH, _COMPARED_PREDICTIONS = 64, 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ModelToExport):
    output_dir: Annotated[str, "Directory of the ONNX files."]
    precision: Annotated[
        tuple[str, ...], OneOf(PRECISIONS), "Precision of the weights. One file is written for each. Repeat the flag "
        "for several values; the page of --layout=web reads the first. Default: all; for --layout=web int8."] = ()
    layout: Annotated[
        str, OneOf(LAYOUTS), "Names of the files, inputs and outputs. albert_tf: as in this package; hugging_face: a "
        "folder for transformers.js, fastembed and other programs that read Hugging Face's folders with ONNX models; "
        "web: the same with a page that computes in the browser. serve reads all."] = ALBERT_TF
    node_modules: Annotated[str, "Folder in which npm has installed the JavaScript of the page."] = "node_modules"

    def requirements(self) -> Iterable[Requirement]:
        return [*super().requirements(),
                Requirement(("node_modules",), self.layout == WEB, "--layout=web")]


def main(options: Options) -> None:
    from albert_tf.export.onnx.hugging_face import FILES
    from albert_tf.export.onnx.session import OnnxModel
    from albert_tf.export.onnx.writing import (
        check_no_other_model,
        differences,
        to_onnx,
        write_companions,
        write_hugging_face_folder,
    )
    from albert_tf.export.saved_model import print_differences
    from albert_tf.server.web import scripts
    from albert_tf.tasks.scores import check_scores, scorer
    from albert_tf.weights.choice import choose
    from albert_tf.weights.runs import check_no_run

    with used_alone(options.output_dir, "export"):
        selected, scoring = choose(options.source, num_layers=options.layers.num_layers), options.scoring
        head = selected.head(options.head.model)
        model = selected.pretrained(head, **pooling_arguments(selected, head, options.pooling))
        assert selected.weights is not None  # pretrained would have raised
        check_installed("an ONNX model", "onnx", "onnxruntime")
        is_page, is_theirs, separator = options.layout == WEB, options.layout != ALBERT_TF, None
        precisions = options.precision or (["int8"] if is_page else PRECISIONS)
        names = {precision: FILES[precision] if is_theirs else f"{head}_{precision}.onnx" for precision in precisions}
        files = scripts(options.node_modules) if is_page else {}
        if is_theirs:
            check_no_run(options.output_dir)
            check_export(options.output_dir)
            tokenizer = selected.vocabulary.tokenizer(model.config)
            separator = tokenizer.sep_id if tokenizer.special_tokens.second_segment else -1  # no token
        else:
            check_no_other_model(
                model, options.output_dir, selected.vocabulary, names.values(), selected.weights.path)
        score = scorer(selected, model, scoring) if scoring.score_data else None
        contents = {precision: to_onnx(model, precision, separator) for precision in precisions}
        if score:
            check_scores(score, model, (
                (precision, functools.partial(OnnxModel, content, model.settings))
                for precision, content in contents.items()), scoring.max_score_drop)
        length = min(_COMPARED_LENGTH, model.config.max_position_embeddings)
        compared = {precision: differences(content, model, length, _COMPARED_PREDICTIONS)
                    for precision, content in contents.items()}
        if is_theirs:
            if is_page:
                onnx = OnnxModel(contents[precisions[0]], model.settings, selected.vocabulary)
                files.update(_page(onnx, names[precisions[0]], str(options.source.init_path), selected.weights))
            write_hugging_face_folder(
                model, options.output_dir, selected.vocabulary, contents, options.source.init_path, files)
            for precision, content in contents.items():
                print_differences(os.path.join(options.output_dir, names[precision]), content, compared[precision])
            if is_page:
                print(f"the page, on this machine: python -m http.server --directory {options.output_dir}")
            return
        with model_files(options.output_dir, "onnx", {}, names.values()):
            write_companions(model, options.output_dir, selected.vocabulary)
            for precision, content in contents.items():
                path = os.path.join(options.output_dir, names[precision])
                write_bytes(path, content)
                print_differences(path, content, compared[precision])


def _page(model: OnnxModel, file: str, path: str, weights: StoredModel) -> dict[str, bytes]:
    """The files of the page, without its model."""
    from albert_tf.server.models import names_of
    from albert_tf.server.web import page_files

    name, = names_of([path])
    return page_files(name, model, file, any(each.startswith("cls/seq_relationship/") for each in weights.tensors))
