#include "recycle/plan/gantt_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace recycle {
namespace {

constexpr int kRowHeight = 26;  // pixels, bar and gap
constexpr int kBarHeight = 22;
constexpr int kLabelWidth = 64;  // pixels left of the time axis
constexpr int kAxisHeight = 24;

constexpr std::string_view kStyle = R"css(
:root { --paper: #ffffff; --ink: #1f2933; --faint: #7b8794; --line: #e4e7eb; --card: #f7f9fb;
  --F: #4c8bf5; --I: #12a594; --W: #f0b429; --B: #7c6ce0;
  --rF: #e8447a; --rI: #c2255c; --rW: #ff8fab; --rB: #a61e4d; --step: #52606d; --bubble: #cbd2d9; }
@media (prefers-color-scheme: dark) { :root { --paper: #12171d; --ink: #e4e7eb; --faint: #9aa5b1;
  --line: #2b3440; --card: #1a212a; --bubble: #3e4c59; --step: #9aa5b1; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 24px 28px; background: var(--paper); color: var(--ink);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; margin: 0 0 2px; font-weight: 650; }
h2 { font-size: 15px; margin: 0; font-weight: 650; }
p { margin: 0; color: var(--faint); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 14px 0 4px; font-size: 13px; }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.legend i { width: 22px; height: 13px; border-radius: 3px; display: inline-block; }
.panel { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 14px 16px 8px; margin-top: 16px; }
.figures { display: flex; flex-wrap: wrap; gap: 2px 22px; margin: 3px 0 8px; color: var(--faint); }
.figures b { color: var(--ink); font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; touch-action: none; cursor: grab; user-select: none; }
svg.dragging { cursor: grabbing; }
text { font: 11px ui-monospace, "DejaVu Sans Mono", monospace; pointer-events: none; }
.label { fill: var(--ink); font-size: 12px; } .label.dead { fill: #e03131; }
.tick { fill: var(--faint); } .grid { stroke: var(--line); }
.bar { stroke: var(--paper); stroke-width: 1; vector-effect: non-scaling-stroke; }
.F { fill: var(--F); } .I { fill: var(--I); } .W { fill: var(--W); } .B { fill: var(--B); }
.r.F { fill: var(--rF); } .r.I { fill: var(--rI); } .r.W { fill: var(--rW); } .r.B { fill: var(--rB); }
.STEP { fill: var(--step); } .idle { fill: url(#bubble); } .gone { fill: #e03131; opacity: .13; }
text.name, text.name.r { fill: #fff; text-anchor: middle; }
text.name.W { fill: #3d2c00; } text.name.r.W { fill: #5c0f26; }
.bar.lit { stroke: var(--ink); stroke-width: 2; }
#tip { position: fixed; display: none; pointer-events: none; background: var(--ink);
  color: var(--paper); padding: 6px 9px; border-radius: 6px; font-size: 12px; white-space: pre;
  box-shadow: 0 3px 12px rgba(0, 0, 0, .3); z-index: 9; }
button { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; padding: 2px 10px; cursor: pointer; }
)css";

// Draws by moving what is there: bars stand in units of time and are scaled as one group, names are
// placed one by one, but only those in sight that fit their bar.
constexpr std::string_view kScript = R"js(
'use strict';
const LEFT = +document.body.dataset.left, END = +document.body.dataset.end;
const charts = [...document.querySelectorAll('svg.chart')], tip = document.getElementById('tip');
const names = charts.map(svg => [...svg.querySelectorAll('.name')]);
let from = 0, span = END;
const plotWidth = svg => Math.max(50, svg.clientWidth - LEFT - 8);
function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find(factor => factor * power >= rough);
}
function drawAxis(svg, scale) {
  const axis = svg.querySelector('.axis'), step = niceStep(span * 70 / plotWidth(svg));
  const parts = [];
  for (let t = Math.ceil(from / step) * step; t <= from + span; t += step) {
    const x = (t - from) * scale;
    parts.push(`<line class="grid" x1="${x}" x2="${x}" y1="18" y2="${svg.dataset.height}"/>` +
               `<text class="tick" x="${x + 3}" y="13">${+t.toPrecision(10)}</text>`);
  }
  axis.innerHTML = parts.join('');
}
function draw() {
  // The hatching of bubbles is undone what the bars' group is stretched by.
  document.getElementById('bubble').setAttribute('patternTransform',
      `scale(${span / plotWidth(charts[0])} 1) rotate(45)`);
  charts.forEach((svg, index) => {
    const scale = plotWidth(svg) / span;
    svg.querySelector('.bars').setAttribute('transform', `scale(${scale} 1) translate(${-from} 0)`);
    svg.querySelector('clipPath rect').setAttribute('width', plotWidth(svg));
    drawAxis(svg, scale);
    for (const name of names[index]) {
      const start = +name.dataset.t, width = +name.dataset.d;
      const fits = width * scale > 7 * name.textContent.length + 2;
      const seen = fits && start < from + span && start + width > from;
      name.style.display = seen ? '' : 'none';
      if (seen) name.setAttribute('x', (start + width / 2 - from) * scale);
    }
  });
}
function show(newFrom, newSpan) {
  span = Math.min(END, Math.max(END / 5000, newSpan));
  from = Math.min(END - span, Math.max(0, newFrom));
  draw();
}
const timeAt = (svg, event) =>
  from + (event.clientX - svg.getBoundingClientRect().left - LEFT) / plotWidth(svg) * span;
let drag = null;
for (const svg of charts) {
  svg.addEventListener('wheel', event => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      show(from + (event.deltaX || event.deltaY) / plotWidth(svg) * span, span);
      return;
    }
    const factor = Math.exp(event.deltaY * .0015), at = timeAt(svg, event);
    show(at - (at - from) * factor, span * factor);
  }, {passive: false});
  svg.addEventListener('pointerdown', event => {
    drag = {svg, x: event.clientX, from};
    svg.setPointerCapture(event.pointerId);
    svg.classList.add('dragging');
  });
  svg.addEventListener('pointermove', event => {
    if (drag) show(drag.from - (event.clientX - drag.x) / plotWidth(svg) * span, span);
    point(event);
  });
  const stop = () => { drag = null; svg.classList.remove('dragging'); };
  svg.addEventListener('pointerup', stop);
  svg.addEventListener('pointercancel', stop);
  svg.addEventListener('pointerleave', () => light(null));
  svg.addEventListener('dblclick', () => show(0, END));
}
let lit = null;
function light(batch) {
  if (batch === lit) return;
  lit = batch;
  for (const bar of document.querySelectorAll('.bar.lit')) bar.classList.remove('lit');
  tip.style.display = batch ? 'block' : 'none';
  if (!batch) return;
  for (const bar of document.querySelectorAll(`.bar[data-b="${batch}"]`)) bar.classList.add('lit');
}
function point(event) {
  const bar = document.elementFromPoint(event.clientX, event.clientY);
  if (!bar || !bar.dataset || !bar.dataset.b || drag) return light(null);
  light(bar.dataset.b);
  tip.textContent = bar.dataset.tip;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - 260) + 'px';
  tip.style.top = event.clientY + 14 + 'px';
}
document.getElementById('reset').addEventListener('click', () => show(0, END));
addEventListener('resize', draw);
draw();
)js";

constexpr std::string_view kLegend = R"html(
<svg style="position:absolute;width:0;height:0"><defs><pattern id="bubble" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="1.6" height="6" fill="var(--bubble)"/></pattern></defs></svg>
<div class="legend">
<span><i style="background:var(--F)"></i>F forward</span>
<span><i style="background:var(--I)"></i>I backward for the input</span>
<span><i style="background:var(--W)"></i>W backward for the weights</span>
<span><i style="background:var(--B)"></i>B both in one</span>
<span><i style="background:linear-gradient(90deg,var(--rF) 33%,var(--rI) 33% 66%,var(--rW) 66%)"></i>re-routed: work of another pipeline</span>
<span><i style="background:var(--step)"></i>optimizer step</span>
<span><i style="background:repeating-linear-gradient(135deg,var(--bubble) 0 2px,transparent 2px 6px)"></i>bubble</span>
<span><i style="background:#e03131;opacity:.25"></i>dead worker</span>
<button id="reset">whole plan</button>
</div>
)html";

// Bars up to here carry their name; beyond, a browser would be slow and nobody could read them.
constexpr std::size_t kMaxNames = 20'000;

std::string BarSvg(WorkerId worker, const TimedAction& timed, int row) {
  const std::string text = ToString(timed.action);
  const MicroBatch b = timed.action.micro_batch;
  const bool rerouted = b.home != worker.pipeline;
  const std::string note =
      rerouted ? fmt::format("&#10;re-routed from pipeline {}", b.home.value()) : "";
  return fmt::format(R"(<rect class="bar {}{}" x="{}" y="{}" width="{}" height="{}" data-b="{}" )"
                     R"(data-tip="{} on worker {}&#10;{} to {}{}"/>)",
                     KindText(timed.action.kind), rerouted ? " r" : "", ToUnits(timed.start),
                     row * kRowHeight, ToUnits(timed.end - timed.start), kBarHeight, ToString(b),
                     text, ToString(worker), ToUnits(timed.start), ToUnits(timed.end), note);
}

std::string NameSvg(const Plan& plan, WorkerId worker, const TimedAction& timed, int row) {
  std::string text = ToString(timed.action);
  if (plan.parallel.virtual_stages == 1) {
    text.erase(0, std::to_string(timed.action.stage.value()).size());
  }
  return fmt::format(R"(<text class="name {}{}" y="{}" data-t="{}" data-d="{}">{}</text>)",
                     KindText(timed.action.kind),
                     timed.action.micro_batch.home != worker.pipeline ? " r" : "",
                     row * kRowHeight + kBarHeight - 7, ToUnits(timed.start),
                     ToUnits(timed.end - timed.start), text);
}

std::string StepSvg(const Plan& plan, const Timeline& timeline, StageId stage, int row) {
  const auto s = static_cast<std::size_t>(stage.value());
  const Ticks optimizer = plan.costs.stages[s].optimizer;
  if (optimizer == 0) return "";
  return fmt::format(R"(<rect class="bar STEP" x="{}" y="{}" width="{}" height="{}"/>)",
                     ToUnits(timeline.step_end[s] - optimizer), row * kRowHeight + kBarHeight - 6,
                     ToUnits(optimizer), 6);
}

// Part of the live workers' time until the makespan in which they compute.
double BusyShare(const Timeline& timeline) {
  double busy = 0;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    for (const TimedAction& timed : row) busy += ToUnits(timed.end - timed.start);
  }
  const double all = ToUnits(timeline.makespan) * static_cast<double>(timeline.workers.size());
  return all > 0 ? busy / all : 0;
}

