"""Exports a pre-trained ALBERT as TF-Hub modules: encoder and preprocessing.

    python export_to_tfhub.py --albert_directory=albert_base_v2 --export_path=albert_hub

`--help` says more and lists the flags. The code is in albert_tf/commands/export_to_tfhub.py.
"""

if __name__ == "__main__":
    from albert_tf.commands import app

    app.run_command("export_to_tfhub")
