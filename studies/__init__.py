"""The studies of the ALBERT paper (Lan et al., 2020), each by one command: `python -m studies --list` shows them.

A study is a JSON file in this folder: its question, the paper's answer, what varies, and what is measured. A scale
(scales/small.json, scales/paper.json) has the model and the runs of our scripts that lead from a text to results.
study.py reads both, planning.py makes the runs, results.py collects what they wrote, rendering.py shows it.
"""