std::string FiguresHtml(const Plan& plan, const Timeline& timeline) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += fmt::format("<span>{} <b>{}</b></span>", name, value);
  };
  add("period", fmt::format("{:.6g}", ToUnits(timeline.period)));
  add("makespan", fmt::format("{:.6g}", ToUnits(timeline.makespan)));
  if (plan.lower_bound && *plan.lower_bound > 0) {
    const double bound = ToUnits(*plan.lower_bound);
    add("lower bound", fmt::format("{:.6g}", bound));
    add("gap", fmt::format("{:.2f}%", 100 * (ToUnits(timeline.period) / bound - 1)));
  }
  add("busy from rest", fmt::format("{:.1f}%", 100 * BusyShare(timeline)));
  add("pipelines x stages", fmt::format("{} x {}", plan.parallel.data, plan.parallel.num_stages()));
  add("micro-batches each", std::to_string(plan.micro_batches));
  add("steps", plan.options.staggered ? "staggered" : "synchronous");
  return text;
}

}  // namespace

void GanttPage::Add(std::string_view title, const Plan& plan, const Timeline& timeline) {
  Panel panel{std::string(title), FiguresHtml(plan, timeline), "", "", plan.parallel.num_workers()};
  std::size_t actions = 0;
  for (const std::vector<TimedAction>& row : timeline.workers) actions += row.size();
  const double end = ToUnits(timeline.makespan);
  std::string names;
  const auto add_row = [&](WorkerId worker, bool alive) {
    const int row = worker.pipeline.value() * plan.parallel.pipeline + worker.stage.value();
    panel.rows += fmt::format(R"(<rect class="{}" x="0" y="{}" width="{}" height="{}"/>)",
                              alive ? "idle" : "gone", row * kRowHeight, end, kBarHeight);
    panel.labels += fmt::format(R"(<text class="label{}" x="4" y="{}">{}{}</text>)",
                                alive ? "" : " dead", row * kRowHeight + kAxisHeight + 16,
                                ToString(worker), alive ? "" : " &#10005;");
    return row;
  };
  for (const WorkerId worker : plan.failed) add_row(worker, false);
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const WorkerId worker = plan.workers[w].worker;
    const int row = add_row(worker, true);
    for (const TimedAction& timed : timeline.workers[w]) {
      panel.rows += BarSvg(worker, timed, row);
      if (actions <= kMaxNames) names += NameSvg(plan, worker, timed, row);
    }
    for (const StageId stage : StagesOfColumn(plan.parallel, worker.stage)) {
      panel.rows += StepSvg(plan, timeline, stage, row);
    }
  }
  panel.rows = fmt::format(R"(<g class="bars">{}</g>{})", panel.rows, names);
  panels_.push_back(std::move(panel));
  longest_ = std::max(longest_, end);
}

