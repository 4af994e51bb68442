"""A config with more groups of layers than the weights is refused before the model is built."""

import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling import encoder
from albert_tf.modeling.albert_model import AlbertModel

STORED = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=16, max_position_embeddings=6)


@pytest.mark.parametrize("changes, message", [
    (dict(num_hidden_layers=900, num_hidden_groups=900), "asks for group 2, inner group 1"),
    (dict(num_hidden_layers=2, inner_group_num=400), "asks for group 1, inner group 2"),
    (dict(cross_layer_sharing="none"), "asks for group 2, inner group 1")], ids=str)
def test_more_groups_than_the_weights_have_are_refused_before_they_are_built(tmp_path, monkeypatch, changes, message):
    save(AlbertModel(STORED), str(tmp_path), "ours")
    (tmp_path / "albert_config.json").write_text(STORED.replace(**changes).to_json_string())
    blocks = []

    class CountedBlock(encoder.AttentionBlock):
        def __init__(self, *arguments):
            blocks.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(encoder, "AttentionBlock", CountedBlock)
    with pytest.raises(ValueError, match=f"its groups and inner groups of layers are 1 and 1.*{message}"):
        albert_tf.from_pretrained(str(tmp_path))
    assert len(blocks) == 2
