"""docs/phonemes.md from text to an encoder, in German: its commands run, with a small model and few steps."""

import json
import random
import shutil

import numpy as np
from documentation import Page, flags_of, script_commands
from script_session import REPOSITORY, ScriptSession

import albert_tf
from albert_tf.text.phonemes import PhonemeTable, parse_line, split_words

PAGE = Page(REPOSITORY / "docs/phonemes.md")
WORDS = ("Die alte Fähre", "Ihr Bruder", "Ein kleiner Hund", "Niemand", "Nachbars Katze", "Jeder dritte Brief")
REST = ("kam wieder zu spät", "verkaufte endlich das Boot", "fand nichts, nirgends", "sagte: „Wer ist da?“",
        "schlief gut")
SMALL = dict(train_batch_size=4, num_train_steps=4, num_warmup_steps=1, precision="float32", max_eval_steps=2,
             eval_batch_size=4)


def write_text(path, count, seed):
    chance = random.Random(seed)
    lines = [f"{chance.choice(WORDS)} {chance.choice(REST)}{chance.choice('.!…')}" for _ in range(count)]
    path.write_text("\n".join(lines[: count // 2] + [""] + lines[count // 2 :]) + "\n", encoding="utf-8")


def test_the_commands_of_the_page_make_an_encoder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "text.txt", 200, seed=1)
    write_text(tmp_path / "dev.txt", 40, seed=2)
    sizes = json.loads(next(block.text for block in PAGE.blocks if block.language == "json"))
    small = dict(sizes, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                 intermediate_size=16)
    (tmp_path / "pl_bert.json").write_text(json.dumps(small))
    printed = {}
    with ScriptSession(eagerly=True) as session:
        for script, *arguments in filter(None, map(script_commands, PAGE.commands())):
            if "--init_checkpoint=PLBERT" in arguments:  # the user's
                shutil.copytree("pl_bert_cy", "PLBERT")
            changes = dict(phonemize=dict(language="de"), run_pretraining=SMALL).get(script, {})
            printed[script] = session.run(script=script, **{**flags_of(arguments), **changes})
        again = session.run(script="phonemize", input_file="text.txt", language="de", output_file="phonemes.jsonl")
        symbols = list(PhonemeTable.read().symbols)
        symbols[3], symbols[4] = symbols[4], symbols[3]
        (tmp_path / "table.json").write_text(json.dumps(
            {symbol: i for i, symbol in enumerate(symbols) if symbol != "\0"}))
        session.run(script="create_pretraining_data", objective="phonemes", input_file="phonemes.jsonl",
                    output_file="other.tfrecord", phoneme_table="table.json", word_vocab_file="train.words.tsv")
        for trained in ("encoder", "pl_bert_cy"):
            assert trained in (message := session.run(
                expect=1, script="run_pretraining", input_file="other.tfrecord", init_checkpoint=trained,
                output_dir="other")) and "was trained with another table of phonemes" in message
    assert "dev.tfrecord: the most frequent phonemes and words give masked_lm_accuracy 0." in printed["run_pretraining"]
    assert "word_accuracy" in printed["run_pretraining"] and "different words" in again
    lines = (tmp_path / "phonemes.jsonl").read_text("utf-8").rstrip("\n").splitlines()
    text = (tmp_path / "text.txt").read_text("utf-8").splitlines()
    assert len(lines) == len(text)
    for line, sentence in zip(lines, text):
        assert [word for word, _ in (parse_line(line, "x", 1) if line else [])] == split_words(sentence)
    assert not list(tmp_path.glob("phonemes.jsonl.*"))
    words = {word for line in lines if line for word, _ in parse_line(line, "x", 1)}
    counted = dict(line.split("\t") for line in (tmp_path / "train.words.tsv").read_text("utf-8").splitlines())
    assert {word.lower() for word in words} == {*counted} - {"[OTHER]", "[SEPARATOR]"}
    encoder = albert_tf.from_pretrained("pl_bert_cy")
    assert encoder.settings.phonemes == PhonemeTable.read().symbols
    trained = albert_tf.from_pretrained("encoder", model="phoneme_pretrainer")
    ids = np.array([PhonemeTable.read().encode("həlˈoʊ")[0]], np.int32)
    inputs = dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids))
    np.testing.assert_allclose(encoder(inputs)["sequence_output"], trained.albert(inputs)["sequence_output"], atol=1e-6)


def test_a_run_that_was_ended_keeps_its_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "text.txt", 20, seed=1)
    for language, sound in (("de", "BOOT"), ("nl", "of another language")):
        (tmp_path / f"x.jsonl.{language}.words").write_text(
            f"Niemand\tnˈiːmant\nBoot\t{sound}\nFäh", encoding="utf-8")
    (tmp_path / "x.jsonl").mkdir()
    with ScriptSession("phonemize", language="de", input_file="text.txt", output_file="x.jsonl") as session:
        session.run(expect=1)  # the output cannot be written, but the words are finished
        kept = [line.split("\t") for line in (tmp_path / "x.jsonl.de.words").read_text("utf-8").splitlines()]
        assert kept[:2] == [["Niemand", "nˈiːmant"], ["Boot", "BOOT"]]
        assert sorted(word for word, _ in kept) == sorted(
            {word for line in (tmp_path / "text.txt").read_text("utf-8").splitlines() for word in split_words(line)}
            | {"Niemand", "Boot"})
        (tmp_path / "x.jsonl").rmdir()
        assert f"{len(kept)} words of an earlier run" in session.run()
        sounds = dict(pair for line in (tmp_path / "x.jsonl").read_text("utf-8").splitlines() if line
                      for pair in parse_line(line, "x", 1))
        assert sounds["Boot"] == "BOOT" and sounds["Fähre"] == "fˈɛːrə"


def test_what_sounds_otherwise_than_expected_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("It was a dog. He sold 5 % of 東京 and Москва for π.\nShe had a cat\n", "utf-8")
    with ScriptSession("phonemize", language="en-us", input_file="text.txt", output_file="x.jsonl") as session:
        printed = session.run()
        assert "2 words with letters of another script, such as 東京, Москва" in printed
        assert "--in_context is recommended: 'a' sounds ˈeɪ alone, but ɐ beside its neighbours" in printed
        (tmp_path / "text.txt").write_text("She had been out of the house.\n", "utf-8")
        assert "--in_context" not in (printed := session.run()) and "script" not in printed
        assert "--in_context" not in session.run(input_file="text.txt", in_context=True)
