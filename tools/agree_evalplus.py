"""Score the same completions with EvalPlus and with `populora.benchmarks` and compare the verdicts, task by task.

    python tools/agree_evalplus.py make   --data DIR --work WORK     # mixed completions from the canonical solutions, fixed seed
    python tools/agree_evalplus.py theirs --data DIR --work WORK --python /path/to/python-with-evalplus
    python tools/agree_evalplus.py ours   --data DIR --work WORK
    python tools/agree_evalplus.py table  --work WORK                # verdicts side by side, differences listed

DIR holds humaneval_plus.test.jsonl.gz and mbpp_plus.test.jsonl.gz. EvalPlus (0.3.1 was used) needs an environment of its own:
`pip install evalplus`. The two scorers see the same text; a verdict is a pair (base passed, base and plus passed).
"""
import argparse
import ast
import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

FILES = {"humaneval": "humaneval_plus.test.jsonl.gz", "mbpp": "mbpp_plus.test.jsonl.gz"}
OURS = {"humaneval": "humaneval_plus", "mbpp": "mbpp_plus"}


def read(path: Path) -> list[dict]:
    "The records of a JSONL file, gzipped or not."
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().split("\n") if line]


class Mutation(ast.NodeTransformer):
    "Change the n-th place of one sort."
    def __init__(self, sort: str, at: int): self.sort, self.at, self.seen = sort, at, -1

    def hit(self) -> bool:
        self.seen += 1
        return self.seen == self.at

    def visit_Constant(self, node):
        if self.sort == "off_by_one" and type(node.value) is int and self.hit(): return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        swap = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
        if self.sort == "comparison" and type(node.ops[0]) in swap and self.hit(): node.ops[0] = swap[type(node.ops[0])]()
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        swap = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Div, ast.Div: ast.FloorDiv, ast.Mod: ast.FloorDiv}
        if self.sort == "operator" and type(node.op) in swap and self.hit(): node.op = swap[type(node.op)]()
        return node

    def visit_If(self, node):
        self.generic_visit(node)
        if self.sort == "removed_branch" and self.hit(): node.test = ast.Constant(False)
        return node

    def visit_Return(self, node):
        self.generic_visit(node)
        if self.sort == "wrong_return" and node.value is not None and self.hit(): node.value = ast.Constant(None)
        return node


def wrapped(entry: str, body: str) -> str:
    "Code that puts a function around the solution; `inner` is the solution, `a` the arguments."
    return f"\n\n_inner = {entry}\n\ndef {entry}(*a):\n    inner = _inner\n" + "".join(f"    {line}\n" for line in body.split("\n"))


