"""Fine-tunes ALBERT on a GLUE task or one of your own; evaluates, predicts, exports.

    python run_classifier.py --task_name=rte --data_dir=glue --init_checkpoint=albert_base_v2 --output_dir=rte \\
        --recipe=rte --do_train --do_eval --do_predict

`--help` says more and lists the flags. The code is in albert_tf/tasks/classification/.
"""

if __name__ == "__main__":
    from albert_tf.commands import app

    app.run_command("run_classifier")
