// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The page that shows a timeline: its own styles and script, and the data of one trace in between.
#include "sim/timeline.h"

namespace tlx::sim {

// Texts of the data go into the page by textContent and fillText only.
const char *const kTimelinePage[2] = {R"page(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tlx timeline</title>
<style>
:root {
  color-scheme: light dark;
  --back: #fcfcfb; --stripe: #f3f2ef; --text: #1f1e1b; --faint: #76736b; --line: #dcd9d2; --head: #efede8;
  --run: #b9c7dd; --wait: #f1c9a5; --never: #c8372d; --arrive: #2f6fb2; --issue: #6a4fb3; --fence: #8d8a82;
  --load: #3f9a7a; --store: #a05a9c; --product: #c08a1e; --phase: #dfe6ee; --phase2: #c4d1e0; --edge: #c8372d;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #191918; --stripe: #20201e; --text: #eceae4; --faint: #9a978e; --line: #3a3935; --head: #262522;
    --run: #40526e; --wait: #7d5428; --never: #ff6b5e; --arrive: #6aa7e8; --issue: #a58cf0; --fence: #77746c;
    --load: #4fb391; --store: #c57fc1; --product: #d9a640; --phase: #2b343f; --phase2: #3b4a5c; --edge: #ff8a7d;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 13px/1.45 system-ui, sans-serif; }
header { padding: 12px 16px 8px; }
h1 { font-size: 16px; margin: 0 0 2px; font-weight: 600; }
header p { margin: 0; color: var(--faint); max-width: 110ch; }
#bar { position: sticky; top: 0; z-index: 2; background: var(--head); border-block: 1px solid var(--line); }
#tools { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; padding: 6px 16px; }
button, select { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--line); border-radius: 4px;
  padding: 2px 9px; }
button:focus-visible, select:focus-visible, canvas:focus-visible { outline: 2px solid var(--arrive); outline-offset: 1px; }
#legend { display: flex; flex-wrap: wrap; gap: 4px 12px; color: var(--faint); }
#legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 4px; vertical-align: -1px; }
canvas { display: block; width: 100%; touch-action: pan-y; }
#lanes { cursor: grab; }
#lanes.drag { cursor: grabbing; }
#tip, #detail { background: var(--back); border: 1px solid var(--line); border-radius: 5px; white-space: pre-wrap; }
#tip { position: fixed; z-index: 4; pointer-events: none; padding: 5px 9px; max-width: 60ch; display: none;
  box-shadow: 0 3px 12px #0003; }
#detail { position: sticky; bottom: 8px; z-index: 3; margin: 8px 16px; padding: 7px 11px; min-height: 2.2em; max-height: 32vh;
  overflow: auto; }
</style>
</head>
<body>
<header><h1 id="title"></h1><p id="about"></p></header>
<div id="bar">
<div id="tools">
<label>Time <select id="mode"><option value="1">if all runs at once</option><option value="0">in the order of the run</option></select></label>
<span><button id="in" title="zoom in (w)">+</button> <button id="out" title="zoom out (s)">&minus;</button> <button id="fit" title="all of it (0)">fit</button></span>
<span id="legend"></span>
</div>
<canvas id="axis" height="22"></canvas>
</div>
<canvas id="lanes" tabindex="0" aria-label="timeline: lanes of warps, units and barriers"></canvas>
<div id="detail">Move over a mark to see what it is and what it waits for; click to follow the chain of causes. Drag to pan, Ctrl and wheel or w and s to zoom, a and d to move.</div>
<div id="tip"></div>
<script type="application/json" id="data">)page",
                                      R"page(</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const lanes = byId("lanes"), axis = byId("axis"), tip = byId("tip"), detail = byId("detail");
byId("title").textContent = data.title;
byId("about").textContent = data.about;
const kinds = {wait: ["waits", "--wait"], arrive: ["arrival", "--arrive"], issue: ["issue, commit", "--issue"], fence: ["fence, other", "--fence"],
  load: ["TMA load", "--load"], store: ["TMA store", "--store"], product: ["wgmma", "--product"], phase: ["phase of a barrier", "--phase2"]};
