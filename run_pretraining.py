"""Pre-trains ALBERT on records of create_pretraining_data.py, and evaluates it.

    python run_pretraining.py --albert_config_file=albert_base_v2 --input_file='data/train*.tfrecord' \\
        --eval_input_file=data/dev.tfrecord --do_eval --output_dir=model --spm_model_file=30k-clean.model

`--help` says more and lists the flags. The code is in albert_tf/pretraining/.
"""

if __name__ == "__main__":
    from albert_tf.commands import app

    app.run_command("run_pretraining")
