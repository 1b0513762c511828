"""Teach a base to write the solver program of a story, and let it write those of the unseen stories of notebook 08.

The training stories below have other worlds, other sentences and other series of events than the test. The programs that the model writes for
the 240 test questions go into a JSON file; notebook 08 reads them back as recorded replies. Minutes on a GPU:

    python tools/sam_separation.py --base smollm2 --seconds 120 --out nbs/files/abstractions.json
"""
import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
OPERATORS = {"gain": "+", "lose": "-", "times": "*", "split": "//"}
THINGS = """apples books coins pencils roses marbles eggs chairs letters shells buttons cards robots fish plants bricks boxes toys shirts cookies
bottles lemons photos keys bags sheep horses lamps candles kites ropes cakes pens maps bells drums boats planks tiles nails seeds trees birds grapes
plums pounds euros dollars kilos metres minutes points pages crates ribbons spoons cups plates coats hats socks beads loaves pies""".split()
PEOPLE = [name.replace("_", " ") for name in """Ana Ben Cleo Dan Eva Finn Gia Hugo the_baker the_teacher a_farmer a_tailor the_cook a_shop the_school
a_child my_aunt the_clerk a_painter the_driver a_club the_museum a_gardener the_sailor""".split()]
GAINS = """adds brings buys collects creates delivers digs earns finds gets grows hires imports makes mines orders posts prints produces
receives saves sends stores uploads wins writes borrows catches inherits loads picks pours_in puts_in takes_in composes draws gathers
presses""".split()
LOSSES = """breaks burns cancels chews_up deletes destroys drinks drops eats erases gives_away hides kills loses melts misplaces pays rejects
removes returns ruins sells spends spills spoils steals throws_away tears_up wastes withdraws forgets discards donates swallows
scraps""".split()
COMES = """appear arrive are_added are_born are_bought are_brought are_found are_made are_put_on_top climb_in come_back come_in fall_in follow
join turn_up""".split()
GOES = """are_cancelled are_eaten are_erased are_lost are_rejected are_sold are_stolen break desert die disappear fall_out fly_off get_lost
get_off go_away leave melt sink vanish""".split()
SENTENCES = {name: told.split(" | ") for name, told in (line.split(": ", 1) for line in """
start: {W} has {x} {n}. | There are {x} {n} in the store. | At first {W} owns {x} {n}. | {W} starts out with {x} {n}. | {x} {n} lie in the\
 barn. | A box holds {x} {n}. | {W} keeps {x} {n} at home. | The list counts {x} {n}. | {W} carries {x} {n} to town. | On Monday {W} has\
 {x} {n}.
startg: {W} has {x} crates with {y} {n} in each. | There are {x} rows of {y} {n}. | {W} packs {y} {n} into each of {x} bags. | {W} makes\
 {y} {n} a day for {x} days. | {x} shelves hold {y} {n} each. | {W} buys {x} sets of {y} {n}. | For {x} weeks {W} saves {y} {n} a week. |\
 {W} owns {x} cases, and in every case there are {y} {n}. | {x} children bring {y} {n} each. | A cart makes {x} trips with {y} {n} per\
 trip.
gain: Then {x} more are bought. | {W} gets {x} more {n}. | {x} new {n} arrive. | A friend gives {W} {x} {n}. | {W} finds another {x}. |\
 {x} {n} are added. | Later {x} {n} come in. | {W} collects {x} {n} more. | The mail brings {x} {n} extra. | {W} earns {x} {n} on the way.\
 | Grandma puts {x} {n} on the pile.
gaing: Then {x} bags of {y} {n} are added. | {W} buys {x} packs with {y} {n} each. | {x} friends give {y} {n} each. | {W} gets {y} {n} on\
 each of {x} days. | {x} boxes arrive, each with {y} {n}. | {W} finds {x} piles of {y} {n}. | For {x} hours {y} {n} come in every hour. |\
 {x} carts bring {y} {n} apiece.
lose: {W} sells {x} of them. | {x} {n} are lost. | {W} gives {x} away. | {x} of the {n} break. | {W} uses up {x} {n}. | {x} {n} are taken\
 by a thief. | The dog eats {x} of them. | {x} {n} go bad and are thrown out. | {W} pays {x} {n}. | Of these {x} are broken. | {x} {n} fall\
 into the water. | {W} removes {x} {n}.
loseg: {W} sells {x} bags of {y} {n}. | {x} boxes with {y} {n} each are lost. | {W} gives {y} {n} to each of {x} friends. | {x} guests\
 take {y} {n} each. | For {x} days {y} {n} are used every day. | {W} throws out {x} packs of {y} {n}. | {x} crates, each holding {y} {n},\
 fall off the cart. | {x} customers return {y} {n} apiece.
times: In the end {W} has {x} times as many. | This happens on {x} days, with the same number each day. | There are {x} such rooms. | {W}\
 does this {x} times. | {x} shops have the same stock. | {x} people own as much as that. | The total for {x} months is wanted, all months\
 being equal. | Everything is multiplied by {x}.
split: They are shared equally among {x} friends; think of one friend. | {W} divides them into {x} equal heaps and keeps one heap. | They\
 go to {x} schools in equal numbers; one school is of interest. | They are packed evenly into {x} boxes; take one box. | Each of {x}\
 children gets the same number; look at one child. | {x} teams receive equal parts; consider one team. | They are cut into {x} equal parts,\
 one of which is kept.
ask: How many {n} are there now? | How many {n} is that? | What is the number of {n}? | How many {n} are left? | How many {n} in the end?\
 | Give the number of {n}. | What is the result? | Tell how many {n} there are.
""".strip().split("\n"))}