for (const k in kinds) {
  const span = document.createElement("span"), box = document.createElement("i");
  box.style.background = `var(${kinds[k][1]})`;
  span.append(box, kinds[k][0]);
  byId("legend").append(span);
}
// A mark: lane, row in it, times [run, parallel] as [begin, end], end -1: never; text, cause: number of a mark or -1.
const marks = data.marks.map(m => ({lane: m[0], kind: m[1], text: data.texts[m[2]], site: data.sites[m[3]], cause: m[4],
  time: [[m[5], m[6]], [m[7], m[8]]], label: data.texts[m[9]], parity: m[10]}));
const released = marks.map(() => []);
marks.forEach((m, i) => { if (m.cause >= 0) released[m.cause].push(i); });
const NAME = 190, ROW = 19, SUB = 11, GAP = 3, HEAD = 22;
let mode = 1, from = 0, scale = 1, hover = -1, chosen = -1, width = 0, layout;

/// Where lanes lie, and for each the marks by begin, in sub-rows where they overlap.
function arrange() {
  const ends = [1, 1];
  for (const m of marks) for (const t of [0, 1]) ends[t] = Math.max(ends[t], m.time[t][0], m.time[t][1]);
  const end = ends[mode] + 1;
  let y = 4, group = null;
  const rows = [];
  for (const lane of data.lanes) {
    const heading = lane.group !== group ? (group = lane.group) : null;
    if (heading !== null) y += HEAD;
    rows.push({name: lane.name, heading, y, packed: lane.packed, marks: [], rows: 1, height: 0});
  }
  marks.forEach((m, i) => {
    let [a, b] = m.time[mode];
    m.drawn = a >= 0;
    if (!m.drawn) return;
    m.begin = a;
    m.end = b < 0 ? end : Math.max(b, a + 0.9);
    m.never = b < 0;
    rows[m.lane].marks.push(i);
  });
  let shift = 0, last = 4;
  for (const r of rows) {
    r.marks.sort((p, q) => marks[p].begin - marks[q].begin);
    const free = [];
    for (const i of r.marks) {
      const m = marks[i];
      let k = 0;
      if (r.packed) while (k < free.length && free[k] > m.begin + 1e-9) ++k;
      free[k] = m.end;
      m.row = k;
    }
    r.rows = r.packed ? Math.max(1, free.length) : 1;
    r.longest = Math.max(0, ...r.marks.map(i => marks[i].end - marks[i].begin).slice(0, 100000));
    r.y += shift;
    r.height = r.packed ? Math.max(ROW, r.rows * SUB + 2) : ROW;
    shift += r.height + GAP;
    last = r.y + r.height;
  }
  layout = {rows, end, height: last + 8};
}
const x = t => NAME + (t - from) * scale;
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function fit() { from = 0; scale = (width - NAME - 12) / layout.end; draw(); }
function clamp() {
  const least = (width - NAME - 12) / layout.end;
  scale = Math.min(Math.max(scale, least), 80);
  from = Math.min(Math.max(from, 0), Math.max(0, layout.end - (width - NAME - 12) / scale));
}
function box(m) {
  const r = layout.rows[m.lane], h = r.packed ? SUB - 2 : r.height - 5;
  return [x(m.begin), r.y + (r.packed ? m.row * SUB + 1 : 2), Math.max(1.2, (m.end - m.begin) * scale - (scale > 3 ? 1 : 0)), h];
}
function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio), canvas.height = Math.round(height * ratio);
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "middle";
  return c;
}
function drawAxis() {
  const c = prepare(axis, 22);
  c.fillStyle = color("--faint");
  c.fillText("steps", 16, 11);
  let step = 1;
  for (let k = 0; step * scale < 60; ++k) step *= k % 3 === 1 ? 2.5 : 2;
  c.strokeStyle = color("--line");
  for (let t = Math.ceil(from / step) * step; x(t) < width; t += step) {
    c.beginPath(), c.moveTo(x(t), 16), c.lineTo(x(t), 22), c.stroke();
    c.fillText(String(Math.round(t)), x(t) + 3, 11);
  }
}
function clipped(c, text, room) {
  if (c.measureText(text).width <= room) return text;
  while (text.length > 1 && c.measureText(text + "…").width > room) text = text.slice(0, -1);
  return text.length > 1 ? text + "…" : "";
}
function draw() {
  clamp();
  drawAxis();
  const c = prepare(lanes, layout.height), text = color("--text"), faint = color("--faint"), back = color("--back");
  const fills = {};
  for (const k in kinds) fills[k] = color(kinds[k][1]);
  fills.never = color("--never"), fills.phase0 = color("--phase"), fills.phase1 = color("--phase2"), fills.run = color("--run");
  layout.rows.forEach((r, n) => {
    if (r.heading !== null) {
      c.fillStyle = faint;
      c.font = "600 11px system-ui, sans-serif";
      c.fillText(r.heading, 12, r.y - 9);
      c.font = "11px system-ui, sans-serif";
    }
    c.fillStyle = color("--stripe");
    c.fillRect(NAME, r.y, width - NAME, r.height);
  });
  c.save();
  c.beginPath(), c.rect(NAME, 0, width - NAME, layout.height), c.clip();
  for (const r of layout.rows) {
    if (r.marks.length && !r.packed && marks[r.marks[0]].kind !== "phase") { // it runs, where it does not wait
      const first = marks[r.marks[0]].begin, end = marks[r.marks[r.marks.length - 1]].end;
      c.fillStyle = fills.run;
      c.fillRect(x(first), r.y + r.height / 2 - 2, (end - first) * scale, 4);
    }
    let lastX = -1, lastKind = "";
    for (const i of r.marks) {
      const m = marks[i], [bx, by, bw, bh] = box(m);
      if (bx > width || bx + bw < NAME) continue;
      if (bw < 1.5 && bx - lastX < 0.7 && m.kind === lastKind && i !== hover && i !== chosen) continue; // under the last one
      lastX = bx, lastKind = m.kind;
      c.fillStyle = m.kind === "phase" ? fills["phase" + m.parity] : m.never && m.kind === "wait" ? fills.never : fills[m.kind];
      c.fillRect(bx, by, bw, bh);
      if (bw > 26) {
        const left = Math.max(bx, NAME);
        const room = Math.min(bx + bw, width) - left - 6, label = room > 14 ? clipped(c, m.label, room) : "";
        const dark = m.kind === "wait" && !m.never || m.kind === "phase";
        c.fillStyle = dark ? text : back;
        if (label) c.fillText(label, left + 3, by + bh / 2 + 0.5);
      }
    }
  }
  for (const i of chain()) edge(c, i);
  for (const i of [chosen, hover]) if (i >= 0 && marks[i].drawn) {
    const [bx, by, bw, bh] = box(marks[i]);
    c.strokeStyle = text, c.lineWidth = 1.5;
    c.strokeRect(bx - 1, by - 1, bw + 2, bh + 2);
    if (i === hover) for (const j of released[i].slice(0, 64)) edge(c, j);
  }
  c.restore();
  c.fillStyle = text;
  layout.rows.forEach(r => c.fillText(clipped(c, r.name, NAME - 32), 22, r.y + Math.min(r.height, ROW) / 2 + 0.5));
}
/// From what completed it to the mark that waited.
function edge(c, i) {
  const m = marks[i];
  if (m.cause < 0 || !m.drawn || !marks[m.cause].drawn) return;
  const a = box(marks[m.cause]), b = box(m), unit = marks[m.cause].kind === "load" || marks[m.cause].kind === "product";
  const x0 = unit ? a[0] + a[2] : a[0] + Math.min(a[2], 4), y0 = a[1] + a[3] / 2, x1 = b[0] + b[2], y1 = b[1] + b[3] / 2;
  c.strokeStyle = c.fillStyle = color("--edge"), c.lineWidth = 1.5;
  const bend = Math.max(14, Math.abs(x1 - x0) / 2);
  c.beginPath(), c.moveTo(x0, y0), c.bezierCurveTo(x0 + bend, y0, x1 + bend, y1, x1 + 1, y1), c.stroke();
  c.beginPath(), c.moveTo(x1, y1), c.lineTo(x1 + 7, y1 - 3.5), c.lineTo(x1 + 7, y1 + 3.5), c.fill();
}
/// The last wait of the same lane that ended before a mark: why it came no earlier.
function waitBefore(i) {
  const m = marks[i], r = layout.rows[m.lane];
  for (let k = r.marks.indexOf(i); k >= 0; --k) {
    const w = marks[r.marks[k]];
    if (w.cause >= 0 && w.end <= m.begin + 1 && r.marks[k] !== i && w.end - w.begin > 1) return r.marks[k];
  }
  return -1;
}
function chain() {
  const list = [];
  if (hover >= 0 && marks[hover].cause >= 0) list.push(hover);
  let i = chosen;
  for (let n = 0; i >= 0 && n < 200; ++n) {
    if (marks[i].cause < 0 || !marks[i].drawn) { i = marks[i].drawn ? waitBefore(i) : -1; if (i < 0) break; }
    if (list.includes(i)) break;
    list.push(i);
    let next = marks[i].cause;
    if (marks[next].issuedBy !== undefined) next = marks[next].issuedBy;
    i = next;
  }
  return list;
}
const describe = i => marks[i].text + (marks[i].site ? "\n" + marks[i].site : "") +
  (marks[i].never ? "\nnever ends" : "") + (marks[i].cause >= 0 ? "\ncompleted by: " + marks[marks[i].cause].text : "");
