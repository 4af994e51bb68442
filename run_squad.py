"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0; scores, predicts, answers questions, exports.

    python run_squad.py --train_file=train-v2.0.json --predict_file=dev-v2.0.json --init_checkpoint=albert_base_v2 \\
        --output_dir=squad --recipe=squad_v2 --do_train --do_predict

`--help` says more and lists the flags. The code is in albert_tf/tasks/squad/.
"""

if __name__ == "__main__":
    from albert_tf.commands import app

    app.run_command("run_squad")