def choose(rng, options): return options[int(rng.random() * len(options))]


def test_questions() -> tuple[list, set[str]]:
    "The unseen questions of notebook 08 and their series of events, from the notebook's own cells."
    import ast

    from fastcore.test import test_eq
    from typing import NamedTuple
    from populora.diversity import ProgramAbstraction
    from populora.generator import generate_word_problem, parse_word_problem

    names = {"np": np, "ast": ast, "test_eq": test_eq, "NamedTuple": NamedTuple, "by_tree": ProgramAbstraction(),
             "generate_word_problem": generate_word_problem, "parse_word_problem": parse_word_problem, "__name__": "notebook"}
    notebook = json.loads((ROOT / "nbs" / "08_diversity.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for mark in ("EVENTS = (", "EVENT_SERIES = ", "def told(", "class Unseen("):
        exec(next(cell for cell in cells if cell.startswith(mark)), names)
    return names["unseen"], set(names["EVENT_SERIES"])


def any_verb(rng, event: str) -> str:
    "A sentence for gaining or losing with one of many common verbs; other events keep to the list."
    kind = event.removesuffix("g")
    if kind not in ("gain", "lose"): return choose(rng, SENTENCES[event])
    acts, happens = (GAINS, COMES) if kind == "gain" else (LOSSES, GOES)
    groups = ["{x} groups of {y} {n}", "{x} bags with {y} {n} each", "{x} lots of {y} {n}", "{x} times {y} {n}"]
    many = choose(rng, groups) if event.endswith("g") else "{x} {n}"
    said = "{W} " + choose(rng, acts) + " " + many if rng.random() < .5 else many + " " + choose(rng, happens)
    return choose(rng, ["", "Then ", "Later ", "At noon ", "In the end "]) + said.replace("_", " ") + "."


def story(rng, held_out: set[str]) -> tuple[str, str]:
    "A training story and its solver program; its series of events is none of the held-out ones."
    while True:
        events = [choose(rng, ["start", "start", "startg"])]
        events += [choose(rng, ["gain", "gaing", "lose", "loseg", "times", "split"]) for _ in range(1 + int(rng.random() * 3.4))]
        if " ".join(events) not in held_out: break
    words, letters, fresh = {"W": choose(rng, PEOPLE), "n": choose(rng, THINGS)}, iter("abcdefghij"), iter("pqrstuvwxyz")
    parts, numbers, lines, amount = [], {}, [], None
    for event in events:
        here = [next(letters) for _ in range(1 + event.endswith("g"))]
        for letter in here: numbers[letter] = 10 + int(rng.random() * 190) if event == "start" else 2 + int(rng.random() * 12)
        operand = here[0]
        if len(here) == 2:
            operand = next(fresh)
            lines.append(f"    {operand} = {here[0]} * {here[1]}")
        if event.startswith("start"): amount = operand
        else:
            result = next(fresh)
            lines.append(f"    {result} = {amount} {OPERATORS[event.removesuffix('g')]} {operand}")
            amount = result
        who = words["W"] if rng.random() < .7 else choose(rng, PEOPLE)
        text = choose(rng, SENTENCES[event]) if rng.random() < .5 else any_verb(rng, event)
        text = text.format(x=numbers[here[0]], y=numbers[here[-1]], W=who, n=words["n"])
        parts.append(text[0].upper() + text[1:])
    parts.append(choose(rng, SENTENCES["ask"]).format(n=words["n"]))
    head = f"def solver({', '.join(f'{name}={value}' for name, value in numbers.items())}):"
    return " ".join(parts), "\n".join([head, *lines[:-1], f"    return {lines[-1].split(' = ')[1]}"])


def prompt_of(question: str) -> str: return f"solver\n{question}\n"


def train(model, tokenizer, held_out: set[str], seconds: float, batch: int, lr: float, seed: int, device: str) -> int:
    "Full fine-tuning on fresh stories until the time is up; the learning rate falls with the time. Returns the number of steps."
    rng, end = np.random.default_rng(seed), tokenizer.eos_token_id
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(.9, .98), weight_decay=.01)
    start, step = time.time(), 0
    model.train()
    while (spent := time.time() - start) < seconds:
        for group in optimizer.param_groups: group["lr"] = lr * min(1, (step + 1) / 20) * max(.02, 1 - spent / seconds)
        rows = []
        for _ in range(batch):
            question, program = story(rng, held_out)
            rows.append((tokenizer(prompt_of(question)).input_ids, [*tokenizer(program, add_special_tokens=False).input_ids, end]))
        width = max(len(asked) + len(written) for asked, written in rows)
        ids, mask, labels = torch.full((batch, width), end), torch.zeros((batch, width), dtype=torch.long), torch.full((batch, width), -100)
        for i, (asked, written) in enumerate(rows):
            n = len(asked) + len(written)
            ids[i, :n], mask[i, :n], labels[i, len(asked):n] = torch.tensor(asked + written), 1, torch.tensor(written)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model(input_ids=ids.to(device), attention_mask=mask.to(device), labels=labels.to(device)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(); optimizer.zero_grad()
        step += 1
        if step % 20 == 0: print(f"step {step}, {spent:.0f} s, loss {loss.item():.4f}", flush=True)
    return step


@torch.inference_mode()
def write(model, tokenizer, questions: list[str], device: str, rows: int) -> list[str]:
    "Programs at temperature 0."
    model.eval()
    order, texts = sorted(range(len(questions)), key=lambda i: len(questions[i])), [""] * len(questions)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None: tokenizer.pad_token = tokenizer.eos_token
    for start in range(0, len(order), rows):
        chosen = order[start:start + rows]
        asked = tokenizer([prompt_of(questions[i]) for i in chosen], return_tensors="pt", padding=True)
        asked = {name: asked[name].to(device) for name in ("input_ids", "attention_mask")}
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            made = model.generate(**asked, do_sample=False, max_new_tokens=140, pad_token_id=tokenizer.pad_token_id,
                                  eos_token_id=tokenizer.eos_token_id)
        for i, text in zip(chosen, tokenizer.batch_decode(made[:, asked["input_ids"].shape[1]:], skip_special_tokens=True)): texts[i] = text
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="smollm2", help='"smollm2", "tiny" or a folder')
    parser.add_argument("--seconds", type=float, default=120, help="time to train")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="write only so many programs, spread over the questions (to try it out)")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    from populora.bases import load_base
    from populora.diversity import cosine_similarity, hashed_encoder, program_form

    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = load_base(args.base, device)
    model, tokenizer = base.model.float(), base.tokenizer
    model.requires_grad_(True)
    unseen, held_out = test_questions()
    if args.limit: unseen = unseen[::max(1, len(unseen) // args.limit)]
    steps = train(model, tokenizer, held_out, args.seconds, args.batch, args.lr, args.seed, device)
    rng = np.random.default_rng(10**6 + args.seed)
    similar = [story(rng, held_out) for _ in range(len(unseen))]  # the training stories' own language, other draws
    rows = 256 if device == "cuda" else 32
    programs = write(model, tokenizer, [item.question for item in unseen], device, rows)
    own = write(model, tokenizer, [question for question, _ in similar], device, rows)

    def form(program):
        try: return program_form(program, constants=True)
        except ValueError: return program
    exact = float(np.mean([form(a) == form(b.solver) for a, b in zip(programs, unseen)]))
    familiar = float(np.mean([form(a) == form(b) for a, (_, b) in zip(own, similar)]))
    similarity = cosine_similarity(hashed_encoder([form(program) for program in programs]))
    np.fill_diagonal(similarity, -2)
    share = float(np.mean([unseen[i].procedure == unseen[j].procedure for i, j in enumerate(similarity.argmax(1))]))
    record = {"base": args.base, "seconds": args.seconds, "steps": steps, "batch": args.batch, "lr": args.lr, "seed": args.seed, "device": device,
              "exact": exact, "exact_on_training_language": familiar, "nearest_same_procedure": share, "programs": programs}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=0), encoding="utf-8")
    print({name: value for name, value in record.items() if name != "programs"})


if __name__ == "__main__": main()