WRAPS = {  # kind -> what stands around the right solution
    "right_wrapped": "return inner(*a)",
    "right_but_prints": "print('working', a)\nreturn inner(*a)",
    "wrong_on_long_inputs": "out = inner(*a)\nreturn None if len(repr(a)) > 60 else out",
    "wrong_on_empty_inputs": "return 'nothing' if not all(a) else inner(*a)",
    "tuple_for_list": "out = inner(*a)\nreturn tuple(out) if isinstance(out, list) else out",
    "int_for_bool": "out = inner(*a)\nreturn int(out) if isinstance(out, bool) else out",
    "float_for_int": "out = inner(*a)\nreturn float(out) if type(out) is int else out",
    "tiny_float_error": "out = inner(*a)\nreturn out * (1 + 1e-9) if isinstance(out, float) else out",
    "visible_float_error": "out = inner(*a)\nreturn out + 1e-3 if isinstance(out, float) else out",
    "raises": "raise ValueError('no')",
    "exits": "import sys\nsys.exit(0)",
    "endless_loop": "while True: pass",
    "changes_its_input": "import copy\nkept = copy.deepcopy(a)\nfor x in a:\n    if isinstance(x, list): x.clear()\nreturn inner(*kept)",
}
TEXTS = {  # kind -> how the text of the right solution is changed
    "right": lambda code: code,
    "right_with_comments": lambda code: "# a solution\n" + code + "\n# the end\n",
    "right_with_more_code": lambda code: code + "\n\nif __name__ == '__main__':\n    print('done')\n",
    "syntax_error": lambda code: code.replace(":", "", 1) if ":" in code else code + "(",
    "half_a_text": lambda code: code[: len(code) * 2 // 3],
    "empty": lambda code: "",
    "wrong_name": lambda code: code.replace("def ", "def other_", 1),
}
SORTS = ("off_by_one", "comparison", "operator", "removed_branch", "wrong_return")


def mutate(code: str, sort: str, rng: random.Random) -> str | None:
    "The code with one place of this sort changed; None when it has no such place."
    counter = Mutation(sort, -2)
    counter.visit(ast.parse(code))
    if counter.seen < 0: return None
    return ast.unparse(ast.fix_missing_locations(Mutation(sort, rng.randrange(counter.seen + 1)).visit(ast.parse(code))))


def completions(task: dict, rng: random.Random, count: int) -> list[tuple[str, str]]:
    "Some (kind, program) for one task, half of them small edits of the right program."
    right = task["prompt"] + task["canonical_solution"]
    out = []
    while len(out) < count:
        kind = rng.choice(SORTS) if rng.random() < .5 else rng.choice([*WRAPS, *TEXTS])
        if kind in SORTS: program = mutate(right, kind, rng)
        elif kind in WRAPS: program = right + wrapped(task["entry_point"], WRAPS[kind])
        else: program = TEXTS[kind](right)
        if program is not None and kind not in [k for k, _ in out]: out.append((kind, program))
    return out


def make(data: Path, work: Path, per_task: dict[str, int]) -> None:
    "Write the completions."
    for name, file in FILES.items():
        rng, lines = random.Random(f"agree {name}"), []
        for task in read(data/file):
            for kind, program in completions(task, rng, per_task[name]):
                lines.append(json.dumps({"task_id": task["task_id"], "solution": program, "kind": kind}))
        (work/f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(name, len(lines), "completions")


def theirs(data: Path, work: Path, python: str, names: list[str]) -> None:
    "Run EvalPlus's own evaluation."
    paths = {"HUMANEVAL_OVERRIDE_PATH": str(data/FILES["humaneval"]), "MBPP_OVERRIDE_PATH": str(data/FILES["mbpp"]),
             "XDG_CACHE_HOME": str(work/"cache")}
    for name in names:
        began = time.perf_counter()
        (work/f"{name}_eval_results.json").unlink(missing_ok=True)
        subprocess.run([python, "-m", "evalplus.evaluate", "--dataset", name, "--samples", str(work/f"{name}.jsonl"), "--parallel", "1"],
                       check=True, env={**os.environ, **paths})
        print(f"{name}: {time.perf_counter() - began:.0f} s")


def ours(data: Path, work: Path, names: list[str]) -> None:
    "Score the same texts with this package."
    from populora.benchmarks import BENCHMARKS, evaluation_box, load_items
    for name in names:
        began, benchmark = time.perf_counter(), BENCHMARKS[OURS[name]]
        items = {item.fields["task_id"]: item for item in load_items(benchmark, str(data))}
        records = read(work/f"{name}.jsonl")
        with evaluation_box(workers=1) as box:
            scores = benchmark.score.judge([items[r["task_id"]] for r in records], [r["solution"] for r in records], box)
        rows = [{**r, "base": s.parts.get("base"), "plus": s.parts.get("plus"), "correct": s.correct, "reason": s.reason}
                for r, s in zip(records, scores)]
        (work/f"{name}_ours.json").write_text(json.dumps(rows), encoding="utf-8")
        print(f"{name}: {len(rows)} completions in {time.perf_counter() - began:.0f} s")


def table(work: Path) -> None:
    "Print verdicts side by side."
    for name in FILES:
        if not (work/f"{name}_ours.json").exists(): print(f"{name}: not scored by us yet"); continue
        mine = json.loads((work/f"{name}_ours.json").read_text(encoding="utf-8"))
        found = json.loads((work/f"{name}_eval_results.json").read_text(encoding="utf-8"))["eval"]
        turn, pairs = Counter(), []
        for row in mine:
            their = found[row["task_id"]][turn[row["task_id"]]]
            turn[row["task_id"]] += 1
            assert their["solution"] == row["solution"], f"{row['task_id']}: the two scorers saw different texts"
            base = their["base_status"] == "pass"
            pairs.append((row, (row["base"], row["correct"]), (base, base and their["plus_status"] == "pass"), their))
        same = sum(ours == theirs for _, ours, theirs, _ in pairs)
        print(f"{name}: {same} of {len(pairs)} verdicts identical; theirs: {Counter(theirs for _, _, theirs, _ in pairs)}")
        for row, ours, theirs, raw in pairs:
            if ours != theirs:
                their_words = f"{raw['base_status']}, {raw['plus_status']}"
                print(f"  {row['task_id']} {row['kind']}: ours {ours} ({row['reason']}), theirs {theirs} ({their_words})")


def main() -> None:
    "The command line."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("make", "theirs", "ours", "table"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", choices=tuple(FILES))
    parser.add_argument("--per-task", type=int, nargs=2, default=(2, 1), metavar=("HUMANEVAL", "MBPP"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    names = [args.only] if args.only else list(FILES)
    if args.step == "make": make(args.data, args.work, dict(zip(FILES, args.per_task)))
    elif args.step == "theirs": theirs(args.data, args.work, args.python, names)
    elif args.step == "ours": ours(args.data, args.work, names)
    else: table(args.work)


if __name__ == "__main__": main()
