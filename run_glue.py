"""Fine-tunes and evaluates on every GLUE task in a folder; prints the paper's table.

    python run_glue.py --data_dir=glue --init_checkpoint=albert_base_v2 --output_dir=glue_runs --num_runs=5

`--help` says more and lists the flags. The code is in albert_tf/commands/run_glue.py.
"""

if __name__ == "__main__":
    from albert_tf.commands import app

    app.run_command("run_glue")
