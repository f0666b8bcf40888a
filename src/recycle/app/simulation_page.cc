#include "recycle/app/simulation_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "recycle/app/numbers.h"

namespace recycle {
namespace {

constexpr double kWidth = 1000;  // of a chart, in its own units
constexpr double kHeight = 150;
constexpr double kLeft = 60;  // beside it, for the axis

constexpr std::string_view kStyle = R"css(
:root { --paper: #ffffff; --ink: #1f2933; --faint: #7b8794; --line: #e4e7eb; --card: #f7f9fb; }
@media (prefers-color-scheme: dark) { :root { --paper: #12171d; --ink: #e4e7eb; --faint: #9aa5b1;
  --line: #2b3440; --card: #1a212a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 24px 28px; background: var(--paper);
  color: var(--ink); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; margin: 0 0 2px; font-weight: 650; }
h2 { font-size: 15px; margin: 22px 0 4px; font-weight: 650; }
p { margin: 0; color: var(--faint); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 10px 16px; margin-top: 12px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
text { font: 11px ui-monospace, "DejaVu Sans Mono", monospace; fill: var(--faint); }
.grid { stroke: var(--line); } .line { fill: none; stroke-width: 1.3; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: 2px 12px 2px 0; text-align: right; } td:first-child, th:first-child,
td.left { text-align: left; } th { color: var(--faint); font-weight: 500; }
label { margin-right: 14px; white-space: nowrap; cursor: pointer; }
i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 5px -1px 0; }
)css";

constexpr std::string_view kScript = R"js(
'use strict';
for (const box of document.querySelectorAll('input[data-policy]')) {
  box.addEventListener('change', () => {
    for (const line of document.querySelectorAll(`path[data-policy="${box.dataset.policy}"]`)) {
      line.style.display = box.checked ? '' : 'none';
    }
  });
}
)js";

constexpr std::array<std::string_view, 14> kColors = {
    "#e8447a", "#c2255c", "#ff8fab", "#a61e4d", "#7c6ce0", "#52606d", "#9aa5b1",
    "#12a594", "#0b7285", "#f0b429", "#4c8bf5", "#2f9e44", "#94d82d", "#d9480f"};

std::string_view ColorOf(std::size_t policy) { return kColors[policy % kColors.size()]; }

// A step curve within the chart: `value` of every point holds until the next.
template <typename Value>
std::string StepPath(const std::vector<CurvePoint>& curve, double end_s, double most, Value value) {
  std::string path;
  double last_y = -1;
  for (const CurvePoint& point : curve) {
    const double x = kLeft + kWidth * point.from_s / end_s;
    const double y = kHeight * (1 - value(point) / most);
    if (y == last_y) continue;
    path +=
        path.empty() ? fmt::format("M{:.2f} {:.2f}", x, y) : fmt::format("H{:.2f}V{:.2f}", x, y);
    last_y = y;
  }
  return path + fmt::format("H{:.2f}", kLeft + kWidth);
}

std::string Axes(double hours, double most, std::string_view unit) {
  std::string text;
  for (int i = 0; i <= 4; ++i) {
    const double y = kHeight * (1 - i / 4.0);
    text += fmt::format(R"(<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text x="0" y="{}">)"
                        R"({:.4g}</text>)",
                        kLeft, kLeft + kWidth, y, y, y + 4, most * i / 4);
    text += fmt::format(R"(<text x="{}" y="{}">{:.4g} h</text>)", kLeft + kWidth * i / 4 - 14,
                        kHeight + 16, hours * i / 4);
  }
  return text + fmt::format(R"(<text x="{}" y="-5">{}</text>)", kLeft, unit);
}

std::string Chart(std::string_view title, const std::string& content) {
  return fmt::format(R"(<section><h2>{}</h2><svg viewBox="0 -18 {} {}">{}</svg></section>)", title,
                     kLeft + kWidth + 10, kHeight + 40, content);
}

std::string LiveChart(const SimulationReport& report) {
  const double end_s = report.setup.timeline.duration_s;
  const double places = report.setup.job.num_places();
  const std::string path =
      StepPath(report.curves.front(), end_s, places,
               [](const CurvePoint& point) { return static_cast<double>(point.live); });
  return Chart("Live workers",
               Axes(end_s / kSecondsPerHour, places, "workers") +
                   fmt::format(R"(<path class="line" stroke="#12a594" d="{}"/>)", path));
}

std::string ThroughputChart(const SimulationReport& report) {
  const double end_s = report.setup.timeline.duration_s;
  double most = 0;
  for (const std::vector<CurvePoint>& curve : report.curves) {
    for (const CurvePoint& point : curve) most = std::max(most, point.throughput);
  }
  if (most == 0) most = 1;
  std::string content = Axes(end_s / kSecondsPerHour, most, "samples per second");
  std::string legend;
  for (std::size_t i = 0; i < report.curves.size(); ++i) {
    const std::string& name = report.results[i].policy;
    content +=
        fmt::format(R"(<path class="line" data-policy="{}" stroke="{}" d="{}"/>)", name, ColorOf(i),
                    StepPath(report.curves[i], end_s, most,
                             [](const CurvePoint& point) { return point.throughput; }));
    legend += fmt::format(
        R"(<label><input type="checkbox" checked data-policy="{}"><i style="background:{}"></i>{}</label>)",
        name, ColorOf(i), name);
  }
  return Chart("Throughput", content) + "<p>" + legend + "</p>";
}

std::string EttrBars(const SimulationReport& report) {
  constexpr double kRow = 20;
  std::string rows;
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const PolicyResult& result = report.results[i];
    const double y = kRow * static_cast<double>(i);
    rows += fmt::format(R"(<text x="0" y="{}">{}</text><rect x="150" y="{}" width="{:.2f}" )"
                        R"(height="14" rx="3" fill="{}"/><text x="{:.2f}" y="{}">{:.4f}</text>)",
                        y + 11, result.policy, y, 800 * result.ettr, ColorOf(i),
                        156 + 800 * result.ettr, y + 11, result.ettr);
  }
  return fmt::format(
      R"(<section><h2>ETTR: share of the time neither stalled nor redone</h2><svg viewBox="0 0 1070 {}">{}</svg></section>)",
      kRow * static_cast<double>(report.results.size()), rows);
}

std::string ResultTable(const SimulationReport& report) {
  std::string rows =
      "<tr><th>policy</th><th>goodput</th><th>of own</th><th>samples</th><th>lost hours</th>"
      "<th>recovery hours</th><th>GPU-hours</th><th>USD</th><th></th></tr>";
  for (const PolicyResult& result : report.results) {
    rows += fmt::format(
        "<tr><td>{}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.6g}</td><td>{:.4g}</td><td>{:.4g}</td>"
        R"(<td>{:.6g}</td><td>{:.6g}</td><td class="left">{}</td></tr>)",
        result.policy, result.goodput, result.relative_to_own, result.samples,
        result.lost_work_hours, result.recovery_hours, result.gpu_hours, result.cost_usd,
        result.note);
  }
  return fmt::format("<section><h2>Figures</h2><table>{}</table></section>", rows);
}

std::string ConstantRows(const PolicyConstants& constants) {
  std::string rows;
  for (const ConstantInfo& info : ConstantTable()) {
    rows += fmt::format(R"(<tr><td>{}</td><td>{:.6g}</td><td class="left">{}</td></tr>)", info.name,
                        ConstantValue(constants, info.name), info.source);
  }
  return rows;
}

std::string Escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string ReportAsPage(const SimulationReport& report) {
  const SimulationSetup& setup = report.setup;
  std::string notes;
  for (const std::string& note : setup.notes) notes += fmt::format("<p>{}</p>", Escaped(note));
  return fmt::format(
      R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>ReCycle simulation</title><style>{}</style></head>
<body><h1>ReCycle simulation</h1>
<p>{} x {} workers of {}, {:.6g} hours, {}. Goodput is against fault-free 1F1B.</p>
{}{}{}{}<section><h2>Assumptions and constants in force</h2>{}<table>{}</table></section>
<script>{}</script></body></html>
)",
      kStyle, setup.job.parallel.data, setup.job.parallel.pipeline,
      Count(setup.job.parallel.tensor, "GPU"), setup.timeline.duration_s / kSecondsPerHour,
      Count(setup.timeline.failures, "failure"), LiveChart(report), ThroughputChart(report),
      EttrBars(report), ResultTable(report), notes, ConstantRows(setup.constants), kScript);
}

}  // namespace recycle
