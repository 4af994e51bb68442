"""Fine-tunes ALBERT on RACE or other multiple choice; evaluates, predicts, exports.

    python run_race.py --data_dir=data --init_checkpoint=albert_base_v2 --output_dir=race --recipe=race_v2 --do_predict

`--help` says more and lists the flags. The code is in albert_tf/tasks/multiple_choice/.
"""

if __name__ == "__main__":
    from albert_tf.commands import app

    app.run_command("run_race")
