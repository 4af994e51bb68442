"""`make drills`: disturbs the commands that write, and compares what they leave with undisturbed runs.

    python tests/drills/run.py --kills=75 --exact_kills=75 --pairs=50 --signals=24 --faults=150 --power_cuts=40

A line of JSON is printed for each disturbed run, and --csv has their counts. The exit status is 1 if there was a
finding. What the machine does not allow is left out, with a line.

A random kill: SIGKILL after a random time of work, of the command alone or with its workers. An exact kill: just before
one rename, unlink or mkdir of each kind. A signal: SIGTERM, SIGINT or SIGHUP after a random time. The same command is
then run again, killed up to three times, and to its end. A pair: another command starts after a random time, or while
the first one waits just before a rename; the output must be that of one of them, or of one after the other. A failing
call: a write, rename, ... of each kind has an error that fits, or it and all later ones have it. A power cut: a file
system forgets what it has not written, after the end of the command or an exact kill. Then the same command is run
again. The soak sends requests to `serve` for some seconds.
"""

import argparse
import collections
import contextlib
import csv
import datetime
import errno
import json
import os
import pathlib
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "helpers"))

from calls import SPARED  # noqa: E402
from engine import CHANGES, Workplace, differences, end, files, unreadable, wait_for_end  # noqa: E402
from scenarios import PAIRS, SCENARIOS  # noqa: E402
from soak import soak  # noqa: E402

WAITS = 15  # seconds after which a waiting command goes on: the other one waits for its lock
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# What says that an output is not complete, and the card that a model does not need.
NOT_READ = r"manifest\.json$|README\.md$"
SPACE = ("write", "create", "mkdir", "truncate", "allocate", "copy")
ERRORS = {  # the calls that may have an error
    errno.ENOSPC: (*SPACE, "rename", "link"), errno.EDQUOT: SPACE, errno.EIO: (*SPACE, "fsync", "lock", *CHANGES),
    errno.EACCES: ("create", *CHANGES), errno.ENOLCK: ("lock",),
}
# TensorBoard's curves, and temporary files of libraries.
NOT_FAILED = rf"events\.out|{SPARED.pattern}"
# Not synced: TensorBoard's curves, and features that are made again.
UNSYNCED = r"^cache/|/cache/"
REPOSITORY = pathlib.Path(__file__).parents[2]


