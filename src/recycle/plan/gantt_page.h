// A self-contained HTML page of Gantt charts: one panel a plan, all on one time scale, zoomed and
// panned together. Inline SVG, CSS and a small script; nothing is loaded from anywhere.
// Used by pictures.cc only.
//
//   GanttPage page;
//   page.Add("fault-free", plan, timeline);
//   std::string html = page.Finish();
//
// Not thread-safe.
#ifndef RECYCLE_PLAN_GANTT_PAGE_H_
#define RECYCLE_PLAN_GANTT_PAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "recycle/plan/plan.h"
#include "recycle/plan/timeline.h"

namespace recycle {

class GanttPage {
 public:
  // Appends a panel; `timeline` is the plan's.
  void Add(std::string_view title, const Plan& plan, const Timeline& timeline);

  // The whole page.
  std::string Finish() const;

 private:
  struct Panel {
    std::string title;
    std::string figures;  // HTML of the line under the title
    std::string rows;     // SVG, in units of time across and rows down
    std::string labels;
    int num_rows = 0;
  };

  std::vector<Panel> panels_;
  double longest_ = 0;  // makespan of the longest panel, in cost units
};

}  // namespace recycle

#endif  // RECYCLE_PLAN_GANTT_PAGE_H_
