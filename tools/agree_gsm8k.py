"""Score GSM8K replies of mixed formats with lm-evaluation-harness's filters and with `populora.benchmarks`, and compare.

    pip install --no-deps --target LM lm_eval            # 0.4.13 was used
    PYTHONPATH=LM python tools/agree_gsm8k.py --data DIR --per-item 1

The harness has two filters for gsm8k: `strict-match` (the number after ####) and `flexible-extract` (the last number), each
followed by exact match of strings after its own clean-up. Both are the harness's own code and task file, called directly.
"""
import argparse
import random
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

FORMATS = {  # kind -> reply, from the right number r, its text with separators c, and a wrong number w
    "hashes": lambda r, c, w: f"Work it out step by step.\n#### {r}",
    "hashes, separators": lambda r, c, w: f"Work it out.\n#### {c}",
    "hashes, dollar": lambda r, c, w: f"Work it out.\n#### ${r}",
    "hashes, full stop": lambda r, c, w: f"Work it out.\n#### {r}.",
    "hashes, decimals": lambda r, c, w: f"Work it out.\n#### {r}.00",
    "hashes, unit": lambda r, c, w: f"Work it out.\n#### {r} dollars",
    "hashes, then more": lambda r, c, w: f"Work it out.\n#### {r}\n\nThat took 3 steps.",
    "hashes twice": lambda r, c, w: f"First\n#### {w}\nno, rather\n#### {r}",
    "no space after hashes": lambda r, c, w: f"Work it out.\n####{r}",
    "answer is": lambda r, c, w: f"So the answer is {r}.",
    "answer is, separators": lambda r, c, w: f"So the answer is ${c}.",
    "answer is, bold": lambda r, c, w: f"The answer is **{r}**",
    "box": lambda r, c, w: rf"So we get \boxed{{{r}}}.",
    "box, then more": lambda r, c, w: rf"So we get \boxed{{{r}}}. I checked it 2 times.",
    "box, separators": lambda r, c, w: rf"So we get \boxed{{{c}}}.",
    "last number": lambda r, c, w: f"We have 3 and 4, so in the end {r} apples are left.",
    "last number, equation": lambda r, c, w: f"12 + 5 = {r}",
    "not the last number": lambda r, c, w: f"It is {r}, which took 2 steps.",
    "percent": lambda r, c, w: f"That makes {r}%",
    "wrong": lambda r, c, w: f"Work it out.\n#### {w}",
    "wrong in the box": lambda r, c, w: rf"{r} is tempting, but \boxed{{{w}}}",
    "wrong, right one before": lambda r, c, w: f"From {r} we get {w}",
    "no number": lambda r, c, w: "I do not know.",
    "empty": lambda r, c, w: "",
    "hashes without number": lambda r, c, w: "#### unknown",
}


def harness() -> dict:
    "The harness's two filters with its exact match, as functions (reply, gold text) -> right or not."
    import yaml
    from lm_eval.api.metrics import exact_match_hf_evaluate
    from lm_eval.filters.extraction import RegexFilter
    path = Path(find_spec("lm_eval").origin).parent/"tasks"/"gsm8k"/"gsm8k.yaml"
    task = yaml.safe_load(path.read_text(encoding="utf-8"))
    metric = {k: v for k, v in task["metric_list"][0].items() if k in ("regexes_to_ignore", "ignore_case", "ignore_punctuation")}

    def judge(rule):
        options = {k: v for k, v in rule["filter"][0].items() if k != "function"}
        extract = RegexFilter(**options)
        def right(reply, gold):
            found = extract.apply([[reply]], [{}])
            found = next(iter(found))[0]
            return bool(exact_match_hf_evaluate([found], [gold], **metric)["exact_match"])
        return right
    return {rule["name"]: judge(rule) for rule in task["filter_list"]}


def main() -> None:
    "The command line."
    from populora.benchmarks import BENCHMARKS, evaluation_box, load_items
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--per-item", type=int, default=1)
    args = parser.parse_args()
    rng, theirs, items, texts, kinds = random.Random("agree gsm8k"), harness(), [], [], []
    for item in load_items(BENCHMARKS["gsm8k"], args.data):
        number = item.gold.replace(",", "")
        for kind in rng.sample(list(FORMATS), args.per_item):
            wrong = str(int(float(number)) + rng.choice((-1, 1, 10)))
            items.append(item); kinds.append(kind); texts.append(FORMATS[kind](number, f"{int(number):,}", wrong))
    with evaluation_box(workers=1) as box: scores = BENCHMARKS["gsm8k"].score(items, texts, box)
    for name, right in theirs.items():
        verdicts = [right(text, item.fields["solution"]) for item, text in zip(items, texts)]
        ours = [s.parts[name] if name in s.parts else s.correct for s in scores]
        which = "our part of the same name" if name in scores[0].parts else "our verdict"
        print(f"{name}: {sum(a == b for a, b in zip(ours, verdicts))} of {len(items)} identical to {which}; "
              f"harness right {sum(verdicts)}, ours right {sum(map(bool, ours))}")
        different = Counter((kind, a, b) for kind, a, b in zip(kinds, ours, verdicts) if a != b)
        for (kind, a, b), n in sorted(different.items(), key=str): print(f"  {kind} ({n}): ours {a}, harness {b}")


if __name__ == "__main__": main()
