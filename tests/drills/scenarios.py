"""What the drills run: data that they make themselves, commands, and pairs of commands, as tables.

In a command, OUT is its output folder and `$name` the folder that the undisturbed run of that scenario has left. The
working directory has the files of `write_data`.
"""

import dataclasses
import json
import random

WORDS = {"good": "good warm bright kind fine", "bad": "bad cold dark cruel poor",
         "O": "boat river tree house kettle garden window letter morning friend story paper bread stone road hill "
              "moon candle village winter uncle quiet journey of the and with never over under great small old young"}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A command that writes.

    Args:
      command: its name and flags.
      other: flags that make another output at the same path.
      reader: a command that reads the output, and must refuse it unless it is whole.
      progress: pattern of the files that an undisturbed run also replaces: a training's state.
      cost: how many of the cheapest commands take as long; a costly one is disturbed less often.
      starts_commands: whether other processes do its work.
    """

    command: str
    other: str = ""
    reader: str = ""
    progress: str = "$^"
    cost: int = 1
    starts_commands: bool = False


STATE = r"checkpoint$|eval_|best_|model\.ckpt-best|README|test_|submit_|predictions|\.jsonl?$|\.svg$|\.csv$"
TRAINING = "--train_batch_size=4 --save_checkpoints_steps=2 --learning_rate=0.01 "
NEW = f"--albert_config_file=config.json --spm_model_file=$vocabulary/v.model {TRAINING}--train_step=6 "
CLASSIFIER = f"run_classifier {NEW}--task_config=task.json --data_dir=. --max_seq_length=16 --warmup_step=1 "
RECORDS = "--max_seq_length=32 --max_predictions_per_seq=5 --spm_model_file=$vocabulary/v.model "
PRETRAINING = (f"run_pretraining --albert_config_file=config.json {RECORDS}--train_batch_size=4 --num_train_steps=6 "
               "--num_warmup_steps=2 --save_checkpoints_steps=2 --eval_batch_size=4 --max_eval_steps=2 ")
MODEL = "--init_checkpoint=$classifier/run"

SCENARIOS = dict(
    vocabulary=Scenario("train_vocabulary --input_file=text*.txt --model_prefix=OUT/v --vocab_size=60",
                        "--vocab_size=50", "create_pretraining_data --input_file=text1.txt --max_seq_length=32 "
                        "--spm_model_file=OUT/v.model --output_file=OUT/read/a.tfrecord"),
    records=Scenario(f"create_pretraining_data --input_file=text*.txt --output_file=OUT/a.tfrecord,OUT/b.tfrecord "
                     f"--num_shards=2 --dupe_factor=2 --num_workers=2 {RECORDS}", "--random_seed=7",
                     f"{PRETRAINING}--do_train=false --do_eval --init_checkpoint=$pretraining/run "
                     "--input_file=OUT/?-*.tfrecord --output_dir=OUT/read"),
    phonemes=Scenario("phonemize --input_file=text*.txt --language=en-us --num_workers=2 --output_file=OUT/p.jsonl",
                      "--language=en-gb"),
    pretraining=Scenario(f"{PRETRAINING}--input_file=$records/a-*.tfrecord --input_file=$records/b-*.tfrecord "
                         "--do_eval --dynamic_masking --hidden_dropout_prob=0.1 --output_dir=OUT/run", progress=STATE,
                         cost=3),
    classifier=Scenario(f"{CLASSIFIER}--do_train --do_eval --do_predict --cached_dir=OUT/cache "
                        "--output_dir=OUT/run", progress=STATE, cost=3),
    runs=Scenario(f"{CLASSIFIER}--do_train --do_eval --do_predict --num_runs=2 --output_dir=OUT/run", progress=STATE,
                  cost=3),
    taught=Scenario(f"{CLASSIFIER}--do_train --do_eval --cached_dir=OUT/cache --output_dir=OUT/run "
                    "--teacher_checkpoint=$classifier/run --do_lower_case=false", progress=STATE, cost=3),
    saved_model=Scenario("run_classifier --task_config=task.json --output_dir=$classifier/run --export_dir=OUT/saved",
                         "--threshold_to_export=0.5"),
    squad=Scenario(f"run_squad {NEW}--train_file=squad.json --predict_file=squad.json --max_seq_length=32 "
                   "--max_query_length=8 --doc_stride=8 --warmup_step=1 --do_train --do_predict --output_dir=OUT/run "
                   "--cached_dir=OUT/cache", progress=STATE, cost=3),
    race=Scenario(f"run_race {NEW}--data_dir=. --data_format=jsonl --max_seq_length=32 --max_qa_length=16 "
                  "--warmup_step=1 --do_train --do_eval --do_predict --output_dir=OUT/run", progress=STATE, cost=3),
    tagging=Scenario(f"run_tagging {NEW}--train_file=words.conll --eval_file=words.conll --predict_file=words.conll "
                     "--max_seq_length=16 --warmup_step=1 --do_train --do_eval --do_predict --output_dir=OUT/run",
                     progress=STATE, cost=3),
    sentences=Scenario(f"run_sentence_embeddings {NEW}--objective=sts --task_config=scores.json --data_dir=. "
                       "--max_seq_length=16 --warmup_step=1 --do_train --do_eval --output_dir=OUT/run",
                       progress=STATE, cost=3),
    vectors=Scenario(f"extract_embeddings {MODEL} --input_file=text1.txt --output_file=OUT/v.npy",
                     "--input_file=text2.txt"),
    **{f"to_{format}": Scenario(f"convert_checkpoint {MODEL} --to={format} --output_dir=OUT/model",
                                "--init_checkpoint=$taught/run",
                                "convert_checkpoint --init_checkpoint=OUT/model --output_dir=OUT/read")
       for format in ("hugging_face", "tf1", "ours")},
    to_tf_hub=Scenario("convert_checkpoint --init_checkpoint=$pretraining/run --to=tf_hub --output_dir=OUT/model",
                       cost=3),
    onnx=Scenario(f"export_to_onnx {MODEL} --output_dir=OUT/onnx", "--init_checkpoint=$taught/run", cost=2),
    onnx_folder=Scenario(f"export_to_onnx {MODEL} --layout=hugging_face --precision=int8 --output_dir=OUT/onnx",
                         "--precision=float32", cost=2),
    masked=Scenario("fill_mask --init_checkpoint=$pretraining/run --export_dir=OUT/saved", "--max_seq_length=16"),
    tflite=Scenario(f"export_to_tflite {MODEL} --max_seq_length=16 --output_dir=OUT/tflite",
                    "--init_checkpoint=$taught/run", cost=2),
    tfhub=Scenario("export_to_tfhub --albert_directory=$pretraining/run --export_path=OUT/hub", cost=3),
    glue=Scenario("run_glue --data_dir=glue --init_checkpoint=$classifier/run --output_dir=OUT/glue --num_runs=1 "
                  f"--max_seq_length=16 {TRAINING}--train_step=4 --warmup_step=1", progress=STATE, cost=12,
                  starts_commands=True),
    recipe=Scenario("pretrain_from_text --recipe=recipe.json --text=text1.txt --dev_text=text2.txt "
                    "--output_dir=OUT/run", progress=STATE, cost=12,
                    starts_commands=True),
    albert=Scenario("bert_to_albert --init_checkpoint=$pretraining/run --text=few.txt --output_dir=OUT/run "
                    "--embedding_size=12 --train_batch_size=2 --num_train_epochs=2 --max_seq_length=16", progress=STATE,
                    cost=12, starts_commands=True),
)

# A training, and another use of its folder at the same time: the pattern is of files that depend on the moment.
PAIRS = dict(
    evaluated=("classifier", "run_classifier --task_config=task.json --data_dir=. --cached_dir=OUT/cache "
               "--output_dir=OUT/run --do_eval", r"eval_results|README"),
    predicted=("classifier", "run_classifier --task_config=task.json --data_dir=. --cached_dir=OUT/cache "
               "--output_dir=OUT/run --do_predict", r"test_|predict|submit|README"),
    exported=("classifier", "run_classifier --task_config=task.json --output_dir=OUT/run --export_dir=OUT/other",
              r"^other/|README"),
    converted=("classifier", "convert_checkpoint --init_checkpoint=OUT/run --to=hugging_face --output_dir=OUT/hf",
               r"^hf/|README"),
    shared_cache=("classifier", f"{CLASSIFIER}--do_train --cached_dir=OUT/cache --output_dir=OUT/run2", r"^run2/"),
    measured=("pretraining", f"{PRETRAINING}--do_train=false --do_eval --input_file=$records/a-*.tfrecord "
              "--output_dir=OUT/run", r"eval_|README"),
)


def write_data(folder):
    """Writes texts, tables, questions, words with tags, a config and a recipe."""
    draw = random.Random(1)

    def words(count, kind="O"):
        return " ".join(draw.choice(WORDS[kind].split()) for _ in range(count))

    def write(name, content):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))

    for name in ("text1.txt", "text2.txt"):
        write(name, "\n\n".join("\n".join(f"{words(7)} {words(1, 'good')} {words(1, 'bad')}." for _ in range(8))
                                for _ in range(10)))
    write("few.txt", "".join(f"{words(4)}\n" for _ in range(6)))
    for split in ("train", "dev", "test"):
        labels = [draw.choice(["bad", "good"]) for _ in range(24)]
        write(f"{split}.tsv", "text\tlabel\n" + "".join(f"{words(5)} {words(1, label)}\t{label}\n" for label in labels))
        write(f"{split}_scores.tsv", "a\tb\tscore\n" + "".join(
            f"{words(5)}\t{words(5)}\t{draw.randint(0, 5)}\n" for _ in range(16)))
        write(f"glue/RTE/{split}.tsv", "index\tsentence1\tsentence2\tlabel\n" + "".join(
            f"{row}\t{words(5)}\t{words(5)}\t{draw.choice(['entailment', 'not_entailment'])}\n" for row in range(8)))
        write(f"{split}.jsonl", "".join(json.dumps(dict(
            context=words(8), question="The place was _.", options=[words(1, "good"), words(1, "bad")], answer="A"))
            + "\n" for _ in range(8)))
    write("words.conll", "\n".join("".join(f"{word} {tag}\n" for tag in draw.choices(["O", "good", "bad"], k=5)
                                           for word in [words(1, tag)]) for _ in range(12)))
    paragraphs = [dict(context=text, qas=[dict(id=f"q{number}", question=f"what {words(2)}?", is_impossible=False,
                                               answers=[dict(text=text[:4], answer_start=0)])])
                  for number, text in enumerate(words(30) for _ in range(8))]
    write("squad.json", dict(version="v2.0", data=[dict(title="t", paragraphs=paragraphs)]))
    config = dict(vocab_size=60, hidden_size=16, embedding_size=8, num_hidden_layers=1, num_attention_heads=2,
                  intermediate_size=32, max_position_embeddings=64, initializer_range=0.06, type_vocab_size=2,
                  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    write("config.json", config)
    files = {split: f"{split}.tsv" for split in ("train", "dev", "test")}
    task = dict(name="drill", files=files, columns=dict(text_a="text", label="label"), labels=["bad", "good"])
    write("task.json", task)
    write("scores.json", dict(name="scores", regression=True, columns=dict(text_a="a", text_b="b", label="score"),
                              files={split: f"{split}_scores.tsv" for split in files}))
    own = {"spm_model_file": "{output_dir}/vocabulary.model", "max_seq_length": 32, "max_predictions_per_seq": 5}
    write("recipe.json", dict(
        configs=dict(small=dict(like="albert_tiny_en", changes={
            name: config[name] for name in config if name not in ("type_vocab_size", "initializer_range")})),
        runs=dict(
            vocabulary=dict(script="train_vocabulary", flags=dict(
                input_file="{text}", model_prefix="{output_dir}/vocabulary", vocab_size=60)),
            records=dict(script="create_pretraining_data", flags=dict(
                own, input_file="{text}", output_file="{output_dir}/train.tfrecord", dupe_factor=1)),
            stage=dict(script="run_pretraining", flags=dict(
                own, albert_config_file="{output_dir}/small.json", input_file="{output_dir}/train.tfrecord",
                output_dir="{output_dir}/stage", train_batch_size=4, num_train_steps=4, num_warmup_steps=1,
                save_checkpoints_steps=2)),
            model=dict(script="convert_checkpoint", flags=dict(
                init_checkpoint="{output_dir}/stage", to="hugging_face", output_dir="{output_dir}/model")))))
