"""The studies of the ALBERT paper (Lan et al., 2020), each by one command: `python -m studies --list` shows them.

A study is a JSON file in this folder with a question, the paper's answer, the settings that vary, and the measured
values. A scale (scales/small.json, scales/paper.json) has the model and the runs of our scripts from text to results.
study.py reads both, planning.py plans the runs, results.py collects their results, rendering.py makes the report.
"""
