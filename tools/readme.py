"""Write README.md from nbs/index.ipynb: cells marked `#| hide` are left out, directives are stripped, outputs stay."""
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parent.parent


def readable(cell) -> bool:
    return not (cell.cell_type == "code" and "#| hide" in cell.source)


def main() -> None:
    notebook = nbformat.read(ROOT / "nbs" / "index.ipynb", as_version=4)
    notebook.metadata["language_info"] = {"name": "python"}  # what the code fences are tagged with
    notebook.cells = [c for c in notebook.cells if readable(c)]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = "\n".join(line for line in cell.source.split("\n") if not line.startswith("#|")).strip()
    text, _ = MarkdownExporter().from_notebook_node(notebook)
    text = text.replace("](../figures/", "](figures/")  # the README stands one folder up
    lines = [line.rstrip() for line in text.strip().split("\n")]
    body = "\n".join(line for i, line in enumerate(lines) if line or (i and lines[i - 1]))
    note = "<!-- Written by tools/readme.py from nbs/index.ipynb: edit the notebook. -->"
    (ROOT / "README.md").write_text(f"{note}\n\n{body}\n", encoding="utf-8")


if __name__ == "__main__": main()
