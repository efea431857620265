// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data of the page: lanes, and marks on them with two times each, in the order of the run and as if everything ran that can (causes.h).
#include "sim/timeline.h"

#include <algorithm>
#include <map>

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include "sim/causes.h"
#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

namespace {
using llvm::json::Array;
using llvm::json::Object;

/// A mark as the page reads it; times are -1 if there is none.
struct Mark {
  int64_t lane = 0;
  const char *kind = "";
  std::string text, label;
  uint32_t site = 0;
  int64_t cause = -1;
  int64_t run[2] = {-1, -1}, parallel[2] = {-1, -1};
  int64_t parity = 0;
};

class Drawing {
public:
  Drawing(const Engine &engine, const Trace &trace) : engine(engine), trace(trace), causes(trace) {}
  std::string page() {
    warpLanes();
    unitLanes();
    barrierLanes();
    for (uint32_t w = 0; w < trace.warps.size(); ++w)
      for (uint32_t n : trace.warps[w].order) eventMark(n, w);
    operationMarks();
    findCauses();
    phaseMarks();
    return kTimelinePage[0] + data() + kTimelinePage[1];
  }

private:
  static bool shown(const TraceEvent &e) { return e.kind != SyncKind::Meet && e.kind != SyncKind::Exit; }

  int64_t addLane(const std::string &group, const std::string &name, bool packed) {
    lanes.push_back(Object{{"group", group}, {"name", llvm::json::fixUTF8(name)}, {"packed", packed}});
    return int64_t(lanes.size()) - 1;
  }
  void warpLanes() {
    warpLane.assign(trace.warps.size(), -1);
    for (uint32_t w = 0; w < trace.warps.size(); ++w) {
      uint32_t site = 0;
      bool any = false;
      for (uint32_t n : trace.warps[w].order) {
        if (!shown(trace.events[n])) continue;
        any = true;
        if (engine.taskText(w, site).empty()) site = trace.events[n].site;
      }
      if (any)
        warpLane[w] = addLane("Warps", engine.warpText(w, site), false);
      else
        idle += (idle.empty() ? "" : ", ") + std::to_string(w);
    }
  }
  void unitLanes() {
    operationLane.assign(trace.operations.size(), -1);
    std::map<std::pair<int, uint32_t>, int64_t> made;
    for (size_t i = 0; i < trace.operations.size(); ++i) {
      const TraceOperation &o = trace.operations[i];
      auto [it, fresh] = made.try_emplace({int(o.kind), o.unit}, 0);
      if (fresh) {
        const bool product = o.kind == TraceOperation::Kind::Wgmma;
        it->second =
            addLane("Units",
                    product ? "wgmma of warps " + std::to_string(4 * o.unit) + "-" + std::to_string(4 * o.unit + 3)
                    : o.kind == TraceOperation::Kind::Load ? "TMA loads of warp " + std::to_string(o.unit)
                                                           : "TMA stores of warp " + std::to_string(o.unit),
                    true);
      }
      operationLane[i] = it->second;
    }
  }
  void barrierLanes() {
    for (const TracePhase &p : trace.phases)
      if (p.named && !namedLane.count(p.id))
        namedLane[p.id] = addLane("Barriers", "barrier " + std::to_string(p.id), false);
    for (const Trace::Barrier &b : trace.barriers)
      barrierLane.push_back(addLane("Barriers", barrierName(b.offset), false));
  }
  std::string barrierName(uint32_t offset) const {
    const std::string name = engine.bufferText(offset);
    return name.empty() ? "mbarrier at " + std::to_string(offset) : name;
  }

