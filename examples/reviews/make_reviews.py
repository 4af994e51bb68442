"""Writes the reviews of docs/first_hour.md: train.csv (120 rows), dev.csv and test.csv (40 each), as many good as bad.

    python make_reviews.py FOLDER

No person wrote a review: each is put together of sentences about a thing. Some praise one point of a thing that is bad,
or blame one of a thing that is good.
"""

import csv
import pathlib
import random
import sys

THINGS = ("kettle", "lamp", "backpack", "tent", "blanket", "radio", "clock", "printer", "bicycle pump", "coffee maker")
NEUTRAL = """\
I bought the {} in March.
It was a present for my father.
I took the blue one.
We keep it in the kitchen.
It is my second {} from this shop.
I had looked for such a {} for weeks.
""".splitlines()
GOOD = """\
I use this {} every day and would buy it again.
The {} works perfectly.
It is strong, light and easy to clean.
After six months it is still as good as new.
My sister liked the {} so much that she ordered one too.
I am delighted with this {}.
It does exactly what it should.
This is the best {} that I have had in years.
Great value for the money.
I can recommend this {} to everyone.
It feels well made and is a pleasure to use.
We are very happy with the {}.
""".splitlines()
BAD = """\
The {} broke after two days.
It stopped working within a week.
I sent the {} back and want a refund.
It leaks, and nobody answers my letters.
Do not waste your money on this {}.
I regret that I bought this {}.
It is badly made and falls apart.
This is the worst {} that I have ever had.
The {} never worked at all.
It is useless, and far too expensive.
I would not buy this {} again.
We are very disappointed with the {}.
""".splitlines()
VERDICTS = dict(good=GOOD, bad=BAD)
ONE_POINT = dict(good=("The colour is nice", "It arrived on time", "It looks pretty", "The box was lovely"),
                 bad=("The manual is poor", "It arrived a day late", "The colour is dull", "The box was dented"))


def review(verdict: str, chance: random.Random) -> str:
    """A review of two or three sentences, in lower case after "but"."""
    first, second = chance.sample(VERDICTS[verdict], 2)
    if chance.random() < 0.4:
        point = chance.choice(ONE_POINT["bad" if verdict == "good" else "good"])
        first = f"{point}, but {first if first.startswith('I ') else first[0].lower() + first[1:]}"
    sentences = [first, *([second] if chance.random() < 0.4 else [])]
    sentences.insert(chance.randint(0, 1), chance.choice(NEUTRAL))
    return " ".join(sentences).replace("{}", chance.choice(THINGS))


def main(folder: pathlib.Path) -> None:
    chance = random.Random(1)
    rows = {}  # a review is used once
    while len(rows) < 200:
        verdict = ("good", "bad")[len(rows) % 2]
        rows.setdefault(review(verdict, chance), verdict)
    rows = list(rows.items())
    for name, part in dict(train=rows[:120], dev=rows[120:160], test=rows[160:]).items():
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([("review", "verdict"), *part])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
