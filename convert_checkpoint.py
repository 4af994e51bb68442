"""Converts a model and its head between the release's, Hugging Face's and our formats.

    python convert_checkpoint.py --init_checkpoint=albert_base_v2.tar.gz --to=hugging_face --output_dir=albert_hf
    python convert_checkpoint.py --init_checkpoint=model_dir --to=tf1 --output_dir=released

`--help` says more and lists the flags. The code is in albert_tf/commands/convert_checkpoint.py.
"""

if __name__ == "__main__":
    from albert_tf.commands import app

    app.run_command("convert_checkpoint")