std::string GanttPage::Finish() const {
  std::string panels;
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    const Panel& panel = panels_[i];
    const int height = panel.num_rows * kRowHeight + kAxisHeight + 4;
    panels += fmt::format(
        R"html(<section class="panel"><h2>{}</h2><div class="figures">{}</div>
<svg class="chart" height="{}" data-height="{}"><defs><clipPath id="plot{}"><rect x="0" y="0" width="100" height="{}"/></clipPath></defs>
{}<g transform="translate({} 0)" clip-path="url(#plot{})"><g class="axis"></g><g transform="translate(0 {})">{}</g></g></svg></section>
)html",
        panel.title, panel.figures, height, height, i, height, panel.labels, kLabelWidth, i,
        kAxisHeight, panel.rows);
  }
  return fmt::format(R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>ReCycle plan</title><style>{}</style></head>
<body data-left="{}" data-end="{}">
<h1>ReCycle plan</h1>
<p>One iteration from rest. Wheel: zoom, drag: move, double click: whole plan, pointer: where else the micro-batch runs.</p>
{}{}<div id="tip"></div><script>{}</script></body></html>
)",
                     kStyle, kLabelWidth, longest_ > 0 ? longest_ : 1.0, kLegend, panels, kScript);
}

}  // namespace recycle
