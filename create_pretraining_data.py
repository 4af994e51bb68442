"""Makes pre-training records from text: sentence-order pairs with n-gram masks.

    python create_pretraining_data.py --input_file='text/*.txt' --output_file=data/train.tfrecord \\
        --spm_model_file=30k-clean.model --max_seq_length=512 --max_predictions_per_seq=77

`--help` says more and lists the flags. The code is in albert_tf/commands/create_pretraining_data.py.
"""

if __name__ == "__main__":
    from albert_tf.commands import app

    app.run_command("create_pretraining_data")
