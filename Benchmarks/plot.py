#!/usr/bin/env python3
"""Draws the results of `benchmarks --json FILE` as SVG files. Needs matplotlib.

    python3 plot.py RESULTS.json [MORE.json ...] [--output DIRECTORY]

Of several files, the later ones win. What was not measured is not drawn.
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

# Readable on white and on black: a grey of middling brightness for all that is not data, and no background.
GREY = "#808890"
OURS = "#2f8fdf"
PEERS = ["#e08030", "#9a6fd0", "#3aa676", "#d05f80", "#a08a30", "#60a0a0", "#c07050", "#7080c0"]

plt.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "benchmarks", "font.family": "sans-serif", "font.size": 9,
    "text.color": GREY, "axes.labelcolor": GREY, "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY,
    "axes.titlecolor": GREY, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "legend.fontsize": 8, "savefig.transparent": True, "grid.color": GREY, "grid.alpha": 0.25,
})


def median(side):
    return side["samples"]["median"]


def bars(axis, labels, values, colours, unit, form="{:.0f}"):
    """Horizontal bars, the first on top, with their values behind them."""
    places = range(len(labels))[::-1]
    axis.barh(places, values, color=colours, height=0.7)
    axis.set_yticks(places, labels)
    axis.set_xlabel(unit)
    axis.set_xlim(0, max(values) * 1.2)
    for place, value in zip(places, values):
        axis.text(value, place, " " + form.format(value), va="center", fontsize=8)


def draw_targets(results, save):
    judged = [m for m in results if m.get("target")]
    if not judged:
        return
    figure, axis = plt.subplots(figsize=(8, 0.8 + 0.24 * len(judged)))
    labels = []
    for row, m in enumerate(judged):
        target = m["target"]
        samples = m["ratio"] if target["quantity"] == "ratio" else m["ours"]["samples"]
        share = (lambda v: v / target["limit"]) if target["relation"] == "<=" else (lambda v: target["limit"] / v)
        value = share(samples["median"])
        ends = sorted([share(samples["minimum"]), share(samples["maximum"])])
        colour = "#3aa676" if value <= 1 else "#b0a040" if target.get("isStretch") else "#d05040"
        axis.plot(ends, [-row, -row], color=colour, linewidth=1.5)
        axis.plot([value], [-row], "o", color=colour, markersize=5)
        name = m["benchmark"].split("-")[0] + "  " + m["workload"]
        if target["quantity"] == "ours":
            name += ": " + m["ours"]["name"]
        labels.append(name + (", stretch" if target.get("isStretch") else ""))
    axis.axvline(1, color=GREY, linewidth=1, linestyle="--")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_yticks([-row for row in range(len(judged))], labels)
    axis.set_xlabel("part of what the target allows: median, minimum to maximum; left of the line is met")
    axis.grid(axis="x")
    save(figure, "targets")


def draw_peers(results, save):
    rows = [m for m in results if m["benchmark"] == "peers"]
    if not rows:
        return
    ours = sorted(median(m["ours"]) for m in rows)[len(rows) // 2]
    entries = sorted([(median(m["peer"]), m["peer"]["name"], GREY) for m in rows] + [(ours, rows[0]["ours"]["name"], OURS)])
    figure, axis = plt.subplots(figsize=(8, 0.7 + 0.3 * len(entries)))
    bars(axis, [e[1] for e in entries], [e[0] for e in entries], [e[2] for e in entries], "ns for a job, added by one thread")
    save(figure, "peers")


def draw_scaling(results, save):
    panels = [("scaling-count", "jobs"), ("scaling-owners", "owners"), ("scaling-queues", "serial queues"),
              ("scaling-threads", "threads that add"), ("scaling-nesting", "depth of nesting"), ("scaling-edges", "edges for each node")]
    panels = [p for p in panels if any(m["benchmark"] == p[0] for m in results)]
    if not panels:
        return
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.1 * columns, 3 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    for axis, (benchmark, label) in zip(axes.flat, panels):
        lines = {}
        for m in results:
            if m["benchmark"] != benchmark:
                continue
            for side, colour in ((m["ours"], OURS), (m["peer"], None)):
                lines.setdefault((side["name"], colour), {}).setdefault(m["parameter"]["value"], []).append(median(side))
        for index, ((name, colour), points) in enumerate(lines.items()):
            x = sorted(points)
            axis.plot(x, [sum(points[v]) / len(points[v]) for v in x], "o-", markersize=3, label=name.split(",")[0] if colour else name,
                      color=colour or PEERS[(index - 1) % len(PEERS)])
        axis.set_xscale("log", base=10 if max(x) > 100 else 2)
        if max(x) <= 100:
            axis.set_xticks(x, [f"{v:.0f}" for v in x])
        values = [median(side) for m in results if m["benchmark"] == benchmark for side in (m["ours"], m["peer"])]
        if max(values) > 8 * min(values):
            axis.set_yscale("log")
            axis.set_ylim(top=max(values) * 4)
        else:
            axis.set_ylim(0, max(values) * 1.4)
        axis.set_xlabel(label)
        axis.grid()
        axis.legend(loc="upper left")
    for row in axes:
        row[0].set_ylabel("ns for each")
    save(figure, "scaling")


def draw_urgent(results, save):
    rows = [m for m in results if m["benchmark"] == "P21-urgent"]
    if not rows:
        return
    figure, axis = plt.subplots(figsize=(8, 0.7 + 0.55 * len(rows)))
    for row, m in enumerate(rows):
        for side, offset, colour in ((m["ours"], 0.18, OURS), (m["peer"], -0.18, GREY)):
            axis.barh(-row + offset, median(side), height=0.34, color=colour)
            axis.text(median(side), -row + offset, f" {side['name']}: {median(side):,.0f}", va="center", fontsize=8)
    axis.set_yticks([-row for row in range(len(rows))], [m["workload"] for m in rows])
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:,g}")
    axis.set_xlim(1, 60 * max(max(median(m["ours"]), median(m["peer"])) for m in rows))
    axis.set_xlabel("us from adding a job to its start")
    save(figure, "urgent")


def draw_feed(results, save):
    rows = [m for m in results if m["benchmark"] == "feed"]
    if not rows:
        return
    titles = list(dict.fromkeys(m["workload"].split(", ", 1)[1] for m in rows))
    figure, axes = plt.subplots(1, len(titles), figsize=(9, 2.4), sharey=True, layout="constrained")
    for axis, title in zip(axes, titles):
        chosen = [m for m in rows if m["workload"].endswith(title)]
        sides = [(chosen[0]["ours"], OURS)] + [
            (m["peer"], OURS if m["peer"]["name"].startswith("async(owner:)") else GREY) for m in chosen]
        sides.sort(key=lambda s: s[1] != OURS)
        unit = chosen[0]["unit"]
        bars(axis, [s["name"] for s, _ in sides], [median(s) for s, _ in sides], [c for _, c in sides], unit,
             "{:.1f}" if unit == "s" else "{:.0f}")
        axis.set_title(title)
    save(figure, "feed")


def draw_memory(results, save):
    rows = [m for m in results if m["benchmark"] == "P7-memory" and "resident" in m["workload"]]
    if not rows:
        return
    entries = [(median(rows[0]["ours"]), rows[0]["ours"]["name"], OURS)] + [(median(m["peer"]), m["peer"]["name"], GREY) for m in rows]
    figure, axis = plt.subplots(figsize=(8, 0.7 + 0.3 * len(entries)))
    bars(axis, [e[1] for e in entries], [e[0] for e in entries], [e[2] for e in entries], "bytes for a pending job, its closure included")
    save(figure, "memory")


def draw_latency(results, save):
    rows = [m for m in results if "latency" in m["benchmark"]]
    if not rows:
        return
    figure, axis = plt.subplots(figsize=(8, 0.7 + 0.55 * len(rows)))
    for row, m in enumerate(rows):
        for side, offset, colour in ((m["ours"], 0.18, OURS), (m["peer"], -0.18, GREY)):
            axis.barh(-row + offset, median(side), height=0.34, color=colour)
            axis.text(median(side), -row + offset, f" {side['name']}: {median(side):.1f}", va="center", fontsize=8)
    axis.set_yticks([-row for row in range(len(rows))], [m["workload"] for m in rows])
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlim(1, 12 * max(max(median(m["ours"]), median(m["peer"])) for m in rows))
    axis.set_xlabel("us from adding a job to its start")
    save(figure, "latency")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent / "Plots")
    arguments = parser.parse_args()

    by_benchmark = {}
    for path in arguments.results:
        new = {}
        for measurement in json.loads(path.read_text())["measurements"]:
            new.setdefault(measurement["benchmark"], []).append(measurement)
        by_benchmark.update(new)
    results = [m for measurements in by_benchmark.values() for m in measurements]

    arguments.output.mkdir(parents=True, exist_ok=True)

    def save(figure, name):
        path = arguments.output / f"{name}.svg"
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
        print(path)

    for draw in (draw_targets, draw_peers, draw_scaling, draw_urgent, draw_feed, draw_memory, draw_latency):
        draw(results, save)


main()