class Drill:
    """The disturbed runs of all scenarios.

    Args:
      workplace: a Workplace.
      seed: of the moments.
    """

    def __init__(self, workplace, seed):
        self.workplace, self.draw = workplace, random.Random(seed)
        self._kinds = collections.defaultdict(list)  # scenario -> kinds of changes that are still to be disturbed
        self._errors = collections.Counter()  # how often calls had each errno

    def kill(self, name):
        return self._interrupt(name, signal.SIGKILL, self._moment, 3)

    def exact_kill(self, name):
        return self._interrupt(name, signal.SIGKILL, self._change, 2)

    def signal(self, name):
        return self._interrupt(name, self.draw.choice(SIGNALS), self._moment, 1)

    def _interrupt(self, name, number, moment, times):
        """Ends a command by a signal up to some times, and runs it to its end. Returns what was done and is wrong."""
        place, scenario, done, found = self.workplace, SCENARIOS[name], [], []
        reference, earlier = self._reference(name)
        expected = place.undisturbed(reference)
        before = place.undisturbed(earlier).files if earlier else {}
        place.clear(earlier)
        for _ in range(1 if scenario.starts_commands else times):
            when = moment(reference, expected)
            ended = place.run(scenario.command, number=number, **when)
            if ended.status == 0:
                break
            done.append(dict(when, over=earlier, signal=number, status=ended.status))
            if number == signal.SIGKILL:
                found += ended.problems([-number])
            else:
                left = place.leftovers(number)
                has_work = left or files(place.out) not in (expected.files, before)
                found += ended.problems([128 + number] if has_work else [128 + number, -number]) + left
            found += unreadable(place.out) + self._half_done(scenario, expected.files, before)
        else:
            found += place.run(scenario.command).problems([0])
        there, wanted = files(place.out), expected.files
        if number != signal.SIGKILL:  # a training has saved and evaluated one more step
            there, wanted = (but(scenario.progress, {name: each[name] for name in each if name in wanted})
                             for each in (there, wanted))
        return done, found + differences(wanted, there) + place.leftovers(number)

    def _reference(self, name):
        """The names of the undisturbed run and of the earlier one whose output it replaces (or None)."""
        scenario, earlier = SCENARIOS[name], f"{name}, other"
        if not scenario.other or self.draw.random() < 0.5:
            return name, None
        self.workplace.undisturbed(earlier, f"{scenario.command} {scenario.other}")
        again = self.workplace.undisturbed(f"{name}, over other", scenario.command, earlier)
        return (f"{name}, over other", earlier) if again.status == 0 else (name, None)

    def _moment(self, name, undisturbed):
        """A random time of the work: CPU seconds, or a time after a change of a name."""
        is_group = self.draw.random() < 0.6
        if undisturbed.changes and (SCENARIOS[name.partition(",")[0]].starts_commands or self.draw.random() < 0.5):
            return dict(after=self.draw.choice(undisturbed.changes).at, delay=self.draw.choice((0, 0.01, 0.1, 1)),
                        is_group=is_group)
        start = undisturbed.changes[0].cpu if undisturbed.changes else 0.3 * undisturbed.cpu
        return dict(cpu=round(self.draw.uniform(0.9 * start, undisturbed.cpu), 3), is_group=is_group)

    def _change(self, name, undisturbed, operations=CHANGES):
        """A change of a kind that was not disturbed yet in this scenario. Renames to final names come first."""
        changes = [call for call in undisturbed.changes if call.operation in operations]
        return dict(at=self._call((name, operations), changes, lambda kind: (
            not kind.endswith(".tmp") and ".tmp/" not in kind.split(" ")[-1], kind.startswith("rename"))))

    def _call(self, key, calls, order=lambda kind: 0):
        """One of the calls, of a kind that was not drawn yet with this key."""
        kinds = collections.defaultdict(list)
        for call in calls:
            kinds[call.at[0]].append(call.at)
        if not self._kinds[key]:
            self._kinds[key] = sorted(self.draw.sample(sorted(kinds), len(kinds)), key=order)
        return self.draw.choice(kinds[self._kinds[key].pop()])

    def _half_done(self, scenario, expected, before):
        """What is torn or mixed after a kill: under final names there may be whole files of one output only.

        A reader may refuse what is there.
        """
        place = self.workplace
        there, *whole = (but(NOT_READ, each) for each in (files(place.out), expected, before))
        if not there or there in whole:
            return []
        torn = [f"{name} is neither that of before nor that of the undisturbed run"
                for name, digest in but(scenario.progress, there).items()
                if name in expected and digest not in (expected[name], before.get(name))]
        if not scenario.reader:
            manifests = [path.read_text() for path in place.out.rglob("*manifest.json")]
            is_refused = any('"complete": false' in manifest for manifest in manifests)
            is_set = scenario.progress == "$^" and sum(name.endswith("manifest.json") for name in expected) == 1
            return torn + [f"mixed: {differences(before, there)}"] * (is_set and not is_refused)
        read = place.run(scenario.reader)
        shutil.rmtree(place.out / "read", ignore_errors=True)
        return read.problems([1]) and [f"a reader takes half of an output: {sorted(there)}", *torn]

    def fault(self, name):
        """Lets a call fail, or a call and all later ones. Returns what was done and is wrong."""
        place, scenario = self.workplace, SCENARIOS[name]
        reference, earlier = self._reference(name)
        expected = place.undisturbed(reference)
        before = place.undisturbed(earlier).files if earlier else {}
        calls = [call for call in expected.calls if not re.search(NOT_FAILED, call.at[0])]
        at = self._call((reference, "fault"), calls)
        operation = at[0].partition(" ")[0]
        number = min((number for number in ERRORS if operation in ERRORS[number]), key=self._errors.__getitem__)
        self._errors[number] += 1
        lasting = ERRORS[number] if self.draw.random() < 0.4 else ()
        place.clear(earlier)
        ended = place.run(scenario.command, at=at, action=number, lasting=lasting)
        if at not in place.watch.calls:
            return [], []
        done = dict(at=at, error=errno.errorcode[number], is_lasting=bool(lasting), over=earlier, status=ended.status,
                    said=ended.error)
        found = ended.problems([0, 1])
        if ended.status == 0:
            found += differences(expected.files, files(place.out))
        else:
            found += self._unclear(scenario, ended, number) + self._half_done(scenario, expected.files, before)
        return [done], found + self._again(scenario, expected, ended.printed)

    def _unclear(self, scenario, ended, number):
        """What is missing in the message: the reason, and a path, which is no temporary one of an output."""
        lines = [line for line in ended.printed.splitlines() if ": error: " in line]
        path = rf": error: .*{self.workplace.folder}/(out|tmp)\S*[:;] {os.strerror(number)}$"
        is_clear = lines and re.search(path, lines[0]) and not re.search(r"/out/\S*(\.tmp|earlier)|Errno", lines[0])
        return [] if is_clear and (len(lines) == 1 or scenario.starts_commands) else [f"unclear: {lines}"]

    def _again(self, scenario, expected, printed=""):
        """What is wrong after the command has run again. A folder that a warning has named may be left."""
        place = self.workplace
        found = place.run(scenario.command).problems([0]) + differences(expected.files, files(place.out))
        left = place.leftovers(signal.SIGKILL)
        return found + [path for path in left if path.removesuffix(" is left") not in printed]

    def power_cut(self, name):
        """Cuts the power after a command has ended, or was killed. Returns what was done and is wrong."""
        place, scenario, kind = self.workplace, SCENARIOS[name], self.draw.choice(self.workplace.disks)
        reference, earlier = self._reference(name)
        expected = place.undisturbed(reference)
        before = place.undisturbed(earlier).files if earlier else {}
        when = self._change(reference, expected) if place.is_watched and self.draw.random() < 0.5 else {}
        wait, has_names = self.draw.choice((0, 1)), self.draw.random() < 0.7
        with place.disk(kind):
            place.clear(earlier)
            subprocess.run(["sync", "--file-system", place.out], check=True)
            ended = place.run(scenario.command, **when)
            time.sleep(wait)
            place.cut_power(kind, has_names)
            done = dict(when, disk=kind, wait=wait, has_names=has_names, over=earlier, status=ended.status)
            found = ended.problems([0, -signal.SIGKILL])
            if ended.status == 0:
                found += differences(but(UNSYNCED, expected.files), but(UNSYNCED, files(place.out)))
            else:
                found += self._half_done(scenario, but(UNSYNCED, expected.files), before)
            return [done], found + self._again(scenario, expected)

    def pair(self, name):
        """Runs two commands at the same time. Returns what was done and what is wrong."""
        place = self.workplace
        first, second, ignored = PAIRS[name] if name in PAIRS else (name, *self._second(name))
        command = SCENARIOS[first].command
        alone = place.undisturbed(first)
        exact = place.is_watched and self.draw.random() < 0.5
        when = self._change(first, alone, ("rename",)) if exact else self._moment(first, alone)
        place.clear()
        with place.start(command, at=when.get("at"), action="hold") as process:
            after, delay = (when["at"], 0.05) if exact else (when.get("after"), when.get("delay", 0))
            if not place.wait(process, when.get("cpu", 0), after, delay):
                return [], []
            with place.start(second, is_watched=False) as other:
                if exact:
                    wait_for_end(other, WAITS)
                    place.watch.release()
                ended = [end(process), end(other)]
        done = dict(when, second=second, status=[each.status for each in ended],
                    refused=[each.error for each in ended if each.status])
        found = [problem for each in ended for problem in each.problems([0, 1])]
        if all(each.status for each in ended):
            found.append("both are refused")
        there, wanted, leftovers = but(ignored, files(place.out)), but(ignored, alone.files), place.leftovers()
        if there != wanted and (name in PAIRS or there not in self._orders(first, second)):
            found += [f"mixed: {difference}" for difference in differences(wanted, there)]
        return [done], found + leftovers

    def _second(self, name):
        """The same command, or one with other flags."""
        scenario = SCENARIOS[name]
        return f"{scenario.command} {scenario.other if self.draw.random() < 0.7 else ''}".strip(), "$^"

    def _orders(self, name, second):
        """The files of the second command alone, and of both in either order."""
        place, command = self.workplace, SCENARIOS[name].command
        other = name if second == command else f"{name}, other"
        yield place.undisturbed(other, second).files
        yield place.undisturbed(f"{other}, over {name}", second, name).files
        yield place.undisturbed(f"{name}, over {other}", command, other).files


