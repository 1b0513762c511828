"""Run every notebook and the repository's checks; print `N passed, N failed` as the last line.

Each notebook runs in a process of its own, so that none can lean on what another left behind. Cells that carry a
flag of settings.ini (slow, gpu, net, notest) are skipped; `--flags "slow"` runs those too.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def run(command: list[str], limit: float, env: dict | None = None) -> tuple[bool, str]:
    "Run one command in the repository's root; whether it succeeded, and what it printed."
    try:
        settings = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **(env or {})}
        done = subprocess.run(command, cwd=ROOT, env=settings, stdin=subprocess.DEVNULL, timeout=limit,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    except subprocess.TimeoutExpired as error:
        return False, f"stopped after {limit:.0f} s\n{error.stdout or ''}"
    return done.returncode == 0, done.stdout


def notebook(path: Path, flags: str, limit: float) -> tuple[bool, str]:
    "Run one notebook."
    extra = ["--flags", flags] if flags else []
    passed, text = run([str(BIN / "nbdev_test"), "--path", str(path), "--n_workers", "0", *extra], limit)
    return passed and "Success" in text, text


def skipped(paths: list[Path], flags: str) -> str:
    "How many cells the flags keep from running, so that a lost flag or a forgotten one shows."
    names = [n for n in ("slow", "gpu", "net", "notest") if n not in flags.split()]
    cells = [c for p in paths for c in json.loads(p.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    counts = {n: sum(f"#| {n}" in "".join(c["source"]).split("\n")[:3] for c in cells) for n in names}
    return f"{len(cells) - sum(counts.values())} code cells, skipped by flag: " + ", ".join(f"{c} {n}" for n, c in counts.items())


def exported(_) -> tuple[bool, str]:
    "Are modules and README what the notebooks say, and are the notebooks clean? Compared as files, so no git is needed."
    watched = sorted(p for pattern in ("nbs/*.ipynb", "populora/*.py", "README.md") for p in ROOT.glob(pattern))
    before = {p: p.read_bytes() for p in watched}
    steps = [[str(BIN / "nbdev_export")], [str(BIN / "nbdev_clean")], [sys.executable, "tools/readme.py"]]
    for step in steps:
        passed, text = run(step, 300)
        if not passed: return False, text
    changed = [p.relative_to(ROOT) for p, content in before.items() if p.read_bytes() != content]
    for p, content in before.items(): p.write_bytes(content)
    return not changed, "".join(f"{p} is not what `make export` writes\n" for p in changed)


def style(_) -> tuple[bool, str]:
    "Ruff on the exported modules, setup.py and tools."
    return run([str(BIN / "ruff"), "check", "populora", "setup.py", "tools"], 120)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("names", nargs="*", help="notebooks to run, e.g. 02_verifier (default: all, and the checks)")
    options.add_argument("--flags", default="", help="flags whose cells run too, e.g. 'slow'")
    options.add_argument("--limit", type=float, default=900.0, help="seconds a notebook may take")
    options.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    given = options.parse_args()
    notebooks = sorted(p for p in (ROOT / "nbs").glob("*.ipynb") if not p.name.startswith("_"))
    if given.names: notebooks = [p for p in notebooks if p.stem in given.names]
    failed, passed = [], 0

    def timed(job):
        name, work = job
        began = time.monotonic()
        good, text = work()
        print(f"{'ok  ' if good else 'FAIL'} {name:<16} {time.monotonic() - began:6.1f} s", flush=True)
        return name, good, text

    jobs = [(p.stem, lambda p=p: notebook(p, given.flags, given.limit)) for p in sorted(notebooks, key=lambda p: -p.stat().st_size)]
    with ThreadPoolExecutor(given.workers) as pool: results = list(pool.map(timed, jobs))
    checks = [] if given.names else [("style", lambda: style(None)), ("export", lambda: exported(None))]
    results += [timed(job) for job in checks]
    for name, good, text in results:
        passed += good
        if not good: failed.append(name); print(f"\n--- {name}\n{text[-6000:]}")
    if not notebooks: print("no notebook ran"); return 1
    print(skipped(notebooks, given.flags))
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if not shutil.which(str(BIN / "nbdev_test")): sys.exit("run it with the environment's python: make test")
    sys.exit(main())
