// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Metadata as JSON, and the stack machine of facts. Free of LLVM: ahead-of-time programs carry this file with the
// launcher.
#include "support/metadata.h"

#include <nlohmann/json.hpp>

namespace tlx {

using Json = nlohmann::ordered_json; // members come out in the order written here: the text is stable and readable

namespace {

// Spelled out, not numbered: a cache entry or an ahead-of-time file must not change its meaning when an enumeration
// grows.
constexpr const char *kArgKinds[] = {"scalar", "pointer", "tensor_desc"};
constexpr const char *kHiddenKinds[] = {"grid_x", "grid_y", "grid_z", "wait_record"};
constexpr const char *kDescriptorForms[] = {"fields", "tensor_map"};
constexpr const char *kFactOps[] = {
    "const", "arg", "+", "-", "*", "/", "%", "neg", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "!"};
static_assert(std::size(kFactOps) == size_t(Fact::Op::Not) + 1);

template <size_t N> size_t indexOf(const char *const (&names)[N], const std::string &name, const char *what) {
  for (size_t i = 0; i < N; ++i)
    if (name == names[i]) return i;
  throw std::runtime_error(std::string("unknown ") + what + " '" + name + "'");
}

struct ResourceField {
  const char *name;
  std::optional<unsigned> Resources::*member;
};
constexpr ResourceField kResourceFields[] = {{"registers", &Resources::registers},
                                             {"spill_stores", &Resources::spillStores},
                                             {"spill_loads", &Resources::spillLoads},
                                             {"stack_bytes", &Resources::stackBytes},
                                             {"scratch_bytes", &Resources::scratchBytes}};

Json factToJson(const Fact &fact) {
  Json program = Json::array();
  for (const Fact::Step &step : fact.program) {
    Json one = Json::array({kFactOps[size_t(step.op)]});
    if (step.op == Fact::Op::Const || step.op == Fact::Op::Arg) one.push_back(step.value);
    program.push_back(std::move(one));
  }
  return {{"text", fact.text}, {"noalias", fact.noalias}, {"program", std::move(program)}};
}

Fact factFromJson(const Json &json) {
  Fact fact;
  fact.text = json.at("text").get<std::string>();
  fact.noalias = json.at("noalias").get<bool>();
  for (const Json &one : json.at("program")) {
    Fact::Step step;
    step.op = Fact::Op(indexOf(kFactOps, one.at(0).get<std::string>(), "operation of a fact"));
    if (step.op == Fact::Op::Const || step.op == Fact::Op::Arg) step.value = one.at(1).get<int64_t>();
    fact.program.push_back(step);
  }
  return fact;
}

Json descriptorToJson(const DescriptorInfo &info) {
  Json json = {{"element", info.element}, {"block", info.block}, {"form", kDescriptorForms[info.tensorMap ? 1 : 0]}};
  // Each form has its own members; what belongs to the other one is empty.
  if (info.tensorMap) {
    json["box"] = info.box;
    json["swizzle"] = info.swizzle;
    if (info.pointerOffset) json["pointer_offset"] = *info.pointerOffset;
  }
  if (!info.tensorMap || info.pointerOffset) {
    json["shape_offsets"] = info.shapeOffsets;
    json["stride_offsets"] = info.strideOffsets;
  }
  return json;
}

/// nlohmann/json turns -1 and 1.5 into unsigned numbers without a word.
uint32_t unsignedFromJson(const Json &json) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > UINT32_MAX)
    throw std::runtime_error(json.dump() + " is not a 32-bit unsigned number");
  return json.get<uint32_t>();
}
std::vector<uint32_t> unsignedListFromJson(const Json &json) {
  if (!json.is_array()) throw std::runtime_error(json.dump() + " is not a list");
  std::vector<uint32_t> list;
  for (const Json &one : json) list.push_back(unsignedFromJson(one));
  return list;
}

DescriptorInfo descriptorFromJson(const Json &json) {
  DescriptorInfo info;
  json.at("element").get_to(info.element);
  if (!json.at("block").is_array()) throw std::runtime_error("the block of a descriptor is not a list");
  for (const Json &extent : json.at("block")) {
    if (!extent.is_number_integer()) throw std::runtime_error(extent.dump() + " is not the extent of a block");
    info.block.push_back(extent.get<int64_t>());
  }
  info.tensorMap = indexOf(kDescriptorForms, json.at("form").get<std::string>(), "form of descriptor") == 1;
  if (info.tensorMap) {
    info.box = unsignedListFromJson(json.at("box"));
    info.swizzle = unsignedFromJson(json.at("swizzle"));
    if (json.contains("pointer_offset")) info.pointerOffset = unsignedFromJson(json.at("pointer_offset"));
  }
  if (!info.tensorMap || info.pointerOffset) {
    info.shapeOffsets = unsignedListFromJson(json.at("shape_offsets"));
    info.strideOffsets = unsignedListFromJson(json.at("stride_offsets"));
  }
  return info;
}

} // namespace