def but(ignored, paths):
    """The files whose path does not match a pattern."""
    return {path: digest for path, digest in paths.items() if not re.search(ignored, path)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--folder", help="a new folder, which is kept; default: a temporary one")
    for name, count in dict(kills=75, exact_kills=75, pairs=50, signals=24, faults=150, power_cuts=40, soak=60,
                            seed=1).items():
        arguments.add_argument(f"--{name}", type=int, default=count)
    arguments.add_argument("--only", default=",".join([*SCENARIOS, *PAIRS]), help="scenarios and pairs")
    arguments.add_argument("--csv", help="file of the counts; those of other scenarios and commits stay in it")
    options = arguments.parse_args()
    os.nice(15)
    for number in (signal.SIGTERM, signal.SIGHUP):  # end what runs, too; ignored ones (nohup) the commands would ignore
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with contextlib.ExitStack() as stack:
        folder = options.folder or os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "drills")
        counts, findings = disturbed(Workplace(os.path.abspath(folder)), options)
    print(f"{sum(counts.values())} disturbed runs, {sum(findings.values())} of them with findings")
    if options.csv:
        write_counts(options.csv, counts, findings)
    sys.exit(1 if sum(findings.values()) else 0)


def disturbed(workplace, options):
    """Does what the options say. Returns the numbers of disturbed runs and of those with findings."""
    workplace.undisturbed("vocabulary")  # whose model is in the folder of data from now on
    for what, reason in workplace.left_out.items():
        print(f"left out: {what}, since {reason}", flush=True)
    drill, only = Drill(workplace, options.seed), options.only.split(",")
    scenarios = [name for name in only if name in SCENARIOS]

    def cost(name):
        return SCENARIOS[PAIRS[name][0] if name in PAIRS else name].cost

    table = {"random kill": (drill.kill, options.kills, list(scenarios)),
             "exact kill": (drill.exact_kill, options.exact_kills if workplace.is_watched else 0, list(scenarios)),
             "pair": (drill.pair, options.pairs, list(only)),
             "signal": (drill.signal, options.signals, list(scenarios)),
             "failing call": (drill.fault, options.faults if workplace.is_watched else 0, list(scenarios)),
             "power cut": (drill.power_cut, options.power_cuts if workplace.disks else 0, list(scenarios))}
    counts, findings = collections.Counter(), collections.Counter()
    for kind, (disturb, wanted, names) in table.items():
        rounds = dict.fromkeys(names, 0)
        while names and total(counts, kind) < wanted and sum(rounds.values()) < 5 * wanted:
            # Each in turn, a costly one as much less often.
            name = min(names, key=lambda name: rounds[name] and (rounds[name] + 1) * cost(name))
            rounds[name] += 1
            try:
                done, found = disturb(name)
            except RuntimeError as error:  # an undisturbed run fails
                done, found = [], [str(error)]
                names.remove(name)
            counts[kind, name] += len(done)
            findings[kind, name] += bool(found)
            print(json.dumps(dict(disturbance=kind, scenario=name, done=done, found=found)), flush=True)
    if options.soak:
        done, found = soak(workplace, options.soak)
        counts["answer of serve", "serve"], findings["answer of serve", "serve"] = done["answers"], len(found)
        print(json.dumps(dict(disturbance="soak", **done, found=found)), flush=True)
    return counts, findings


def total(counts, kind):
    return sum(count for (counted, _), count in counts.items() if counted == kind)


def write_counts(path, counts, findings):
    """Writes a row for each disturbance and scenario. It replaces an earlier row of the same versions and commit."""
    import tensorflow as tf

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True,
                            text=True).stdout.strip()
    rows = {}
    if os.path.exists(path):
        with open(path, newline="") as file:
            rows = {(*tuple(row.values())[:4], row["commit"]): row for row in csv.DictReader(file)}
    for (kind, name), count in counts.items():
        key = dict(tensorflow=tf.__version__, python=platform.python_version(), disturbance=kind, scenario=name)
        rest = dict(date=datetime.date.today().isoformat(), commit=commit, runs=count, findings=findings[kind, name])
        rows[*key.values(), commit] = {**key, **rest}
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, next(iter(rows.values())), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


if __name__ == "__main__":
    main()
