"""The studies of the ALBERT paper (Lan et al., 2020), each by one command: `python -m studies --list` shows them."""