  /// What an event is about: "full[1], phase 3".
  std::string subject(const TraceEvent &e) const {
    switch (e.kind) {
    case SyncKind::Wait:
    case SyncKind::Arrive:
    case SyncKind::Expect:
    case SyncKind::Load:
      return " " + barrierName(trace.barriers[e.id].offset) +
             (e.phase < 0 ? ", the phase before the first" : ", phase " + std::to_string(e.phase));
    case SyncKind::Init:
    case SyncKind::Invalidate:
      return " " + barrierName(trace.barriers[e.id].offset);
    case SyncKind::Barrier:
    case SyncKind::BarrierArrive:
      return " " + std::to_string(e.id) + ", time " + std::to_string(e.phase) +
             (e.count ? ", " + countText(e.count, "thread") : "");
    case SyncKind::WgmmaWait:
    case SyncKind::StoreWait:
    case SyncKind::StoreWaitRead:
    case SyncKind::CopyWait:
      return e.id ? ", all but the last " + countText(e.id, "group") : ", all groups";
    default:
      return "";
    }
  }
  static const char *markKind(SyncKind kind) {
    switch (kind) {
    case SyncKind::Wait:
    case SyncKind::Barrier:
    case SyncKind::WgmmaWait:
    case SyncKind::StoreWait:
    case SyncKind::StoreWaitRead:
    case SyncKind::CopyWait:
      return "wait";
    case SyncKind::Arrive:
    case SyncKind::Expect:
    case SyncKind::BarrierArrive:
      return "arrive";
    case SyncKind::Load:
    case SyncKind::Store:
    case SyncKind::Wgmma:
    case SyncKind::Copy:
    case SyncKind::StoreCommit:
    case SyncKind::WgmmaCommit:
    case SyncKind::CopyCommit:
      return "issue";
    default:
      return "fence";
    }
  }
  void eventMark(uint32_t n, uint32_t warp) {
    const TraceEvent &e = trace.events[n];
    eventMarks.resize(trace.events.size(), -1);
    if (!shown(e)) return;
    Mark m;
    m.lane = warpLane[warp];
    m.kind = markKind(e.kind);
    m.site = e.site;
    m.label = syncKindName(e.kind) + subject(e);
    m.text = engine.warpText(warp, e.site) + ": " + m.label;
    if (e.kind == SyncKind::Expect || e.kind == SyncKind::Load) m.text += ", " + countText(e.count, "byte");
    if (e.kind == SyncKind::Arrive) m.text += ", " + countText(e.count, "arrival");
    m.run[0] = int64_t(e.begin) - 1, m.run[1] = e.end ? int64_t(e.end) : -1;
    if (causes.enterStep[n]) {
      m.parallel[0] = int64_t(causes.enterStep[n]) - 1;
      m.parallel[1] = causes.leaveStep[n] ? int64_t(causes.leaveStep[n]) : -1;
    }
    eventMarks[n] = int64_t(marks.size());
    marks.push_back(m);
  }
  void operationMarks() {
    std::vector<uint32_t> issue(trace.operations.size(), Trace::kNone); // the last call of a wgmma
    for (uint32_t n = 0; n < trace.events.size(); ++n)
      if (const uint32_t o = trace.events[n].operation; o != Trace::kNone)
        if (issue[o] == Trace::kNone || causes.enterStep[n] > causes.enterStep[issue[o]]) issue[o] = n;
    operationMark.resize(trace.operations.size(), -1);
    for (size_t i = 0; i < trace.operations.size(); ++i) {
      const TraceOperation &o = trace.operations[i];
      if (issue[i] == Trace::kNone) continue;
      Mark m;
      m.lane = operationLane[i];
      m.site = o.site;
      const uint64_t end = o.end ? o.end : o.read; // of a store that nobody waits for but as a reader
      m.run[0] = int64_t(o.begin) - 1, m.run[1] = end ? int64_t(end) : -1;
      const uint64_t step = causes.enterStep[issue[i]];
      if (step) m.parallel[0] = int64_t(step), m.parallel[1] = int64_t(step + Causes::kUnitSteps);
      const std::string place = " " + engine.offsetText(o.offset) + ", " + countText(o.bytes, "byte");
      if (o.kind == TraceOperation::Kind::Load) {
        m.kind = "load";
        m.label = barrierName(trace.barriers[o.barrier].offset) + " " + std::to_string(o.phase);
        m.text = "TMA load to" + place + ", arrives at " + barrierName(trace.barriers[o.barrier].offset) + ", phase " +
                 std::to_string(o.phase);
      } else if (o.kind == TraceOperation::Kind::Store) {
        m.kind = "store";
        m.label = "store";
        m.text = "TMA store from" + place;
      } else {
        const uint32_t number = trace.events[issue[i]].id;
        m.kind = "product";
        m.label = std::to_string(number);
        m.text = "wgmma number " + std::to_string(number) + " of warps " + std::to_string(4 * o.unit) + "-" +
                 std::to_string(4 * o.unit + 3);
        if (auto it = causes.completions.find(keyOf(causes.product(o.unit, number)));
            step && it != causes.completions.end())
          m.parallel[1] = it->second.done ? int64_t(it->second.step) : -1;
      }
      issues.push_back(Array{int64_t(marks.size()), eventMarks[issue[i]]});
      operationMark[i] = int64_t(marks.size());
      marks.push_back(m);
    }
  }
  static Causes::Key keyOf(Causes::Point p) { return {p.chain, int64_t(p.index) - 1}; }

