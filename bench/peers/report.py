# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of compare.py as JSON, Markdown and plots."""
import html
import json
import re
import statistics

COLORS = {"tlxjit": "#c0392b", "cublas": "#2e7d32", "cudnn": "#2e7d32", "copy": "#2e7d32", "fa3": "#d08a1d", "tlx": "#8e5bb5",
          "triton": "#3f6fb5", "torch": "#7b8a8b"}
ORDER = list(COLORS)


def free_name(folder, name):
    """folder/name, or name-2, … if that is taken."""
    number, path = 1, folder / name
    while path.with_name(path.name + ".json").exists():
        number += 1
        path = folder / f"{name}-{number}"
    return path


def _sorted(contenders):
    return sorted(contenders, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n))


def ratio(work, name="tlxjit", to=None):
    """Of kernels alone; `to`: the work's yardstick."""
    c, yard = work["contenders"], to or work["yardstick"]
    return c[name]["alone"] / c[yard]["alone"] if name in c and yard in c else None


def is_own(name):
    return name.split()[0] == "tlxjit"


def form(work):
    """Its name without the sizes."""
    return re.sub(r"-S\d+|-\d+(x\d+)+$", "", work["name"])


def means(works):
    """[(works of one type and form, kernel of ours, {peer: (geometric mean of the ratios, the least)})], over the works that have both."""
    found = []
    for form_ in dict.fromkeys(map(form, works)):
        group = [w for w in works if form(w) == form_]
        names = _sorted({name for w in group for name in w["contenders"]})
        for own in filter(is_own, names):
            ratios = {peer: [r for w in group if (r := ratio(w, own, peer))] for peer in names if not is_own(peer)}
            found.append((form_, own, {peer: (statistics.geometric_mean(rs), min(rs)) for peer, rs in ratios.items() if rs}))
    return found


def _number(value, digits=0):
    return "–" if value is None else f"{value:.{digits}f}"


def line(work):
    """One line for people who wait."""
    found = work["contenders"]
    parts = [f"{name} {_number(found[name]['alone'])}/{_number(found[name]['called'])}" for name in _sorted(found)]
    failed = "".join(f"; {name} failed: {why.splitlines()[0][:160]}" for name, why in work["failed"].items())
    return f"{work['name']} {work['unit']} alone/called: {', '.join(parts)}; ratio {_number(ratio(work), 3)}{failed}"


def _tables(works):
    for kind in dict.fromkeys(w["kind"] for w in works):
        group = [w for w in works if w["kind"] == kind]
        names = _sorted({name for w in group for name in w["contenders"]})
        if len(names) > len(ORDER):  # tuning: a row each
            for work in group:
                yield f"\n## {work['name']}\n"
                yield f"| configuration | {work['unit']} | min … max | of {work['yardstick']} | registers, shared bytes |"
                yield "|---" * 5 + "|"
                for name, c in sorted(work["contenders"].items(), key=lambda item: -item[1]["alone"]):
                    note = c["note"]
                    spread = f"{c['alone_min']:.0f} … {c['alone_max']:.0f}"
                    yield (f"| {name} | {c['alone']:.0f} | {spread} | {_number(ratio(work, name), 3)} | "
                           f"{note.get('registers', '–')}, {note.get('shared_bytes', '–')} |")
            continue
        yield f"\n## {kind}: {group[0]['unit']} of the kernel alone / as called\n"
        others = [n for n in names if n != "tlxjit"]
        yield f"| work | {' | '.join(names)} | {' | '.join(f'tlxjit to {n}' for n in others)} | as called to alone |"
        yield "|---" * (len(names) + len(others) + 2) + "|"
        for work in group:
            cells = [f"{c['alone']:.0f} / {_number(c['called'])}" if (c := work["contenders"].get(name)) else "–" for name in names]
            own = work["contenders"].get("tlxjit", {})
            called = own["called"] / own["alone"] if own.get("called") else None
            cells += [_number(ratio(work, to=n), 3) for n in others] + [_number(called, 3)]
            yield f"| {work['name']} | {' | '.join(cells)} |"
        yield "\nGeometric mean of the ratios, and the least of them:\n\n| works | kernel | to |\n|---|---|---|"
        for form_, own, peers in means(group):
            yield f"| {form_} | {own} | {', '.join(f'{peer} {mean:.3f} ({least:.3f})' for peer, (mean, least) in peers.items())} |"
        yield f"\nClock (MHz) and power (W) in the timed half of the turns, and what held the clock:\n\n| work | {' | '.join(names)} |"
        yield "|---" * (len(names) + 1) + "|"
        for work in group:
            found = [work["contenders"].get(name) for name in names]
            cells = [f"{_number(c['mhz'])}, {_number(c['watt'])} {', '.join(c['held_by'])}" if c else "–" for c in found]
            yield f"| {work['name']} | {' | '.join(cells)} |"