function hit(event) {
  const at = lanes.getBoundingClientRect(), px = event.clientX - at.left, py = event.clientY - at.top;
  if (px < NAME) return -1;
  for (const r of layout.rows) {
    if (py < r.y || py > r.y + r.height) continue;
    let best = -1, distance = 4;
    for (const i of r.marks) {
      const b = box(marks[i]);
      if (b[0] > px + 4) break;
      if (r.packed && (py < b[1] - 1 || py > b[1] + b[3] + 1)) continue;
      const d = px < b[0] ? b[0] - px : px > b[0] + b[2] ? px - b[0] - b[2] : 0;
      if (d <= distance) best = i, distance = d;
    }
    return best;
  }
  return -1;
}
let drag = null;
lanes.addEventListener("pointerdown", e => { drag = {x: e.clientX, from, moved: false}; lanes.setPointerCapture(e.pointerId); lanes.classList.add("drag"); });
lanes.addEventListener("pointermove", e => {
  if (drag) {
    if (Math.abs(e.clientX - drag.x) > 3) drag.moved = true;
    from = drag.from - (e.clientX - drag.x) / scale;
    tip.style.display = "none";
    draw();
    return;
  }
  const i = hit(e);
  if (i >= 0) {
    tip.textContent = describe(i);
    tip.style.display = "block";
    tip.style.left = Math.min(e.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = (e.clientY + 18 + tip.offsetHeight > window.innerHeight ? e.clientY - tip.offsetHeight - 10 : e.clientY + 18) + "px";
  } else tip.style.display = "none";
  if (i !== hover) hover = i, draw();
});
lanes.addEventListener("pointerup", e => {
  lanes.classList.remove("drag");
  if (drag && !drag.moved) choose(hit(e));
  drag = null;
});
lanes.addEventListener("pointerleave", () => { tip.style.display = "none"; if (hover >= 0) hover = -1, draw(); });
function choose(i) {
  chosen = i;
  if (i >= 0) {
    const steps = chain().filter(k => k !== hover || k === chosen);
    detail.textContent = describe(i) + (steps.length ? "\n\nwhy it came no earlier:\n" +
      steps.map(k => "  " + marks[k].text + "  ←  " + marks[marks[k].cause].text).join("\n") : "");
  }
  draw();
}
function zoom(factor, at = NAME + (width - NAME) / 2) {
  const t = from + (at - NAME) / scale;
  scale *= factor;
  clamp();
  from = t - (at - NAME) / scale;
  draw();
}
lanes.addEventListener("wheel", e => {
  if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(Math.exp(-e.deltaY / 300), e.clientX - lanes.getBoundingClientRect().left); }
  else if (e.deltaX || e.shiftKey) { e.preventDefault(); from += (e.deltaX || e.deltaY) / scale; draw(); }
}, {passive: false});
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
  const page = (width - NAME) / scale / 6;
  if (e.key === "w" || e.key === "+") zoom(1.4);
  else if (e.key === "s" || e.key === "-") zoom(1 / 1.4);
  else if (e.key === "a") from -= page, draw();
  else if (e.key === "d") from += page, draw();
  else if (e.key === "0") fit();
});
byId("in").onclick = () => zoom(1.6);
byId("out").onclick = () => zoom(1 / 1.6);
byId("fit").onclick = fit;
byId("mode").onchange = e => { mode = Number(e.target.value); arrange(); fit(); };
data.issues.forEach(([operation, issue]) => { marks[operation].issuedBy = issue; });
function resize() { width = document.documentElement.clientWidth; if (layout) draw(); }
window.addEventListener("resize", resize);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
resize();
arrange();
fit();
if (data.open) { zoom(data.open, NAME); from = 0; draw(); }
</script>
</body>
</html>
)page"};

} // namespace tlx::sim
