"""SavedModels as served models, to compare what serve answers with what TensorFlow Serving's graphs do."""

import functools

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenization

from albert_tf.export.saved_model import LABEL_NAMES
from albert_tf.server.signatures import ServedModel, Signature, Spec
from albert_tf.tasks.classification.answers import export_classification
from albert_tf.tasks.masked_lm import export_mask_filling
from albert_tf.tasks.multiple_choice.answers import export_multiple_choice
from albert_tf.tasks.sentence_vectors.vectors import export_sentence_encoder
from albert_tf.tasks.squad.answers import VERSION_OF_HEAD, AnswerOptions, feature_options as squad_options
from albert_tf.tasks.squad.export import export_question_answering
from albert_tf.tasks.tagging.text_tags import export_tagging, feature_options as tagging_options
from albert_tf.text.packing import WindowOptions
from albert_tf.weights.heads import head_of

# The views by the names of inputs and outputs.
VIEWS = dict(
    fill_masks=({"text"}, {"pieces", "probabilities"}),
    classify=({"text_a"}, {"probabilities"}),
    answer=({"question", "context"}, {"answer", "start", "end"}),
    choose=({"question", "context", "options"}, set()),
    tag=({"text"}, {"words", "tags"}),
    compare=({"text"}, {"sentence_embedding"}),
)
OPTIONAL_INPUTS = dict(text_b="")


def export(path, model, tokenizer, top_k=5):
    """Writes the SavedModel of a model's command, with the settings of the model."""
    head, settings = head_of(model).name, model.settings
    if head == "classifier":
        export_classification(path, model, tokenizer, model.row_length, has_pairs=not settings.single_texts,
                              is_regression=model.num_labels == 1,
                              windows=WindowOptions(settings.max_windows, settings.doc_stride))
    elif head == "pretrainer":
        export_mask_filling(path, model, tokenizer, top_k)
    elif head in VERSION_OF_HEAD:
        export_question_answering(path, model, tokenizer, squad_options(model), AnswerOptions.of(model))
    elif head == "multiple_choice":
        export_multiple_choice(path, model, tokenizer, model.row_length, max_qa_length=settings.max_qa_length or 128)
    elif head == "token_classifier":
        export_tagging(path, model, tokenizer, tagging_options(model))
    else:
        export_sentence_encoder(path, model, tokenizer, model.row_length)


def served_saved_model(name, path):
    """A served model with the signatures of a SavedModel."""
    loaded = tf.saved_model.load(path)
    file = f"{path}/assets/{LABEL_NAMES}"
    labels = tuple(open(file, encoding="utf-8").read().splitlines()) if tf.io.gfile.exists(file) else ()
    return ServedModel(name, path, {key: _signature(loaded, function, labels)
                                    for key, function in loaded.signatures.items()})


def _signature(loaded, function, labels):
    specs, outputs = function.structured_input_signature[1], function.structured_outputs
    view = next((view for view, (needed, returned) in VIEWS.items()
                 if set(specs) - set(OPTIONAL_INPUTS) == needed and returned <= set(outputs)), "json")
    padded = "tags" if set(specs) == {"words"} else dict(fill_masks="pieces", tag="words").get(view, "")
    return Signature(
        {name: Spec(spec.dtype.name, tuple(spec.shape.as_list()), OPTIONAL_INPUTS.get(name))
         for name, spec in sorted(specs.items())},
        functools.partial(_run, loaded, function, specs), view, padded, labels,
        {name: Spec(spec.dtype.name, None if spec.shape.rank is None else tuple(spec.shape.as_list()))
         for name, spec in sorted(outputs.items())})


def _run(loaded, function, specs, columns):  # `loaded` owns the variables
    return {name: value.numpy() for name, value in function(
        **{name: tf.constant(column, specs[name].dtype) for name, column in columns.items()}).items()}