std::string toJson(const KernelMetadata &metadata) {
  Json json = {{"name", metadata.name},
               {"symbol", metadata.symbol},
               {"target", metadata.target},
               {"assembled_for", metadata.assembledFor},
               {"warp_size", metadata.warpSize},
               {"num_warps", metadata.numWarps},
               {"shared_bytes", metadata.sharedBytes},
               {"param_bytes", metadata.paramBytes}};
  json["args"] = Json::array();
  for (const ArgInfo &arg : metadata.args) {
    Json one = {{"name", arg.name},
                {"kind", kArgKinds[size_t(arg.kind)]},
                {"type", arg.type},
                {"offset", arg.offset},
                {"size", arg.size}};
    if (arg.descriptor) one["descriptor"] = descriptorToJson(*arg.descriptor);
    json["args"].push_back(std::move(one));
  }
  json["hidden"] = Json::array();
  for (const HiddenArg &arg : metadata.hidden)
    json["hidden"].push_back({{"kind", kHiddenKinds[size_t(arg.kind)]}, {"offset", arg.offset}, {"size", arg.size}});
  if (metadata.debugTimeout) {
    json["debug_timeout"] = metadata.debugTimeout;
    for (const WaitSite &site : metadata.waits)
      json["waits"].push_back({{"task", site.task},
                               {"barrier", site.barrier},
                               {"place", site.place},
                               {"offset", site.offset},
                               {"barriers", site.barriers}});
  }
  json["facts"] = Json::array();
  for (const Fact &fact : metadata.facts) json["facts"].push_back(factToJson(fact));
  json["tasks"] = Json::array();
  for (const TaskInfo &task : metadata.tasks)
    json["tasks"].push_back(
        {{"name", task.name}, {"region", task.region}, {"start", task.start}, {"warps", task.warps}});
  json["shared"] = Json::array();
  for (const SharedInfo &one : metadata.shared)
    json["shared"].push_back({{"name", one.name},
                              {"offset", one.offset},
                              {"bytes", one.bytes},
                              {"slots", one.slots},
                              {"barriers", one.barriers}});
  json["resources"] = Json::object();
  for (const ResourceField &field : kResourceFields)
    if (const auto &value = metadata.resources.*field.member) json["resources"][field.name] = *value;
  json["assembler"] = metadata.assembler;
  json["stages"] = Json::array();
  for (const StageTime &stage : metadata.stages)
    json["stages"].push_back({{"name", stage.name}, {"ms", stage.milliseconds}});
  // A name that is not UTF-8 must not make a kernel unusable: replace what JSON cannot hold.
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::optional<KernelMetadata> metadataFromJson(const std::string &text, std::string &error) {
  try {
    const Json json = Json::parse(text);
    KernelMetadata metadata;
    json.at("name").get_to(metadata.name);
    json.at("symbol").get_to(metadata.symbol);
    json.at("target").get_to(metadata.target);
    json.at("assembled_for").get_to(metadata.assembledFor);
    json.at("warp_size").get_to(metadata.warpSize);
    json.at("num_warps").get_to(metadata.numWarps);
    json.at("shared_bytes").get_to(metadata.sharedBytes);
    json.at("param_bytes").get_to(metadata.paramBytes);
    for (const Json &one : json.at("args")) {
      ArgInfo arg;
      one.at("name").get_to(arg.name);
      arg.kind = ArgInfo::Kind(indexOf(kArgKinds, one.at("kind").get<std::string>(), "kind of argument"));
      one.at("type").get_to(arg.type);
      one.at("offset").get_to(arg.offset);
      one.at("size").get_to(arg.size);
      if (arg.kind == ArgInfo::Kind::TensorDesc) arg.descriptor = descriptorFromJson(one.at("descriptor"));
      metadata.args.push_back(std::move(arg));
    }
    for (const Json &one : json.at("hidden")) {
      HiddenArg arg;
      arg.kind = HiddenArg::Kind(indexOf(kHiddenKinds, one.at("kind").get<std::string>(), "kind of hidden argument"));
      one.at("offset").get_to(arg.offset);
      one.at("size").get_to(arg.size);
      metadata.hidden.push_back(arg);
    }
    metadata.debugTimeout = json.value("debug_timeout", 0u);
    if (json.contains("waits"))
      for (const Json &one : json.at("waits")) {
        WaitSite site;
        one.at("task").get_to(site.task);
        one.at("barrier").get_to(site.barrier);
        one.at("place").get_to(site.place);
        one.at("offset").get_to(site.offset);
        one.at("barriers").get_to(site.barriers);
        metadata.waits.push_back(std::move(site));
      }
    for (const Json &one : json.at("facts")) metadata.facts.push_back(factFromJson(one));
    // Files of earlier versions have neither.
    for (const Json &one : json.value("tasks", Json::array()))
      metadata.tasks.push_back({one.at("name").get<std::string>(), unsignedFromJson(one.at("region")),
                                unsignedFromJson(one.at("start")), unsignedFromJson(one.at("warps"))});
    for (const Json &one : json.value("shared", Json::array()))
      metadata.shared.push_back({one.at("name").get<std::string>(), unsignedFromJson(one.at("offset")),
                                 unsignedFromJson(one.at("bytes")), unsignedFromJson(one.at("slots")),
                                 one.at("barriers").get<bool>()});
    for (const ResourceField &field : kResourceFields)
      if (auto it = json.at("resources").find(field.name); it != json.at("resources").end())
        metadata.resources.*field.member = it->get<unsigned>();
    json.at("assembler").get_to(metadata.assembler);
    for (const Json &one : json.at("stages"))
      metadata.stages.push_back({one.at("name").get<std::string>(), one.at("ms").get<double>()});
    return metadata;
  } catch (const std::exception &problem) {
    error = problem.what();
    return std::nullopt;
  }
}

bool evaluateFact(const Fact &fact, std::span<const int64_t> args) {
  // Arithmetic wraps as the language's does. A division by zero, an unknown argument or a malformed program makes the
  // fact false: an unproven fact must stop the launch, since the code was compiled on it.
  std::vector<int64_t> stack;
  stack.reserve(fact.program.size());
  auto wrap = [](uint64_t value) { return int64_t(value); };
  for (const Fact::Step &step : fact.program) {
    using Op = Fact::Op;
    if (step.op == Op::Const) {
      stack.push_back(step.value);
      continue;
    }
    if (step.op == Op::Arg) {
      if (step.value < 0 || uint64_t(step.value) >= args.size()) return false;
      stack.push_back(args[size_t(step.value)]);
      continue;
    }
    const bool unary = step.op == Op::Neg || step.op == Op::Not;
    if (stack.size() < (unary ? 1u : 2u)) return false;
    const int64_t b = stack.back();
    stack.pop_back();
    if (unary) {
      stack.push_back(step.op == Op::Neg ? wrap(-uint64_t(b)) : int64_t(!b));
      continue;
    }
    int64_t &a = stack.back();
    switch (step.op) {
    case Op::Add:
      a = wrap(uint64_t(a) + uint64_t(b));
      break;
    case Op::Sub:
      a = wrap(uint64_t(a) - uint64_t(b));
      break;
    case Op::Mul:
      a = wrap(uint64_t(a) * uint64_t(b));
      break;
    case Op::DivFloor:
    case Op::ModFloor: {
      if (b == 0) return false;
      // INT64_MIN / -1 traps on the host: -1 divides everything, and the quotient wraps.
      const int64_t quotient = b == -1 ? wrap(-uint64_t(a)) : a / b, remainder = b == -1 ? 0 : a % b;
      const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
      a = step.op == Op::DivFloor ? quotient - adjust : remainder + (adjust ? b : 0);
      break;
    }
    case Op::Eq:
      a = a == b;
      break;
    case Op::Ne:
      a = a != b;
      break;
    case Op::Lt:
      a = a < b;
      break;
    case Op::Le:
      a = a <= b;
      break;
    case Op::Gt:
      a = a > b;
      break;
    case Op::Ge:
      a = a >= b;
      break;
    case Op::And:
      a = a && b;
      break;
    case Op::Or:
      a = a || b;
      break;
    default:
      return false;
    }
  }
  return stack.size() == 1 && stack[0] != 0;
}

} // namespace tlx