def markdown(document, plots):
    machine = document["machine"]
    yield f"# Beside its peers, {document['date']}, commit {document['commit'][:10]}\n"
    if document["dry_run"]:
        yield "**A dry run on the simulator: its numbers say nothing about speed.**\n"
    where = f"no GPU found ({machine['absent']})" if "absent" in machine else \
        f"{machine['name']}, driver {machine['driver']}, power limit {machine['power_limit_w']:.0f} W"
    yield f"- machine: {where}\n- command: `{document['command']}`"
    yield (f"- {document['rounds']} rounds, order drawn with seed {document['seed']}; a turn is {document['warm_s'] * 1000:.0f} ms untimed and "
           f"{document['timed_s'] * 1000:.0f} ms timed; medians; {document.get('seconds', 0)} s in all")
    for group, info in document["groups"].items():
        yield f"- {group}: {'absent: ' + info['absent'].splitlines()[0] if 'absent' in info else json.dumps(info.get('versions', {}))}"
    if document["left_out"]:
        yield f"- left out for time: {', '.join(document['left_out'])}"
    for plot in plots:
        yield f"\n![{plot.stem}]({plot.name})"
    yield from _tables(document["works"])
    failures = [(w["name"], name, why) for w in document["works"] for name, why in w["failed"].items()]
    if failures:
        yield "\n## Failed\n"
        yield from (f"- {work}, {name}: {why.splitlines()[0][:300]}" for work, name, why in failures)
    kernels = [(w["name"], c["note"]) for w in document["works"] for name, c in w["contenders"].items() if is_own(name)]
    if kernels:
        yield "\n## Our kernels\n\n| work | kernel | parameters | registers, spills, shared bytes | relative error |\n|---|---|---|---|---|"
        for name, note in kernels:
            params = ", ".join(f"{k} {v}" for k, v in note.get("params", {}).items())
            yield (f"| {name} | {note.get('kernel')} | {params} | {note.get('registers', '–')}, {note.get('spill_stores', '–')}, "
                   f"{note.get('shared_bytes', '–')} | {note['error']:.1e} |")
    if document.get("configs"):
        problems = [c for c in document["configs"] if "problem" in c]
        yield f"\n## configs.json: {len(document['configs']) - len(problems)} of {len(document['configs'])} rules compile\n"
        for c in problems:
            yield f"- {c['work']} {c['target']} {c['kernel']} {c['params']}: {c['problem'].strip().splitlines()[0][:200]}"


def svg(works, unit):
    """Horizontal bars, a group a work: the kernel alone, with what it reaches as called as a tick."""
    left, width, bar, gap, head = 330, 560, 15, 14, 30
    rows, top = [], head
    largest = max(c["alone"] for w in works for c in w["contenders"].values())
    x = lambda value: left + width * value / largest
    for work in works:
        names = _sorted(work["contenders"])
        middle = f"{top + bar * len(names) / 2 + 4:.0f}"
        rows.append(f'<text x="{left - 70}" y="{middle}" text-anchor="end" font-weight="bold">{html.escape(work["name"])}</text>')
        for name in names:
            c = work["contenders"][name]
            ticks = "" if not c["called"] else \
                f'<path d="M{x(min(c["called"], largest)):.1f} {top + 1}v{bar - 4}" stroke="#000" stroke-width="1.5"/>'
            share = "" if name == work["yardstick"] or ratio(work, name) is None else f" ({ratio(work, name):.2f})"
            end, base = x(c["alone"]), top + bar - 4
            rows.append(f'<text x="{left - 6}" y="{base}" text-anchor="end">{html.escape(name)}</text>'
                        f'<rect x="{left}" y="{top}" width="{end - left:.1f}" height="{bar - 2}" fill="{COLORS.get(name, "#999")}"/>{ticks}'
                        f'<text x="{end + 5:.1f}" y="{base}">{c["alone"]:.0f}{share}</text>')
            top += bar
        top += gap
    title = f"{unit} of the kernel alone; in brackets: of {works[0]['yardstick']}; tick: as called"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 110}" height="{top}" font-family="sans-serif" font-size="11">'
            f'<rect width="100%" height="100%" fill="#fff"/><text x="{left}" y="18" font-size="13">{html.escape(title)}</text>\n'
            + "\n".join(rows) + "</svg>\n")


def write(path, document):
    plots = []
    for kind in dict.fromkeys(w["kind"] for w in document["works"]):
        group = [w for w in document["works"] if w["kind"] == kind and w["contenders"]]
        if group and max(len(w["contenders"]) for w in group) <= len(ORDER):
            plots.append(path.with_name(f"{path.name}-{kind}.svg"))
            plots[-1].write_text(svg(group, group[0]["unit"]))
    path.with_name(path.name + ".json").write_text(json.dumps(document, indent=1) + "\n")
    path.with_name(path.name + ".md").write_text("\n".join(markdown(document, plots)) + "\n")
