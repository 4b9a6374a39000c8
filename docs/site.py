"""Checks the links of all pages, and writes those of docs/SUMMARY.md into a directory for mdBook.

`python3 docs/site.py OUT`. The pages keep their paths, so that links mean there what they mean in the repository. Three
things differ: a link to a directory leads to its README.md; a pattern in a comment of SUMMARY.md becomes the pages that
it matches and that have no entry of their own; the page of an example ends with its manifests. Exits with 1 and names
every link that leads nowhere, every page of docs/ that SUMMARY.md lacks, and every link of a page of the site to one that
is not of it.
"""

import functools
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = ROOT / "docs/SUMMARY.md"
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SKIPPED = {"target", "node_modules", "snapshots"}


def links(text):
    """The links of a page outside its code, as matches of LINK at their places."""
    blank = lambda code: re.sub(r"[^\n]", " ", code[0])
    text = re.sub(r"^ *```.*?^ *```$", blank, text, flags=re.M | re.S)
    return list(LINK.finditer(re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", blank, text, flags=re.S)))


@functools.cache
def anchors(file):
    """What a `#` in an address of a page may name: its headings, as mdBook and GitHub write them, and its `<a id>`."""
    fenced, out = False, set()
    for line in file.read_text().splitlines():
        if line.startswith("```"):
            fenced = not fenced
        out |= set() if fenced else set(re.findall(r'<a id="([^"]+)">', line))
        if not fenced and (heading := re.match(r"#{1,6} +(.*)", line)):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            out.add(re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-"))
    return out


def target(page, address):
    """The file to which an address of a page leads, and the anchor in it; None for one on the web."""
    if re.match(r"[a-z]+:", address):
        return None, None
    path, _, anchor = address.partition("#")
    file = Path(os.path.normpath(page.parent / path)) if path else page
    return (file / "README.md" if (file / "README.md").is_file() else file), anchor


def all_pages():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(files) if name.endswith(".md") or name == "llms.txt")


def table_of_contents():
    """SUMMARY.md with paths from the root and with the pages of its patterns, and the pages in it."""
    text = SUMMARY.read_text()
    pages = [Path(os.path.normpath(SUMMARY.parent / path)) for _, path in LINK.findall(text)]
    named, lines = set(pages), []
    for line in text.splitlines():
        if pattern := re.fullmatch(r"( *)<!-- (\S+) -->", line):
            found = set(ROOT.glob(os.path.normpath(Path("docs") / pattern[2]))) - named
            # The same folder of several crates: by name.
            for page in sorted(found, key=lambda page: (page.name, page)):
                title = page.read_text().splitlines()[0].removeprefix("# ")
                lines.append(f"{pattern[1]}- [{title}]({page.relative_to(ROOT)})")
                pages.append(page)
        else:
            lines.append(LINK.sub(lambda link: f"[{link[1]}]({os.path.normpath(Path('docs') / link[2])})", line))
    return "\n".join(lines) + "\n", pages


def faults(pages):
    for page in all_pages():
        name, text = page.relative_to(ROOT), page.read_text()
        for link in links(text):
            address, place = link[2], f"{name}:{text.count(chr(10), 0, link.start()) + 1}"
            file, anchor = target(page, address)
            if file is None:
                continue
            if not file.exists():
                yield f"{place}: {address} does not exist"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield f"{place}: {address}: no such heading"
            elif page in pages and file.suffix == ".md" and file not in (SUMMARY, *pages):
                yield f"{place}: {address} is no page of docs/SUMMARY.md"
        if name.parent == Path("docs") and page not in (SUMMARY, *pages):
            yield f"{name} is not in docs/SUMMARY.md"


def write(page, out, pages):
    """The page for mdBook, with its links to directories spelled out, and the files that it links to."""
    text = re.sub(r"\A---\n.*?\n---\n", "", page.read_text(), flags=re.S)

    parts, end = [], 0
    for link in links(text):
        file, anchor = target(page, link[2])
        if file is None or not link[2].partition("#")[0]:
            continue
        label = text[slice(*link.span(1))]
        parts.append(text[end : link.start()])
        end = link.end()
        if file.is_dir() or file == SUMMARY:
            parts.append(label)
            continue
        if file not in pages:
            copy = out / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        address = os.path.relpath(file, page.parent).replace("README.md", "index.md")
        parts.append(f"[{label}]({address}{'#' + anchor if anchor else ''})")
    text = "".join([*parts, text[end:]])
    if page.parent.parent == ROOT / "examples":
        for manifest in sorted(page.parent.rglob("*.kdl")):
            text += f"\n## {manifest.relative_to(page.parent)}\n\n```kdl\n{manifest.read_text()}```\n"
    (out / page.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
    (out / page.relative_to(ROOT)).write_text(text)


def main(out):
    contents, pages = table_of_contents()
    found = list(faults(pages))
    if found:
        sys.exit("\n".join(found))
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "SUMMARY.md").write_text(contents)
    # mdBook turns every README.md into an index.html.
    addresses = re.sub(r"\b(\S+)\.md\)", r"\1.html)", (ROOT / "llms.txt").read_text())
    (out / "llms.txt").write_text(addresses.replace("README.html", "index.html"))
    for page in pages:
        write(page, out, pages)
    print(f"{len(pages)} pages in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