  /// For each wait, the mark that completed what it waited for.
  void findCauses() {
    for (uint32_t n = 0; n < trace.events.size(); ++n) {
      const TraceEvent &e = trace.events[n];
      if (eventMarks[n] < 0) continue;
      Causes::Point p;
      if (e.kind == SyncKind::Wait && e.phase >= 0)
        p = causes.phase(e.id, e.phase);
      else if (e.kind == SyncKind::Barrier)
        p = causes.generation(e.id, e.phase);
      else if (e.kind == SyncKind::WgmmaWait && e.phase > 0)
        p = causes.product(causes.warpOf[n] / kGroupWarps, uint64_t(e.phase) - 1);
      else
        continue;
      auto it = causes.completions.find(keyOf(p));
      if (it == causes.completions.end() || it->second.last == Trace::kNone || it->second.last == n) continue;
      const TraceEvent &last = trace.events[it->second.last];
      const bool unit = last.operation != Trace::kNone && operationMark[last.operation] >= 0;
      marks[size_t(eventMarks[n])].cause = unit ? operationMark[last.operation] : eventMarks[it->second.last];
    }
  }
  void phaseMarks() {
    std::map<std::pair<bool, uint32_t>, int64_t> lastRun, lastParallel;
    for (const TracePhase &p : trace.phases) {
      Mark m;
      m.lane = p.named ? namedLane[p.id] : barrierLane[p.id];
      m.kind = "phase";
      m.parity = p.phase & 1;
      m.label = std::to_string(p.phase);
      m.text = (p.named ? "barrier " + std::to_string(p.id) + ", time "
                        : barrierName(trace.barriers[p.id].offset) + ", phase ") +
               std::to_string(p.phase);
      int64_t &run = lastRun[{p.named, p.id}], &parallel = lastParallel[{p.named, p.id}];
      m.run[0] = run, m.run[1] = run = int64_t(p.end);
      const Causes::Point point = p.named ? causes.generation(p.id, p.phase) : causes.phase(p.id, p.phase);
      auto it = causes.completions.find(keyOf(point));
      if (it != causes.completions.end() && it->second.done) {
        m.parallel[0] = parallel, m.parallel[1] = parallel = int64_t(it->second.step);
        if (const uint32_t last = it->second.last; last != Trace::kNone) {
          const uint32_t o = trace.events[last].operation;
          m.cause = o != Trace::kNone && operationMark[o] >= 0 ? operationMark[o] : eventMarks[last];
        }
      }
      marks.push_back(m);
    }
  }

  int64_t textNumber(const std::string &text) {
    auto [it, fresh] = textNumbers.try_emplace(text, int64_t(texts.size()));
    if (fresh) texts.push_back(llvm::json::fixUTF8(text));
    return it->second;
  }
  std::string data() {
    Array list, sites;
    std::map<uint32_t, int64_t> siteNumbers;
    for (const Mark &m : marks) {
      auto [it, fresh] = siteNumbers.try_emplace(m.site, int64_t(sites.size()));
      if (fresh) sites.push_back(m.site ? llvm::json::fixUTF8(engine.siteText(m.site)) : "");
      list.push_back(Array{m.lane, m.kind, textNumber(m.text), it->second, m.cause, m.run[0], m.run[1], m.parallel[0],
                           m.parallel[1], textNumber(m.label), m.parity});
    }
    std::string about = "Program (" + std::to_string(trace.id[0]) + ", " + std::to_string(trace.id[1]) + ", " +
                        std::to_string(trace.id[2]) + ") of " + engine.program.target->name +
                        " on the simulator. Time is in steps, not in cycles: " +
                        "if all runs at once, a synchronization takes 1 step and an operation of a unit " +
                        std::to_string(Causes::kUnitSteps) +
                        "; in the order of the run, each lane of a warp takes one.";
    if (!idle.empty()) about += " Warps that synchronize with nobody: " + idle + ".";
    if (!trace.complete) about += " The launch ended before this program did.";
    Object all{{"title", llvm::json::fixUTF8("Timeline of " + engine.program.metadata.name)},
               {"about", std::move(about)},
               {"lanes", std::move(lanes)},
               {"texts", std::move(texts)},
               {"sites", std::move(sites)},
               {"issues", std::move(issues)},
               {"marks", std::move(list)}};
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(std::move(all));
    std::string safe; // inside of a script element only "<" could end it
    for (char c : text) {
      if (c == '<')
        safe += "\\u003c";
      else
        safe += c;
    }
    return safe;
  }

  const Engine &engine;
  const Trace &trace;
  Causes causes;
  Array lanes, texts, issues;
  std::string idle;
  std::vector<int64_t> warpLane, operationLane, barrierLane, eventMarks, operationMark;
  std::map<uint32_t, int64_t> namedLane;
  std::map<std::string, int64_t> textNumbers;
  std::vector<Mark> marks;
};
} // namespace

std::string drawTimeline(const Engine &engine, const Trace &trace) {
  return Drawing(engine, trace).page();
}

} // namespace tlx::sim
