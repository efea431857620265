// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data structures of the IR: use lists, ownership, the operation table.
#include "ir/ir.h"

#include "llvm/ADT/StringMap.h"

namespace tlx::ir {

namespace {
struct Range {
  unsigned min, max;
};
Range parseRange(llvm::StringRef text) {
  if (text.ends_with("+")) return {unsigned(std::stoul(text.drop_back().str())), ~0u};
  auto [lo, hi] = text.split('-');
  unsigned min = std::stoul(lo.str());
  return {min, hi.empty() ? min : unsigned(std::stoul(hi.str()))};
}

const std::vector<OpInfo> &table() {
  static const std::vector<OpInfo> infos = [] {
    std::vector<OpInfo> v;
    auto add = [&](const char *name, const char *operands, const char *results, unsigned regions, uint32_t traits,
                   const char *doc) {
      Range o = parseRange(operands), r = parseRange(results);
      v.push_back({name, o.min, o.max, r.min, r.max, regions, traits, doc});
    };
#define OP(ENUM, NAME, OPERANDS, RESULTS, REGIONS, TRAITS, DOC)                                                        \
  add(NAME, OPERANDS, RESULTS, REGIONS, uint32_t(TRAITS), DOC);
#include "ir/ops.def"
#undef OP
    return v;
  }();
  return infos;
}

const char *kAttrNames[] = {
#define ATTR(NAME) #NAME,
#include "ir/attrs.def"
#undef ATTR
};
} // namespace

const OpInfo &info(Opcode opcode) {
  return table()[unsigned(opcode)];
}

std::optional<Opcode> opcodeByName(llvm::StringRef name) {
  static const llvm::StringMap<Opcode> map = [] {
    llvm::StringMap<Opcode> m;
    for (Opcode o : allOpcodes()) m[info(o).name] = o;
    return m;
  }();
  auto it = map.find(name);
  return it == map.end() ? std::nullopt : std::optional<Opcode>(it->second);
}

llvm::ArrayRef<Opcode> allOpcodes() {
  static const Opcode all[] = {
#define OP(ENUM, NAME, OPERANDS, RESULTS, REGIONS, TRAITS, DOC) Opcode::ENUM,
#include "ir/ops.def"
#undef OP
  };
  return all;
}

llvm::StringRef attrName(Attr a) {
  return kAttrNames[unsigned(a)];
}
std::optional<Attr> attrByName(llvm::StringRef name) {
  for (unsigned i = 0; i < std::size(kAttrNames); ++i)
    if (name == kAttrNames[i]) return Attr(i);
  return std::nullopt;
}

// --- Value ------------------------------------------------------------------------------------------------------

void Value::replaceAllUsesWith(Value *other) {
  if (other == this) return;
  while (!uses_.empty()) {
    Use use = uses_.back();
    use.op->setOperand(use.index, other);
  }
}

// --- Op ---------------------------------------------------------------------------------------------------------

Op::~Op() {
  dropOperands();
  // Regions first: their ops may use values of this op's block only, never its results.
  regions_.clear();
}

void Op::dropOperands() {
  while (!operands_.empty()) eraseOperand(operands_.size() - 1);
}

void Op::setOperand(unsigned i, Value *v) {
  Value *old = operands_[i];
  if (old == v) return;
  if (old) llvm::erase_if(old->uses_, [&](const Use &u) { return u.op == this && u.index == i; });
  operands_[i] = v;
  if (v) v->uses_.push_back({this, i});
}

void Op::addOperand(Value *v) {
  operands_.push_back(v);
  v->uses_.push_back({this, unsigned(operands_.size() - 1)});
}

void Op::eraseOperand(unsigned i) {
  setOperand(i, nullptr);
  for (unsigned k = i + 1; k < operands_.size(); ++k)
    for (Use &u : operands_[k]->uses_)
      if (u.op == this && u.index == k) {
        u.index = k - 1;
        break;
      }
  operands_.erase(operands_.begin() + i);
}

Value *Op::addResult(Type type) {
  auto v = std::make_unique<Value>();
  v->type = type;
  v->def_ = this;
  v->index_ = results_.size();
  results_.push_back(std::move(v));
  return results_.back().get();
}

void Op::eraseResult(unsigned i) {
  assert(results_[i]->unused());
  results_.erase(results_.begin() + i);
  for (unsigned k = i; k < results_.size(); ++k) results_[k]->index_ = k;
}

Block &Op::body(unsigned i) const {
  return *regions_[i];
}
Block &Op::addRegion() {
  regions_.push_back(std::make_unique<Block>(this));
  return *regions_.back();
}

bool Op::hasAttr(Attr a) const {
  return llvm::any_of(attrs_, [&](const auto &p) { return p.first == a; });
}
void Op::setAttr(Attr a, AttrValue v) {
  auto it = llvm::lower_bound(attrs_, a, [](const auto &p, Attr key) { return p.first < key; });
  if (it != attrs_.end() && it->first == a)
    it->second = std::move(v);
  else
    attrs_.insert(it, {a, std::move(v)});
}
void Op::removeAttr(Attr a) {
  llvm::erase_if(attrs_, [&](const auto &p) { return p.first == a; });
}

template <typename T> static const T *getAttr(llvm::ArrayRef<std::pair<Attr, AttrValue>> attrs, Attr a) {
  for (const auto &[key, value] : attrs)
    if (key == a) return std::get_if<T>(&value);
  return nullptr;
}
int64_t Op::intAttr(Attr a, int64_t otherwise) const {
  const int64_t *v = getAttr<int64_t>(attrs_, a);
  return v ? *v : otherwise;
}
double Op::floatAttr(Attr a) const {
  const double *v = getAttr<double>(attrs_, a);
  return v ? *v : 0;
}
llvm::StringRef Op::strAttr(Attr a) const {
  const std::string *v = getAttr<std::string>(attrs_, a);
  return v ? llvm::StringRef(*v) : llvm::StringRef();
}
llvm::ArrayRef<int64_t> Op::listAttr(Attr a) const {
  const std::vector<int64_t> *v = getAttr<std::vector<int64_t>>(attrs_, a);
  return v ? llvm::ArrayRef<int64_t>(*v) : llvm::ArrayRef<int64_t>();
}

Op *Op::parentOp() const {
  return parent_ ? parent_->parentOp() : nullptr;
}

void Op::erase() {
  assert(llvm::all_of(results_, [](const auto &r) { return r->unused(); }) && "erased op still has users");
  parent_->remove(this);
}

void Op::moveBefore(Op *other) {
  std::unique_ptr<Op> self = parent_->remove(this);
  other->parent_->insert(std::move(self), other);
}
void Op::moveTo(Block &block) {
  std::unique_ptr<Op> self = parent_->remove(this);
  block.insert(std::move(self), nullptr);
}

void Op::walk(llvm::function_ref<void(Op &)> f) {
  for (auto &r : regions_) r->walk(f);
}

// --- Block ------------------------------------------------------------------------------------------------------

Block::~Block() {
  // Ops may refer to each other in any order (loop-carried uses): drop all references before the first is destroyed.
  walk([](Op &op) { op.dropOperands(); });
  while (last_) remove(last_);
}

Value *Block::addArg(Type type, std::string name) {
  auto v = std::make_unique<Value>();
  v->type = type;
  v->block_ = this;
  v->index_ = args_.size();
  v->name = std::move(name);
  args_.push_back(std::move(v));
  return args_.back().get();
}
void Block::eraseArg(unsigned i) {
  assert(args_[i]->unused());
  args_.erase(args_.begin() + i);
  for (unsigned k = i; k < args_.size(); ++k) args_[k]->index_ = k;
}

Op *Block::insert(std::unique_ptr<Op> owned, Op *before) {
  Op *op = owned.release();
  op->parent_ = this;
  op->next_ = before;
  op->prev_ = before ? before->prev_ : last_;
  (op->prev_ ? op->prev_->next_ : first_) = op;
  (before ? before->prev_ : last_) = op;
  return op;
}

std::unique_ptr<Op> Block::remove(Op *op) {
  (op->prev_ ? op->prev_->next_ : first_) = op->next_;
  (op->next_ ? op->next_->prev_ : last_) = op->prev_;
  op->parent_ = nullptr;
  op->prev_ = op->next_ = nullptr;
  return std::unique_ptr<Op>(op);
}

void Block::walk(llvm::function_ref<void(Op &)> f) {
  for (Op *op = first_; op;) {
    Op *next = op->next_;
    f(*op);
    op->walk(f);
    op = next;
  }
}

std::vector<Op *> Block::ops() const {
  std::vector<Op *> v;
  for (Op *op = first_; op; op = op->next()) v.push_back(op);
  return v;
}

Op *taskOf(const Op &op) {
  Op *around = op.parentOp();
  while (around && !around->is(Opcode::Task)) around = around->parentOp();
  return around;
}

bool isTopLevel(const Op &op) {
  return !op.parentOp();
}

bool isFollowed(const Op &tasks) {
  return !isTopLevel(tasks) || (tasks.next() && !tasks.next()->is(Opcode::Return));
}

unsigned warpsOf(const Module &module, const Op &op) {
  const Op *task = op.is(Opcode::Task) ? &op : taskOf(op);
  if (!task) return module.kernel.numWarps;
  return task->intAttr(Attr::issuer) ? 1 : unsigned(task->intAttr(Attr::warps));
}

unsigned replicasOf(const Op &op) {
  const Op *task = op.is(Opcode::Task) ? &op : taskOf(op);
  return task ? unsigned(task->intAttr(Attr::replicas, 1)) : 1;
}

unsigned launchWarps(const Kernel &kernel) {
  int64_t warps = kernel.numWarps;
  bool budgets = false;
  const_cast<Block &>(kernel.body).walk([&](Op &op) {
    if (!op.is(Opcode::Task)) return;
    warps = std::max(warps, op.intAttr(Attr::start) + op.intAttr(Attr::warps) * replicasOf(op));
    budgets |= op.intAttr(Attr::registers) != 0;
  });
  return unsigned(budgets ? (warps + 3) / 4 * 4 : warps); // setmaxnreg is a whole warpgroup's
}

} // namespace tlx::ir
